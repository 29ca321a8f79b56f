"""A data set small enough to train on within a test."""

import pytest
import torch

from proco.data.array_images import ArrayImages
from proco.data.dataset import Dataset, Split


def coloured_squares(counts: list[int], seed: int) -> Split:
    """Noisy images of 8 x 8 whose mean colour tells the class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    colours = torch.tensor([[200, 40, 40], [40, 200, 40], [40, 40, 200], [160, 160, 40]])[labels]
    noise = torch.randint(-40, 40, (len(labels), 3, 8, 8), generator=generator)
    return Split(ArrayImages((colours[:, :, None, None] + noise).clamp(0, 255).to(torch.uint8)), labels)


def make_tiny_dataset() -> Dataset:
    """Four classes with 30, 15, 8 and 4 training images."""
    return Dataset(
        name="coloured squares",
        class_names=("red", "green", "blue", "yellow"),
        splits={"train": coloured_squares([30, 15, 8, 4], 0), "test": coloured_squares([5, 5, 5, 5], 1)},
    )


@pytest.fixture
def tiny_dataset() -> Dataset:
    """Four classes with 30, 15, 8 and 4 training images."""
    return make_tiny_dataset()
