"""Folders: which files become which class of which split, and what is said about the others."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from proco.data.dataset import Dataset
from proco.data.file_images import FileImages
from proco.data.folder import IMAGE_SUFFIXES, Folder
from proco.errors import DataError

WriteImage = Callable[..., Path]


def contents(dataset: Dataset, split: str = "train") -> list[tuple[str, str]]:
    """The class and the name of each file."""
    part = dataset.splits[split]
    assert isinstance(part.images, FileImages)
    names = [dataset.class_names[label] for label in part.labels.tolist()]
    return [(name, path.name) for name, path in zip(names, part.images.paths, strict=True)]


def test_class_folders_in_natural_order(tmp_path: Path, write_image: WriteImage) -> None:
    for name in ("type 10", "type 2", "Type 1"):
        write_image(tmp_path / "flower photos" / name / "a.png")
    write_image(tmp_path / "flower photos" / "type 2" / "deep" / "er" / "b.JPG")
    dataset = Folder(path=tmp_path / "flower photos").read()
    assert dataset.name == "flower photos"
    assert dataset.class_names == ("Type 1", "type 2", "type 10")
    assert contents(dataset) == [("Type 1", "a.png"), ("type 2", "a.png"), ("type 2", "b.JPG"), ("type 10", "a.png")]


@pytest.mark.parametrize(
    "words", [("train", "val", "test"), ("Training", "valid", "testing"), ("train", "Validation", "test")], ids=str
)
def test_split_folders(words: tuple[str, ...], tmp_path: Path, write_image: WriteImage) -> None:
    for split, number in zip(words, (3, 2, 1), strict=True):
        for name in ("a", "b"):
            for image in range(number):
                write_image(tmp_path / split / name / f"{image}.png")
    (tmp_path / "docs").mkdir()
    dataset = Folder(path=tmp_path).read()
    assert {name: len(split) for name, split in dataset.splits.items()} == {"train": 6, "val": 4, "test": 2}
    assert contents(dataset, "val") == [("a", "0.png"), ("a", "1.png"), ("b", "0.png"), ("b", "1.png")]
    assert dataset.notes == ("ignored folders beside those of the splits (1): 'docs'",)


def test_an_empty_folder_of_a_split_is_noted_as_one(tmp_path: Path, write_image: WriteImage) -> None:
    for place in ("train/a", "train/b", "test/a"):
        write_image(tmp_path / place / "x.png")
    (tmp_path / "val").mkdir()
    dataset = Folder(path=tmp_path).read()
    assert set(dataset.splits) == {"train", "test"}
    assert dataset.notes == ("ignored folders of splits without a class folder (1): 'val'",)


def test_class_missing_from_a_split_keeps_its_label(tmp_path: Path, write_image: WriteImage) -> None:
    for place in ("train/a", "train/b", "train/c", "test/c"):
        write_image(tmp_path / place / "x.png")
    assert contents(Folder(path=tmp_path).read(), "test") == [("c", "x.png")]


def test_class_without_training_images_is_named(tmp_path: Path, write_image: WriteImage) -> None:
    for place in ("train/a", "train/b", "val/new"):
        write_image(tmp_path / place / "x.png")
    with pytest.raises(DataError, match=r"'new' \(1 of 3 classes\) have none"):
        Folder(path=tmp_path).read().require_trainable()


def test_what_is_ignored_is_counted_and_named(tmp_path: Path, write_image: WriteImage) -> None:
    for name in ("a", "b"):
        write_image(tmp_path / name / "x.png")
    write_image(tmp_path / "loose.png")
    write_image(tmp_path / ".hidden" / "x.png")
    write_image(tmp_path / "a" / "._x.png")
    write_image(tmp_path / "a" / ".cache" / "y.png")
    (tmp_path / "a" / "notes.txt").touch()
    (tmp_path / "README.md").touch()
    (tmp_path / "empty").mkdir()
    dataset = Folder(path=tmp_path).read()
    assert contents(dataset) == [("a", "x.png"), ("b", "x.png")]
    assert dataset.notes == (
        "ignored folders without an image (1): 'empty'",
        "ignored files that are no images (2): 'README.md', 'notes.txt'",
        "ignored images in no class folder (1): 'loose.png'",
    )


def test_images_of_formats_that_are_not_read_are_to_be_converted(tmp_path: Path, write_image: WriteImage) -> None:
    write_image(tmp_path / "a" / "1.png")
    write_image(tmp_path / "b" / "1.png")
    for name in ("2.HEIC", "3.dng"):
        (tmp_path / "a" / name).write_bytes(b"photo")
    (tmp_path / "a" / "notes.txt").write_text("")
    notes = Folder(path=tmp_path).listing().notes
    assert notes == (
        "ignored images, of a format that is not read: convert them to JPEG or PNG (2): '2.HEIC', '3.dng'",
        "ignored files that are no images (1): 'notes.txt'",
    )
    for image in tmp_path.rglob("*.png"):
        image.unlink()
    assert Folder.near_miss(tmp_path) == "Its images (2) are of a format that is not read: convert them to JPEG or PNG."


def test_class_named_like_a_split_is_a_class(tmp_path: Path, write_image: WriteImage) -> None:
    for name in ("train", "bus"):
        write_image(tmp_path / name / "x.png")
    assert Folder(path=tmp_path).read().class_names == ("bus", "train")


def test_unicode_spaces_and_links(tmp_path: Path, write_image: WriteImage) -> None:
    write_image(tmp_path / "elsewhere" / "été 🌞.png")
    write_image(tmp_path / "data" / "Bäume und Sträucher" / "写真 1.png")
    (tmp_path / "data" / "linked").symlink_to(tmp_path / "elsewhere")
    dataset = Folder(path=tmp_path / "data").read()
    assert contents(dataset) == [("Bäume und Sträucher", "写真 1.png"), ("linked", "été 🌞.png")]


def test_letters_with_accents_are_the_same_in_one_piece_and_in_two(tmp_path: Path, write_image: WriteImage) -> None:
    """Some systems write them so, some so, and copies keep it."""
    one, two = "k\u00e4fer", "ka\u0308fer"
    write_image(tmp_path / "train" / one / "1.png")
    write_image(tmp_path / "train" / "b" / "2.png")
    write_image(tmp_path / "test" / two / "3.png")
    dataset = Folder(path=tmp_path).read()
    assert dataset.class_names == ("b", one)
    assert contents(dataset, "test") == [(one, "3.png")]


def test_impossible_folders_are_explained(tmp_path: Path, write_image: WriteImage) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        Folder(path=tmp_path / "missing").read()
    with pytest.raises(DataError, match="no class folders with images"):
        Folder(path=tmp_path).read()
    write_image(tmp_path / "val" / "a" / "x.png")
    with pytest.raises(DataError, match="no training images; its splits: val"):
        Folder(path=tmp_path).read().require_trainable()
    write_image(tmp_path / "train" / "a" / "x.png")
    with pytest.raises(DataError, match="at least 2 classes"):
        Folder(path=tmp_path).read().require_trainable()
    write_image(tmp_path / "valid" / "a" / "x.png")
    with pytest.raises(DataError, match="more than one folder for the split val"):
        Folder(path=tmp_path).read()


@pytest.mark.skipif(os.geteuid() == 0, reason="who is root may read everything")
def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path, write_image: WriteImage) -> None:
    write_image(tmp_path / "a" / "1.png")
    write_image(tmp_path / "b" / "more" / "1.png")
    (tmp_path / "b" / "more").chmod(0)
    try:
        with pytest.raises(DataError, match=r"more cannot be read \(Permission denied\)"):
            Folder(path=tmp_path).listing()
    finally:
        (tmp_path / "b" / "more").chmod(0o755)


def test_a_folder_that_cannot_be_read_is_named(
    tmp_path: Path, write_image: WriteImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drive that fails in the middle, say."""
    write_image(tmp_path / "a" / "1.png")
    write_image(tmp_path / "b" / "more" / "1.png")
    scandir = os.scandir

    def fail(path: str) -> Any:
        if str(path).endswith("more"):
            raise OSError(errno.EIO, "Input/output error", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", fail)
    with pytest.raises(DataError, match=r"more cannot be read \(Input/output error\)"):
        Folder(path=tmp_path).listing()


def test_recognised_are_folders_with_images_in_folders(tmp_path: Path, write_image: WriteImage) -> None:
    assert not Folder.recognises(write_image(tmp_path / "loose.png"))
    assert not Folder.recognises(tmp_path)
    (tmp_path / "train" / "a").mkdir(parents=True)
    assert not Folder.recognises(tmp_path)
    write_image(tmp_path / "train" / "a" / "x.png")
    assert Folder.recognises(tmp_path)
    assert Folder.recognises(tmp_path / "train")


def test_images_are_in_the_order_of_their_names(tmp_path: Path, write_image: WriteImage) -> None:
    """Whatever that of the file system: what a seed draws depends on it."""
    names = [f"{number:02}.png" for number in range(30)]
    for name in ("b", "a"):
        for position in torch.randperm(30, generator=torch.Generator().manual_seed(0)).tolist():
            write_image(tmp_path / name / names[position])
    assert contents(Folder(path=tmp_path).read()) == [(name, image) for name in ("a", "b") for image in names]


def test_linked_folders_inside_of_a_class_are_read(tmp_path: Path, write_image: WriteImage) -> None:
    write_image(tmp_path / "elsewhere" / "x.png")
    for name in ("a", "b"):
        write_image(tmp_path / "data" / name / "y.png")
    (tmp_path / "data" / "a" / "more").symlink_to(tmp_path / "elsewhere")
    assert contents(Folder(path=tmp_path / "data").read()) == [("a", "x.png"), ("a", "y.png"), ("b", "y.png")]


def test_links_in_a_circle_give_each_image_once(tmp_path: Path, write_image: WriteImage) -> None:
    for name in ("a", "b"):
        write_image(tmp_path / name / "deep" / "x.png")
    (tmp_path / "a" / "deep" / "again").symlink_to(tmp_path / "a")
    assert contents(Folder(path=tmp_path).read()) == [("a", "x.png"), ("b", "x.png")]


def test_an_empty_folder_named_like_a_split_is_ignored(tmp_path: Path, write_image: WriteImage) -> None:
    for name in ("a", "b"):
        write_image(tmp_path / name / "y.png")
    (tmp_path / "test").mkdir()
    dataset = Folder(path=tmp_path).read()
    assert dataset.class_names == ("a", "b")
    assert set(dataset.splits) == {"train"}
    assert dataset.notes == ("ignored folders without an image (1): 'test'",)


def test_these_files_are_images_by_their_names() -> None:
    """A suffix that is dropped would leave images out of a class, with no more than a note."""
    common = {".jpg", ".jpeg", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".avif"}
    assert common == IMAGE_SUFFIXES


def test_a_folder_named_by_a_dot_has_the_name_of_the_folder(
    tmp_path: Path, write_image: WriteImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        write_image(tmp_path / "flowers" / name / "x.png")
    monkeypatch.chdir(tmp_path / "flowers")
    assert Folder(path=Path(os.curdir)).read().name == "flowers"


def test_splits_come_in_their_order(tmp_path: Path, write_image: WriteImage) -> None:
    for split in ("valid", "testing", "train"):
        for name in ("a", "b"):
            write_image(tmp_path / split / name / "x.png")
    assert list(Folder(path=tmp_path).read().splits) == ["train", "val", "test"]


def test_hidden_files_are_passed_over_without_a_note(tmp_path: Path, write_image: WriteImage) -> None:
    for name in ("a", "b"):
        write_image(tmp_path / name / "x.png")
    (tmp_path / ".DS_Store").touch()
    (tmp_path / "a" / ".DS_Store").touch()
    assert Folder(path=tmp_path).read().notes == ()


def test_a_link_from_one_class_to_another_is_refused(tmp_path: Path, write_image: WriteImage) -> None:
    """Its images would have two labels."""
    write_image(tmp_path / "a" / "1.png")
    write_image(tmp_path / "b" / "2.png")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    with pytest.raises(DataError, match=r"b/2\.png is listed already \(.*a/up/b/2\.png\)"):
        Folder(path=tmp_path).read()
