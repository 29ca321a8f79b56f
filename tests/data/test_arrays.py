"""Arrays: every accepted layout against the same images, and every refusal."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from proco.data.array_images import ArrayImages
from proco.data.arrays import Arrays
from proco.errors import DataError

GENERATOR = np.random.default_rng(0)
COLOUR = GENERATOR.integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)  # N, H, W, C
LABELS = np.array([0, 1, 2, 0, 1, 0])


def save(folder: Path, **arrays: Any) -> Arrays:
    np.savez(folder / "toys.npz", **arrays)
    return Arrays(path=folder / "toys.npz")


def pixels_of(source: Arrays, split: str = "train") -> torch.Tensor:
    images = source.read().splits[split].images
    assert isinstance(images, ArrayImages)
    return images.pixels


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (COLOUR, COLOUR.transpose(0, 3, 1, 2)),
        (COLOUR.transpose(0, 3, 1, 2), COLOUR.transpose(0, 3, 1, 2)),
        (COLOUR[..., 0], COLOUR[:, None, :, :, 0]),
        (COLOUR[..., :1], COLOUR[:, None, :, :, 0]),
        (COLOUR[:, None, :, :, 0], COLOUR[:, None, :, :, 0]),
    ],
    ids=["NHWC", "NCHW", "NHW", "NHW1", "N1HW"],
)
def test_layouts_become_channels_first(images: Any, expected: Any, tmp_path: Path) -> None:
    pixels = pixels_of(save(tmp_path, images=images, labels=LABELS))
    assert np.array_equal(pixels.numpy(), expected)
    assert pixels.is_contiguous()


@pytest.mark.parametrize(
    "keys",
    [
        {"train_images": "train", "test_images": "test", "val_images": "val"},
        {"train_images": "train", "test_images": "test", "validation_images": "val"},
        {"x_train": "train", "x_test": "test", "x_valid": "val"},
        {"images": "train", "test_images": "test"},
        {"data": "train"},
    ],
    ids=lambda keys: " ".join(keys),
)
def test_key_names(keys: dict[str, str], tmp_path: Path) -> None:
    arrays: dict[str, Any] = {}
    for number, key in enumerate(keys):
        arrays[key] = COLOUR + np.uint8(number)
        label_key = "labels" if key == "data" else key.replace("images", "labels").replace("x_", "y_")
        arrays[label_key] = np.roll(LABELS, number)
    dataset = save(tmp_path, **arrays).read()
    assert dataset.name == "toys"
    assert set(dataset.splits) == set(keys.values())
    for number, split in enumerate(keys.values()):
        images = dataset.splits[split].images
        assert isinstance(images, ArrayImages)
        assert np.array_equal(images.pixels.permute(0, 2, 3, 1), COLOUR + np.uint8(number))
        assert dataset.splits[split].labels.tolist() == np.roll(LABELS, number).tolist()


def test_labels_of_keras_and_class_names(tmp_path: Path) -> None:
    names = np.array(["cat", "dög", "cow"])
    dataset = save(tmp_path, x_train=COLOUR, y_train=LABELS[:, None].astype(np.uint8), class_names=names).read()
    assert dataset.class_names == ("cat", "dög", "cow")
    assert dataset.splits["train"].labels.tolist() == LABELS.tolist()
    assert dataset.splits["train"].labels.dtype == torch.int64
    assert save(tmp_path, images=COLOUR, labels=LABELS).read().class_names == ("0", "1", "2")
    in_bytes = np.array([b"a", b"b", b"c"])
    assert save(tmp_path, images=COLOUR, labels=LABELS, class_names=in_bytes).read().class_names == ("a", "b", "c")


def test_arrays_that_are_not_read_are_noted(tmp_path: Path) -> None:
    dataset = save(tmp_path, images=COLOUR, labels=LABELS, weights=np.ones(6), boxes=np.ones(6)).read()
    assert dataset.notes == ("arrays that were not read: 'boxes', 'weights'",)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": COLOUR / 255, "labels": LABELS}, r"uint8.*got float64. For values in \[0, 1\]: \(images \* 255\)"),
        ({"images": COLOUR.astype(np.int32), "labels": LABELS}, "got int32.$"),
        ({"images": COLOUR.reshape(6, -1), "labels": LABELS}, r"got \(6, 60\). Reshape"),
        ({"images": np.zeros((6, 5, 4, 4), np.uint8), "labels": LABELS}, r"1 or 3 channels.*\(6, 5, 4, 4\)"),
        ({"images": np.zeros((6, 3, 9, 3), np.uint8), "labels": LABELS}, r"cannot tell which side of \(6, 3, 9, 3\)"),
        ({"images": COLOUR, "labels": LABELS / 1}, "whole numbers, from 0 on; got float64"),
        ({"images": COLOUR, "labels": np.eye(6, dtype=int)}, r"got \(6, 6\). Of one-hot rows take argmax"),
        ({"images": COLOUR, "labels": LABELS[:5]}, "images and labels must be equally many; got 6 and 5"),
        ({"images": COLOUR, "labels": LABELS, "x_train": COLOUR}, "several arrays for the train split: 'images', 'x_t"),
        ({"images": COLOUR, "y_train": LABELS, "labels": LABELS}, "several arrays for the train split: 'labels', 'y_t"),
        ({"images": COLOUR, "labels": LABELS, "x_test": COLOUR}, "images but no labels for the test split: 'x_test'"),
        ({"images": COLOUR, "labels": LABELS, "val_labels": LABELS}, "labels but no images for the val split"),
        ({"pictures": COLOUR, "kinds": LABELS}, "no images with labels: got the keys 'kinds', 'pictures'; expected tr"),
        ({"images": COLOUR, "labels": LABELS, "class_names": np.arange(3)}, "class_names must be a list of texts"),
        (
            {"images": COLOUR, "labels": LABELS, "class_names": np.array(["a", "b"])},
            "2 class_names, but a label 2",
        ),
        ({"images": COLOUR, "labels": LABELS.astype(object)}, "damaged or not an npz file of plain arrays"),
    ],
)
def test_refusals_say_what_is_wrong(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        save(tmp_path, **arrays).read()


def test_what_cannot_be_trained_on_can_be_read(tmp_path: Path) -> None:
    """It may be there to be evaluated on."""
    missing = save(tmp_path, images=COLOUR, labels=LABELS + 1).read()
    with pytest.raises(DataError, match=r"'0' \(1 of 4 classes\) have none"):
        missing.require_trainable()
    test = save(tmp_path, test_images=COLOUR, test_labels=LABELS).read()
    assert set(test.splits) == {"test"}
    with pytest.raises(DataError, match="no training images; its splits: test"):
        test.require_trainable()


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    source = save(tmp_path, images=COLOUR, labels=LABELS)
    content = source.path.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 3] ^= 0xFF
    for damaged in (content[: len(content) // 2], b"PK", b"", b"<html>", bytes(flipped)):
        source.path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"toys\.npz") as refusal:
            source.read()
        assert "pickle" not in str(refusal.value)  # numpy's word for what is no array
        assert not str(refusal.value).endswith("..")
    with pytest.raises(DataError, match="No such file"):
        Arrays(path=tmp_path / "missing.npz").read()
    np.save(tmp_path / "single.npy", COLOUR)
    with pytest.raises(DataError, match="holds no named arrays"):
        Arrays(path=tmp_path / "single.npy").read()


def test_classes_are_those_of_all_splits(tmp_path: Path) -> None:
    images = COLOUR[:2]
    source = save(tmp_path, train_images=images, train_labels=[0, 1], test_images=images, test_labels=[0, 2])
    assert source.read().class_names == ("0", "1", "2")


def test_labels_that_are_no_class_numbers_are_refused(tmp_path: Path) -> None:
    source = save(tmp_path, images=COLOUR, labels=[0, 1, 2, 0, 1, 30_000_000])
    with pytest.raises(DataError, match=r"labels go up to 30000000, but there are 6 images.*numbers of classes"):
        source.read()


def test_channels_first_and_last_are_told_apart_or_asked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot tell which side of \(6, 1, 9, 3\)"):
        save(tmp_path, images=np.zeros((6, 1, 9, 3), np.uint8), labels=LABELS).read()


def test_names_of_classes_are_read_and_not_noted(tmp_path: Path) -> None:
    names = np.array(["cats", "dogs"])
    np.savez(tmp_path / "a.npz", images=np.zeros((4, 2, 2), np.uint8), labels=np.arange(4) % 2, class_names=names)
    dataset = Arrays(path=tmp_path / "a.npz").read()
    assert dataset.class_names == ("cats", "dogs")
    assert dataset.notes == ()
