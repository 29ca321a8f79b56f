"""Lists of image files, a line each: a path and the number of its class. ImageNet-LT is published so."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from proco.data.dataset import numbered_classes
from proco.data.file_source import FileSource, Listing, Sample
from proco.data.source import Source
from proco.errors import DataError


@Source.registry.register("lists")
@dataclass(frozen=True, kw_only=True)
class Lists(FileSource):
    """One list file for each split, with lines such as `animals/cat 7.jpg 17`."""

    root: Path
    """Where the paths in the lists begin."""
    train: Path
    """The list of the training images."""
    val: Path | None = None
    """That of the validation images."""
    test: Path | None = None
    """That of the test images."""

    def listing(self) -> Listing:
        """Read the lists."""
        lists = {"train": self.train, "val": self.val, "test": self.test}
        return _listing(self.train.stem, {split: path for split, path in lists.items() if path}, self.root)


@dataclass(frozen=True, kw_only=True)
class _PublishedLists(FileSource):
    path: Path
    """The folder of the images, where the paths in the lists begin."""
    lists: Path | None = None
    """The folder of the list files; by default that of the images."""

    list_files: ClassVar[dict[str, str]]
    """The name of each split's list."""
    num_classes: ClassVar[int]
    note: ClassVar[str] = ""

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the training list lies in the folder."""
        return (path / cls.list_files["train"]).is_file()

    def listing(self) -> Listing:
        """Read the lists."""
        folder = self.path if self.lists is None else self.lists
        lists = {split: folder / file for split, file in self.list_files.items()}
        listing = _listing(self.registry.name_of(type(self)), lists, self.path)
        if len(listing.class_names) != self.num_classes:
            raise DataError(
                f"{lists['train']} is not the published list: got {len(listing.class_names)} classes; expected "
                f"{self.num_classes}. Read lists of your own with the source lists."
            )
        return replace(listing, notes=(self.note,)) if self.note else listing


@Source.registry.register("imagenet_lt")
@dataclass(frozen=True, kw_only=True)
class ImageNetLt(_PublishedLists):
    """ImageNet-LT: 115,846 training images of 1000 classes, 20,000 for validation and 50,000 for the test."""

    looks_for: ClassVar[str] = "a folder with ImageNet_LT_train.txt"
    list_files: ClassVar[dict[str, str]] = {
        "train": "ImageNet_LT_train.txt",
        "val": "ImageNet_LT_val.txt",
        "test": "ImageNet_LT_test.txt",
    }
    num_classes: ClassVar[int] = 1000


@Source.registry.register("inaturalist2018")
@dataclass(frozen=True, kw_only=True)
class INaturalist2018(_PublishedLists):
    """iNaturalist 2018: 437,513 training images of 8142 species. The field tests on its 24,426 validation images."""

    looks_for: ClassVar[str] = "a folder with iNaturalist18_train.txt"
    list_files: ClassVar[dict[str, str]] = {"train": "iNaturalist18_train.txt", "test": "iNaturalist18_val.txt"}
    num_classes: ClassVar[int] = 8142
    note: ClassVar[str] = "iNaturalist 2018 has no test list: its validation images are the test split, as in the field"


def _listing(name: str, lists: dict[str, Path], root: Path) -> Listing:
    splits = {split: _read_list(path, root) for split, path in lists.items()}
    num_classes = 1 + max((sample.label for samples in splits.values() for sample in samples), default=-1)
    names = _folder_names(splits["train"], num_classes) or numbered_classes(num_classes, sum(map(len, splits.values())))
    return Listing(name, names, splits)


def _read_list(path: Path, root: Path) -> list[Sample]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise DataError(f"cannot read the list {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"the list {path} is not text in UTF-8.") from error
    samples = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        file, *label = line.rsplit(maxsplit=1)  # a path may hold spaces
        if not label or not label[0].isdecimal():
            raise DataError(f"{path}, line {number}: expected a path and the number of a class, from 0; got {line!r}.")
        samples.append(Sample(root / file.strip(), int(label[0]), f"{path.name}, line {number}"))
    return samples


def _folder_names(samples: list[Sample], num_classes: int) -> tuple[str, ...]:
    """Return the names of the folders, where each class has one of its own (n01440764), or else none."""
    folders = {(sample.label, sample.path.parent.name) for sample in samples}
    names = dict(folders)
    has_one_each = len(names) == len(set(names.values())) == len(folders) == num_classes
    return tuple(names[label] for label in range(num_classes)) if has_one_each else ()
