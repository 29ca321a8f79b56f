"""The von Mises-Fisher distribution on the unit sphere, as a torch distribution."""

import math
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Beta, Distribution, constraints
from torch.distributions.kl import register_kl
from torch.distributions.utils import lazy_property

from proco.sphere.bessel import (
    bessel_ratio,
    bessel_ratio_minus_one,
    bessel_ratio_slope,
    log_ive_regular,
    ratio_over_x,
    working_dtype,
)
from proco.sphere.moment_generating import log_mgf


class _UnitVector(constraints.Constraint):
    """Vectors of length 1, up to the rounding of their type."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        # 1e-5 at least: vectors may have been normalised in float32 before they became float64.
        tolerance = min(max(10 * math.sqrt(torch.finfo(value.dtype).eps), 1e-5), 0.1)
        length: Tensor = torch.linalg.vector_norm(value, dim=-1)
        return (length - 1).abs() < tolerance


unit_vector = _UnitVector()


class VonMisesFisher(Distribution):
    """Density exp(concentration loc.x) / C_p(concentration) on the unit sphere of R^p, p >= 2.

    loc: (*batch, p) unit vectors; concentration: (*batch,) numbers >= 0, where 0 is the uniform distribution. The two
    broadcast. Samples carry exact pathwise gradients to both parameters.

    >>> uniform = VonMisesFisher(torch.tensor([0.0, 0.0, 1.0]), torch.tensor(0.0))
    >>> uniform.log_prob(torch.tensor([1.0, 0.0, 0.0])).exp() * 4 * math.pi
    tensor(1.0000)
    """

    arg_constraints = {"loc": unit_vector, "concentration": constraints.nonnegative}  # noqa: RUF012
    support = unit_vector
    has_rsample = True

    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Tensor, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        concentration = torch.as_tensor(concentration, dtype=loc.dtype, device=loc.device)
        if loc.dim() < 1 or loc.shape[-1] < 2:
            raise ValueError(f"loc must have at least 2 dimensions in its last axis; got shape {tuple(loc.shape)}.")
        # Not torch.broadcast_shapes: its first call imports sympy, two seconds.
        self.concentration = torch.broadcast_tensors(concentration, loc[..., 0])[0]  # type: ignore[no-untyped-call]
        batch_shape = self.concentration.shape
        self.loc = loc.expand(*batch_shape, -1)
        super().__init__(batch_shape, loc.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """Return the distribution with its parameters expanded to batch_shape."""
        new = self._get_checked_instance(VonMisesFisher, _instance)  # type: ignore[no-untyped-call]
        shape = torch.Size(batch_shape)
        new.loc = self.loc.expand(shape + self.event_shape)
        new.concentration = self.concentration.expand(shape)
        super(VonMisesFisher, new).__init__(shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new  # type: ignore[no-any-return]

    @property
    def dim(self) -> int:
        """The dimension p of the space around the sphere."""
        return self.loc.shape[-1]

    @property
    def _order(self) -> float:
        return self.dim / 2 - 1

    @lazy_property
    def _mean_length(self) -> Tensor:
        return bessel_ratio(self._order, self.concentration)

    @property
    def mean(self) -> Tensor:
        """E x = A_p(concentration) loc, inside the ball."""
        return self._mean_length.unsqueeze(-1) * self.loc

    @property
    def mode(self) -> Tensor:
        """The direction of highest density."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance of each coordinate: A'(kappa) along loc and A(kappa)/kappa across it."""
        along = bessel_ratio_slope(self._order, self.concentration).unsqueeze(-1)
        across = ratio_over_x(self._order, self.concentration.to(working_dtype(self.loc.dtype))).unsqueeze(-1)
        squares = self.loc.square()
        return (along * squares + across * (1 - squares)).to(self.loc.dtype)

    def _scaled_log_normalizer(self) -> Tensor:
        """Log C_p(kappa) - kappa, which stays moderate for any kappa."""
        return log_ive_regular(self._order, self.concentration) + self.dim / 2 * math.log(2 * math.pi)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density of unit vectors (..., p) with respect to the area of the sphere."""
        if self._validate_args:
            self._validate_sample(value)
        # loc.x - 1 by the chord, which keeps its digits where the density is high.
        return -self.concentration * (value - self.loc).square().sum(-1) / 2 - self._scaled_log_normalizer()

    def entropy(self) -> Tensor:
        """Return the differential entropy, log C_p - kappa A_p."""
        return self._scaled_log_normalizer() - self.concentration * bessel_ratio_minus_one(
            self._order, self.concentration
        )

    def log_mgf(self, direction: Tensor, length: float) -> Tensor:
        """Return log E exp(length direction.x) for a unit direction (..., p)."""
        return log_mgf(self.concentration, (self.loc * direction).sum(-1), length, self.dim)

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Draw sample_shape + batch_shape unit vectors with gradients to loc and concentration."""
        shape = self._extended_shape(sample_shape)
        loc, concentration = self.loc.expand(shape), self.concentration.expand(shape[:-1])
        working = working_dtype(concentration.dtype)
        angle: Tensor = _PolarAngle.apply(concentration.to(working), self.dim)  # type: ignore[no-untyped-call]
        angle = angle.to(loc.dtype)
        noise = torch.randn_like(loc)  # its part across loc points anywhere in the tangent space alike
        tangent = noise - (noise * loc).sum(-1, keepdim=True) * loc
        tangent = torch.nn.functional.normalize(tangent, dim=-1)
        angle = angle.unsqueeze(-1)
        return torch.cos(angle) * loc + torch.sin(angle) * tangent


