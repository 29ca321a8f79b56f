"""The network of a recipe: what comes out of it, with one classifier and with experts."""

import pytest
import torch

from proco.models.network import Network, NetworkConfig, Outputs
from proco.models.normalise import Normalise

IMAGES = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def make(classifier: str = "linear", **options: int) -> Network:
    torch.manual_seed(0)
    config = NetworkConfig(backbone="resnet8", options=options, classifier=classifier, hidden=16, dim=8)  # type: ignore[arg-type]
    return Network(config, 5, Normalise(torch.zeros(3), torch.ones(3)), with_projector=True).eval()


@pytest.mark.parametrize("classifier", ["linear", "cosine"])
def test_logits_are_the_mean_of_the_experts(classifier: str) -> None:
    network = make(classifier, experts=3)
    outputs = network(IMAGES)
    assert outputs.features.shape == (4, 192)
    assert outputs.expert_logits.shape == (4, 3, 5)
    torch.testing.assert_close(outputs.logits, outputs.expert_logits.mean(dim=1))
    heads = network.classifier.classifiers
    for number, (head, part) in enumerate(zip(heads, outputs.features.chunk(3, dim=1), strict=True)):
        torch.testing.assert_close(outputs.expert_logits[:, number], head(part))
    assert network.classifier.weight.shape == (5, 192)


def test_one_expert_is_a_plain_classifier() -> None:
    outputs = make()(IMAGES)
    assert outputs.expert_logits is None
    assert {name for name in make().state_dict() if name.startswith("classifier")} == {
        "classifier.weight",
        "classifier.bias",
    }


@pytest.mark.parametrize("experts", [1, 2])
def test_outputs_are_cut_by_views_and_turned_to_float32(experts: int) -> None:
    outputs = make(experts=experts)(IMAGES)
    first, second = outputs.split(2)
    for whole, *parts in zip(outputs, first, second, strict=True):
        assert (whole is None) == (parts[0] is None)
        if whole is not None:
            assert torch.equal(torch.cat(parts), whole)
    half = Outputs(*(value if value is None else value.half() for value in outputs))
    assert {value.dtype for value in half.in_float32() if value is not None} == {torch.float32}
    double = Outputs(*(value if value is None else value.double() for value in outputs))
    assert {value.dtype for value in double.in_float32() if value is not None} == {torch.float64}
