"""Mixup: images are the mixtures their shares say, and shares are drawn as they should be."""

import pytest
import torch
from scipy import stats

from proco.augment.mixup import Mixup, MixupChoices
from proco.errors import ConfigError


def test_images_are_mixed_by_their_shares(device: torch.device) -> None:
    images = torch.full((3, 1, 2, 2), 200, dtype=torch.uint8, device=device)
    others = torch.full((3, 1, 2, 2), 100, dtype=torch.uint8, device=device)
    mixed, share = Mixup().apply(images, others, MixupChoices(torch.tensor([1.0, 0.0, 0.253], device=device)))
    assert mixed.dtype == torch.uint8
    assert mixed[:, 0, 0, 0].tolist() == [200, 100, 125]
    torch.testing.assert_close(share.cpu(), torch.tensor([1.0, 0.0, 0.253]))


@pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
def test_shares_have_their_distribution(alpha: float) -> None:
    share = Mixup(alpha=alpha).draw(5_000, torch.Generator().manual_seed(0)).share
    assert stats.kstest(share.double().numpy(), stats.beta(alpha, alpha).cdf).pvalue > 0.01


def test_some_images_stay_as_they_are() -> None:
    share = Mixup(probability=0.3).draw(20_000, torch.Generator().manual_seed(1)).share
    assert (share < 1).float().mean() == pytest.approx(0.3, abs=0.01)


def test_the_same_seed_draws_the_same_shares() -> None:
    draws = [Mixup().draw(50, torch.Generator().manual_seed(seed)).share for seed in (0, 0, 1)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_a_tiny_alpha_gives_no_holes() -> None:
    share = Mixup(alpha=1e-3).draw(2_000, torch.Generator().manual_seed(0)).share
    assert share.isfinite().all()
    assert ((share >= 0) & (share <= 1)).all()


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf"), float("nan")])
def test_wrong_alpha_is_refused(alpha: float) -> None:
    with pytest.raises(ConfigError, match=r"mixup\.alpha must be positive"):
        Mixup(alpha=alpha)


def test_what_is_no_probability_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match=r"mixup\.probability lies between 0 and 1; got -0.5"):
        Mixup(probability=-0.5)
