"""The network of a recipe: what comes out of it, with one classifier and with experts."""

import pytest
import torch

from proco.errors import ConfigError
from proco.models.network import Network, NetworkConfig, Outputs
from proco.models.normalise import Normalise

IMAGES = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def make(classifier: str = "linear", **options: int) -> Network:
    torch.manual_seed(0)
    config = NetworkConfig(backbone="resnet8", options=options, classifier=classifier, hidden=16, dim=8)  # type: ignore[arg-type]
    return Network(config, 5, Normalise(torch.zeros(3), torch.ones(3)), with_projector=True).eval()


def each(outputs: Outputs) -> list[torch.Tensor]:
    """Return all tensors, of the experts too."""
    return [v for one in (outputs, *outputs.experts) for v in one[:3] if v is not None]


@pytest.mark.parametrize("classifier", ["linear", "standardised", "cosine"])
def test_logits_are_the_mean_of_the_experts(classifier: str) -> None:
    network = make(classifier, experts=3)
    outputs = network(IMAGES)
    assert outputs.features.shape == (4, 192)
    assert outputs.embeddings is None
    torch.testing.assert_close(outputs.logits, sum(expert.logits for expert in outputs.experts) / 3)
    assert torch.equal(torch.cat([expert.features for expert in outputs.experts], dim=1), outputs.features)
    for number, expert in enumerate(outputs.experts):
        assert expert.logits.shape == (4, 5)
        torch.testing.assert_close(expert.logits, network.classifier[number](expert.features))
        torch.testing.assert_close(expert.embeddings, network.projector[number](expert.features))


def test_one_expert_is_a_plain_classifier() -> None:
    outputs = make()(IMAGES)
    assert outputs.experts == ()
    assert {name for name in make().state_dict() if name.startswith("classifier")} == {
        "classifier.weight",
        "classifier.bias",
    }


@pytest.mark.parametrize("experts", [1, 2])
def test_outputs_are_cut_by_views(experts: int) -> None:
    outputs = make(experts=experts)(IMAGES)
    first, second = outputs.split(2)
    assert len(first.experts) == len(second.experts) == len(outputs.experts)
    for whole, *halves in zip(each(outputs), each(first), each(second), strict=True):
        assert torch.equal(torch.cat(halves), whole)


def test_heads_compute_in_float32_under_autocast() -> None:
    """Logits and embeddings of the rounded network are exact functions of its features."""
    network = make("cosine", experts=2)
    # float16: a bfloat16 product is an illegal instruction on some of the CPUs these tests run on.
    with torch.autocast("cpu", torch.float16):
        outputs = network(IMAGES)
    assert {value.dtype for value in each(outputs)} == {torch.float32}
    for number, expert in enumerate(outputs.experts):
        assert torch.equal(expert.logits, network.classifier[number](expert.features))
        assert torch.equal(expert.embeddings, network.projector[number](expert.features))
    assert {value.dtype for value in each(network.double()(IMAGES))} == {torch.float64}


def built(config: NetworkConfig) -> Network:
    return Network(config, 5, Normalise(torch.zeros(3), torch.ones(3)), with_projector=True)


def test_settings_reach_the_heads() -> None:
    config = NetworkConfig(backbone="resnet8", classifier="cosine", scale=7.0, hidden=16, dim=8)
    network = built(config)
    assert network.classifier.scale == 7.0
    assert network.projector is not None
    assert [tuple(parameter.shape) for parameter in network.projector.parameters() if parameter.dim() == 2] == [
        (16, 64),
        (8, 16),
    ]


def test_both_heads_teach_the_backbone() -> None:
    for head in ("logits", "embeddings"):
        network = built(NetworkConfig(backbone="resnet8", hidden=16, dim=8))
        getattr(network(IMAGES), head).square().mul(torch.arange(4)[:, None]).sum().backward()
        assert network.backbone.stem.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("training", [True, False])
def test_trying_a_size_leaves_no_trace(training: bool) -> None:
    network = built(NetworkConfig(backbone="resnet8")).train(training)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    network.require_size((8, 8))
    assert network.backbone.training == training
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)


@pytest.mark.parametrize("option", ["name", "in_channels", "pretrained"])
def test_options_that_have_settings_of_their_own_are_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=f"network.options cannot have '{option}'"):
        NetworkConfig(options={option: 1})


def test_backbones_get_the_channels_of_a_pixel_side_by_side() -> None:
    """Convolutions of such images are far faster, on GPUs and on CPUs."""
    network, seen = built(NetworkConfig(backbone="resnet8")), []
    network.backbone.register_forward_pre_hook(
        lambda _, given: seen.append(given[0].is_contiguous(memory_format=torch.channels_last))
    )
    network(IMAGES)
    assert seen == [True]
