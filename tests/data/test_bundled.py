"""The data set that ships with the package: its counts, and its images by their hash."""

import hashlib

import numpy as np
import torch

from proco.data.array_images import ArrayImages
from proco.data.bundled import FASHION_MNIST_LT, FashionMnistLt
from proco.data.long_tail import exponential_counts

# Of the bytes of the images and the labels, train before test; the file itself depends on the version of zlib.
SHA256 = "adbf4a320a668b00efb76ba637638713fb70537965c718ad2ca18dd10c190fe9"


def test_counts_are_those_of_the_profile() -> None:
    dataset = FashionMnistLt().read()
    assert dataset.name == "fashion_mnist_lt"
    assert tuple(dataset.class_counts.tolist()) == exponential_counts(1000, 10, 100)
    assert len(dataset.splits["train"]) == 2478
    assert dataset.splits["test"].labels.bincount().tolist() == [200] * 10
    assert dataset.class_names[0] == "T-shirt/top"
    assert dataset.class_names[9] == "Ankle boot"
    assert "Zalando" in dataset.notes[0]


def test_images_are_the_committed_ones() -> None:
    digest = hashlib.sha256()
    for name in ("train", "test"):
        split = FashionMnistLt().read().splits[name]
        assert isinstance(split.images, ArrayImages)
        digest.update(split.images.pixels.numpy().tobytes())
        digest.update(split.labels.numpy().astype("<i8").tobytes())
    assert digest.hexdigest() == SHA256


def test_images_are_pictures_of_their_labels() -> None:
    """A mean image of each class, made of training images, finds most test images of shoes and trousers."""
    dataset = FashionMnistLt().read()
    train, test = dataset.splits["train"], dataset.splits["test"]
    assert isinstance(train.images, ArrayImages)
    assert isinstance(test.images, ArrayImages)
    pixels = train.images.pixels.flatten(1).float()
    means = torch.stack([pixels[train.labels == label].mean(dim=0) for label in range(10)])
    nearest = torch.cdist(test.images.pixels.flatten(1).float(), means).argmin(dim=1)
    accuracy = torch.stack([(nearest == test.labels)[test.labels == label].float().mean() for label in range(10)])
    assert accuracy.mean() > 0.6
    assert accuracy[1] > 0.8


def test_file_is_small_plain_and_licensed() -> None:
    assert FASHION_MNIST_LT.stat().st_size < 4_000_000
    with np.load(FASHION_MNIST_LT, allow_pickle=False) as arrays:
        assert arrays["train_images"].shape == (2478, 28, 28)
        assert arrays["train_images"].dtype == np.uint8
    licence = FASHION_MNIST_LT.with_name("fashion_mnist_lt.LICENSE.txt").read_text()
    assert "Zalando SE" in licence
    assert "Permission is hereby granted, free of charge" in licence
