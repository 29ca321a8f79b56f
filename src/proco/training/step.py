"""A step of training: forward, backward and update for one batch, plain, compiled or recorded."""

import inspect

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from proco.distributed import world_size
from proco.methods.method import Targets
from proco.models.running_statistics import in_evaluation_mode, keep_running_statistics
from proco.optim import SGD
from proco.training.device import autocast_to
from proco.training.ema import MovingAverage
from proco.training.lanes import give_way
from proco.training.learner import Learner
from proco.training.loader import Batch
from proco.training.recording import Recording
from proco.training.teacher import Teacher

# Buffers, running statistics and class moments, are the same on every rank: DDP need not send them with each batch. The
# setting was renamed in torch 2.13.
_SYNC_BUFFERS = next(
    name
    for name in ("forward_sync_buffers", "broadcast_buffers")
    if name in inspect.signature(DistributedDataParallel).parameters
)


class Step:
    """Trains a learner on one batch after the other.

    average: follows the weights. teacher: says what the first view shows.
    """

    def __init__(
        self,
        learner: Learner,
        optimizer: SGD,
        average: MovingAverage | None,
        teacher: Teacher | None = None,
        *,
        compile: bool = False,
        graph: bool = False,
    ) -> None:
        self.learner, self.optimizer, self.average, self.teacher = learner, optimizer, average, teacher
        self.uphill = optimizer.config.sharpness > 0
        forward: nn.Module = learner
        if world_size() > 1:
            forward = DistributedDataParallel(learner, **{_SYNC_BUFFERS: False})  # type: ignore[arg-type]
        self.forward = torch.compile(forward, dynamic=False) if compile else forward
        self.recording = self._recording() if graph else None

    def go_uphill(self, uphill: bool) -> None:
        """Switch sharpness-aware steps on or off: gradients of the weights moved uphill, along a first gradient.

        A recorded step is then recorded again, so the device must have done what was asked of it.
        """
        if uphill != self.uphill:
            self.uphill = uphill
            self.recording = None if self.recording is None else self._recording()

    def __call__(self, batch: Batch) -> Tensor:
        """Train on a batch; return the values of the terms and the accuracy, (T + 1,), still on the device."""
        give_way(batch.views.device)
        if self.recording is None:
            return self._run(batch)
        given = [target for target in batch.targets if target is not None]
        return self.recording.run(self._run_on, batch.views, *given)

    def _recording(self) -> Recording:
        modules = [self.learner, self.optimizer, *([] if self.average is None else [self.average])]
        state = [tensor for module in modules for tensor in module.state_dict(keep_vars=True).values()]
        return Recording(state)

    def _run_on(self, views: Tensor, *targets: Tensor) -> Tensor:
        return self._run(Batch(views, Targets(*targets)))

    def _run(self, batch: Batch) -> Tensor:
        if self.teacher is not None:
            with autocast_to(self.learner.autocast, batch.views.device):
                teacher_scores = self.teacher(batch.views[0])
            batch = batch._replace(targets=batch.targets._replace(teacher_scores=teacher_scores))
        values = self._backward(batch)
        if self.uphill:
            # The second pass changes no statistics: those of the first are of the weights as they are.
            with (
                self.optimizer.uphill(),
                keep_running_statistics(self.learner),
                in_evaluation_mode(self.learner.terms),
            ):
                self._backward(batch)
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.learner.network)
        self.optimizer.forget_gradients()  # their memory is free for the next batch
        return values

    def _backward(self, batch: Batch) -> Tensor:
        """Put the gradients into the parameters; return the values of the terms and the accuracy."""
        self.optimizer.forget_gradients()
        total: Tensor
        values: Tensor
        total, values = self.forward(batch.views, batch.targets)
        total.backward()  # type: ignore[no-untyped-call]
        return values
