"""A trained classifier: what a finished run has left, ready for images; its data need not be there."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from proco.data.array_images import ArrayImages
from proco.data.dataset import Dataset, Split, name_some
from proco.evaluation.metrics import Metrics
from proco.models.network import Network
from proco.models.normalise import Normalise
from proco.training.device import find_device, set_precision
from proco.training.evaluate import evaluate, outputs_of
from proco.training.networks import build_network
from proco.training.run_folder import RunError, RunFolder
from proco.training.settings import TrainConfig


@dataclass(frozen=True)
class Classifier:
    """A network and what it takes to predict with it as its run did.

    >>> classify = Classifier.of("runs/photos/seed0")  # doctest: +SKIP
    >>> scores = classify(images)  # doctest: +SKIP
    """

    config: TrainConfig
    network: Network
    class_names: tuple[str, ...]
    class_counts: Tensor
    """Of the training images, (K,): groups of classes are by them."""
    size: tuple[int, int]
    """Height and width of what the network sees."""
    device: torch.device
    autocast: torch.dtype | None

    @classmethod
    def of(cls, run: RunFolder | Path | str, device: str = "auto") -> "Classifier":
        """Read the network that a finished run, in its folder, has kept."""
        folder = run if isinstance(run, RunFolder) else RunFolder(run)
        config, summary, weights = folder.config(), folder.summary(), folder.load_weights()
        config = replace(config, network=replace(config.network, pretrained=False))  # no weights to fetch
        on = find_device(device)
        unknown = torch.zeros(weights["normalise.mean"].numel())  # its numbers come with the weights
        with torch.random.fork_rng(devices=[]):  # the caller's random numbers are not used up
            network = build_network(config, len(summary["class_names"]), Normalise(unknown, unknown))
        if config.engine.precision == "float64":
            network.double()
        network = folder.fill(network, weights).to(on).eval()
        return cls(
            config=config,
            network=network.to(memory_format=torch.channels_last),  # type: ignore[call-overload]
            class_names=tuple(summary["class_names"]),
            class_counts=torch.tensor(summary["class_counts"]),
            size=tuple(summary["image_size"]),
            device=on,
            autocast=set_precision(config.engine, on),
        )

    @property
    def channels(self) -> int:
        """Of the images: 1 for grey, 3 for RGB."""
        return len(self.network.normalise.mean)

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Return the scores (N, K) of images, uint8 (N, C, H, W) of any size, cut and resized as in the run."""
        if not isinstance(images, Tensor):
            raise TypeError(
                f"images must be a tensor, uint8 (N, C, H, W); got {type(images).__name__}. "
                "proco.data.decode.read_image makes one, (C, H, W), of a file."
            )
        array = ArrayImages(images)
        self.require_channels(array.channels)
        counts, positions, centre = self.class_counts.to(self.device), torch.arange(len(array)), self.config.data.centre
        looks = outputs_of(self.network, array, positions, self.size, centre, self.device, self.autocast)
        scores = [self.config.method.predict(outputs, counts) for _, outputs in looks]
        return torch.cat(scores) if scores else torch.empty(0, len(counts), device=self.device)

    def evaluate(self, split: Split) -> Metrics:
        """Return the metrics on a split whose labels are positions in class_names; see `splits_of`."""
        self.require_channels(split.images.channels)
        return evaluate(
            self.network,
            self.config.method.predict,
            split,
            self.class_counts,
            size=self.size,
            centre=self.config.data.centre,
            device=self.device,
            autocast=self.autocast,
        )

    def splits_of(self, dataset: Dataset) -> Mapping[str, Split]:
        """Return the splits of data, labelled by the classifier's classes: some of them may be absent from it."""
        positions = {name: position for position, name in enumerate(self.class_names)}
        if unknown := [name for name in dataset.class_names if name not in positions]:
            raise RunError(
                f"the data has the classes {name_some(unknown)}; the run knows {name_some(self.class_names)}."
            )
        labels = torch.tensor([positions[name] for name in dataset.class_names])
        return {name: replace(split, labels=labels[split.labels]) for name, split in dataset.splits.items()}

    def require_channels(self, channels: int) -> None:
        """Refuse images of other channels than the network's."""
        if channels != self.channels:
            raise RunError(f"the network takes images of {self.channels} channels; got {channels}.")
