"""Lists of files: the published formats, in small."""

from collections.abc import Callable
from pathlib import Path

import pytest

from proco.data.dataset import Dataset
from proco.data.file_images import FileImages
from proco.data.lists import ImageNetLt, INaturalist2018, Lists
from proco.errors import DataError

WriteImage = Callable[..., Path]


def paths_of(dataset: Dataset, split: str) -> tuple[Path, ...]:
    images = dataset.splits[split].images
    assert isinstance(images, FileImages)
    return images.paths


def test_lists_of_ones_own(tmp_path: Path, write_image: WriteImage) -> None:
    for name in ("a/x 1.png", "a/y.png", "b/z.png"):
        write_image(tmp_path / "images" / name)
    (tmp_path / "train.txt").write_text("a/x 1.png 0\n\nb/z.png\t1\n")
    (tmp_path / "test.txt").write_text("\ufeffa/y.png 0\r\n")
    dataset = Lists(root=tmp_path / "images", train=tmp_path / "train.txt", test=tmp_path / "test.txt").read()
    assert dataset.class_names == ("a", "b")
    assert paths_of(dataset, "train") == (tmp_path / "images/a/x 1.png", tmp_path / "images/b/z.png")
    assert paths_of(dataset, "test") == (tmp_path / "images/a/y.png",)
    assert dataset.splits["train"].labels.tolist() == [0, 1]
    assert set(dataset.splits) == {"train", "test"}


@pytest.mark.parametrize("text", ["a/1.png 0\nb/2.png 0\nc/3.png 1\n", "a/1.png 0\na/2.png 1\n"])
def test_classes_without_folders_of_their_own_have_numbers(text: str, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(text)
    assert Lists(root=tmp_path, train=tmp_path / "train.txt").listing().class_names == ("0", "1")


def test_errors_name_the_line(tmp_path: Path) -> None:
    source = Lists(root=tmp_path, train=tmp_path / "train.txt")
    for line in ("a.png", "a.png x", "a.png -1", "a.png 1.5", "17"):
        source.train.write_text(f"b.png 0\n{line}\n")
        with pytest.raises(DataError, match=r"train.txt, line 2: expected a path and the number of a class"):
            source.read()
    source.train.write_text("b.png 0\nc.png 1\n")
    with pytest.raises(DataError, match=r"2 of 2 image files .*c.png \(train.txt, line 2: no such file"):
        source.read()
    source.train.unlink()
    with pytest.raises(DataError, match=r"cannot read the list .*train.txt: No such file"):
        source.read()
    source.train.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not text in UTF-8"):
        source.read()


def test_an_image_of_two_lists_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("b.png 0\nc.png 1\n")
    (tmp_path / "test.txt").write_text("d/../c.png 1\n")
    source = Lists(root=tmp_path, train=tmp_path / "train.txt", test=tmp_path / "test.txt")
    with pytest.raises(DataError, match=r"test\.txt, line 1: .*c\.png is listed already \(train\.txt, line 2\)"):
        source.read()


def write_lists(folder: Path, names: tuple[str, ...], num_classes: int, pattern: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        lines = [f"{pattern.format(split=name, label=label)} {label}\n" for label in range(num_classes)]
        (folder / name).write_text("".join(lines))


def test_imagenet_lt(tmp_path: Path) -> None:
    names = ("ImageNet_LT_train.txt", "ImageNet_LT_val.txt", "ImageNet_LT_test.txt")
    write_lists(tmp_path / "lists", names, 1000, "{split}/n{label:08}/x.JPEG")
    assert ImageNetLt.recognises(tmp_path / "lists")
    assert not INaturalist2018.recognises(tmp_path / "lists")
    listing = ImageNetLt(path=tmp_path / "ImageNet", lists=tmp_path / "lists").listing()
    assert listing.name == "imagenet_lt"
    assert listing.class_names[:2] == ("n00000000", "n00000001")
    assert {split: samples[7].path for split, samples in listing.splits.items()} == {
        split: tmp_path / "ImageNet" / f"ImageNet_LT_{split}.txt" / "n00000007" / "x.JPEG"
        for split in ("train", "val", "test")
    }
    assert listing.notes == ()
    with pytest.raises(DataError, match="none of 16 image files that were tried can be read"):
        ImageNetLt(path=tmp_path, lists=tmp_path / "lists", on_bad_image="trust").read()


def test_inaturalist_tests_on_its_validation_images(tmp_path: Path) -> None:
    names = ("iNaturalist18_train.txt", "iNaturalist18_val.txt")
    write_lists(tmp_path, names, 8142, "train_val2018/Plantae/{label}/x.jpg")
    listing = INaturalist2018(path=tmp_path).listing()
    assert set(listing.splits) == {"train", "test"}
    assert listing.splits["test"][0].origin == "iNaturalist18_val.txt, line 1"
    assert listing.class_names[8141] == "8141"
    assert "no test list" in listing.notes[0]


def test_other_lists_under_a_published_name_are_refused(tmp_path: Path) -> None:
    names = ("ImageNet_LT_train.txt", "ImageNet_LT_val.txt", "ImageNet_LT_test.txt")
    write_lists(tmp_path, names, 100, "{label}/x.JPEG")
    with pytest.raises(DataError, match="is not the published list: got 100 classes; expected 1000"):
        ImageNetLt(path=tmp_path).listing()


def test_there_may_be_three_lists_and_spaces_around_what_they_say(tmp_path: Path) -> None:
    for name in ("train", "val", "test"):
        (tmp_path / f"{name}.txt").write_text(f"  a/{name}.png  \t 0\nb/{name}.png 1\n")
    lists = Lists(root=tmp_path, **{name: tmp_path / f"{name}.txt" for name in ("train", "val", "test")})
    found = {split: [sample.path for sample in samples] for split, samples in lists.listing().splits.items()}
    assert found == {
        name: [tmp_path / "a" / f"{name}.png", tmp_path / "b" / f"{name}.png"] for name in ("train", "val", "test")
    }


def test_classes_are_those_of_all_lists(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a/1.png 0\n")
    (tmp_path / "test.txt").write_text("b/1.png 2\n")
    listing = Lists(root=tmp_path, train=tmp_path / "train.txt", test=tmp_path / "test.txt").listing()
    assert listing.class_names == ("0", "1", "2")


def test_labels_that_are_no_class_numbers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a/1.png 0\nb/1.png 30000000\n")
    with pytest.raises(DataError, match=r"labels go up to 30000000, but there are 2 images.*numbers of classes"):
        Lists(root=tmp_path, train=tmp_path / "train.txt").listing()
