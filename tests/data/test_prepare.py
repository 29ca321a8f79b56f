"""From settings to the data of a run, on the bundled set and a small file."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from proco.augment.window import CentreWindow
from proco.data import file_source
from proco.data.array_images import ArrayImages
from proco.data.arrays import Arrays
from proco.data.dataset import validate_on_left_out
from proco.data.folder import Folder
from proco.data.images import Cut
from proco.data.long_tail import keep_counts
from proco.data.prepare import DataConfig, SharedData, prepare
from proco.errors import ConfigError, DataError


@pytest.fixture
def balanced(tmp_path: Path) -> Arrays:
    labels = np.repeat(np.arange(3), 40)
    np.savez(tmp_path / "balanced.npz", images=np.zeros((120, 4, 4), np.uint8), labels=labels)
    return Arrays(path=tmp_path / "balanced.npz")


def test_profile_makes_a_tail_and_then_a_tenth_is_held_out(balanced: Arrays) -> None:
    dataset = prepare(DataConfig(source=balanced, profile="exponential", imbalance=4))
    assert dataset.class_counts.tolist() == [36, 18, 9]  # of 40, 20, 10
    assert len(dataset.splits["val"]) == 7
    assert any("imbalance 4" in note for note in dataset.notes)
    assert any("held out" in note for note in dataset.notes)


def test_nothing_is_held_out_where_there_is_a_test_split_unless_asked_for() -> None:
    assert set(prepare(DataConfig()).splits) == {"train", "test"}
    assert len(prepare(DataConfig(validation=0.2)).splits["val"]) == 200 + 120 + 72 + 43 + 26 + 15 + 9 + 5 + 3 + 2


def test_the_seed_of_the_subset_changes_it(balanced: Arrays) -> None:
    notes = {prepare(DataConfig(source=balanced, profile="step", imbalance=4, subset_seed=s)).notes[0] for s in (0, 1)}
    assert len(notes) == 2


def test_settings_without_effect_are_refused(balanced: Arrays, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.imbalance=50 needs a data\.profile"):
        DataConfig(imbalance=50)
    images, labels = np.zeros((8, 4, 4), np.uint8), np.arange(8) % 2
    np.savez(tmp_path / "val.npz", train_images=images, train_labels=labels, val_images=images, val_labels=labels)
    with pytest.raises(ConfigError, match="has a validation split"):
        prepare(DataConfig(source=Arrays(path=tmp_path / "val.npz"), validation=0.1))


def test_left_out_images_validate_and_the_test_is_out_of_sight(tmp_path: Path) -> None:
    labels = np.repeat(np.arange(3), 40)
    images = np.arange(120, dtype=np.uint8)[:, None, None].repeat(4, 1).repeat(4, 2)
    arrays = {"train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels}
    np.savez(tmp_path / "both.npz", **arrays)
    source = Arrays(path=tmp_path / "both.npz")
    plain = prepare(DataConfig(source=source, profile="exponential", imbalance=4))
    dataset = prepare(DataConfig(source=source, profile="exponential", imbalance=4, left_out=25))
    assert set(dataset.splits) == {"train", "val"}
    pixels = {name: dataset.splits[name].images.pixels[:, 0, 0, 0].tolist() for name in ("train", "val")}  # type: ignore[attr-defined]
    assert pixels["train"] == plain.splits["train"].images.pixels[:, 0, 0, 0].tolist()  # type: ignore[attr-defined]
    assert not set(pixels["train"]) & set(pixels["val"])
    assert dataset.splits["val"].labels.bincount(minlength=3).tolist() == [0, 20, 25]  # of 40, 20, 10 that are kept
    assert all(labels[image] == label for image, label in zip(pixels["val"], dataset.splits["val"].labels, strict=True))
    assert any("left out" in note for note in dataset.notes)


@pytest.mark.parametrize(
    "wrong",
    [{"left_out": 5}, {"left_out": -1, "profile": "step"}, {"left_out": 5, "profile": "step", "validation": 0.1}],
)
def test_left_out_needs_a_profile(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"data\.left_out"):
        DataConfig(**wrong)  # type: ignore[arg-type]


def test_shared_data_is_read_once(balanced: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    original = Arrays.read
    monkeypatch.setattr(Arrays, "read", lambda source, progress=None: read.append(1) or original(source, progress))
    first, second, third = (DataConfig(source=balanced, profile="exponential", imbalance=n) for n in (10, 5, 2))
    data = SharedData()
    assert data.prepare(first) is data.prepare(replace(first))
    assert data.prepare(second) is not data.prepare(first)
    assert len(read) == 2
    data.prepare(third)  # for which the second is given up, which was used longer ago
    assert len(read) == 3
    data.prepare(first)
    assert len(read) == 3
    data.prepare(second)
    assert len(read) == 4


def test_files_are_checked_once_and_have_a_record_for_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int] = []
    find = file_source.find_bad_images
    monkeypatch.setattr(file_source, "find_bad_images", lambda *given: (checked.append(1), find(*given))[1])
    for name in ("cat", "dog"):
        for number in range(3):
            path = tmp_path / name / f"{number}.png"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(path)
    data, config = SharedData(), DataConfig(source=Folder(path=tmp_path), validation=0.5)
    first, second = (data.prepare(config) for _ in range(2))
    assert len(checked) == 1
    assert first.hash == second.hash
    for path in tmp_path.glob("*/*.png"):
        path.write_bytes(b"")
    images = first.splits["train"].images
    cut = Cut(CentreWindow(), torch.empty(len(images), 0))
    images.cut(torch.arange(len(images)), [cut], (8, 8), torch.device("cpu"))
    assert images.warnings
    assert not second.splits["train"].images.warnings


def test_a_profile_of_uneven_data_names_the_classes_that_are_too_small(tmp_path: Path) -> None:
    labels = np.repeat([0, 1, 2], [30, 5, 4])
    names = np.array(["cats", "dogs", "eels"])
    np.savez(tmp_path / "uneven.npz", images=np.zeros((39, 2, 2), np.uint8), labels=labels, class_names=names)
    config = DataConfig(source=Arrays(path=tmp_path / "uneven.npz"), profile="exponential", imbalance=5)
    with pytest.raises(ConfigError, match="is uneven already: 'dogs', 'eels' would have to have more images"):
        prepare(config)


def numbered(folder: Path, each: int) -> Arrays:
    """Images of three classes that hold their own position."""
    pixels = np.arange(3 * each, dtype=np.uint8)[:, None, None] + np.zeros((1, 2, 2), np.uint8)
    np.savez(folder / "numbered.npz", images=pixels, labels=np.tile(np.arange(3), each))
    return Arrays(path=folder / "numbered.npz")


def validated_on(config: DataConfig) -> list[int]:
    images = prepare(config).splits["val"].images
    assert isinstance(images, ArrayImages)
    return images.pixels[:, 0, 0, 0].tolist()


def test_imbalance_is_100_where_only_a_profile_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "many.npz", images=np.zeros((600, 2, 2), np.uint8), labels=np.tile(np.arange(3), 200))
    config = DataConfig(source=Arrays(path=tmp_path / "many.npz"), profile="exponential", validation=0)
    assert prepare(config).class_counts.tolist() == [200, 20, 2]


def test_the_seed_of_the_subset_is_that_of_what_is_held_out(tmp_path: Path) -> None:
    source = numbered(tmp_path, 40)
    first, second = (validated_on(DataConfig(source=source, subset_seed=seed)) for seed in (0, 1))
    assert first != second


def test_the_seed_of_the_subset_is_that_of_the_left_out(tmp_path: Path) -> None:
    source = numbered(tmp_path, 40)
    dataset = source.read()
    kept = keep_counts(dataset.splits["train"].labels.numpy(), (40, 10, 10), "kept", seed=3)
    first, second = (validate_on_left_out(dataset, kept, 5, seed=seed).splits["val"].images for seed in (3, 0))
    assert isinstance(first, ArrayImages)
    assert isinstance(second, ArrayImages)
    config = DataConfig(source=source, profile="step", imbalance=4, left_out=5, subset_seed=3)
    assert validated_on(config) == first.pixels[:, 0, 0, 0].tolist()
    assert validated_on(config) != second.pixels[:, 0, 0, 0].tolist()


def test_nothing_is_held_out_where_nothing_is_asked_for(tmp_path: Path) -> None:
    assert set(prepare(DataConfig(source=numbered(tmp_path, 40), validation=0.0)).splits) == {"train"}


def test_a_profile_that_leaves_nothing_out_cannot_be_validated_on_it(tmp_path: Path) -> None:
    config = DataConfig(source=numbered(tmp_path, 10), profile="step", imbalance=1, left_out=5)
    with pytest.raises(DataError, match="leaves no image out to validate on"):
        prepare(config)


@pytest.mark.parametrize(
    "wrong",
    [
        {"validation": 1.0},
        {"validation": -0.1},
        {"centre": 0.0},
        {"centre": 1.1},
        {"size": 0},
        {"std": (0.5, 0.0, 0.5)},
    ],
    ids=str,
)
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"data\.{next(iter(wrong))} "):
        DataConfig(**wrong)


def test_what_cannot_be_trained_on_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", images=np.zeros((4, 2, 2), np.uint8), labels=np.zeros(4, int))
    with pytest.raises(DataError, match="at least 2 classes"):
        prepare(DataConfig(source=Arrays(path=tmp_path / "one.npz")))
