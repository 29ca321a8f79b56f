"""CIFAR-10 and CIFAR-100: the official Python files, or the same as an npz."""

import io
import pickle
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from proco.data.array_images import ArrayImages
from proco.data.arrays import read_npz
from proco.data.dataset import Dataset, Split
from proco.data.decode import Progress
from proco.data.source import Source
from proco.errors import DataError

_IMAGE_SHAPE = (3, 32, 32)


@dataclass(frozen=True)
class _Layout:
    """How the official files of a set are called, and what they hold."""

    title: str
    folder: str
    train_files: tuple[str, ...]
    test_file: str
    meta_file: str
    labels_key: str
    names_key: str
    num_classes: int
    npz: str


@dataclass(frozen=True, kw_only=True)
class _Cifar(Source):
    path: Path
    """The folder that holds the official folder or the npz, or one of these itself."""
    download: bool = False
    """Get the official files into `path` first, where they are not there yet."""

    layout: ClassVar[_Layout]

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the official files or the npz lie in the folder."""
        return path.is_dir() and cls._find(path) is not None

    def read(self, progress: Progress | None = None) -> Dataset:
        """Read all images into memory."""
        place = self._find(self.path)
        if place is None and self.download:
            self._download()
            place = self._find(self.path)
        if place is None:
            raise DataError(
                f"no {self.layout.title} in {self.path}: looked for the folder {self.layout.folder} and the file "
                f"{self.layout.npz}. Set data.source.download=true, or unpack the Python version from "
                "https://www.cs.toronto.edu/~kriz/cifar.html there."
            )
        return self._read_npz(place) if place.is_file() else self._read_official(place)

    @classmethod
    def _find(cls, path: Path) -> Path | None:
        """Return the folder of the official files, or else the npz."""
        for folder in (path / cls.layout.folder, path):
            if (folder / cls.layout.meta_file).is_file() and (folder / cls.layout.test_file).is_file():
                return folder
        return next((file for file in (path / cls.layout.npz, path) if file.is_file()), None)

    def _read_official(self, folder: Path) -> Dataset:
        layout = self.layout
        names = _load_pickle(folder / layout.meta_file).get(layout.names_key)
        if not isinstance(names, list) or len(names) != layout.num_classes:
            raise DataError(f"{folder / layout.meta_file} does not hold the names of {layout.num_classes} classes.")
        parts = [_read_batch(folder / file, layout.labels_key) for file in layout.train_files]
        train = tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        test = _read_batch(folder / layout.test_file, layout.labels_key)
        splits = {
            name: Split(ArrayImages(torch.from_numpy(images)), torch.from_numpy(labels))
            for name, (images, labels) in {"train": train, "test": test}.items()
        }
        return Dataset(self.registry.name_of(type(self)), tuple(map(str, names)), splits)

    def _read_npz(self, path: Path) -> Dataset:
        dataset = read_npz(path)
        images = dataset.splits["train"].images
        shape = (images.channels, *(images.common_size or ()))
        if dataset.num_classes != self.layout.num_classes or shape != _IMAGE_SHAPE:
            raise DataError(
                f"{path} is not {self.layout.title}: got {dataset.num_classes} classes of images {shape}; expected "
                f"{self.layout.num_classes} of {_IMAGE_SHAPE}. Read it with the source arrays."
            )
        return replace(dataset, name=self.registry.name_of(type(self)))

    def _download(self) -> None:
        from torchvision import datasets  # type: ignore[import-untyped]
        from torchvision.datasets.utils import download_and_extract_archive  # type: ignore[import-untyped]

        kind = getattr(datasets, self.layout.title.replace("-", ""))
        try:
            download_and_extract_archive(kind.url, str(self.path), md5=kind.tgz_md5)
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"cannot download {self.layout.title} from {kind.url}: {error}. "
                f"Get it in another way and unpack it in {self.path}."
            ) from error


@Source.registry.register("cifar10")
@dataclass(frozen=True, kw_only=True)
class Cifar10(_Cifar):
    """CIFAR-10: 50,000 training and 10,000 test images of 10 classes."""

    looks_for: ClassVar[str] = "a folder with cifar-10-batches-py or cifar10.npz"
    layout: ClassVar[_Layout] = _Layout(
        title="CIFAR-10",
        folder="cifar-10-batches-py",
        train_files=tuple(f"data_batch_{number}" for number in range(1, 6)),
        test_file="test_batch",
        meta_file="batches.meta",
        labels_key="labels",
        names_key="label_names",
        num_classes=10,
        npz="cifar10.npz",
    )


@Source.registry.register("cifar100")
@dataclass(frozen=True, kw_only=True)
class Cifar100(_Cifar):
    """CIFAR-100: 50,000 training and 10,000 test images of 100 classes."""

    looks_for: ClassVar[str] = "a folder with cifar-100-python or cifar100.npz"
    layout: ClassVar[_Layout] = _Layout(
        title="CIFAR-100",
        folder="cifar-100-python",
        train_files=("train",),
        test_file="test",
        meta_file="meta",
        labels_key="fine_labels",
        names_key="fine_label_names",
        num_classes=100,
        npz="cifar100.npz",
    )


class _ArrayUnpickler(pickle.Unpickler):
    """Reads lists, texts, numbers and NumPy arrays, and nothing else.

    The official files are pickles, and a pickle can run any code. torchvision trusts those that have the official md5;
    this trusts none, and so reads parts of the set and copies that were saved again as well.
    """

    permitted: ClassVar[dict[str, Any]] = {
        "numpy.ndarray": np.ndarray,
        "numpy.dtype": np.dtype,
        "numpy.core.multiarray._reconstruct": np.empty(0).__reduce__()[0],  # its place when the files were made
        "numpy._core.multiarray._reconstruct": np.empty(0).__reduce__()[0],  # its place today
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return what the file asks for, if it is permitted."""
        if f"{module}.{name}" not in self.permitted:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which images and labels do not need")
        return self.permitted[f"{module}.{name}"]


def _load_pickle(path: Path) -> dict[str, Any]:
    try:
        content = _ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from error
    except Exception as error:  # a damaged pickle raises almost anything
        raise DataError(f"{path} is damaged or not an official file: {error}. Get it again.") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} is not an official file: it holds a {type(content).__name__}, not a dictionary.")
    return content


def _read_batch(path: Path, labels_key: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images (N, 3, 32, 32) and labels (N,) of one official file."""
    content = _load_pickle(path)
    images, labels = content.get("data"), content.get(labels_key)
    width = int(np.prod(_IMAGE_SHAPE))
    is_right = isinstance(images, np.ndarray) and images.dtype == np.uint8 and images.shape[1:] == (width,)
    if not is_right or not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise DataError(f"{path} is not an official file: it lacks the rows of pixels or {labels_key}. Get it again.")
    assert isinstance(images, np.ndarray)
    return images.reshape(-1, *_IMAGE_SHAPE), np.array(labels, dtype=np.int64)
