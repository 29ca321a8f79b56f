"""Size and normalisation of what the network sees."""

import pytest
import torch

from proco.data.array_images import ArrayImages
from proco.data.prepare import DataConfig
from proco.errors import ConfigError
from proco.training.pixels import image_size, normalisation


def some_images(channels: int = 3) -> ArrayImages:
    return ArrayImages(torch.randint(0, 256, (20, channels, 6, 5), dtype=torch.uint8))


def test_arrays_are_normalised_by_their_own_moments() -> None:
    images = some_images()
    seen = normalisation(DataConfig(), images)(images.pixels).double()
    assert seen.mean(dim=(0, 2, 3)).abs().max() < 1e-5
    assert (seen.var(dim=(0, 2, 3), correction=0).sqrt() - 1).abs().max() < 1e-5


def test_given_moments_are_used() -> None:
    config = DataConfig(mean=(0.5, 0.4, 0.3), std=(0.2, 0.1, 0.3))
    images = some_images()
    expected = (images.pixels[0, 1, 2, 3].item() / 255 - 0.4) / 0.1
    assert normalisation(config, images)(images.pixels)[0, 1, 2, 3].item() == pytest.approx(expected, abs=1e-5)


def test_a_flat_channel_stays_finite() -> None:
    flat = ArrayImages(torch.full((2, 1, 4, 4), 7, dtype=torch.uint8))
    assert normalisation(DataConfig(), flat)(flat.pixels).abs().max() < 1e-2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (DataConfig(mean=(0.5,)), "go together"),
        (DataConfig(mean=(0.5,), std=(0.5,)), r"data\.mean needs 3 numbers, one per channel; got 1"),
    ],
)
def test_wrong_moments_are_explained(config: DataConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        normalisation(config, some_images())


def test_size_is_the_largest_square_of_the_arrays_or_the_setting() -> None:
    assert image_size(DataConfig(), some_images()) == (5, 5)
    assert image_size(DataConfig(size=16), some_images()) == (16, 16)


def test_files_are_normalised_by_the_moments_of_imagenet() -> None:
    class Files:
        channels = 3

    made = normalisation(DataConfig(), Files())  # type: ignore[arg-type]
    torch.testing.assert_close(made.mean.flatten() / 255, torch.tensor([0.485, 0.456, 0.406]))
    torch.testing.assert_close(made.std.flatten() / 255, torch.tensor([0.229, 0.224, 0.225]))
