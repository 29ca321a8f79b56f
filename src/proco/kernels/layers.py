"""Convolution, batch norm, shortcut and ReLU, by the fastest way at hand.

The layers stay torch's: parameters, state and names are theirs. Where a kernel of ours does not serve (a CPU, float32,
other shapes, torch.compile; norms over several ranks) they are called as they are.
"""

from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, relu

from proco.kernels.availability import kernels_run_on

_HALF = (torch.bfloat16, torch.float16)
# With more channels the libraries' kernels are the faster ones.
_IN_CHANNELS = (3, 4, 16, 32)
_OUT_CHANNELS = (16, 32)
_MOST_NUMBERS = 2**31  # places are counted in 32 bits


def conv_norm_relu(conv: nn.Conv2d, norm: nn.Module, images: Tensor, shortcut: Tensor | None = None) -> Tensor:
    """Return relu(norm(conv(images)) + shortcut); images: (N, C, H, W), shortcut: (N, C', H', W') or None."""
    hidden, sums, _ = _convolved(conv, images)
    return _norm_relu(norm, hidden, sums, shortcut)


def conv_norm_relu_and_images(conv: nn.Conv2d, norm: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Return relu(norm(conv(images))), and the images for a shortcut around it.

    A shortcut that begins there has its gradient added to the convolution's in one go.
    """
    hidden, sums, images = _convolved(conv, images)
    return _norm_relu(norm, hidden, sums, None), images


def _convolved(conv: nn.Conv2d, images: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return conv(images), what batch norm needs of it where that fell off, and the images."""
    serves = (
        _triton_serves(images, max(conv.in_channels, conv.out_channels))
        and images.shape[1] == conv.in_channels  # if not, torch says so
        and images.shape[3] % 2 == 0
    )
    kind = _product_type(images)
    if not (serves and kind in _HALF and _is_small_3x3(conv)):
        return conv(images), None, images
    from proco.kernels.functions import convolve

    if conv.in_channels == 3:  # the kernels count in powers of two
        padded, weight = pad(images.to(kind), (0, 0, 0, 0, 0, 1)), pad(conv.weight, (0, 0, 0, 0, 0, 1))
        return *convolve(padded, weight)[:2], images
    return convolve(images.to(kind), conv.weight)


def _norm_relu(norm: nn.Module, hidden: Tensor, sums: Tensor | None, shortcut: Tensor | None) -> Tensor:
    """Return relu(norm(hidden) + shortcut); sums: what our norm needs of hidden, where it is known."""
    # Of one value a channel torch complains, and rightly.
    serves = _triton_serves(hidden, hidden.shape[1]) and hidden.numel() > hidden.shape[1]
    if not (serves and hidden.dtype in _HALF and _is_plain(norm)):
        normalised: Tensor = norm(hidden)
        return relu(normalised if shortcut is None else normalised + shortcut)
    from proco.kernels.functions import norm_relu

    return norm_relu(hidden, None if shortcut is None else shortcut.to(hidden.dtype), norm, sums)


def _triton_serves(images: Tensor, channels: int) -> bool:
    """Whether kernels run where the images are, and can count as many numbers as they have with so many channels."""
    return (
        images.is_cuda
        and 0 < images.numel() // images.shape[1] * max(channels, 4) < _MOST_NUMBERS
        and kernels_run_on(images.device)
    )


def _product_type(images: Tensor) -> torch.dtype:
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else images.dtype


def _is_small_3x3(conv: nn.Conv2d) -> bool:
    shape = (conv.kernel_size, conv.stride, conv.padding, conv.dilation, conv.groups)
    return (
        type(conv) is nn.Conv2d
        and shape == ((3, 3), (1, 1), (1, 1), (1, 1), 1)
        and conv.bias is None
        and conv.padding_mode == "zeros"
        and conv.in_channels in _IN_CHANNELS
        and conv.out_channels in _OUT_CHANNELS
    )


def _is_plain(norm: nn.Module) -> TypeGuard[nn.BatchNorm2d]:
    """Whether the norm is one the kernels know; in evaluation they have no gradients."""
    return (
        type(norm) is nn.BatchNorm2d
        and norm.affine
        and norm.track_running_stats
        and norm.momentum is not None
        and norm.num_features & (norm.num_features - 1) == 0
        and 16 <= norm.num_features <= 1024
        and (norm.training or not torch.is_grad_enabled())
    )
