"""CUB-200-2011's own layout, on a few generated birds."""

from pathlib import Path

import pytest
import torch
from torchvision.io import write_jpeg

from proco.data.cub import Cub200
from proco.data.source import source_of
from proco.errors import DataError


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    files = ["001.Albatross/a.jpg", "001.Albatross/b.jpg", "002.Wren/c.jpg", "002.Wren/d.jpg"]
    for file in files:
        (tmp_path / "images" / file).parent.mkdir(parents=True, exist_ok=True)
        write_jpeg(torch.randint(0, 256, (3, 10, 12), dtype=torch.uint8), str(tmp_path / "images" / file))
    (tmp_path / "images.txt").write_text("".join(f"{i} {file}\n" for i, file in enumerate(files, 1)))
    (tmp_path / "image_class_labels.txt").write_text("1 1\n2 1\n3 2\n4 2\n")
    (tmp_path / "train_test_split.txt").write_text("1 1\n2 0\n3 1\n4 0\n")
    (tmp_path / "classes.txt").write_text("1 001.Albatross\n2 002.Wren\n")
    return tmp_path


def test_lists_are_joined(birds: Path) -> None:
    assert source_of(birds) == Cub200(path=birds)
    dataset = Cub200(path=birds).read()
    assert dataset.class_names == ("001.Albatross", "002.Wren")
    assert dataset.splits["train"].labels.tolist() == [0, 1]
    assert [path.name for path in dataset.splits["test"].images.paths] == ["b.jpg", "d.jpg"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("image_class_labels.txt", "1 1\n", "name unlike images"),
        ("image_class_labels.txt", "1 1\n2 1\n3 9\n4 2\n", "image 3 is of class 9, which classes.txt does not list"),
        ("classes.txt", "one Albatross\n", r"classes\.txt, line 1: expected a number and text; got 'one Albatross'"),
    ],
)
def test_lists_that_do_not_fit_are_explained(birds: Path, file: str, text: str, message: str) -> None:
    (birds / file).write_text(text)
    with pytest.raises(DataError, match=message):
        Cub200(path=birds).read()


def test_missing_list_is_named(birds: Path) -> None:
    (birds / "classes.txt").unlink()
    with pytest.raises(DataError, match=r"cannot read .*classes\.txt: No such file"):
        Cub200(path=birds).read()


def test_classes_are_numbered_by_their_place_in_the_list(birds: Path) -> None:
    """A part of the set has other numbers than 1 ... K, and lines may end in spaces or a carriage return."""
    (birds / "classes.txt").write_bytes(b"17 017.Cardinal \r\n3 003.Albatross\r\n")
    (birds / "image_class_labels.txt").write_text("1 3\n2 3\n3 17\n4 17\n")
    listing = Cub200(path=birds).listing()
    assert listing.class_names == ("017.Cardinal", "003.Albatross")
    assert [sample.label for sample in listing.splits["train"]] == [1, 0]
    assert [sample.label for sample in listing.splits["test"]] == [1, 0]
