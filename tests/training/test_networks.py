"""Networks of runs: the heads their methods ask for, and parts that are drawn anew."""

import copy
from dataclasses import dataclass, replace
from typing import cast

import pytest
import torch
from torch import nn

from proco.errors import ConfigError
from proco.methods.cross_entropy import CrossEntropy
from proco.methods.method import Method
from proco.methods.proco import ProCo
from proco.models.heads import CosineClassifier
from proco.models.network import Network, NetworkConfig
from proco.models.normalise import Normalise
from proco.training.networks import build_network, draw_anew
from proco.training.settings import TrainConfig


@dataclass(frozen=True, kw_only=True)
class WithCosines(CrossEntropy):
    """Cross-entropy of cosines."""

    def classifier(self, num_features: int, num_classes: int) -> nn.Module:
        return CosineClassifier(num_features, num_classes, scale=7.0)


def built(method: Method, **network: object) -> Network:
    torch.manual_seed(0)
    config = NetworkConfig(backbone="resnet8", hidden=16, dim=8)
    config = replace(config, **network)  # type: ignore[arg-type]
    return build_network(TrainConfig(method=method, network=config), 5, Normalise(torch.zeros(3), torch.ones(3)))


def test_a_method_may_have_a_classifier_of_its_own() -> None:
    network = built(WithCosines())
    assert isinstance(network.classifier, CosineClassifier)
    assert network.classifier.scale == 7.0
    assert network.projector is None
    assert isinstance(built(CrossEntropy()).classifier, nn.Linear)


def test_every_expert_has_the_classifier_of_the_method() -> None:
    network = built(WithCosines(), options={"experts": 2})
    first, second = cast(list[CosineClassifier], list(network.classifier))
    assert (first.scale, second.scale) == (7.0, 7.0)
    assert not torch.equal(first.weight, second.weight)


def test_contrast_goes_with_the_classifier_of_what_it_stands_beside() -> None:
    network = built(ProCo(classification=WithCosines()))
    assert isinstance(network.classifier, CosineClassifier)
    assert network.projector is not None


def test_another_classifier_than_the_method_has_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"network\.classifier=standardised: the method has a classifier of its own"):
        built(WithCosines(), classifier="standardised")
    assert built(WithCosines(), classifier="cosine").classifier.scale == 7.0  # what it has anyway


@pytest.mark.parametrize("part", ["classifier", "backbone"])
def test_what_is_drawn_anew_depends_on_the_seed_alone(part: str) -> None:
    networks = [built(WithCosines()) for _ in range(3)]
    before = copy.deepcopy(networks[0].state_dict())
    for network, seed, others in zip(networks, (3, 3, 4), (1, 2, 3), strict=True):
        torch.manual_seed(others)
        state = torch.get_rng_state()
        draw_anew(network.get_submodule(part), seed)
        assert torch.equal(torch.get_rng_state(), state)  # the caller's random numbers are not used up
    one, same, other = (network.state_dict() for network in networks)
    for name, old in before.items():
        assert torch.equal(one[name], same[name])
        if not name.startswith(part):
            assert torch.equal(one[name], old)
        elif old.dim() > 1:  # norms begin with ones and zeros
            assert not torch.equal(one[name], old)
            assert not torch.equal(one[name], other[name])


def test_new_cosine_weights_have_unit_length() -> None:
    head = CosineClassifier(6, 4)
    draw_anew(head, 0)
    torch.testing.assert_close(head.weight.norm(dim=1), torch.ones(4))
