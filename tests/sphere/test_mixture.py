"""Mixtures: recovery of what was drawn, and the properties that expectation-maximisation must have."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from proco.sphere import VonMisesFisher, VonMisesFisherMixture
from proco.sphere.mixture import _distant_vectors, _empty, _rescue


def draw(dim: int, concentrations: list[float], weights: list[float], size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return centres 120 degrees apart, vectors and the component of each."""
    centres = torch.zeros(len(weights), dim)
    centres[:, :2] = torch.tensor([[1.0, 0.0], [-0.5, 0.75**0.5], [-0.5, -(0.75**0.5)]])[: len(weights)]
    torch.manual_seed(0)
    labels = torch.multinomial(torch.tensor(weights), size, replacement=True)
    return centres, VonMisesFisher(centres[labels], torch.tensor(concentrations)[labels]).sample(), labels


@pytest.mark.parametrize(("dim", "kappa"), [(2, 60.0), (5, 40.0), (128, 200.0)])
def test_components_are_recovered(dim: int, kappa: float) -> None:
    centres, vectors, labels = draw(dim, [kappa, 2 * kappa, kappa / 2], [0.6, 0.3, 0.1], 4000)
    mixture = VonMisesFisherMixture(3, seed=1).fit(vectors)
    order = (centres @ mixture.means_.T).argmax(dim=1)
    assert sorted(order.tolist()) == [0, 1, 2]
    torch.testing.assert_close(mixture.weights_[order], torch.tensor([0.6, 0.3, 0.1]), atol=0.04, rtol=0)
    expected = torch.tensor([kappa, 2 * kappa, kappa / 2])
    torch.testing.assert_close(mixture.concentrations_[order], expected, rtol=0.2, atol=0)
    assert (mixture.predict(vectors) == order[labels]).float().mean() > 0.95
    assert mixture.converged_


def test_likelihood_never_falls() -> None:
    _, vectors, _ = draw(8, [6.0, 6.0, 6.0], [0.5, 0.3, 0.2], 500)
    vectors = normalize(vectors.double(), dim=1)
    scores = [
        VonMisesFisherMixture(3, n_init=1, max_iter=n, seed=4, tol=-1.0).fit(vectors).log_likelihood_
        for n in range(1, 12)
    ]
    assert all(later >= earlier - 1e-12 for earlier, later in pairwise(scores))
    assert scores[-1] > scores[0] + 1e-3


def test_one_component_is_the_maximum_likelihood_estimate() -> None:
    _, vectors, _ = draw(6, [15.0], [1.0], 1000)
    mixture = VonMisesFisherMixture(1).fit(vectors)
    torch.testing.assert_close(mixture.means_[0], normalize(vectors.mean(0), dim=0))
    best = VonMisesFisher(mixture.means_[0], mixture.concentrations_[0]).log_prob(vectors).sum()
    for factor in (0.99, 1.01):
        assert VonMisesFisher(mixture.means_[0], factor * mixture.concentrations_[0]).log_prob(vectors).sum() < best


