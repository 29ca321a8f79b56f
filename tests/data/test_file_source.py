"""Bad files: refused, left out or trusted, whatever the source."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from PIL import Image

from proco.augment.window import CentreWindow
from proco.data.file_images import FileImages
from proco.data.file_source import natural_order
from proco.data.folder import Folder
from proco.data.images import Cut
from proco.data.manifest import Manifest
from proco.errors import DataError

WriteImage = Callable[..., Path]


@pytest.fixture
def photos(tmp_path: Path, write_image: WriteImage) -> Path:
    """Three classes of 20, 10 and 1 images, of which three are cut short, empty or text."""
    for name, count in {"ash": 20, "oak": 10, "yew": 1}.items():
        for number in range(count):
            write_image(tmp_path / name / f"{number:02}.jpg", (60, 40), number)
    whole = (tmp_path / "ash" / "07.jpg").read_bytes()
    (tmp_path / "ash" / "07.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "ash" / "08.jpg").write_text("not an image")
    (tmp_path / "oak" / "03.jpg").write_bytes(b"")
    return tmp_path


def test_refuse_names_the_bad_files_and_the_way_out(photos: Path) -> None:
    with pytest.raises(DataError, match="3 of 31 image files cannot be read") as error:
        Folder(path=photos).read()
    message = str(error.value)
    assert "07.jpg (not an image that can be decoded: image file is truncated" in message
    assert "03.jpg (the file is empty)" in message
    assert "on_bad_image=skip" in message
    assert "\n" not in message


def test_skip_leaves_the_bad_files_out_and_says_so(photos: Path) -> None:
    dataset = Folder(path=photos, on_bad_image="skip").read()
    assert dataset.class_counts.tolist() == [18, 9, 1]
    images = dataset.splits["train"].images
    assert isinstance(images, FileImages)
    assert {"07.jpg", "08.jpg"}.isdisjoint(path.name for path in images.paths if path.parent.name == "ash")
    assert [path.parent.name for path in images.paths] == ["ash"] * 18 + ["oak"] * 9 + ["yew"]
    (note,) = dataset.notes
    assert note.startswith("3 of 31 image files cannot be read and are left out: ")
    assert "ash/08.jpg (not an image" in note


def test_skip_of_a_whole_class_is_explained(photos: Path) -> None:
    (photos / "yew" / "00.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"'yew' \(1 of 3 classes\) have none.*Note: 4 of 31 image files cannot"):
        Folder(path=photos, on_bad_image="skip").read().require_trainable()


def test_trust_meets_bad_files_later_and_goes_on(photos: Path) -> None:
    dataset = Folder(path=photos, on_bad_image="trust").read()
    assert dataset.class_counts.tolist() == [20, 10, 1]
    assert dataset.notes == ()
    images = dataset.splits["train"].images
    whole = Cut(CentreWindow(), torch.empty(31, 0))
    (pixels,) = images.cut(torch.arange(31), [whole], (8, 8), torch.device("cpu"))
    assert [row for row in range(31) if (pixels[row] == 128).all()] == [7, 8, 23]
    (warning,) = images.warnings
    assert "3 of 31 image files could not be read" in warning


def test_trust_notices_a_wrong_folder(photos: Path) -> None:
    rows = "".join(f"{number}.jpg,{number % 2}\n" for number in range(100))
    (photos / "table.csv").write_text("path,label\n" + rows)
    with pytest.raises(
        DataError, match=r"none of 15 image files .*: .*/0\.jpg \(table\.csv, line 2: no such file.*Is the folder"
    ):
        Manifest(path=photos / "table.csv", on_bad_image="trust").read()


@pytest.mark.parametrize("choice", ["refuse", "skip", "trust"])
def test_good_files_are_read_alike(
    choice: Literal["refuse", "skip", "trust"], tmp_path: Path, write_image: WriteImage
) -> None:
    for number in range(6):
        write_image(tmp_path / "ab"[number % 2] / f"{number}.png")
    dataset = Folder(path=tmp_path, on_bad_image=choice).read()
    assert dataset.class_counts.tolist() == [3, 3]
    assert dataset.notes == ()


def test_progress_counts_the_files_of_all_splits(tmp_path: Path, write_image: WriteImage) -> None:
    for split in ("train", "test"):
        for name in ("a", "b"):
            write_image(tmp_path / split / name / "image.png")
    calls: list[tuple[int, int]] = []
    Folder(path=tmp_path).read(lambda done, total: calls.append((done, total)))
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(("levels", "is_noted"), [([600, 700, 800], True), ([600, 700, 60000, 61000], False)])
@pytest.mark.parametrize("on_bad_image", ["refuse", "trust"])
def test_twelve_bits_in_files_of_sixteen_are_noticed(
    levels: list[int], is_noted: bool, on_bad_image: Literal["refuse", "trust"], tmp_path: Path
) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        for number, level in enumerate(levels):
            Image.fromarray(np.full((6, 6), level, dtype=np.uint16)).save(tmp_path / name / f"{number}.tiff")
    notes = Folder(path=tmp_path, on_bad_image=on_bad_image).read().notes
    assert is_noted == any("6 of 6 that were looked at have no value above 31 of 255" in note for note in notes)
    assert is_noted == bool(notes)


def test_natural_order_is_total_and_counts() -> None:
    names = ["10", "9", "x2y10", "x2y9", "x", "X2", "é", "", "2x", "02x"]
    assert sorted(names, key=natural_order) == ["", "02x", "2x", "9", "10", "x", "X2", "x2y9", "x2y10", "é"]
