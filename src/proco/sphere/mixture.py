"""Mixtures of von Mises-Fisher distributions: soft clustering of unit vectors by expectation-maximisation."""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from proco.sphere.concentration import ConcentrationMethod, concentration_from_mean_length
from proco.sphere.vmf import VonMisesFisher

Vectors = Tensor | NDArray[Any]

# A component that answers for fewer vectors than this has no spread to estimate and would collapse onto a point.
_LEAST_MASS = 2.0


@dataclass(frozen=True)
class _Fit:
    """One run of expectation-maximisation, and where it stands."""

    weights: Tensor
    components: VonMisesFisher
    log_likelihood: float  # mean per vector
    num_iterations: int = 0
    converged: bool = False


class VonMisesFisherMixture:
    """Fit n_components von Mises-Fisher distributions to unit vectors, with the method names of scikit-learn.

    Each of n_init restarts begins with centres that are far from each other (the seeding of k-means++ with the
    squared chord as distance) and stops when the mean log-likelihood rises by less than tol; the best is kept. A
    component that loses its vectors is put onto the one that the mixture explains worst, a limited number of times.

    Vectors are tensors or NumPy arrays; what comes back are tensors, of the type and on the device of those of `fit`.

    After `fit`: weights_ (C,), means_ (C, p) unit mean directions, concentrations_ (C,), log_likelihood_ (mean per
    vector), n_iter_, converged_. The same seed gives the same fit.

    >>> vectors = VonMisesFisher(torch.eye(3), torch.tensor(50.0)).sample((100,)).flatten(0, 1)
    >>> mixture = VonMisesFisherMixture(n_components=3, seed=0).fit(vectors)
    >>> mixture.predict_proba(vectors).shape
    torch.Size([300, 3])
    """

    weights_: Tensor
    means_: Tensor
    concentrations_: Tensor
    log_likelihood_: float
    n_iter_: int
    converged_: bool

    def __init__(
        self,
        n_components: int = 1,
        *,
        n_init: int = 4,
        max_iter: int = 100,
        tol: float = 1e-5,
        method: ConcentrationMethod = "exact",
        max_concentration: float = 1e5,
        seed: int = 0,
    ) -> None:
        for name, number in (("n_components", n_components), ("n_init", n_init), ("max_iter", max_iter)):
            if number < 1:
                raise ValueError(f"{name} must be at least 1; got {number}.")
        # The formula is checked where it is used: here, on nothing.
        concentration_from_mean_length(torch.zeros(0), 2, method, max_concentration=max_concentration)
        self.n_components = n_components
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.method: ConcentrationMethod = method
        self.max_concentration = max_concentration
        self.seed = seed

    @torch.no_grad()
    def fit(self, vectors: Vectors) -> Self:
        """Fit the mixture to unit vectors (N, p), N >= n_components."""
        rows = _as_unit_vectors(vectors)
        if len(rows) < self.n_components:
            raise ValueError(f"{self.n_components} components need at least as many vectors; got {len(rows)}.")
        generator = torch.Generator(device=rows.device).manual_seed(self.seed)
        best = max((self._run(rows, generator) for _ in range(self.n_init)), key=lambda fit: fit.log_likelihood)
        self.weights_ = best.weights
        self.means_, self.concentrations_ = best.components.loc, best.components.concentration
        self.log_likelihood_, self.n_iter_, self.converged_ = best.log_likelihood, best.num_iterations, best.converged
        return self

    @torch.no_grad()
    def predict_proba(self, vectors: Vectors) -> Tensor:
        """Return the posterior probability of each component, (N, C)."""
        return self._joint(vectors).softmax(dim=1)

    def predict(self, vectors: Vectors) -> Tensor:
        """Return the most probable component of each vector, (N,)."""
        return self.predict_proba(vectors).argmax(dim=1)

    @torch.no_grad()
    def score_samples(self, vectors: Vectors) -> Tensor:
        """Return the log-density of each vector under the mixture, (N,)."""
        return self._joint(vectors).logsumexp(dim=1)

    def score(self, vectors: Vectors) -> float:
        """Return the mean log-density of the vectors."""
        return self.score_samples(vectors).mean().item()

    @torch.no_grad()
    def sample(self, n_samples: int = 1) -> tuple[Tensor, Tensor]:
        """Draw n_samples unit vectors (n, p) from the mixture and return them with their components (n,)."""
        fitted = self._fitted()
        labels = torch.multinomial(fitted.weights, n_samples, replacement=True)
        components = fitted.components
        return VonMisesFisher(components.loc[labels], components.concentration[labels], False).sample(), labels

    def bic(self, vectors: Vectors) -> float:
        """Return the Bayesian information criterion on the vectors: lower is better."""
        num_components, dim = self._fitted().components.loc.shape
        # A direction has p - 1 free numbers, a concentration 1, and the weights C - 1.
        num_parameters = num_components * dim + num_components - 1
        scores = self.score_samples(vectors)
        return num_parameters * math.log(len(scores)) - 2 * scores.sum().item()

    def _fitted(self) -> _Fit:
        if not hasattr(self, "weights_"):
            raise ValueError("the mixture is not fitted yet; call fit(vectors) first.")
        return _Fit(self.weights_, VonMisesFisher(self.means_, self.concentrations_, False), self.log_likelihood_)

    def _joint(self, vectors: Vectors) -> Tensor:
        fitted = self._fitted()
        rows = _as_unit_vectors(vectors, fitted.components.dim)
        return _joint_log_density(rows.to(fitted.components.loc), fitted)

    def _run(self, vectors: Tensor, generator: torch.Generator) -> _Fit:
        similarity = vectors @ _distant_vectors(vectors, self.n_components, generator).T
        responsibilities, joint = one_hot(similarity.argmax(dim=1), self.n_components).to(vectors.dtype), similarity
        best: _Fit | None = None
        previous = -math.inf
        rescues_left = self.n_components  # a component that cannot live is given up in the end
        for iteration in range(1, self.max_iter + 1):
            empty = _empty(responsibilities) if rescues_left else []
            if empty:
                responsibilities = _rescue(vectors, responsibilities, joint, empty)
                rescues_left, previous = max(0, rescues_left - len(empty)), -math.inf
            fit = self._maximise(vectors, responsibilities)
            joint = _joint_log_density(vectors, fit)
            log_likelihood = joint.logsumexp(dim=1).mean().item()
            converged = log_likelihood - previous < self.tol
            fit = replace(fit, log_likelihood=log_likelihood, num_iterations=iteration, converged=converged)
            if best is None or fit.log_likelihood >= best.log_likelihood:
                best = fit
            if converged:
                break
            responsibilities, previous = joint.softmax(dim=1), log_likelihood
        assert best is not None
        return replace(best, num_iterations=iteration, converged=converged)

    def _maximise(self, vectors: Tensor, responsibilities: Tensor) -> _Fit:
        mass = responsibilities.sum(dim=0)
        sums = responsibilities.T @ vectors
        lengths = torch.linalg.vector_norm(sums, dim=1)
        mean_length = (lengths / mass.clamp_min(torch.finfo(mass.dtype).tiny)).clamp_max(1)
        concentration = concentration_from_mean_length(
            mean_length, vectors.shape[1], self.method, max_concentration=self.max_concentration
        )
        # A sum of zero has no direction; its concentration is 0, so any direction will do.
        directions = torch.where(lengths[:, None] > 0, sums / lengths[:, None], vectors[:1].expand_as(sums))
        return _Fit(mass / mass.sum(), VonMisesFisher(directions, concentration, False), -math.inf)


