"""The nearest class mean against a loop over images and classes."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from proco.models.heads import FittedClassifier, NearestMeanClassifier
from proco.models.heads.nearest_mean import Distance


def training_images(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.tensor([0] * 20 + [1] * 5 + [2])  # the last has one image
    centres = 3 * torch.randn(3, 6, generator=generator)
    return 10 + centres[labels] + torch.randn(len(labels), 6, generator=generator), labels


QUERIES = 10 + 3 * torch.randn(7, 6, generator=torch.Generator().manual_seed(9))


def by_hand(features: Tensor, labels: Tensor, queries: Tensor, distance: Distance) -> Tensor:
    """Minus squared distances, one by one in float64."""
    centre = features.double().mean(0)

    def compared(row: Tensor) -> Tensor:
        row = row.double() - centre if distance == "cl2n" else row.double()
        return row if distance == "raw" else row / row.square().sum() ** 0.5

    means = [
        torch.stack([compared(row) for row, y in zip(features, labels, strict=True) if y == j]).mean(0)
        for j in range(3)
    ]
    return torch.tensor([[-float((compared(query) - mean).square().sum()) for mean in means] for query in queries])


@pytest.mark.parametrize("distance", ["cl2n", "l2n", "raw"])
def test_scores_are_minus_squared_distances(distance: Distance) -> None:
    head = NearestMeanClassifier(6, 3, distance=distance)
    head.fit(*training_images())
    expected = by_hand(*training_images(), QUERIES, distance)
    torch.testing.assert_close(head.eval()(QUERIES), expected, rtol=1e-4, atol=1e-5)


def test_raw_distances_keep_their_digits_far_from_the_origin() -> None:
    features, labels = training_images()
    head = NearestMeanClassifier(6, 3, distance="raw").eval()
    head.fit(features + 1e4, labels)
    near = NearestMeanClassifier(6, 3, distance="raw").eval()
    near.fit(features, labels)
    torch.testing.assert_close(head(QUERIES + 1e4), near(QUERIES), rtol=5e-3, atol=5e-2)


def test_the_three_distances_differ() -> None:
    scores = [by_hand(*training_images(), QUERIES, distance) for distance in ("cl2n", "l2n", "raw")]
    assert not torch.allclose(scores[0], scores[1], atol=1e-2)
    assert not torch.allclose(scores[0], scores[2], atol=1e-2)


def test_until_it_is_fitted_and_in_training_it_is_linear() -> None:
    head = NearestMeanClassifier(6, 3)
    expected = linear(QUERIES, head.weight, head.bias)
    assert torch.equal(head.eval()(QUERIES), expected)
    head.fit(*training_images())
    assert torch.equal(head.train()(QUERIES), expected)
    assert not torch.allclose(head.eval()(QUERIES), expected)


def test_a_linear_classifier_learns_and_means_do_not() -> None:
    head = NearestMeanClassifier(6, 3)
    assert {name for name, _ in head.named_parameters()} == {"weight", "bias"}
    assert head.get_parameter("weight").shape == (3, 6)
    assert isinstance(head, FittedClassifier)
    torch.manual_seed(0)
    plain = nn.Linear(6, 3)
    torch.manual_seed(0)
    assert torch.equal(NearestMeanClassifier(6, 3).weight, plain.weight)


def test_a_class_without_images_never_wins() -> None:
    features, labels = training_images()
    head = NearestMeanClassifier(6, 4)
    head.fit(features, torch.where(labels == 2, 3, labels))
    # Its mean would be 0, where these lie.
    scores = head.eval()(features.mean(0, keepdim=True).repeat(2, 1))
    assert (scores[:, 2] < scores[:, [0, 1, 3]].min()).all()
    assert scores[:, 2].eq(torch.finfo(torch.float32).min).all()  # a number still: it can be written down and averaged
    probabilities = scores.softmax(dim=1)
    assert probabilities.isfinite().all()
    assert (probabilities[:, 2] == 0).all()


def test_fitted_again_it_forgets() -> None:
    head, fresh = NearestMeanClassifier(6, 3), NearestMeanClassifier(6, 3)
    head.fit(*training_images(0))
    for one in (head, fresh):
        one.fit(*training_images(1))
    assert torch.equal(head.eval()(QUERIES), fresh.eval()(QUERIES))


def test_means_are_in_the_state() -> None:
    head, other = NearestMeanClassifier(6, 3), NearestMeanClassifier(6, 3)
    head.fit(*training_images())
    other.load_state_dict(copy.deepcopy(head.state_dict()))
    assert torch.equal(other.eval()(QUERIES), head.eval()(QUERIES))


def test_the_order_of_classes_and_of_images_does_not_matter() -> None:
    features, labels = training_images()
    head, other = NearestMeanClassifier(6, 3).eval(), NearestMeanClassifier(6, 3).eval()
    order, shuffled = torch.tensor([2, 0, 1]), torch.randperm(len(labels))
    head.fit(features, labels)
    other.fit(features[shuffled], order[labels][shuffled])
    torch.testing.assert_close(other(QUERIES)[:, order], head(QUERIES), rtol=1e-4, atol=1e-5)


def test_compiled_without_a_break() -> None:
    head = NearestMeanClassifier(6, 3).eval()
    compiled = torch.compile(head, backend="eager", fullgraph=True)
    assert torch.equal(compiled(QUERIES), head(QUERIES))
    head.fit(*training_images())
    torch.testing.assert_close(compiled(QUERIES), head(QUERIES))


def test_an_unknown_distance_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown distance 'cosine'; choose from cl2n, l2n, raw"):
        NearestMeanClassifier(6, 3, distance="cosine")  # type: ignore[arg-type]
