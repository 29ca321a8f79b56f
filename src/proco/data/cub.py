"""Caltech-UCSD Birds 200-2011 as it is published: images and four lists that refer to them by number."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from proco.data.file_source import FileSource, Listing, Sample
from proco.data.source import Source
from proco.errors import DataError


@Source.registry.register("cub200")
@dataclass(frozen=True, kw_only=True)
class Cub200(FileSource):
    """CUB-200-2011: 5,994 training and 5,794 test images of 200 kinds of birds."""

    path: Path
    """The folder CUB_200_2011, with images.txt in it."""

    looks_for: ClassVar[str] = "a folder with images.txt and train_test_split.txt"

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the lists lie in the folder."""
        return (path / "images.txt").is_file() and (path / "train_test_split.txt").is_file()

    def listing(self) -> Listing:
        """Join the lists."""
        files, labels = self._column("images.txt"), self._column("image_class_labels.txt")
        classes, is_train = self._column("classes.txt"), self._column("train_test_split.txt")
        if not files.keys() == labels.keys() == is_train.keys():
            raise DataError(
                f"{self.path}: images.txt, image_class_labels.txt and train_test_split.txt name unlike images."
            )
        positions = {number: position for position, number in enumerate(classes)}
        splits: dict[str, list[Sample]] = {"train": [], "test": []}
        for number, file in files.items():
            if labels[number] not in positions:
                raise DataError(
                    f"{self.path}: image {number} is of class {labels[number]}, which classes.txt does not list."
                )
            sample = Sample(self.path / "images" / file, positions[labels[number]], f"images.txt, image {number}")
            splits["train" if is_train[number] == "1" else "test"].append(sample)
        return Listing("CUB-200-2011", tuple(classes.values()), splits)

    def _column(self, name: str) -> dict[str, str]:
        """Read a list of lines such as `17 some text`: from number to text."""
        path = self.path / name
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}.") from error
        column = {}
        for number, line in enumerate(lines, start=1):
            key, _, value = line.partition(" ")
            if not key.isdecimal() or not value:
                raise DataError(f"{path}, line {number}: expected a number and text; got {line!r}.")
            column[key] = value.strip()
        return column
