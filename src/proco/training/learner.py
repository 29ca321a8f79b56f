"""What a stage trains: the network and the terms of the objective as one module, and the step that moves it."""

import inspect
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from proco.distributed import world_size
from proco.methods.method import PARTS, Stage, Targets, Term, WeightedTerm
from proco.models.network import Network, Outputs
from proco.models.running_statistics import in_evaluation_mode, keep_running_statistics
from proco.optim import SGD
from proco.roles import WithoutDecay
from proco.training.device import autocast_to
from proco.training.ema import MovingAverage
from proco.training.lanes import give_way
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


class Learner(nn.Module):
    """Views and targets in, losses out: what gradients flow through, DDP wraps and the compiler sees.

    All views go through the network together. autocast: the type of the network's products, or None for float32; terms
    always see float32.
    """

    weights: Tensor

    def __init__(self, network: Network, stage: Stage, autocast: torch.dtype | None) -> None:
        super().__init__()
        self.network, self.autocast = network, autocast
        self.names = tuple(stage.terms)
        self.terms = nn.ModuleList(weighted.term for weighted in stage.terms.values())
        self.register_buffer("weights", term_weights(stage.terms), persistent=False)
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(_is_within(name, stage.learning))
        # What learns may be a part of a module, which is then not frozen, though all else in it is.
        self.frozen = [
            module
            for name, module in network.named_modules()
            if _is_within(name, PARTS) and not _is_within(name, stage.learning)
            if not any(_is_within(part, (name,)) for part in stage.learning)
        ]

    def forward(self, views: Tensor, targets: Targets) -> tuple[Tensor, Tensor]:
        """Return the weighted sum of the terms, and their values with the accuracy on the first view, (T + 1,).

        Where that view shows another image too, either class counts by the share that is seen of it.

        views: (V, B, C, H, W) uint8.
        """
        with autocast_to(self.autocast, views.device):
            outputs: Outputs = self.network(views.flatten(0, 1))
        by_view = outputs.split(len(views))
        values = torch.stack([term(by_view, targets, self.network.classifier) for term in self.terms])
        predicted = by_view[0].logits.argmax(dim=1)
        shown = targets.share * (predicted == targets.labels) + (1 - targets.share) * (
            predicted == targets.other_labels
        )
        return (values * self.weights).sum(), torch.cat([values.detach(), shown.mean()[None]])

    def without_decay(self) -> list[nn.Parameter]:
        """Return the parameters that weight decay leaves alone."""
        modules = [module for module in self.modules() if isinstance(module, WithoutDecay)]
        return [module.get_parameter(name) for module in modules for name in module.undecayed]

    def start_epoch(self, done: float = 0.0) -> None:
        """Turn training on, and let the terms do what is due before the first batch.

        done: share of the stage's epochs that are over.
        """
        self.train()
        for term in self.terms:
            assert isinstance(term, Term)
            term.start_epoch(done)

    def train(self, mode: bool = True) -> "Learner":
        """Turn training on or off, but leave what is frozen in evaluation mode."""
        super().train(mode)
        for module in self.frozen:
            module.training = False
        return self


def _is_within(name: str, parts: Sequence[str]) -> bool:
    """Return whether a module or parameter is one of the parts, or in one of them."""
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def require_parts(network: Network, stage: Stage) -> None:
    """Refuse a stage in which parts are to learn, or to be drawn anew, that the network has not."""
    modules, parameters = dict(network.named_modules()), dict(network.named_parameters())
    for part in stage.learning:
        if part not in PARTS and part not in modules and part not in parameters:  # there may be no projector
            raise ValueError(f"the network has no part {part!r} that could learn.")
    for part in stage.renewed:
        if part not in modules:
            raise ValueError(f"the network has no module {part!r} that could be drawn anew.")


def term_weights(terms: Mapping[str, WeightedTerm]) -> Tensor:
    """Return the weights of the terms, (T,)."""
    return torch.tensor([weighted.weight for weighted in terms.values()])


class Step:
    """Forward, backward and update for one batch, plain, compiled or recorded.

    teacher: says what the first view shows.
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
