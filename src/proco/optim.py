"""Stochastic gradient descent and the course of its learning rate over the epochs."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from proco.errors import ConfigError
from proco.ranges import require_below_one, require_not_negative


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """Optimiser and schedule. Times are shares of the epochs, so that a shorter run is the same course, compressed."""

    lr: float = 0.3
    """Largest learning rate, for the whole batch over all ranks."""
    momentum: float = 0.9
    """Share of the last step that goes into the next."""
    nesterov: bool = False
    """Look ahead along the momentum (Nesterov's)."""
    weight_decay: float = 2e-4
    """Of all parameters, batch norms and biases too, as in the official code."""
    schedule: Literal["step", "cosine", "constant"] = "step"
    """How the rate falls: at `milestones`, along a cosine to 0, or not at all. A warm-up takes the place of its first
    epochs and does not move the others."""
    warmup: float = 0.025
    """Share of the epochs over which the rate rises linearly."""
    warmup_by: Literal["epoch", "step"] = "epoch"
    """Whether it rises from epoch to epoch, over whole epochs as in the official code, or with every step."""
    milestones: tuple[float, ...] = (0.8, 0.9)
    """Shares of the epochs at which the step schedule multiplies the rate by `factor`."""
    factor: float = 0.1
    """What the rate is multiplied by at a milestone."""
    sharpness: float = 0.0
    """Distance that the weights go uphill before the gradient is taken (sharpness-aware minimisation, Foret et al.,
    ICLR 2021), for minima that are flat that far around; 0 for none. It takes twice the time."""
    sharpness_from: float = 0.0
    """Share of a stage's epochs that pass before it does so: minima are found late (Zhou et al., 2024)."""

    def __post_init__(self) -> None:
        """Refuse numbers SGD cannot work with."""
        for name in ("lr", "weight_decay", "factor", "sharpness"):
            require_not_negative(**{f"optim.{name}": getattr(self, name)})
        require_below_one(**{"optim.momentum": self.momentum})
        if self.nesterov and not self.momentum:
            raise ConfigError("optim.nesterov needs an optim.momentum above 0.")
        shares = [("warmup", self.warmup), ("sharpness_from", self.sharpness_from)]
        for name, share in [*shares, *(("milestones", share) for share in self.milestones)]:
            if not 0 <= share <= 1:
                raise ConfigError(f"optim.{name} is a share of the epochs, from 0 to 1; got {share:g}.")


def learning_rate(config: OptimConfig, epoch: int, epochs: int, done: float = 1.0) -> float:
    """Return the learning rate of an epoch (0-based), constant within it but for a warm-up by steps.

    done: share of the epoch that is over after the step.

    >>> [learning_rate(OptimConfig(), epoch, 200) for epoch in (0, 4, 159, 160, 180)]
    [0.06, 0.3, 0.3, 0.03, 0.003]
    """
    rate, warmup_epochs = config.lr, config.warmup * epochs
    if config.warmup_by == "step" and epoch + done < warmup_epochs:
        return rate * (epoch + done) / warmup_epochs
    if config.warmup_by == "epoch" and epoch < (whole := math.floor(warmup_epochs + 1e-9)):
        return rate * (epoch + 1) / whole
    if config.schedule == "cosine":
        # The official code's where there is no warm-up: never quite lr at the start, never quite 0 at the end.
        return rate * 0.5 * (1 + math.cos(math.pi * (epoch + 1) / (epochs + 1)))
    if config.schedule == "step":
        passed = sum(epoch >= round(share * epochs) for share in config.milestones)
        return round(rate * config.factor**passed, 12)  # 0.3 * 0.1 is 0.03, not 0.03 and a bit
    return rate


def goes_uphill(config: OptimConfig, epoch: int, epochs: int) -> bool:
    """Return whether gradients of an epoch (0-based) are taken uphill in a stage of so many."""
    return config.sharpness > 0 and epoch >= round(config.sharpness_from * epochs)


class SGD(nn.Module):
    """Stochastic gradient descent with momentum, its state in buffers: a recorded step reads rate and momenta anew.

    It changes the parameters as torch.optim.SGD does, by the same kernel. Making one of those imports torch's compiler:
    seconds, of a run that may last a minute.

    undecayed: those of the parameters that weight decay leaves alone.
    """

    rate: Tensor

    def __init__(
        self, parameters: Iterable[nn.Parameter], config: OptimConfig, undecayed: Iterable[nn.Parameter] = ()
    ) -> None:
        super().__init__()
        self.config = config
        self.undecayed = {id(parameter) for parameter in undecayed}
        self.learning = [parameter for parameter in parameters if parameter.requires_grad]  # a list: not parts of this
        self.register_buffer("rate", torch.tensor(config.lr, device=self.learning[0].device), persistent=False)
        for number, parameter in enumerate(self.learning if config.momentum else ()):
            self.register_buffer(f"momentum_{number}", torch.zeros_like(parameter))

    def forget_gradients(self) -> None:
        """Take the gradients off all parameters."""
        for parameter in self.learning:
            parameter.grad = None

    @contextmanager
    def uphill(self) -> Iterator[None]:
        """Move the parameters along their gradient, by config.sharpness all together, until the block ends."""
        gradients = self._gradients()
        moving: list[Tensor] = [self.learning[number] for number in gradients]
        before = [torch.empty_like(parameter) for parameter in moving]
        with torch.no_grad():
            torch._foreach_copy_(before, moving)
            length = torch.stack(torch._foreach_norm(list(gradients.values()))).norm()
            scale = self.config.sharpness / length.clamp_min(1e-12)
            torch._foreach_add_(moving, list(torch._foreach_mul(list(gradients.values()), scale)))
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(moving, before)

    @torch.no_grad()
    def step(self) -> None:
        """Change every parameter that has a gradient.

        g' = g + weight_decay w; m = momentum m + g'; w = w - rate (m, or g' + momentum m with nesterov).
        """
        gradients = self._gradients()
        decayed = {number: g for number, g in gradients.items() if id(self.learning[number]) not in self.undecayed}
        self._step(decayed, self.config.weight_decay)
        self._step({number: g for number, g in gradients.items() if number not in decayed}, 0.0)

    def _step(self, gradients: dict[int, Tensor], weight_decay: float) -> None:
        if not gradients:
            return
        config = self.config
        torch._fused_sgd_(
            [self.learning[number] for number in gradients],
            list(gradients.values()),
            [self.get_buffer(f"momentum_{number}") for number in gradients] if config.momentum else [],
            weight_decay=weight_decay,
            momentum=config.momentum,
            lr=self.rate,
            dampening=0.0,
            nesterov=config.nesterov,
            maximize=False,
            is_first_step=False,  # momenta of zeros make it one
        )

    def _gradients(self) -> dict[int, Tensor]:
        """Return the gradients there are, by the number of their parameter."""
        gradients = {number: parameter.grad for number, parameter in enumerate(self.learning)}
        return {number: gradient for number, gradient in gradients.items() if gradient is not None}
