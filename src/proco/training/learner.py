"""What a stage trains: the network and the terms of the objective as one module, and the step that moves it."""

import inspect
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from proco.distributed import world_size
from proco.kernels.launch import rehearsal
from proco.methods.method import PARTS, Stage, Targets, Term, WeightedTerm
from proco.models.network import Network, Outputs
from proco.models.running_statistics import in_evaluation_mode, keep_running_statistics
from proco.optim import SGD
from proco.training.device import autocast_to
from proco.training.ema import MovingAverage
from proco.training.lanes import recording_stream
from proco.training.loader import Batch
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
        self.frozen = [part for name in PARTS if name not in stage.learning and (part := getattr(network, name))]
        for part in self.frozen:
            part.requires_grad_(False)

    def forward(self, views: Tensor, targets: Targets) -> tuple[Tensor, Tensor]:
        """Return the weighted sum of the terms, and their values with the accuracy on the first view, (T + 1,).

        views: (V, B, C, H, W) uint8.
        """
        with autocast_to(self.autocast, views.device):
            outputs: Outputs = self.network(views.flatten(0, 1))
        by_view = outputs.split(len(views))
        values = torch.stack([term(by_view, targets, self.network.classifier) for term in self.terms])
        accuracy = (by_view[0].logits.argmax(dim=1) == targets.labels).float().mean()
        return (values * self.weights).sum(), torch.cat([values.detach(), accuracy[None]])

    def start_epoch(self) -> None:
        """Turn training on, and let the terms do what is due before the first batch."""
        self.train()
        for term in self.terms:
            assert isinstance(term, Term)
            term.start_epoch()

    def train(self, mode: bool = True) -> "Learner":
        """Turn training on or off, but leave what is frozen in evaluation mode."""
        super().train(mode)
        for part in self.frozen:
            part.eval()
        return self


def term_weights(terms: Mapping[str, WeightedTerm]) -> Tensor:
    """Return the weights of the terms, (T,)."""
    return torch.tensor([weighted.weight for weighted in terms.values()])


class Step:
    """Forward, backward and update for one batch, plain, compiled or recorded.

    A recorded step (CUDA graph) is captured at the first batch and replayed for all others: the host then only copies
    the batch and starts the replay. Nothing in it waits for the device. teacher: says what the first view shows.
    """

    _TRIALS = 3  # steps run before recording, as torch asks for; what they change is put back

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
        self.graph = torch.cuda.CUDAGraph() if graph else None
        self.batch: Batch | None = None
        self.values: Tensor | None = None

    def go_uphill(self, uphill: bool) -> None:
        """Take gradients where the weights, moved along them, lie higher, or no longer; what is recorded is made anew.

        The device must have done what was asked of it.
        """
        if uphill != self.uphill:
            self.uphill, self.batch, self.values = uphill, None, None
            self.graph = None if self.graph is None else torch.cuda.CUDAGraph()

    def __call__(self, batch: Batch) -> Tensor:
        """Train on a batch; return the values of the terms and the accuracy, (T + 1,), still on the device."""
        if self.graph is None:
            return self._run(batch)
        if self.batch is None:
            self._record(batch)
        assert self.batch is not None
        assert self.values is not None
        self.batch.views.copy_(batch.views)
        for own, new in zip(_given(self.batch), _given(batch), strict=True):
            own.copy_(new)
        self.graph.replay()
        return self.values

    def _run(self, batch: Batch) -> Tensor:
        if self.teacher is not None:
            with autocast_to(self.learner.autocast, batch.views.device):
                taught = self.teacher(batch.views[0])
            batch = batch._replace(targets=batch.targets._replace(taught=taught))
        values = self._backward(batch)
        if self.uphill:
            # The second look changes no statistics: those of the first are of the weights as they are.
            with (
                self.optimizer.uphill(),
                keep_running_statistics(self.learner),
                in_evaluation_mode(self.learner.terms),
            ):
                self._backward(batch)
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.learner.network)
        return values

    def _backward(self, batch: Batch) -> Tensor:
        """Put the gradients into the parameters; return the values of the terms and the accuracy."""
        self.optimizer.forget_gradients()
        total: Tensor
        values: Tensor
        total, values = self.forward(batch.views, batch.targets)
        total.backward()  # type: ignore[no-untyped-call]
        return values

    def _record(self, batch: Batch) -> None:
        assert self.graph is not None
        self.batch = Batch(batch.views.clone(), Targets(*(target.clone() for target in _given(batch))))
        state = [tensor for module in self._modules() for tensor in module.state_dict(keep_vars=True).values()]
        before = [tensor.detach().clone() for tensor in state]
        side_stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side_stream.wait_stream(torch.cuda.current_stream())
        # Random numbers too are put back: an epoch begins with the same ones whether it is recorded in or resumed.
        with torch.random.fork_rng([self.batch.views.device]), torch.cuda.stream(side_stream):
            with rehearsal():  # garbage is computed, and put back like the rest
                self._run(self.batch)
            for _ in range(self._TRIALS):
                self._run(self.batch)
        torch.cuda.current_stream().wait_stream(side_stream)
        self.optimizer.forget_gradients()
        # thread_local: the loader may work in a thread of its own meanwhile.
        with torch.cuda.graph(self.graph, stream=recording_stream(), capture_error_mode="thread_local"):
            self.values = self._run(self.batch)
        with torch.no_grad():
            for tensor, old in zip(state, before, strict=True):
                tensor.copy_(old)

    def _modules(self) -> list[nn.Module]:
        modules = [self.learner, self.optimizer]
        return modules if self.average is None else [*modules, self.average]


def _given(batch: Batch) -> list[Tensor]:
    """Return the targets that come with the batch, without what a teacher adds."""
    return [target for target in batch.targets if target is not None]
