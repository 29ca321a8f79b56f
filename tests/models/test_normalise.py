"""The layer that makes numbers of pixels."""

import torch

from proco.models.normalise import Normalise


def test_images_are_shifted_and_scaled_channel_by_channel() -> None:
    mean, std = torch.tensor([0.5, 0.2, 0.0]), torch.tensor([0.25, 0.5, 1.0])
    images = torch.randint(0, 256, (2, 3, 4, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    expected = (images / 255 - mean[:, None, None]) / std[:, None, None]
    torch.testing.assert_close(Normalise(mean, std)(images), expected)
