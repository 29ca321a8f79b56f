"""Grouping and choosing against plain loops and torch.where."""

import torch
from tests.augment.pictures import noise

from proco.augment.selection import group, where


def test_groups_hold_every_row_with_its_own_value() -> None:
    values = torch.randint(-1, 5, (200, 3), generator=torch.Generator().manual_seed(0))
    for column, groups in zip(values.T, group(values, 6), strict=True):
        assert groups.sizes == [column.tolist().count(value) for value in range(-1, 6)]
        assert torch.equal(column[groups.order], column.sort().values)
        assert torch.equal(column[groups.order][groups.inverse], column)


def test_where_is_that_of_torch() -> None:
    first, second = noise(10), noise(10).flip(0)
    for shape in ((10, 1, 1, 1), (10, 1, 32, 32), (10, 3, 32, 32)):
        condition = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.5
        assert torch.equal(where(condition, first, second), torch.where(condition, first, second))
        assert torch.equal(where(condition, 77, second), torch.where(condition, 77, second))