@register_kl(VonMisesFisher, VonMisesFisher)  # type: ignore[no-untyped-call, untyped-decorator]
def _kl_vmf_vmf(p: VonMisesFisher, q: VonMisesFisher) -> Tensor:
    if p.dim != q.dim:
        raise ValueError(f"the distributions live on spheres of different dimensions: {p.dim} and {q.dim}.")
    # E_p log p - E_p log q. The two normalisers differ by far less than their size, hence the float64.
    result = torch.promote_types(p.loc.dtype, q.loc.dtype)
    p, q = _in_double(p), _in_double(q)
    shortfall = -bessel_ratio_minus_one(p._order, p.concentration)
    tilt = (p.loc - q.loc).square().sum(-1) / 2  # 1 - cosine, exactly 0 for equal directions
    divergence = (
        (q._scaled_log_normalizer() - p._scaled_log_normalizer())
        + (q.concentration - p.concentration) * shortfall
        + q.concentration * p._mean_length * tilt
    )
    return divergence.to(result)


def _in_double(distribution: VonMisesFisher) -> VonMisesFisher:
    if distribution.loc.device.type == "mps":  # has no float64
        return distribution
    return VonMisesFisher(distribution.loc.double(), distribution.concentration.double(), validate_args=False)


# --- The angle between a sample and loc -----------------------------------------------------------------------------


@torch.no_grad()
def _sample_angle(concentration: Tensor, dim: int) -> Tensor:
    """Draw theta with density proportional to exp(kappa cos theta) sin(theta)^(p-2), by Wood's rejection (1994).

    The proposal is written in 1 - cos theta, so that small angles keep their digits. About two of three proposals or
    more are taken at every dimension and concentration; the others are drawn again.
    """
    kappa = concentration.flatten()
    b = (dim - 1) / (2 * kappa + torch.hypot(2 * kappa, kappa.new_tensor(dim - 1.0)))
    centre = 2 * b / (1 + b)  # 1 - x0 in Wood's notation
    proposal = Beta(kappa.new_tensor((dim - 1) / 2), kappa.new_tensor((dim - 1) / 2))
    gap = torch.empty_like(kappa)  # 1 - cos theta
    left = torch.arange(len(kappa), device=kappa.device)
    while len(left):
        z = proposal.sample(left.shape)
        k, b_left, c = kappa[left], b[left], centre[left]
        drawn = 2 * b_left * z / (1 - (1 - b_left) * z)
        log_ratio = k * (c - drawn) + (dim - 1) * torch.log((c + (1 - c) * drawn) / (c * (2 - c)))
        taken = ~(log_ratio < torch.log(torch.rand_like(z)))  # also where the ratio is NaN: drawing again would not end
        gap[left[taken]] = drawn[taken]
        left = left[~taken]
    smallest = torch.finfo(gap.dtype).tiny  # keeps the log of the sine finite
    return (2 * torch.asin((gap / 2).clamp(smallest, 1).sqrt())).view_as(concentration)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)


def _angle_slope(angle: Tensor, concentration: Tensor, dim: int) -> Tensor:
    """Return d theta/d kappa at a fixed quantile: -(dF/dkappa)/f, F the distribution function of theta, f its density.

    dF/dkappa is the integral of (cos - A_p) f from 0 to theta, and minus the one from theta to pi. The side that does
    not hold the bulk of the distribution is integrated, over as many widths as matter, by a Gauss-Legendre rule.
    """
    shortfall = -bessel_ratio_minus_one(dim / 2 - 1, concentration)  # of the mean cosine from 1
    # Least curvature of -log f: kappa cos + (p - 2)/sin^2 at the mode, where kappa sin^2 = (p - 2) cos.
    half = (dim - 2) / 2
    root = torch.hypot(concentration, concentration.new_tensor(half))
    cosine = torch.where(concentration > 0, concentration / (half + root), torch.zeros_like(concentration))
    curvature = concentration * cosine
    if dim > 2:
        rest = (half + half**2 / (root + concentration)) / (half + root)  # 1 - cosine
        curvature = curvature + (dim - 2) / (rest * (1 + cosine))
    reach = 12 / curvature.sqrt()
    below = 2 * torch.sin(angle / 2).square() < shortfall  # theta in the lower part: integrate from 0
    end = torch.where(below, (angle - reach).clamp_min(0), (angle + reach).clamp_max(math.pi))
    half_width, middle = (angle - end) / 2, (angle + end) / 2
    nodes = torch.as_tensor(_NODES, dtype=angle.dtype, device=angle.device)
    weights = torch.as_tensor(_WEIGHTS, dtype=angle.dtype, device=angle.device)
    at = middle.unsqueeze(-1) + half_width.unsqueeze(-1) * nodes
    here = angle.unsqueeze(-1)
    # cos(at) - cos(here) by the sum-to-product rule, exact for small angles.
    rise = 2 * torch.sin((here + at) / 2) * torch.sin((here - at) / 2)
    log_density = concentration.unsqueeze(-1) * rise
    if dim > 2:
        log_density = log_density + (dim - 2) * torch.log(torch.sin(at) / torch.sin(here))
    # cos(at) - A_p, both less 1: for large concentrations they round to it.
    excess = shortfall.unsqueeze(-1) - 2 * torch.sin(at / 2).square()
    integral = (excess * torch.exp(log_density) * weights).sum(-1) * half_width
    return -integral


class _PolarAngle(torch.autograd.Function):
    """A random angle with its implicit derivative in the concentration."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor, dim: int) -> Tensor:
        angle = _sample_angle(concentration, dim)
        ctx.save_for_backward(angle, concentration)
        ctx.dim = dim
        return angle

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        angle, concentration = ctx.saved_tensors
        return grad * _angle_slope(angle, concentration, ctx.dim), None