def _empty(responsibilities: Tensor) -> list[int]:
    """Return the components that answer for too few vectors to have a spread."""
    least = min(_LEAST_MASS, len(responsibilities) / responsibilities.shape[1])
    found: list[int] = (responsibilities.sum(dim=0) < least).nonzero().flatten().tolist()
    return found


def _rescue(vectors: Tensor, responsibilities: Tensor, joint: Tensor, empty: list[int]) -> Tensor:
    """Give each empty component the vector that is explained worst, and its nearest neighbours, for its own."""
    rescued = responsibilities.clone()
    rescued[:, empty] = 0
    score = joint.logsumexp(dim=1)
    group = max(1, min(int(_LEAST_MASS) + 1, len(vectors) // responsibilities.shape[1]))
    for component in empty:
        worst = score.argmin()
        similarity = (vectors @ vectors[worst]).masked_fill(score.isposinf(), -math.inf)
        neighbours = similarity.topk(group).indices
        rescued[neighbours] = 0
        rescued[neighbours, component] = 1
        score = score.index_fill(0, neighbours, math.inf)  # taken: not for the next component
    return rescued


def _joint_log_density(vectors: Tensor, fit: _Fit) -> Tensor:
    """Log of weight times density, (N, C)."""
    cosine = vectors @ fit.components.loc.T
    kappa = fit.components.concentration
    return fit.weights.log() + kappa * (cosine - 1) - fit.components._scaled_log_normalizer()


def _distant_vectors(vectors: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Choose vectors one by one, with a probability proportional to the squared chord to the nearest one so far."""
    first = torch.randint(len(vectors), (1,), generator=generator, device=vectors.device)
    chosen = [vectors[first[0]]]
    distance = 1 - vectors @ chosen[0]
    while len(chosen) < count:
        weights = distance.clamp_min(torch.finfo(vectors.dtype).eps)
        chosen.append(vectors[torch.multinomial(weights, 1, generator=generator)[0]])
        distance = torch.minimum(distance, 1 - vectors @ chosen[-1])
    return torch.stack(chosen)


def _as_unit_vectors(vectors: Vectors, dim: int | None = None) -> Tensor:
    rows = torch.as_tensor(vectors)
    if rows.dim() != 2 or rows.shape[1] < 2 or dim not in (None, rows.shape[1]):
        expected = "(N, p) with p >= 2" if dim is None else f"(N, {dim})"
        raise ValueError(f"vectors must have shape {expected}; got {tuple(rows.shape)}.")
    if not rows.is_floating_point():
        raise ValueError(f"vectors must be of a floating type; got {rows.dtype}.")
    lengths = torch.linalg.vector_norm(rows, dim=1)
    if len(rows) and not ((lengths - 1).abs() < 1e-2).all():
        raise ValueError(
            f"vectors must have length 1; got lengths from {lengths.min():.4g} to {lengths.max():.4g}. "
            "Divide by them: torch.nn.functional.normalize(vectors, dim=1)."
        )
    return rows
