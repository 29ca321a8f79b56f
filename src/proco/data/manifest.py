"""A table of image files: CSV or TSV with the columns path and label, and split where there are several."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from proco.data.dataset import SPLIT_WORDS
from proco.data.file_source import FileSource, Listing, Sample, natural_order
from proco.data.source import Source
from proco.errors import DataError

_SUFFIXES = (".csv", ".tsv")
_DELIMITERS = (",", "\t", ";")


class _Row(NamedTuple):
    line: int
    path: str
    label: str
    split: str


@Source.registry.register("manifest")
@dataclass(frozen=True, kw_only=True)
class Manifest(FileSource):
    """A CSV or TSV file in UTF-8 whose first line names the columns `path`, `label` and, optionally, `split`.

    Labels are names of classes, sorted as people count: labels 0 ... K-1 keep their numbers. A split is train, val
    (valid, validation) or test; without the column all images are training images. A file is listed once.
    """

    path: Path
    """The table."""
    root: Path | None = None
    """Where relative paths begin; by default at the folder of the table."""

    looks_for: ClassVar[str] = "a CSV or TSV file with the columns path and label"

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the path is a file named so; what it holds is checked when it is read."""
        return path.is_file() and path.suffix.lower() in _SUFFIXES

    def listing(self) -> Listing:
        """Read the table."""
        rows = list(self._rows())
        if not rows:
            raise DataError(f"{self.path} lists no images: there is nothing below the names of the columns.")
        class_names = tuple(sorted({row.label for row in rows}, key=natural_order))
        labels = {name: label for label, name in enumerate(class_names)}
        root = self.path.parent if self.root is None else self.root
        splits: dict[str, list[Sample]] = {}
        for row in rows:
            sample = Sample(root / row.path, labels[row.label], f"{self.path.name}, line {row.line}")
            splits.setdefault(row.split, []).append(sample)
        return Listing(self.path.stem, class_names, splits)

    def _rows(self) -> Iterator[_Row]:
        text = self._text()
        delimiter, columns = self._columns(text)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        try:
            next(reader)  # the names of the columns
            for fields in reader:
                if fields:
                    yield self._row(reader.line_num, [field.strip() for field in fields], columns)
        except csv.Error as error:
            raise self._error(reader.line_num, str(error)) from error

    def _row(self, line: int, fields: list[str], columns: list[str]) -> _Row:
        if len(fields) != len(columns):
            raise self._error(line, f"got {len(fields)} fields; expected {len(columns)}: {', '.join(columns)}")
        values = dict(zip(columns, fields, strict=True))
        for name in ("path", "label"):
            if not values[name]:
                raise self._error(line, f"the {name} is empty")
        split = SPLIT_WORDS.get(values.get("split", "train").casefold())
        if split is None:
            raise self._error(line, f"the split must be train, val or test; got {values['split']!r}")
        return _Row(line, values["path"], values["label"], split)

    def _text(self) -> str:
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror}.") from error
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self._error(content.count(b"\n", 0, error.start) + 1, "the text is not UTF-8") from error

    def _columns(self, text: str) -> tuple[str, list[str]]:
        """Return the delimiter, which is the one that makes sense of the first line, and the names of the columns."""
        header = re.split(r"[\r\n]", text, maxsplit=1)[0]
        for delimiter in _DELIMITERS:
            columns = [name.strip().casefold() for name in next(csv.reader([header], delimiter=delimiter), [])]
            if {"path", "label"} <= set(columns):
                if twice := [name for name in ("path", "label", "split") if columns.count(name) > 1]:
                    raise self._error(1, f"the column {twice[0]} stands there twice")
                return delimiter, columns
        raise self._error(1, f"expected the names of columns, among them path and label; got {header!r}")

    def _error(self, line: int, what: str) -> DataError:
        return DataError(f"{self.path}, line {line}: {what}.")
