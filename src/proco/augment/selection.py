"""Apply an operation to some images of a batch."""

from collections.abc import Callable

from torch import Tensor


def apply_where(is_chosen: Tensor, operation: Callable[..., Tensor], images: Tensor, *parameters: Tensor) -> None:
    """Replace the chosen images (is_chosen: (N,) bool) by operation(images, *parameters), in place.

    Only those are computed; finding them waits for the device, so give it many images at once.
    """
    chosen = is_chosen.nonzero().flatten()
    if len(chosen):
        images[chosen] = operation(images[chosen], *(parameter[chosen] for parameter in parameters))
