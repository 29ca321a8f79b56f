"""Batch norm whose statistics are those of the whole batch over all ranks, on the CPU as on GPUs."""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from proco.distributed import all_gather_rows, world_size
from proco.errors import ConfigError


def synchronise_batch_norm(module: nn.Module) -> nn.Module:
    """Replace every batch norm in the module by one that takes its statistics over all ranks, and return the module.

    Parameters and buffers are taken over as they are, under the same names: optimisers stay valid, and checkpoints move
    between one and many ranks. Call it when the module is on its device: GPUs have torch's own nn.SyncBatchNorm.
    Without a process group, or alone in it, the module is returned as it is.
    """
    return _synchronised(module) if world_size() > 1 else module


class SynchronisedBatchNorm(_BatchNorm):
    """Batch norm over ranks for the CPU, where nn.SyncBatchNorm refuses to work. Input: (N, C, ...), N of its own."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        return self._normalised(input) if self.training else super().forward(input)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"batch norm needs input of shape (N, C, ...); got {tuple(input.shape)}.")

    def _normalised(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        others = [0, *range(2, input.dim())]

        def along_channels(numbers: Tensor) -> Tensor:
            return numbers.reshape(-1, *[1] * (input.dim() - 2))

        # Half precision comes in and goes out, but is not summed.
        values = input.to(torch.promote_types(input.dtype, torch.float32))
        num_channels = values.shape[1]
        count = values.numel() // num_channels
        mean = values.sum(others) / max(count, 1)
        squares = (values - along_channels(mean)).square().sum(others)
        # One message of 2 C + 1 numbers. Squares around each rank's own mean and, added below, around the common one do
        # not cancel as a sum of squares minus a squared sum does.
        message = torch.cat([mean, squares, mean.new_tensor([count])])
        means, squares, counts = torch.split(all_gather_rows(message[None]), [num_channels, num_channels, 1], dim=1)
        total = counts.sum()
        if total < 2:
            raise ValueError(f"batch norm needs two values a channel or more to train on; got {int(total)}.")
        mean = (counts * means).sum(dim=0) / total
        squares = (squares + counts * (means - mean).square()).sum(dim=0)

        if self.track_running_stats:
            self._track(mean.detach(), squares.detach() / (total - 1))
        scale = (squares / total + self.eps).rsqrt()
        if self.weight is not None:
            scale = scale * self.weight
        normalised = (values - along_channels(mean)) * along_channels(scale)
        if self.bias is not None:
            normalised = normalised + along_channels(self.bias)
        return normalised.to(input.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, unbiased_variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        # Without a momentum, the running statistics are plain means over the batches.
        momentum = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(unbiased_variance.to(self.running_var.dtype), momentum)


_TIMM_NORM = "timm.layers.norm_act.BatchNormAct2d"


class _Activated(_BatchNorm):
    """What timm's batch norm does after normalising."""

    drop: nn.Module
    act: nn.Module

    def forward(self, input: Tensor) -> Tensor:
        activated: Tensor = self.act(self.drop(super().forward(input)))
        return activated


class _ActivatedOnCpu(_Activated, SynchronisedBatchNorm):
    pass


class _ActivatedOnGpu(_Activated, nn.SyncBatchNorm):
    pass


def _synchronised(module: nn.Module) -> nn.Module:
    if isinstance(module, nn.SyncBatchNorm | SynchronisedBatchNorm):
        return module
    if isinstance(module, _BatchNorm):
        return _replacement(module)
    for name, child in module.named_children():
        module.add_module(name, _synchronised(child))
    return module


def _replacement(norm: _BatchNorm) -> _BatchNorm:
    kind = f"{type(norm).__module__}.{type(norm).__qualname__}"
    is_timm = kind == _TIMM_NORM
    if type(norm) not in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d) and not is_timm:
        raise ConfigError(
            f"the batch norm {kind} cannot be synchronised over ranks: only torch's own and timm's BatchNormAct2d can; "
            "choose another backbone or leave batch norms as they are."
        )
    on_gpu = any(tensor.device.type != "cpu" for tensor in (*norm.parameters(), *norm.buffers()))
    new_kind: type[_BatchNorm]
    if is_timm:
        new_kind = _ActivatedOnGpu if on_gpu else _ActivatedOnCpu
    else:
        new_kind = nn.SyncBatchNorm if on_gpu else SynchronisedBatchNorm
    replacement = new_kind(norm.num_features, norm.eps, norm.momentum, track_running_stats=norm.track_running_stats)
    replacement.affine = norm.affine
    for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
        setattr(replacement, name, getattr(norm, name))
    if is_timm:
        replacement.drop, replacement.act = norm.get_submodule("drop"), norm.get_submodule("act")
    return replacement.train(norm.training)
