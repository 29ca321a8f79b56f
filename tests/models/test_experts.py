"""The first expert alone is layer for layer a network without experts."""

import pytest
import torch

from proco.errors import ConfigError
from proco.models.experts import first_expert
from proco.models.network import Network, NetworkConfig
from proco.models.normalise import Normalise

IMAGES = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def make(**options: int) -> Network:
    torch.manual_seed(0)
    config = NetworkConfig(backbone="resnet8", options=options, hidden=16, dim=8)
    normalise = Normalise(torch.zeros(3), torch.ones(3))
    return Network(config, 5, normalise, with_projector=True).eval()


@pytest.mark.parametrize("shared_stages", [0, 2])
def test_first_expert_says_the_same_alone(shared_stages: int) -> None:
    network = make(experts=3, shared_stages=shared_stages)
    alone = first_expert(network)
    outputs, expected = alone(IMAGES), network(IMAGES)
    for own, of_first in zip(outputs[:3], expected.experts[0][:3], strict=True):
        torch.testing.assert_close(own, of_first)
    assert outputs.experts == ()
    assert network.backbone.num_experts == 3  # unchanged
    plain = make(experts=1)
    plain.load_state_dict(alone.state_dict())  # of the same layers under the same names
    torch.testing.assert_close(plain(IMAGES).logits, outputs.logits)


def test_without_experts_there_is_none_to_choose() -> None:
    with pytest.raises(ConfigError, match="no experts"):
        first_expert(make())
