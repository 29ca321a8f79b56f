"""Colour jitter against torchvision's generator."""

import torch
from torchvision.transforms.v2 import ColorJitter

from proco.augment.colour_jitter import draw_colour_jitter
from proco.augment.operations import NOTHING, OPERATIONS

REACH = {"brightness": 0.4, "contrast": 0.3, "saturation": 0.2, "hue": 0.1}


def test_orders_are_even_and_strengths_belong_to_their_operations() -> None:
    size = 50_000
    steps = draw_colour_jitter(size, torch.Generator().manual_seed(2), reach=REACH)
    place = torch.tensor([OPERATIONS.index(name) for name in REACH])
    order = (steps.operation[:, :, None] == place).int().argmax(dim=2)
    orders = (order * torch.tensor([64, 16, 4, 1])).sum(1).unique(return_counts=True)[1]
    assert len(orders) == 24
    assert (orders - size / 24).abs().max() < 5 * (size / 24) ** 0.5
    jitter = ColorJitter(*REACH.values())
    torch.manual_seed(0)
    theirs = [jitter.make_params([]) for _ in range(5000)]
    for name, reach in REACH.items():
        centre = 0.0 if name == "hue" else 1.0
        strength = steps.strength[steps.operation == OPERATIONS.index(name)]
        assert len(strength) == size
        assert centre - reach <= strength.min() < centre - 0.99 * reach
        assert centre + 0.99 * reach < strength.max() <= centre + reach
        other = torch.tensor([params[f"{name}_factor"] for params in theirs])
        assert (strength.mean() - other.mean()).abs() < 5 * reach / (3 * 5000) ** 0.5
        assert abs(strength.std() / other.std() - 1) < 0.04


def test_probability_is_that_of_all_steps_together() -> None:
    steps = draw_colour_jitter(20_000, torch.Generator().manual_seed(3), reach=REACH, probability=0.8)
    is_nothing = steps.operation == NOTHING
    assert torch.equal(is_nothing.any(dim=1), is_nothing.all(dim=1))
    assert abs(is_nothing[:, 0].double().mean().item() - 0.2) < 5 * (0.16 / 20_000) ** 0.5
