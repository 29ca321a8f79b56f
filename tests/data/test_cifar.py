"""CIFAR: the official files and the npz give the same, and a pickle that calls something is refused."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from proco.data.array_images import ArrayImages
from proco.data.cifar import Cifar10, Cifar100
from proco.data.dataset import Dataset
from proco.errors import DataError

GENERATOR = np.random.default_rng(0)


def rows(number: int) -> np.ndarray:
    return GENERATOR.integers(0, 256, (number, 3072), dtype=np.uint8)


def pixels_of(dataset: Dataset, split: str) -> np.ndarray:
    images = dataset.splits[split].images
    assert isinstance(images, ArrayImages)
    return images.pixels.numpy()


def write_pickle(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol=4))


def write_cifar10(folder: Path) -> dict[str, np.ndarray]:
    """Small official files: two images a class in each of five batches, one in the test."""
    files = {f"data_batch_{number}": rows(20) for number in range(1, 6)} | {"test_batch": rows(10)}
    for name, data in files.items():
        write_pickle(folder / name, {"data": data, "labels": [number % 10 for number in range(len(data))]})
    write_pickle(folder / "batches.meta", {"label_names": list("abcdefghij")})
    return files


def test_real_official_files_and_npz_are_the_same(cifar100_folder: Path, tmp_path: Path) -> None:
    official = Cifar100(path=cifar100_folder).read()
    assert Cifar100.recognises(cifar100_folder)
    assert official.class_counts.tolist() == [500] * 100
    assert (official.name, official.class_names[0], official.class_names[99]) == ("cifar100", "apple", "worm")
    (tmp_path / "cifar100.npz").symlink_to(cifar100_folder / "cifar100.npz")
    from_npz = Cifar100(path=tmp_path).read()
    assert from_npz.class_names == official.class_names
    for split, size in {"train": 50_000, "test": 10_000}.items():
        assert pixels_of(official, split).shape == (size, 3, 32, 32)
        assert np.array_equal(pixels_of(official, split), pixels_of(from_npz, split))
        assert torch.equal(official.splits[split].labels, from_npz.splits[split].labels)
    torchvision_datasets = pytest.importorskip("torchvision.datasets")
    reference = torchvision_datasets.CIFAR100(cifar100_folder, train=False)
    assert np.array_equal(pixels_of(official, "test").transpose(0, 2, 3, 1), reference.data)
    assert official.splits["test"].labels.tolist() == reference.targets


@pytest.mark.parametrize("inside", [True, False])
def test_batches_are_joined_in_their_order(inside: bool, tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    files = write_cifar10(folder)
    path = folder if inside else tmp_path
    assert Cifar10.recognises(path)
    assert not Cifar100.recognises(path)
    dataset = Cifar10(path=path).read()
    expected = np.concatenate([files[f"data_batch_{number}"] for number in range(1, 6)])
    assert np.array_equal(pixels_of(dataset, "train").reshape(-1, 3072), expected)
    assert np.array_equal(pixels_of(dataset, "test").reshape(-1, 3072), files["test_batch"])
    assert dataset.class_counts.tolist() == [10] * 10
    assert dataset.class_names == tuple("abcdefghij")


def test_npz_of_something_else_is_refused(tmp_path: Path) -> None:
    images = rows(20).reshape(-1, 32, 32, 3)
    np.savez(tmp_path / "cifar10.npz", train_images=images, train_labels=np.arange(20) % 10)
    assert Cifar10(path=tmp_path / "cifar10.npz").read().num_classes == 10
    with pytest.raises(DataError, match="is not CIFAR-100: got 10 classes"):
        Cifar100(path=tmp_path / "cifar10.npz").read()
    np.savez(tmp_path / "cifar10.npz", train_images=images[:, :28, :28], train_labels=np.arange(20) % 10)
    with pytest.raises(DataError, match=r"images \(3, 28, 28\); expected 10 of \(3, 32, 32\)"):
        Cifar10(path=tmp_path).read()


def test_what_was_looked_for_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no CIFAR-100 in .*cifar-100-python and the file cifar100.npz. Set data"):
        Cifar100(path=tmp_path).read()


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_pickle_that_calls_something_is_refused(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    write_pickle(tmp_path / "data_batch_3", {"data": Malicious(tmp_path / "called"), "labels": []})
    with pytest.raises(DataError, match=r"data_batch_3 is damaged or not an official file: it asks for posix.mkdir"):
        Cifar10(path=tmp_path).read()
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (["list"], "it holds a list, not a dictionary"),
        ({"labels": [0] * 20}, "lacks the rows of pixels"),
        ({"data": rows(20)}, "lacks the rows of pixels or labels"),
        ({"data": rows(20)[:, :100], "labels": [0] * 20}, "lacks the rows of pixels"),
        ({"data": rows(20), "labels": ["a"] * 20}, "lacks the rows of pixels or labels"),
        ({"data": rows(20), "labels": [0] * 19}, "one label per image"),
    ],
)
def test_files_that_lack_something_are_refused(content: Any, message: str, tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    write_pickle(tmp_path / "test_batch", content)
    with pytest.raises(DataError, match=message):
        Cifar10(path=tmp_path).read()


def test_damaged_and_missing_files_are_refused(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    whole = (tmp_path / "data_batch_2").read_bytes()
    (tmp_path / "data_batch_2").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"data_batch_2 is damaged .* Get it again."):
        Cifar10(path=tmp_path).read()
    (tmp_path / "data_batch_2").unlink()
    with pytest.raises(DataError, match=r"cannot read .*data_batch_2: No such file"):
        Cifar10(path=tmp_path).read()
    write_pickle(tmp_path / "batches.meta", {"label_names": ["one"]})
    with pytest.raises(DataError, match="does not hold the names of 10 classes"):
        Cifar10(path=tmp_path).read()


def test_failed_download_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.datasets import utils

    def no_network(*arguments: Any, **settings: Any) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr(utils, "download_and_extract_archive", no_network)
    with pytest.raises(DataError, match=r"cannot download CIFAR-10 from https://.*: Name or service not known. Get it"):
        Cifar10(path=tmp_path, download=True).read()


def test_download_is_read_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.datasets import utils

    calls = []

    def from_afar(url: str, root: str, md5: str) -> None:
        calls.append((url.rpartition("/")[2], md5))
        write_cifar10(Path(root) / "cifar-10-batches-py")

    monkeypatch.setattr(utils, "download_and_extract_archive", from_afar)
    for _ in range(2):
        assert Cifar10(path=tmp_path / "new", download=True).read().num_classes == 10
    assert calls == [("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a")]
