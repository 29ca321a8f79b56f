"""Modules whose numbers must not be rounded to half precision."""

from collections.abc import Callable
from typing import Any, Self

from torch import Tensor, nn


class FullPrecisionModule(nn.Module):
    """A module whose buffers and parameters follow `.to(device)` and `.double()`, but not `.half()` or `.bfloat16()`.

    Counts and sums live here: bfloat16 stops counting at 256, and float16 ends at 65504.
    """

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        def keep_precision(tensor: Tensor) -> Tensor:
            target: Tensor = fn(tensor.new_empty(0))
            too_coarse = target.is_floating_point() and target.dtype.itemsize < 4
            moved: Tensor = tensor.to(target.device) if too_coarse else fn(tensor)
            return moved

        return super()._apply(keep_precision, recurse)  # type: ignore[no-untyped-call, no-any-return]
