"""How good a run is meanwhile, and at its end: its average made ready, its classifier fitted, splits evaluated."""

import torch

from proco.distributed import rank
from proco.evaluation.metrics import Metrics
from proco.training.classifier import Classifier
from proco.training.evaluate import features_of
from proco.training.records import scalars_of
from proco.training.renewal import Renewal
from proco.training.seeds import seed_for
from proco.training.setup import Setup


class Looks:
    """Looks at the network of a run, or at the average of its weights where there is one."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.renewal = None
        if setup.average is not None and setup.config.renew_statistics:
            self.renewal = Renewal(setup.average.network, setup.autocast, graph=setup.records_steps)
        self._last: Metrics | None = None  # of the test split, after the last epoch

    @property
    def curve_split(self) -> str:
        """The split that is looked at after each epoch: validation, or test where there is no validation."""
        return "val" if "val" in self.setup.dataset.splits else "test"

    def are_due(self, epoch: int) -> bool:
        """Return whether the run is looked at after an epoch."""
        engine = self.setup.config.engine
        return epoch + engine.evaluate_last >= self.setup.epochs or (epoch + 1) % engine.evaluate_every == 0

    def after(self, epoch: int, number: int) -> dict[str, dict[str, float | None]]:
        """Return the metrics after an epoch of the stage of that number, of which the average is made ready."""
        self._renew_statistics(epoch, number)
        return self.measure(epoch)

    def measure(self, epoch: int) -> dict[str, dict[str, float | None]]:
        """Return the metrics after an epoch, on the split of the curve and, of the last, on the test split."""
        self._fit_classifier()
        is_last, test = epoch + 1 == self.setup.epochs, self.setup.dataset.test_split
        found = {name: self.evaluate(name) for name in sorted({self.curve_split} | ({test} if is_last else set()))}
        self._last = found[test] if is_last else None
        return {name: scalars_of(metrics) for name, metrics in found.items()}

    def at_the_end(self) -> Metrics:
        """Return the metrics on the test split, as the last epoch has them; a run resumed after it looks again."""
        return self.evaluate(self.setup.dataset.test_split) if self._last is None else self._last

    def evaluate(self, split: str) -> Metrics:
        """Return the metrics on a split."""
        setup = self.setup
        classifier = Classifier(
            config=setup.config,
            network=setup.evaluated_network,
            class_names=setup.dataset.class_names,
            class_counts=setup.class_counts,
            size=setup.size,
            device=setup.device,
            autocast=setup.autocast,
        )
        return classifier.evaluate(setup.dataset.splits[split])

    def _renew_statistics(self, epoch: int, number: int) -> None:
        """Let the average of the weights see the views of the epoch, as they passed the batch norms in training.

        Where the backbone does not learn, it is its own average, and its statistics are right.
        """
        setup = self.setup
        if self.renewal is None or not setup.stages[number].trains("backbone"):
            return
        torch.manual_seed(seed_for(setup.config.seed, epoch, "renewal", rank()))  # dropout: training's draws
        self.renewal(batch.views.flatten(0, 1) for batch in setup.loaders[number].batches(epoch))

    def _fit_classifier(self) -> None:
        """Show the features of the training images to a classifier that is fitted to them."""
        setup, network = self.setup, self.setup.evaluated_network
        if network.is_fitted:
            train, centre = setup.dataset.splits["train"], setup.config.data.centre
            seen = features_of(
                network, train, size=setup.size, centre=centre, device=setup.device, autocast=setup.autocast
            )
            network.fit_classifier(*seen)
