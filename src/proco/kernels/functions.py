"""The kernels as functions with gradients: a convolution, and a batch norm with shortcut and ReLU."""

from typing import Any

import torch
from torch import Tensor, nn

from proco.kernels.batch_norm import gradients_of, normalised
from proco.kernels.convolution import convolution, image_gradient, weight_gradient
from proco.kernels.statistics import pixels_of, statistics_of, sums_of


def convolve(images: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the 3x3 convolution, (N, C', H, W), sums of its values and squares, (G, 2, C'), and the images again.

    images: (N, C, H, W) in half precision; weight: (C', C, 3, 3) float32. A shortcut that takes the images from here
    saves a pass: their gradients are added where the convolution's is written.
    """
    result: tuple[Tensor, Tensor, Tensor] = _Convolution.apply(images, weight)  # type: ignore[no-untyped-call]
    return result


def norm_relu(images: Tensor, shortcut: Tensor | None, norm: nn.BatchNorm2d, sums: Tensor | None = None) -> Tensor:
    """Return relu(norm(images) + shortcut), (N, C, H, W); in evaluation without gradients.

    sums: of values and squares, (G, 2, C), where they are known already.
    """
    if norm.training:
        arguments = (images, shortcut, norm.weight, norm.bias, norm, sums)
        result: Tensor = _NormRelu.apply(*arguments)  # type: ignore[no-untyped-call]
        return result
    assert norm.running_mean is not None
    assert norm.running_var is not None
    return normalised(
        _channels_last(images),
        None if shortcut is None else _channels_last(shortcut),
        norm.running_mean,
        norm.running_var,
        norm.weight,
        norm.bias,
        norm.eps,
    )[0]


class _Convolution(torch.autograd.Function):
    """3x3 convolution of stride 1, padded by zeros; weight float32, its products in the type of the images."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return (N, C', H, W) in the type of the images, sums of its values and squares, (G, 2, C'), and the images.

        Whoever uses the images elsewhere too and takes them from here has the two gradients added on the way.
        """
        images, weight = _channels_last(images), _channels_last(weight)
        ctx.save_for_backward(images, weight)
        ctx.set_materialize_grads(False)
        out, partials = convolution(images, weight)
        ctx.mark_non_differentiable(partials)
        return out, partials, images

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of images and weight."""
        _refuse_second_derivatives()
        gradient, _, of_images_elsewhere = upstream
        if gradient is None:
            return of_images_elsewhere, None
        images, weight = ctx.saved_tensors
        gradient = _channels_last(gradient)
        addend = None if of_images_elsewhere is None else _channels_last(of_images_elsewhere)
        return (
            image_gradient(gradient, weight, addend) if ctx.needs_input_grad[0] else None,
            weight_gradient(gradient, images) if ctx.needs_input_grad[1] else None,
        )


class _NormRelu(torch.autograd.Function):
    """relu(batch_norm(images) + shortcut) with the statistics of the batch; shortcut may be None.

    Where partials, sums of values and squares (G, 2, C), are known already, they are not taken again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        images: Tensor,
        shortcut: Tensor | None,
        scale: Tensor,
        shift: Tensor,
        norm: nn.BatchNorm2d,
        partials: Tensor | None,
    ) -> Tensor:
        """Return (N, C, H, W) in the type of the images; the running statistics of norm move along."""
        images = _channels_last(images)
        shortcut = None if shortcut is None else _channels_last(shortcut)
        partials = sums_of(images) if partials is None else partials
        mean, variance = statistics = statistics_of(partials, pixels_of(images), norm)
        keeps_signs = shortcut is not None
        out, signs = normalised(images, shortcut, mean, variance, scale, shift, norm.eps, keeps_signs=keeps_signs)
        ctx.save_for_backward(images, signs, statistics, scale, shift)
        ctx.eps = norm.eps
        return out

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of images, shortcut, scale and shift."""
        _refuse_second_derivatives()
        images, signs, statistics, scale, shift = ctx.saved_tensors
        gradient = _channels_last(upstream[0])
        return *gradients_of(gradient, images, signs, statistics, scale, shift, ctx.eps), None, None


def _refuse_second_derivatives() -> None:
    # Grad mode is on in backward only when a graph of the gradient is wanted, which would silently lack its derivative.
    if torch.is_grad_enabled():
        raise RuntimeError("our kernels have first derivatives only; for second ones train in float32.")


def _channels_last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)
