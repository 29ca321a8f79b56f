"""A stage of a run as it is trained: its optimiser, its step and its learning rate, epoch by epoch."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from proco.distributed import all_reduce_sum, rank, world_size
from proco.optim import SGD, goes_uphill, learning_rate
from proco.training.divergence import require_finite
from proco.training.journal import Journal
from proco.training.lanes import wait_for
from proco.training.learner import Learner
from proco.training.loader import Batch
from proco.training.networks import draw_anew
from proco.training.records import means_of
from proco.training.seeds import seed_for
from proco.training.settings import AUTO_RATE_BATCH
from proco.training.setup import Setup
from proco.training.step import Step
from proco.training.teacher import Teacher, is_taught


class StageTraining:
    """The training of one stage of a run.

    number: of the stage in the run. teacher: speaks in stages that are taught.
    """

    def __init__(self, setup: Setup, number: int, teacher: Teacher | None) -> None:
        self.setup, self.number = setup, number
        self.stage, self.optim, self.loader = setup.stages[number], setup.optims[number], setup.loaders[number]
        self.first_epoch, self.end = setup.first_epoch(number), setup.first_epoch(number + 1)
        config = setup.config
        # The rate of the settings counts for their batch, but where the run looks for a batch of its own.
        is_own_batch = config.batch_size == "auto" and self.stage.batch_size is None
        self.rate_scale = self.loader.batch_size / AUTO_RATE_BATCH if is_own_batch else 1.0
        setup.network.requires_grad_(True)
        self.learner = Learner(setup.network, self.stage, setup.autocast).to(setup.device)
        self.optimizer = SGD(self.learner.parameters(), self.optim, self.learner.without_decay())
        self.step = Step(
            self.learner,
            self.optimizer,
            setup.average,
            teacher if is_taught(self.stage) else None,
            compile=config.engine.compile,
            graph=setup.records_steps,
        )
        self._upcoming: Iterator[Batch] | None = None

    def renew(self) -> None:
        """Draw anew what is to begin as it was drawn; a stage that was interrupted has done so already."""
        setup, number = self.setup, self.number
        for part in self.stage.renewed:
            draw_anew(setup.network.get_submodule(part), seed_for(setup.config.seed, "weights", number, part))
        if setup.average is not None and number and self.stage.learning != setup.stages[number - 1].learning:
            setup.average.restart()  # a classifier that begins to learn is still as it was drawn

    @property
    def images_per_epoch(self) -> int:
        """Images that an epoch trains on, over all ranks."""
        return len(self.loader) * self.loader.batch_size

    def train(self, epoch: int, journal: Journal) -> dict[str, Any]:
        """Train an epoch, counted from the run's first; return its record."""
        done = epoch - self.first_epoch
        self.step.go_uphill(goes_uphill(self.optim, done, self.stage.epochs))
        rates = self._rates(done)
        self.learner.start_epoch(done / self.stage.epochs)
        batches = self._upcoming or self.loader.begin(epoch)
        means = self._steps(batches, epoch, rates, journal)
        # While a GPU is still at work on this one.
        self._upcoming = self.loader.begin(epoch + 1) if epoch + 1 < self.end else None
        wait_for(self.setup.device)
        values, names = means.cpu(), self.learner.names
        require_finite(values, names, epoch, journal.folder)
        means_by_name = means_of(values, names, self.learner.weights)
        return {"epoch": epoch, "stage": self.number, "lr": rates[-1], **means_by_name}

    def _rates(self, epoch: int) -> list[float]:
        """Return the learning rate of every step of an epoch of the stage."""
        steps = len(self.loader)
        return [
            self.rate_scale * learning_rate(self.optim, epoch, self.stage.epochs, step / steps)
            for step in range(1, steps + 1)
        ]

    def _steps(self, batches: Iterator[Batch], epoch: int, rates: Sequence[float], journal: Journal) -> Tensor:
        """Return the values of the terms and the accuracy of every step, (steps, T + 1); a GPU is not waited for."""
        torch.manual_seed(seed_for(self.setup.config.seed, epoch, "network", rank()))  # dropout, of each rank its own
        history = []
        for number, (batch, rate) in enumerate(zip(batches, rates, strict=True)):
            if number == 0 or rate != rates[number - 1]:
                self.optimizer.rate.fill_(rate)
            history.append(self.step(batch).clone())  # the recorded step writes its values to one place
            journal.listener.on_step(epoch, number + 1, len(rates))
        return all_reduce_sum(torch.stack(history)) / world_size()
