"""Starting kernels, and compiling all those of a step at once.

Triton compiles a kernel when it is first started, for a quarter of a second to two, and a step has dozens. In a
rehearsal they are compiled side by side and not run: what they would have written is whatever the memory held.
"""

import os
from collections.abc import Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor

_THREADS = min(16, os.cpu_count() or 1)
# By stream, since backward starts kernels in a thread of torch's, but on the stream of forward.
_rehearsals: "dict[int, _Rehearsal]" = {}


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    """Start a kernel of Triton where its tensors are, or compile it where the current stream is in a rehearsal."""
    with _device_of(arguments):
        rehearsal = _rehearsals.get(_current_stream()) if _rehearsals else None
        if rehearsal is None:
            kernel[grid](*arguments, **options)
        else:
            rehearsal.compile(kernel, grid, arguments, options)


@contextmanager
def rehearsal() -> Iterator[None]:
    """Compile the kernels started on the current CUDA stream instead of running them; at the end they are ready."""
    stream = _current_stream()
    with ThreadPoolExecutor(_THREADS) as pool:
        _rehearsals[stream] = _Rehearsal(pool)
        try:
            yield
        finally:
            rehearsed = _rehearsals.pop(stream)
        for compiled in rehearsed.compiled.values():
            compiled.result()


class _Rehearsal:
    """What has been asked for so far."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool
        self.compiled: dict[Hashable, Future[Any]] = {}

    def compile(self, kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        # Triton compiles anew for other types, other constants, and places in memory that are not aligned alike.
        kinds = (_kind_of(argument) for argument in arguments)
        key = (kernel, *kinds, *sorted(options.items()))
        if key not in self.compiled:
            stand_ins = tuple(map(_stand_in, arguments))
            self.compiled[key] = self.pool.submit(_compile, kernel, grid, stand_ins, options)


def _kind_of(argument: Any) -> Hashable:
    return (argument.dtype, argument.data_ptr() % 16) if isinstance(argument, Tensor) else argument


def _stand_in(argument: Any) -> Any:
    """Return what compiles alike: large tensors would be held in memory until it is their turn."""
    if not isinstance(argument, Tensor) or argument.data_ptr() % 16:
        return argument
    return argument.new_empty(1)


def _compile(kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    with _device_of(arguments):
        # Asked for what starts it, Triton also builds that, for some versions with a C compiler.
        _ = kernel.warmup(*arguments, grid=grid, **options).run


def _device_of(arguments: tuple[Any, ...]) -> AbstractContextManager[None]:
    """Make the device of the tensors the current one, which Triton takes."""
    tensor = next(argument for argument in arguments if isinstance(argument, Tensor))
    return torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]


def _current_stream() -> int:
    return torch.cuda.current_stream().cuda_stream
