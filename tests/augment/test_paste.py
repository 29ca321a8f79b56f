"""Pasted boxes: where they are, how large, and what share of the image stays."""

import pytest
import torch

from proco.augment.paste import Paste, PasteChoices
from proco.errors import ConfigError


def test_box_is_where_it_was_drawn(device: torch.device) -> None:
    images, others = torch.zeros(3, 3, 8, 8, dtype=torch.uint8), torch.full((3, 3, 8, 8), 9, dtype=torch.uint8)
    choices = PasteChoices(torch.tensor([0.5, 1.0, 0.0]), torch.tensor([[0.5, 0.5], [0.0, 0.0], [0.3, 0.3]]))
    pasted, share = Paste().apply(
        images.to(device), others.to(device), PasteChoices(*(part.to(device) for part in choices))
    )
    expected = torch.zeros(3, 8, 8, dtype=torch.uint8)
    expected[0, 2:6, 2:6] = 9
    expected[1, :4, :4] = 9  # three quarters of it stick out
    assert torch.equal(pasted.cpu(), expected[:, None].expand(3, 3, 8, 8))
    assert share.tolist() == [0.75, 0.75, 1.0]


def test_areas_are_uniform_and_probability_holds() -> None:
    choices = Paste(probability=0.3).draw(40_000, torch.Generator().manual_seed(0))
    areas = choices.side[choices.side > 0].square()
    assert len(areas) / 40_000 == pytest.approx(0.3, abs=0.01)
    quantiles = torch.quantile(areas, torch.tensor([0.25, 0.5, 0.75]))
    torch.testing.assert_close(quantiles, torch.tensor([0.25, 0.5, 0.75]), rtol=0, atol=0.02)
    assert choices.centre.mean() == pytest.approx(0.5, abs=0.01)


def test_share_is_the_share_of_pixels() -> None:
    generator = torch.Generator().manual_seed(1)
    images = torch.zeros(500, 1, 8, 12, dtype=torch.uint8)
    pasted, share = Paste(probability=1.0).apply(images, images + 1, Paste(probability=1.0).draw(500, generator))
    torch.testing.assert_close(share, 1 - pasted.float().mean(dim=(1, 2, 3)))


def test_wrong_probability_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"paste.probability lies between 0 and 1; got 1.5"):
        Paste(probability=1.5)


def test_share_of_many_boxes() -> None:
    """With sides l, l^2 uniform in [0, 1], a box covers l - l^2/4 of a side on average over its centre: 77/240."""
    paste = Paste(probability=0.6)
    images = torch.zeros(4000, 1, 64, 64, dtype=torch.uint8)
    _, share = paste.apply(images, images, paste.draw(4000, torch.Generator().manual_seed(0)))
    assert 1 - share.mean().item() == pytest.approx(0.6 * 77 / 240, abs=0.012)


def test_as_it_comes_every_image_gets_a_box_of_any_class() -> None:
    assert Paste() == Paste(probability=1.0, sampler="class_balanced")


def test_box_of_an_oblong_image_lies_down_and_across_as_drawn() -> None:
    images, others = torch.zeros(1, 1, 8, 16, dtype=torch.uint8), torch.ones(1, 1, 8, 16, dtype=torch.uint8)
    pasted, share = Paste().apply(images, others, PasteChoices(torch.tensor([0.5]), torch.tensor([[0.25, 0.75]])))
    expected = torch.zeros(8, 16, dtype=torch.uint8)
    expected[:4, 8:] = 1  # two rows above and below row 2, four columns on each side of column 12
    assert torch.equal(pasted[0, 0], expected)
    assert share.tolist() == [0.75]
