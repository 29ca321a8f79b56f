"""The network of a run: new, to be filled with weights, or in part drawn anew."""

import copy

import torch
from torch import nn

from proco.models.network import Network
from proco.models.normalise import Normalise
from proco.training.settings import TrainConfig


def build_network(config: TrainConfig, num_classes: int, normalise: Normalise) -> Network:
    """Return a network as the settings have it, with the heads that the method asks for."""
    return Network(
        config.network,
        num_classes,
        normalise,
        with_projector=config.method.needs_projector,
        classifier=config.method.classifier,
    )


def draw_anew(part: nn.Module, seed: int) -> None:
    """Give a part of a network, or all of one, new random weights, which depend on the seed alone."""
    fresh = copy.deepcopy(part).cpu()  # a GPU would draw others
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for module in fresh.modules():
            if callable(draw := getattr(module, "reset_parameters", None)):
                draw()
    part.load_state_dict(fresh.state_dict())
