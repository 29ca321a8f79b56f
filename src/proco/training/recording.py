"""Recording what a GPU is asked for once (CUDA graph), so that it is asked again in one go."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from proco.kernels.launch import rehearsal
from proco.training.lanes import recording_stream


class Recording:
    """A computation that is recorded when it is first asked for, and replayed from then on.

    The host then only copies what comes in and starts the replay. Nothing in the computation may wait for the device.
    state: tensors that it changes; what the trials before the recording do to them is put back.
    """

    _TRIALS = 3  # as torch asks for

    def __init__(self, state: Sequence[Tensor]) -> None:
        self.state = state
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: list[Tensor] = []
        self.result = torch.empty(0)

    def run(self, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """Return compute(*inputs), on a GPU, in a tensor into which every call writes anew.

        compute is the same at every call: not kept here, since who owns a recording is often part of it, and a circle
        would hold the memory of the graph. Inputs of other shapes than before are recorded anew.
        """
        if self.graph is None or [own.shape for own in self.inputs] != [new.shape for new in inputs]:
            self.graph = self._record(compute, inputs)
        for own, new in zip(self.inputs, inputs, strict=True):
            own.copy_(new)
        self.graph.replay()
        return self.result

    def _record(self, compute: Callable[..., Tensor], inputs: Sequence[Tensor]) -> torch.cuda.CUDAGraph:
        self.inputs = [tensor.clone() for tensor in inputs]
        before = [tensor.detach().clone() for tensor in self.state]
        side_stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side_stream.wait_stream(torch.cuda.current_stream())
        # Random numbers too are put back: an epoch begins with the same ones whether it is recorded in or resumed.
        with torch.random.fork_rng([self.inputs[0].device]), torch.cuda.stream(side_stream):
            with rehearsal():  # garbage is computed, and put back like the rest
                compute(*self.inputs)
            for _ in range(self._TRIALS):
                compute(*self.inputs)
        torch.cuda.current_stream().wait_stream(side_stream)
        graph = torch.cuda.CUDAGraph()
        # thread_local: the loader may work in a thread of its own meanwhile.
        with torch.cuda.graph(graph, stream=recording_stream(), capture_error_mode="thread_local"):
            self.result = compute(*self.inputs)
        with torch.no_grad():
            for tensor, old in zip(self.state, before, strict=True):
                tensor.copy_(old)
        return graph
