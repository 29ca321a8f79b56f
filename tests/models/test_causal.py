"""The causal classifier against loops over images, classes and heads."""

import copy
import math

import pytest
import torch
from tests.distributed.ranks import run_on_two_ranks
from torch import Tensor

from proco.models.heads import CausalClassifier


def batch(seed: int = 0, size: int = 8) -> Tensor:
    return 1 + torch.randn(size, 6, generator=torch.Generator().manual_seed(seed))


def head(**settings: float) -> CausalClassifier:
    torch.manual_seed(0)
    return CausalClassifier(6, 4, **settings)  # type: ignore[arg-type]


def by_hand(
    features: Tensor, weight: Tensor, mean: Tensor, *, heads: int, scale: float, alpha: float, offset: float
) -> Tensor:
    """The published formula in float64: every image, class and head in turn."""

    def length(vector: Tensor) -> float:
        return math.sqrt(sum(value * value for value in vector.tolist()))

    logits = torch.zeros(len(features), len(weight), dtype=torch.float64)
    for i, feature in enumerate(features.double()):
        for j, row in enumerate(weight.double()):
            for x, w, m in zip(feature.chunk(heads), row.chunk(heads), mean.double().chunk(heads), strict=True):
                cosine = float(x @ m) / (length(x) * length(m))
                kept = x / length(x) - alpha * cosine * m / length(m)
                logits[i, j] += scale / heads * float(kept @ w) / (length(w) + offset)
    return logits


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_logits_in_evaluation_are_the_total_direct_effect(heads: int, alpha: float) -> None:
    classifier = head(heads=heads, alpha=alpha, scale=10.0, offset=0.5)
    mean = torch.zeros(6)
    for seed in range(3):
        classifier(batch(seed))
        mean = 0.9 * mean + batch(seed).mean(0)
    torch.testing.assert_close(classifier.mean, mean)
    queries = batch(9, 5)
    weight = classifier.weight.detach()
    expected = by_hand(queries, weight, mean, heads=heads, scale=10.0, alpha=alpha, offset=0.5)
    torch.testing.assert_close(classifier.eval()(queries).double(), expected, rtol=1e-4, atol=1e-5)


def test_alpha_counts_in_evaluation_only_and_zero_predicts_as_in_training() -> None:
    plain, causal = head(alpha=0.0), head(alpha=1.5)
    for classifier in (plain, causal):
        classifier(batch())
    learnt = plain(batch(5))
    assert torch.equal(causal(batch(5)), learnt)
    torch.testing.assert_close(plain.eval()(batch(5)), learnt)
    assert not torch.allclose(causal.eval()(batch(5)), learnt, atol=0.1)


def test_before_anything_was_seen_nothing_is_taken_off() -> None:
    classifier = head()
    fresh = classifier.eval()(batch())
    assert torch.equal(fresh, classifier.train()(batch()))


def test_one_head_without_offset_is_a_cosine_classifier() -> None:
    classifier = head(heads=1, scale=16.0, offset=0.0)
    cosines = torch.cosine_similarity(batch()[:, None], classifier.weight[None], dim=-1)
    torch.testing.assert_close(classifier(batch()), 16 * cosines)


def test_with_alpha_one_the_common_direction_says_nothing() -> None:
    classifier = head(alpha=1.0)
    classifier(batch())
    logits = classifier.eval()(classifier.mean[None])
    torch.testing.assert_close(logits, torch.zeros(1, 4), rtol=0, atol=1e-5)


def test_only_training_moves_the_mean_and_no_gradient_reaches_it() -> None:
    classifier = head()
    classifier(batch())
    before = classifier.mean.clone()
    classifier.eval()(batch(1))
    assert torch.equal(classifier.mean, before)
    assert not classifier.mean.requires_grad
    assert {name for name, _ in classifier.named_parameters()} == {"weight"}


def test_gradients_reach_features_and_weights() -> None:
    classifier = head()
    features = batch().requires_grad_()
    classifier(features).square().sum().backward()
    assert features.grad is not None
    assert features.grad.abs().sum() > 0
    assert classifier.weight.grad is not None
    assert torch.autograd.gradcheck(copy.deepcopy(classifier).double().eval(), batch().double().requires_grad_())


def test_zero_features_and_rows_that_overflow_leave_the_rest_alone() -> None:
    classifier, without = head(), head()
    features = batch()
    features[0] = math.inf
    features[1] = math.nan
    classifier(features)
    without(features[2:])
    torch.testing.assert_close(classifier.mean, without.mean)
    assert classifier.eval()(torch.zeros(2, 6)).isfinite().all()


def test_state_and_drawing_anew() -> None:
    classifier, other = head(), CausalClassifier(6, 4)
    classifier(batch())
    other.load_state_dict(copy.deepcopy(classifier.state_dict()))
    assert torch.equal(other.eval()(batch(3)), classifier.eval()(batch(3)))
    torch.manual_seed(0)
    other.reset_parameters()
    assert torch.equal(other.weight, head().weight)
    assert other.mean.abs().max() == 0
    assert other.weight.abs().max() <= 1 / math.sqrt(6)


@pytest.mark.parametrize("training", [True, False])
def test_compiled_without_a_break(training: bool) -> None:
    classifier = head().train(training)
    twin = copy.deepcopy(classifier)
    compiled = torch.compile(twin, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(batch()), classifier(batch()))
    torch.testing.assert_close(twin.mean, classifier.mean)


def means_of(rank: int, num_ranks: int = 2) -> Tensor:
    classifier = head()
    for seed in range(3):
        classifier(batch(seed)[rank::num_ranks])
    return classifier.mean


def test_the_mean_of_two_ranks_is_that_of_one_process() -> None:
    expected = means_of(0, 1)
    for found in run_on_two_ranks(means_of):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"heads": 4}, "heads must divide the 6 features into equal parts; got 4"),
        ({"heads": 0}, "heads must divide the 6 features"),
        ({"momentum": 1.0}, r"momentum must be at least 0 and below 1"),
        ({"scale": 0.0}, "scale must be positive"),
        ({"alpha": math.nan}, "alpha must be finite"),
        ({"offset": -1.0}, "offset must be finite and not negative; got -1"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        head(**settings)


def test_no_images_have_no_logits() -> None:
    head = CausalClassifier(6, 4)
    assert head(torch.zeros(0, 6)).shape == (0, 4)
    assert torch.equal(head.mean, torch.zeros(6))
