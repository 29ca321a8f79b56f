"""The other class complements against their definitions, written out class by class, and against ProCo."""

import copy
import math

import pytest
import torch
from tests.distributed.ranks import run_on_two_ranks
from torch.nn.functional import normalize

from proco.losses.centroid_prototype import CentroidPrototypeLoss
from proco.losses.class_complement import ClassComplementLoss
from proco.losses.ema_prototype import EmaPrototypeLoss
from proco.losses.learnable_prototype import LearnablePrototypeLoss
from proco.losses.normal_distribution import NormalDistributionLoss
from proco.losses.proco import ProCoLoss

COUNTS = [30, 8, 2]
PRIOR = torch.tensor(COUNTS).double() / sum(COUNTS)
KINDS = [LearnablePrototypeLoss, EmaPrototypeLoss, CentroidPrototypeLoss, NormalDistributionLoss]


def batch(size: int = 12, dim: int = 6, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (size,), generator=generator)
    labels[:3] = torch.arange(3)
    centres = torch.eye(3, dim)
    embeddings = normalize(centres[labels] + 0.5 * torch.randn(size, dim, generator=generator), dim=1)
    return embeddings, labels


def by_hand(scores: torch.Tensor, labels: torch.Tensor, *, prior: bool = True) -> torch.Tensor:
    """-log(pi_y e^score_y / sum_j pi_j e^score_j), sample by sample."""
    weights = PRIOR if prior else torch.ones(3).double()
    losses = [
        -math.log(weights[y] * math.exp(row[y]) / sum(weights[j] * math.exp(row[j]) for j in range(3)))
        for row, y in zip(scores.double(), labels.tolist(), strict=True)
    ]
    return torch.tensor(sum(losses) / len(losses))


def test_learnable_prototypes_are_a_cosine_classifier_without_a_prior() -> None:
    embeddings, labels = batch()
    criterion = LearnablePrototypeLoss(COUNTS, 6, prior=False)
    with torch.no_grad():
        criterion.weight.mul_(3)  # lengths do not matter
    scores = torch.stack([embeddings @ w / w.norm() for w in criterion.weight.detach()], dim=1) / 0.1
    torch.testing.assert_close(criterion(embeddings, labels).detach(), by_hand(scores, labels, prior=False).float())
    criterion(embeddings, labels).backward()
    assert criterion.weight.grad is not None


def test_ema_prototypes_move_by_the_batch_means() -> None:
    criterion = EmaPrototypeLoss(COUNTS, 6, momentum=0.9)
    prototypes: list[torch.Tensor | None] = [None, None, None]
    for seed in range(3):
        embeddings, labels = batch(seed=seed)
        for j in range(3):
            mean = embeddings[labels == j].mean(dim=0)
            old = prototypes[j]
            prototypes[j] = normalize(mean if old is None else 0.9 * old + 0.1 * mean, dim=0)
        scores = torch.stack([embeddings @ c for c in prototypes], dim=1) / 0.1  # type: ignore[operator]
        torch.testing.assert_close(criterion(embeddings, labels), by_hand(scores, labels).float(), rtol=1e-4, atol=1e-5)


def test_ema_leaves_classes_the_batch_does_not_have() -> None:
    criterion = EmaPrototypeLoss(COUNTS, 6)
    criterion(*batch())
    before = criterion.prototypes.clone()
    embeddings, labels = batch(seed=5)
    criterion(embeddings[labels != 2], labels[labels != 2])
    assert torch.equal(criterion.prototypes[2], before[2])
    assert not torch.equal(criterion.prototypes[0], before[0])


def test_centroids_are_proco_with_classes_that_do_not_spread() -> None:
    """With the largest concentration for every class, ProCo's logits are cosines over the temperature."""
    embeddings, labels = batch(64, 16)
    centroid, proco = CentroidPrototypeLoss(COUNTS, 16), ProCoLoss(COUNTS, 16)
    value, _ = centroid(embeddings, labels), proco(embeddings, labels)
    torch.testing.assert_close(centroid.moments.sums, proco.moments.sums)
    proco.eval()
    # Sums as long as their counts: mean length 1, the concentration's cap.
    proco.moments.sums.copy_(normalize(proco.moments.sums, dim=1) * proco.moments.counts[:, None])
    torch.testing.assert_close(value, proco(embeddings, labels), rtol=2e-3, atol=2e-3)


def test_normal_distributions_are_the_limit_of_many_samples() -> None:
    """log E exp(z.Z / tau) by two hundred thousand samples of each class's normal distribution."""
    embeddings, labels = batch(200, 4)
    criterion = NormalDistributionLoss(COUNTS, 4, temperature=1.0)
    criterion(embeddings, labels)
    torch.manual_seed(0)
    anchors = embeddings[:5].double()
    for j in range(3):
        own = embeddings[labels == j].double()
        covariance = torch.cov(own.T, correction=0)
        samples = torch.distributions.MultivariateNormal(own.mean(0), covariance + 1e-9 * torch.eye(4)).sample(
            (200_000,)
        )
        expected = torch.logsumexp(anchors @ samples.T, dim=1) - math.log(200_000)
        torch.testing.assert_close(criterion.scores(anchors.float())[:, j].double(), expected, rtol=0, atol=5e-3)


