"""Images and labels as arrays in one npz file."""

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proco.data.array_images import ArrayImages
from proco.data.dataset import SPLIT_WORDS, SPLITS, Dataset, Split, name_some, numbered_classes
from proco.data.decode import Progress
from proco.data.source import Source
from proco.errors import DataError

_CHANNELS = (1, 3)


@Source.registry.register("arrays")
@dataclass(frozen=True, kw_only=True)
class Arrays(Source):
    """An npz file of images, uint8 (N, H, W), (N, H, W, C) or (N, C, H, W) with C 1 or 3, and of labels, integers (N,).

    Keys: `train_images` and `train_labels`, or `x_train` and `y_train`, and the same with `val` and `test`; a file with
    one kind alone may have `images` or `data`, and `labels`. `class_names` is optional.
    """

    path: Path
    """The npz file."""

    looks_for: ClassVar[str] = "an npz file"

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the path is a file named so."""
        return path.is_file() and path.suffix.lower() == ".npz"

    def read(self, progress: Progress | None = None) -> Dataset:
        """Read the arrays into memory."""
        return read_npz(self.path)


def read_npz(path: Path) -> Dataset:
    """Read a data set of arrays from an npz file; see `Arrays` for what it holds."""
    arrays = _load(path)
    pairs = _find_pairs(set(arrays), path)
    if not pairs:
        raise DataError(
            f"{path} has no images with labels: got the keys {name_some(sorted(arrays))}; expected train_images and "
            "train_labels, x_train and y_train, or images and labels."
        )
    splits = {split: _split(arrays, *keys, path) for split, keys in pairs.items()}
    used = {key for pair in pairs.values() for key in pair} | {"class_names"}
    unused = sorted(set(arrays) - used)
    notes = (f"arrays that were not read: {name_some(unused)}",) if unused else ()
    return Dataset(path.stem, _class_names(arrays, splits, path), splits, notes)


def _load(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as stream:
            content = np.load(stream, allow_pickle=False)  # a pickle could run code of whoever made the file
            arrays = {} if isinstance(content, np.ndarray) else dict(content)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        # Of what is no array numpy takes it for pickled objects, and says how to load these.
        reason = "" if "pickle" in str(error) else f": {str(error).rstrip('.')}"
        raise DataError(f"{path} is damaged or not an npz file of plain arrays{reason}.") from error
    if not arrays:
        raise DataError(f"{path} holds no named arrays; expected an npz file with images and labels.")
    return arrays


def _find_pairs(keys: set[str], path: Path) -> dict[str, tuple[str, str]]:
    """Return the key of the images and of the labels of each split."""
    pairs = {}
    for split in SPLITS:
        words = [word for word, meaning in SPLIT_WORDS.items() if meaning == split]
        image_keys = {key for word in words for key in (f"{word}_images", f"x_{word}")}
        label_keys = {key for word in words for key in (f"{word}_labels", f"y_{word}")}
        if split == "train":
            image_keys |= {"images", "data"}
            label_keys |= {"labels"}
        image_keys, label_keys = image_keys & keys, label_keys & keys
        if len(image_keys) > 1 or len(label_keys) > 1:
            several = sorted(image_keys if len(image_keys) > 1 else label_keys)
            raise DataError(f"{path} has several arrays for the {split} split: {name_some(several)}. Keep one of them.")
        if len(image_keys) != len(label_keys):
            there, missing = ("images", "labels") if image_keys else ("labels", "images")
            raise DataError(
                f"{path} has {there} but no {missing} for the {split} split: {(image_keys | label_keys).pop()!r}."
            )
        if image_keys:
            pairs[split] = (image_keys.pop(), label_keys.pop())
    return pairs


def _split(arrays: dict[str, NDArray[Any]], images_key: str, labels_key: str, path: Path) -> Split:
    images = _images(arrays[images_key], f"{path}, {images_key}")
    labels = _labels(arrays[labels_key], f"{path}, {labels_key}")
    if len(images) != len(labels):
        raise DataError(
            f"{path}: {images_key} and {labels_key} must be equally many; got {len(images)} and {len(labels)}."
        )
    return Split(images, labels)


def _images(array: NDArray[Any], name: str) -> ArrayImages:
    if array.dtype != np.uint8:
        advice = " For values in [0, 1]: (images * 255).round().astype('uint8')." if array.dtype.kind == "f" else ""
        raise DataError(f"{name}: images must be uint8, grey levels from 0 to 255; got {array.dtype}.{advice}")
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim != 4:
        raise DataError(
            f"{name}: images must have the shape (N, H, W), (N, H, W, C) or (N, C, H, W); got {array.shape}. "
            "Reshape them to their height and width."
        )
    elif array.shape[1] in _CHANNELS and array.shape[3] in _CHANNELS:
        raise DataError(f"{name}: cannot tell which side of {array.shape} is the channels, the second or the last.")
    elif array.shape[3] in _CHANNELS:
        array = array.transpose(0, 3, 1, 2)
    elif array.shape[1] not in _CHANNELS:
        raise DataError(f"{name}: images must have 1 or 3 channels, second or last; got the shape {array.shape}.")
    return ArrayImages(torch.from_numpy(np.ascontiguousarray(array)))


def _labels(array: NDArray[Any], name: str) -> Tensor:
    if array.dtype.kind not in "iu":
        raise DataError(
            f"{name}: labels must be whole numbers, from 0 on; got {array.dtype}. Of names numpy makes such numbers: "
            "class_names, labels = np.unique(names, return_inverse=True)."
        )
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{name}: labels must have the shape (N,); got {array.shape}. Of one-hot rows take argmax(1).")
    return torch.from_numpy(array.astype(np.int64))


def _class_names(arrays: dict[str, NDArray[Any]], splits: dict[str, Split], path: Path) -> tuple[str, ...]:
    largest = max((int(split.labels.max()) for split in splits.values() if len(split)), default=-1)
    if "class_names" not in arrays:
        return numbered_classes(largest + 1, sum(map(len, splits.values())))
    names = arrays["class_names"]
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise DataError(f"{path}: class_names must be a list of texts; got {names.dtype} of shape {names.shape}.")
    if largest >= len(names):
        raise DataError(f"{path}: there are {len(names)} class_names, but a label {largest}; labels begin at 0.")
    return tuple(name.decode() if isinstance(name, bytes) else str(name) for name in names.tolist())