def test_scores_are_the_density_of_the_mixture() -> None:
    _, vectors, _ = draw(4, [30.0, 10.0], [0.5, 0.5], 300)
    mixture = VonMisesFisherMixture(2).fit(vectors)
    components = VonMisesFisher(mixture.means_, mixture.concentrations_)
    joint = mixture.weights_.log() + components.log_prob(vectors[:, None])
    torch.testing.assert_close(mixture.score_samples(vectors), joint.logsumexp(1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(mixture.predict_proba(vectors), joint.softmax(1), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(mixture.predict_proba(vectors).sum(1), torch.ones(300))
    assert mixture.score(vectors) == pytest.approx(mixture.log_likelihood_, abs=1e-5)


def test_right_number_of_components_has_the_lowest_criterion() -> None:
    _, vectors, _ = draw(5, [60.0, 60.0, 60.0], [0.4, 0.3, 0.3], 600)
    criteria = {n: VonMisesFisherMixture(n, n_init=2, seed=2).fit(vectors).bic(vectors) for n in (1, 2, 3, 4, 5)}
    assert min(criteria, key=criteria.__getitem__) == 3


def test_same_seed_gives_the_same_fit() -> None:
    _, vectors, _ = draw(5, [20.0, 20.0], [0.5, 0.5], 200)
    first, second = (VonMisesFisherMixture(3, seed=7).fit(vectors) for _ in range(2))
    assert torch.equal(first.means_, second.means_)


def test_samples_come_from_the_components_by_weight() -> None:
    _, vectors, _ = draw(3, [200.0, 200.0], [0.8, 0.2], 1000)
    mixture = VonMisesFisherMixture(2, seed=0).fit(vectors)
    torch.manual_seed(0)
    samples, labels = mixture.sample(5000)
    assert samples.shape == (5000, 3)
    torch.testing.assert_close(labels.bincount() / 5000, mixture.weights_, atol=0.03, rtol=0)
    assert (mixture.predict(samples) == labels).float().mean() > 0.98


def test_rescue_gives_distinct_vectors_to_each_empty_component() -> None:
    vectors = normalize(torch.randn(20, 4, generator=torch.Generator().manual_seed(0)), dim=1)
    responsibilities = torch.zeros(20, 3)
    responsibilities[:, 0] = 1
    assert _empty(responsibilities) == [1, 2]
    joint = torch.log(torch.linspace(0.1, 1, 20))[:, None].expand(20, 3)  # vector 0 is explained worst
    rescued = _rescue(vectors, responsibilities, joint, [1, 2])
    assert _empty(rescued) == []
    assert rescued[0, 1] == 1
    torch.testing.assert_close(rescued.sum(1), torch.ones(20))


def test_components_that_start_empty_come_alive() -> None:
    # Forty copies of two vectors: of four distant centres two are copies, and their components start without vectors.
    generator = torch.Generator().manual_seed(0)
    vectors = torch.eye(6)[torch.tensor([0] * 40 + [1] * 40)]
    spread = normalize(torch.eye(6)[2:4].repeat(20, 1) + 0.1 * torch.randn(40, 6, generator=generator), dim=1)
    mixture = VonMisesFisherMixture(6, n_init=1).fit(torch.cat([vectors, spread]))
    assert (mixture.weights_ * 120 > 1).sum() >= 4
    assert mixture.converged_


@pytest.mark.parametrize("seed", range(12))
def test_tiny_sets_end_in_a_finite_fit(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    size, count = 9 + seed, 3 + seed % 4
    vectors = normalize(torch.randn(size, 2 + seed % 3, generator=generator), dim=1)
    mixture = VonMisesFisherMixture(count, n_init=1, method="sra", seed=seed).fit(vectors)
    assert mixture.converged_
    assert mixture.means_.isfinite().all()
    assert mixture.score(vectors) == pytest.approx(mixture.log_likelihood_, abs=1e-4)


def test_identical_vectors_do_not_break_the_fit() -> None:
    mixture = VonMisesFisherMixture(2).fit(torch.eye(4)[:1].expand(10, 4))
    assert mixture.score_samples(torch.eye(4)[:1]).isfinite().all()


def test_wrong_input_is_explained() -> None:
    with pytest.raises(ValueError, match="n_components must be at least 1; got 0"):
        VonMisesFisherMixture(0)
    with pytest.raises(ValueError, match="unknown concentration method 'mle'"):
        VonMisesFisherMixture(1, method="mle")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not fitted yet"):
        VonMisesFisherMixture(2).predict(torch.eye(3))
    with pytest.raises(ValueError, match="5 components need at least as many vectors; got 3"):
        VonMisesFisherMixture(5).fit(torch.eye(3))
    with pytest.raises(ValueError, match=r"length 1; got lengths from 2 to 2.*normalize"):
        VonMisesFisherMixture(1).fit(2 * torch.eye(3))
    with pytest.raises(ValueError, match=r"shape \(N, 3\); got \(4, 4\)"):
        VonMisesFisherMixture(1).fit(torch.eye(3)).predict(torch.eye(4))


def test_criterion_counts_the_free_numbers() -> None:
    _, vectors, _ = draw(5, [60.0, 60.0], [0.6, 0.4], 200)
    mixture = VonMisesFisherMixture(2, n_init=1).fit(vectors)
    # Two directions of 4 free numbers, two concentrations and one weight: 11.
    expected = 11 * math.log(200) - 2 * 200 * mixture.score(vectors)
    assert mixture.bic(vectors) == pytest.approx(expected, rel=1e-5)


def test_more_restarts_fit_no_worse_and_other_seeds_start_elsewhere() -> None:
    vectors = normalize(torch.randn(60, 3, generator=torch.Generator().manual_seed(0)), dim=1)

    def fitted(n_init: int, seed: int) -> float:
        return VonMisesFisherMixture(6, n_init=n_init, max_iter=20, seed=seed).fit(vectors).log_likelihood_

    once, often = [fitted(1, seed) for seed in range(3)], [fitted(5, seed) for seed in range(3)]
    assert all(more >= one for one, more in zip(once, often, strict=True))
    assert sum(often) > sum(once) + 1e-3
    assert len({round(likelihood, 5) for likelihood in once}) > 1


def test_concentration_stays_below_its_bound() -> None:
    vectors = torch.eye(4)[:2].repeat(10, 1)
    found = VonMisesFisherMixture(2, max_concentration=50.0).fit(vectors).concentrations_
    torch.testing.assert_close(found, torch.full((2,), 50.0))


def test_starts_are_far_from_all_that_were_chosen_before() -> None:
    vectors = torch.eye(5).repeat(20, 1)
    for seed in range(20):
        chosen = _distant_vectors(vectors, 5, torch.Generator().manual_seed(seed))
        assert sorted(chosen.argmax(dim=1).tolist()) == [0, 1, 2, 3, 4]


def test_arrays_and_other_types_are_taken() -> None:
    vectors = VonMisesFisher(torch.eye(4)[:2], torch.tensor(50.0)).sample((60,)).flatten(0, 1)
    expected = VonMisesFisherMixture(2).fit(vectors)
    found = VonMisesFisherMixture(2).fit(vectors.numpy())
    assert torch.equal(found.means_, expected.means_)
    assert torch.equal(found.predict(vectors.double().numpy()), expected.predict(vectors))
    assert found.bic(vectors.numpy()) == pytest.approx(expected.bic(vectors))


def test_vectors_of_another_length_or_type_are_refused() -> None:
    with pytest.raises(ValueError, match="length 1"):
        VonMisesFisherMixture(1).fit(1.05 * torch.eye(3))
    with pytest.raises(ValueError, match=r"floating type; got torch\.int64"):
        VonMisesFisherMixture(1).fit(torch.eye(3, dtype=torch.int64))
