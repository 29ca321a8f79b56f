"""Tables of files: what is read, and the line that every error names."""

from collections.abc import Callable
from pathlib import Path

import pytest

from proco.data.file_images import FileImages
from proco.data.manifest import Manifest
from proco.errors import DataError

WriteImage = Callable[..., Path]


def table(folder: Path, text: str | bytes, name: str = "photos.csv") -> Manifest:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return Manifest(path=folder / name)


def test_columns_splits_and_class_order(tmp_path: Path) -> None:
    text = "label,split,path,comment\n10,train,a.png,x\n9,Train,b.png,\n10,valid,c.png,\n9,test,d.png,\n"
    listing = table(tmp_path, text).listing()
    assert listing.name == "photos"
    assert listing.class_names == ("9", "10")
    found = {split: [(sample.path, sample.label) for sample in samples] for split, samples in listing.splits.items()}
    assert found == {
        "train": [(tmp_path / "a.png", 1), (tmp_path / "b.png", 0)],
        "val": [(tmp_path / "c.png", 1)],
        "test": [(tmp_path / "d.png", 0)],
    }


@pytest.mark.parametrize(
    "content",
    [
        'path,label\n"a, 1.png","big ""cat"""\nb.png, dog\n\n',
        'Path;Label\r\n"a, 1.png";"big ""cat"""\r\nb.png;dog\r\n',
        'path\tlabel\na, 1.png\t"big ""cat"""\nb.png\tdog',
        '\ufeffpath,label\n"a, 1.png","big ""cat"""\nb.png,dog\n',
        '"path","label"\n"a, 1.png","big ""cat"""\n"b.png","dog"\n',
        'path,label\r"a, 1.png","big ""cat"""\rb.png,dog\r',
    ],
    ids=["comma", "semicolon", "tab", "byte order mark", "quoted", "old Macintosh"],
)
def test_dialects_say_the_same(content: str, tmp_path: Path) -> None:
    listing = table(tmp_path, content).listing()
    assert listing.class_names == ('big "cat"', "dog")
    assert [(sample.path.name, sample.label) for sample in listing.splits["train"]] == [("a, 1.png", 0), ("b.png", 1)]


def test_paths_begin_at_the_root(tmp_path: Path, write_image: WriteImage) -> None:
    write_image(tmp_path / "images" / "Größe 1.png")
    absolute = write_image(tmp_path / "elsewhere.png")
    source = table(tmp_path, f"path,label\nGröße 1.png,a\n{absolute},b\n")
    dataset = Manifest(path=source.path, root=tmp_path / "images").read()
    images = dataset.splits["train"].images
    assert isinstance(images, FileImages)
    assert images.paths == (tmp_path / "images" / "Größe 1.png", absolute)
    with pytest.raises(DataError, match=r"1 of 2 image files .*\(photos.csv, line 2: no such file or directory\)"):
        source.read()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected the names of columns, among them path and label; got ''"),
        ("file,label\na.png,1\n", "line 1: expected the names of columns.*got 'file,label'"),
        ("a.png,1\nb.png,2\n", "line 1: expected the names of columns"),
        ("path,label\na.png,1\nb.png\n", "line 3: got 1 fields; expected 2: path, label"),
        ("path,label\na.png,1\nb.png,2,3\n", "line 3: got 3 fields"),
        ("path,label\na.png,1\n,2\n", "line 3: the path is empty"),
        ("path,label\na.png,\n", "line 2: the label is empty"),
        ("path,label,split\na.png,1,train\nb.png,2,dev\n", "line 3: the split must be train, val or test; got 'dev'"),
        ("path,label,split\na.png,1,\n", "line 2: the split must be train, val or test; got ''"),
        ("path,label,Label\na.png,1,2\n", "line 1: the column label stands there twice"),
        ('path,label\na.png,1\n"b.png,2\n', "line 3: unexpected end of data"),
        ('path,label\n"a.png"x,1\n', "line 2: ',' expected after '\"'"),
        ("path,label\na.png,caf\u00e9\n".encode("latin1"), "line 2: the text is not UTF-8"),
    ],
)
def test_errors_name_the_file_and_the_line(text: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"photos.csv, {message}"):
        table(tmp_path, text).listing()


def test_table_without_training_rows(tmp_path: Path, write_image: WriteImage) -> None:
    write_image(tmp_path / "a.png")
    write_image(tmp_path / "b.png")
    dataset = table(tmp_path, "path,label,split\na.png,1,test\nb.png,2,test\n").read()
    with pytest.raises(DataError, match="no training images; its splits: test"):
        dataset.require_trainable()
    with pytest.raises(
        DataError, match=r"photos\.csv lists no images: there is nothing below the names of the columns"
    ):
        table(tmp_path, "path,label\n").read()
    with pytest.raises(DataError, match=r"cannot read .*missing.csv: No such file"):
        Manifest(path=tmp_path / "missing.csv").read()


def test_recognised_by_the_suffix(tmp_path: Path) -> None:
    assert Manifest.recognises(table(tmp_path, "x", "a.TSV").path)
    assert not Manifest.recognises(table(tmp_path, "x", "a.txt").path)
    assert not Manifest.recognises(tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("path,label\na.png,1\n\nb.png,2\na.png,2\n", 5),
        ("path,label\na.png,1\nb/../a.png,2\n", 3),
        ("path,label,split\na.png,1,train\na.png,1,test\n", 3),
    ],
)
def test_an_image_that_is_listed_twice_is_refused(text: str, line: int, tmp_path: Path) -> None:
    expected = rf"photos\.csv, line {line}: .*a.png is listed already \(photos\.csv, line 2\)"
    with pytest.raises(DataError, match=expected):
        table(tmp_path, text).read()


def test_two_columns_of_splits_are_refused(tmp_path: Path) -> None:
    (tmp_path / "photos.csv").write_text("path,label,split,split\na.png,cat,train,test\n")
    with pytest.raises(DataError, match="line 1: the column split stands there twice"):
        Manifest(path=tmp_path / "photos.csv").listing()
