"""From settings to the data of a run, on the bundled set and a small file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from proco.data.arrays import Arrays
from proco.data.folder import Folder
from proco.data.prepare import DataConfig, SharedData, prepare
from proco.errors import ConfigError


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


def test_files_are_read_for_each_run(tmp_path: Path) -> None:
    """They record which of them could not be read."""
    for name in ("cat", "dog"):
        for number in range(3):
            path = tmp_path / name / f"{number}.png"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(path)
    data, config = SharedData(), DataConfig(source=Folder(path=tmp_path), validation=0.5)
    assert data.prepare(config) is not data.prepare(config)


def test_a_profile_of_uneven_data_names_the_classes_that_are_too_small(tmp_path: Path) -> None:
    labels = np.repeat([0, 1, 2], [30, 5, 4])
    names = np.array(["cats", "dogs", "eels"])
    np.savez(tmp_path / "uneven.npz", images=np.zeros((39, 2, 2), np.uint8), labels=labels, class_names=names)
    config = DataConfig(source=Arrays(path=tmp_path / "uneven.npz"), profile="exponential", imbalance=5)
    with pytest.raises(ConfigError, match="is uneven already: 'dogs', 'eels' would have to have more images"):
        prepare(config)
