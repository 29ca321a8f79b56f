"""The network of a recipe: what comes out of it, with one classifier and with experts."""

import pytest
import torch

from proco.models.network import Network, NetworkConfig
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
def test_outputs_are_cut_by_views(experts: int) -> None:
    outputs = make(experts=experts)(IMAGES)
    first, second = outputs.split(2)
    for whole, *parts in zip(outputs, first, second, strict=True):
        assert (whole is None) == (parts[0] is None)
        if whole is not None:
            assert torch.equal(torch.cat(parts), whole)


def test_heads_compute_in_float32_under_autocast() -> None:
    """Logits and embeddings of the rounded network are exact functions of its features."""
    network = make("cosine", experts=2)
    # float16: a bfloat16 product is an illegal instruction on some of the CPUs these tests run on.
    with torch.autocast("cpu", torch.float16):
        outputs = network(IMAGES)
    assert {value.dtype for value in outputs} == {torch.float32}
    assert torch.equal(outputs.expert_logits, network.classifier(outputs.features))
    assert torch.equal(outputs.embeddings, network.projector(outputs.features))
    assert {value.dtype for value in network.double()(IMAGES)} == {torch.float64}