def test_normal_distributions_without_spread_are_centroids_of_their_length() -> None:
    """Every class one vector: the score is its cosine over the temperature, however rounding falls."""
    vectors = torch.randn(3, 64, generator=torch.Generator().manual_seed(0))
    units, labels = normalize(vectors, dim=1).repeat(20, 1), torch.arange(3).repeat(20)
    criterion = NormalDistributionLoss(COUNTS, 64, temperature=0.01)
    criterion(units, labels)
    scores = criterion.scores(units[:3])
    torch.testing.assert_close(scores, units[:3] @ units[:3].T / 0.01, rtol=1e-3, atol=0.02)
    # Along z itself the spread is 1 - 1, which rounding may leave below 0.
    assert (scores >= units[:3] @ units[:3].T / 0.01 - 1e-4).all()


def test_windows_hold_the_last_epoch_and_this_one() -> None:
    for kind in (CentroidPrototypeLoss, NormalDistributionLoss):
        criterion, fresh = kind(COUNTS, 6), kind(COUNTS, 6)
        criterion(*batch(seed=0))
        criterion.start_epoch()
        criterion(*batch(seed=1))
        criterion.start_epoch()
        fresh(*batch(seed=1))
        torch.testing.assert_close(criterion.eval()(*batch(seed=2)), fresh.eval()(*batch(seed=2)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_one_row_that_overflows_spoils_no_other_batch(kind: type[ClassComplementLoss], value: float) -> None:
    torch.manual_seed(0)
    embeddings, labels = batch()
    criterion = kind(COUNTS, 6)
    without = copy.deepcopy(criterion)
    broken = embeddings.clone()
    broken[0, 2] = value
    criterion(broken, labels)
    without(embeddings[1:], labels[1:])
    assert torch.equal(criterion.eval()(*batch(seed=1)), without.eval()(*batch(seed=1)))


@pytest.mark.parametrize("kind", KINDS)
def test_two_views_in_turn_have_gradients(kind: type[ClassComplementLoss]) -> None:
    """What the second view does to the statistics does not reach the gradient of the first."""
    embeddings, labels = batch()
    embeddings.requires_grad_()
    criterion = kind(COUNTS, 6)
    (criterion(embeddings, labels) + criterion(embeddings.flip(1), labels)).backward()
    assert embeddings.grad is not None
    assert embeddings.grad.isfinite().all()
    assert embeddings.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_changes_nothing(kind: type[ClassComplementLoss]) -> None:
    criterion = kind(COUNTS, 6)
    criterion(*batch())
    before = {name: value.clone() for name, value in criterion.state_dict().items()}
    criterion.eval()(*batch(seed=3))
    assert all(torch.equal(value, before[name]) for name, value in criterion.state_dict().items())


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ClassComplementLoss(COUNTS, 6)  # type: ignore[abstract]
    with pytest.raises(ValueError, match="momentum"):
        EmaPrototypeLoss(COUNTS, 6, momentum=1.0)
    with pytest.raises(ValueError, match="temperature"):
        CentroidPrototypeLoss(COUNTS, 6, temperature=0.0)
    with pytest.raises(ValueError, match="unknown reduction 'average'"):
        CentroidPrototypeLoss(COUNTS, 6, reduction="average")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dim must be at least 1; got 0"):
        LearnablePrototypeLoss(COUNTS, 0)
    embeddings, labels = batch()
    with pytest.raises(ValueError, match="labels must have shape"):
        CentroidPrototypeLoss(COUNTS, 6)(embeddings, labels[:, None])


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_it_goes_on(kind: type[ClassComplementLoss]) -> None:
    criterion, restored = kind(COUNTS, 6), kind([1, 1, 1], 6)
    for seed in range(2):
        criterion.start_epoch()
        criterion(*batch(seed=seed))
    restored.load_state_dict(copy.deepcopy(criterion.state_dict()))
    for one in (criterion, restored):
        one.start_epoch()
    assert torch.equal(restored(*batch(seed=2)), criterion(*batch(seed=2)))


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_is_left_for_float32(kind: type[ClassComplementLoss]) -> None:
    plain = kind(COUNTS, 6)
    mixed = copy.deepcopy(plain)
    embeddings, labels = batch()
    with torch.autocast("cpu", dtype=torch.float16):
        found = mixed(embeddings.half(), labels)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, plain(embeddings.half().float(), labels), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_reductions_labels_and_modes(kind: type[ClassComplementLoss]) -> None:
    embeddings, labels = batch()
    criterion = kind(COUNTS, 6)
    training = criterion(embeddings, labels)
    criterion.eval()  # prototypes stay as they are from here on
    torch.testing.assert_close(criterion(embeddings, labels), training)
    assert torch.equal(criterion(embeddings, labels.int()), criterion(embeddings, labels))
    values = {}
    for reduction in ("none", "sum", "mean"):
        other = kind(COUNTS, 6, reduction=reduction)
        other.load_state_dict(criterion.state_dict())
        values[reduction] = other.eval()(embeddings, labels)
    assert values["none"].shape == labels.shape
    torch.testing.assert_close(values["sum"], values["none"].sum())
    torch.testing.assert_close(values["mean"], values["none"].mean())


def prototypes_of(rank: int, num_ranks: int = 2) -> torch.Tensor:
    criterion = EmaPrototypeLoss(COUNTS, 6, momentum=0.5)
    for seed in range(3):
        embeddings, labels = batch(seed=seed)
        criterion(embeddings[rank::num_ranks], labels[rank::num_ranks])
    return criterion.prototypes


def test_averaged_prototypes_of_two_ranks_are_those_of_one_process() -> None:
    expected = prototypes_of(0, 1)
    for found in run_on_two_ranks(prototypes_of):
        torch.testing.assert_close(found, expected)
