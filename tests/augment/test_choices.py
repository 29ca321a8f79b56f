"""Taking choices apart."""

from typing import NamedTuple

import torch
from torch import Tensor

from proco.augment import Auto, select, to_device


class Inner(NamedTuple):
    flag: Tensor


class Outer(NamedTuple):
    inner: Inner
    rows: Tensor


def test_select_reaches_nested_tuples_and_keeps_their_types(device: torch.device) -> None:
    choices = Outer(Inner(torch.arange(5)), torch.arange(10).view(5, 2))
    for index, expected in ((slice(1, 3), [1, 2]), (torch.tensor([4, 0, 0]), [4, 0, 0])):
        found = to_device(select(choices, index), device)
        assert isinstance(found, Outer)
        assert isinstance(found.inner, Inner)
        assert found.inner.flag.tolist() == expected
        assert found.rows.tolist() == [[2 * i, 2 * i + 1] for i in expected]
        assert found.rows.device.type == device.type


def test_select_takes_what_a_view_draws() -> None:
    choices = Auto().draw(8, torch.Generator().manual_seed(0))
    found = select(choices, slice(2, 4))
    assert torch.equal(found.steps.operation, choices.steps.operation[2:4])
    assert torch.equal(found.weak.top, choices.weak.top[2:4])
