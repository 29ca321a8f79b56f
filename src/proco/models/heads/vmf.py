"""A classifier of von Mises-Fisher distributions, one for each class."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from proco.roles import WithoutDecay
from proco.sphere.normaliser import relative_log_normaliser


class _AtLeastOne(torch.autograd.Function):
    """max(x, 1), whose gradient is that of x but for steps that would lower what is below 1 already."""

    @staticmethod
    def forward(ctx: Any, numbers: Tensor) -> Tensor:
        ctx.save_for_backward(numbers)
        return numbers.clamp_min(1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (numbers,), (gradient,) = ctx.saved_tensors, gradients
        return torch.where((numbers >= 1) | (gradient < 0), gradient, 0.0)


class VonMisesFisherClassifier(nn.Module, WithoutDecay):
    """kappa_j mu_j.z - log C_p(kappa_j), z = features/|features|: logits (N, K) of features (N, p), p >= 2.

    They are the log-densities of the directions z under von Mises-Fisher distributions with the directions mu_j of the
    weights and learnt concentrations kappa_j, less the one that all classes share at the first concentration. So at
    first, and whenever concentrations are equal, it is a cosine classifier of that scale.

    Concentrations below 1 are read as 1. Gradients that would lower them further are left out, those that raise them
    are not: were all left out, as by a clamp, they would never move again.

    concentration: what all of them begin with.
    """

    undecayed = ("concentration",)

    def __init__(self, num_features: int, num_classes: int, *, concentration: float = 16.0) -> None:
        super().__init__()
        if num_features < 2:
            raise ValueError(f"directions need 2 features at least; got {num_features}.")
        if not 1 <= concentration < math.inf:
            raise ValueError(f"concentration must be finite and at least 1; got {concentration:g}.")
        self.first_concentration = concentration
        self.weight = nn.Parameter(torch.empty(num_classes, num_features))
        self.concentration = nn.Parameter(torch.empty(num_classes))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew, uniformly as the authors' code does; concentrations begin equal."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.constant_(self.concentration, self.first_concentration)

    def distributions(self) -> tuple[Tensor, Tensor]:
        """Return the mean directions (K, p) and concentrations (K,) of the classes."""
        concentration: Tensor = _AtLeastOne.apply(self.concentration)  # type: ignore[no-untyped-call]
        return normalize(self.weight, dim=1), concentration

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits."""
        directions, concentration = self.distributions()
        gain = relative_log_normaliser(concentration, self.weight.shape[1], reference=self.first_concentration)
        return normalize(features, dim=1) @ directions.T * concentration - gain

    def extra_repr(self) -> str:
        """Return the sizes."""
        num_classes, num_features = self.weight.shape
        return f"num_features={num_features}, num_classes={num_classes}, concentration={self.first_concentration}"
