"""A folder of class folders, or of train, val and test folders of class folders."""

import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NoReturn

from proco.data.dataset import SPLIT_WORDS, SPLITS, name_some
from proco.data.file_source import FileSource, Listing, Sample, natural_order
from proco.data.source import Source
from proco.errors import DataError

IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".avif"}
)

_CONVERT = "of a format that is not read: convert them to JPEG or PNG"
# Images too, but nothing here decodes them.
_UNREAD_SUFFIXES = frozenset({".heic", ".heif", ".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".jxl"})


@Source.registry.register("folder")
@dataclass(frozen=True, kw_only=True)
class Folder(FileSource):
    """Images in class folders: `path/<class>/...`, or `path/<train, val or test>/<class>/...`.

    The classes are the folders that hold an image, at any depth, in the order people count: `class 2` before
    `class 10`. Hidden files are passed over; other files that are no images by their name are ignored and noted.
    """

    path: Path
    """The folder of the class folders, or of `train`, `val` and `test` with class folders in each."""

    looks_for: ClassVar[str] = "a folder of class folders with images"
    is_general: ClassVar[bool] = True  # published sets have images in folders too, and lists beside them

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether there is an image in a folder of this folder, or in a class folder of its training folder."""
        if not path.is_dir():
            return False
        root = next((folder for folder in _split_folders(path) if folder.name.casefold() == "train"), path)
        return any(is_image(file) for folder in _folders_in(root) for file in _files_below(folder))

    @classmethod
    def near_miss(cls, path: Path) -> str:
        """Say that images lie beside each other instead of in class folders, or that there is none."""
        if not path.is_dir():
            return ""
        if beside := sum(is_image(file) for file in path.iterdir()):
            return f"Its images ({beside}) are not in class folders; if it is the folder of one class, name that above."
        files = list(_files_below(path))
        if any(map(is_image, files)):
            return ""
        unread = sum(map(_is_unread, files))
        return f"Its images ({unread}) are {_CONVERT}." if unread else "There is no image in it."

    def listing(self) -> Listing:
        """Find the images of each class."""
        if not self.path.is_dir():
            raise DataError(f"{self.path} is not a folder; expected one with a folder for each class.")
        roots = _split_roots(self.path)
        files = {split: _files_by_class(root) for split, root in roots.items()}
        images = {
            split: {name: list(filter(is_image, found)) for name, found in by_class.items()}
            for split, by_class in files.items()
        }
        filled = {name for by_class in images.values() for name, found in by_class.items() if found}
        if not filled:
            raise DataError(
                f"{self.path} has no class folders with images. Expected one folder for each class, "
                "or the folders train, val and test with one for each class."
            )
        class_names = tuple(sorted(filled, key=natural_order))
        splits = {
            split: [Sample(file, label) for label, name in enumerate(class_names) for file in by_class.get(name, [])]
            for split, by_class in images.items()
        }
        return Listing(self.path.resolve().name, class_names, splits, _notes(self.path, roots, files))


def _notes(path: Path, roots: Mapping[str, Path], files: Mapping[str, Mapping[str, list[Path]]]) -> tuple[str, ...]:
    """Say what else lies in the folder. files: of each split and class folder."""
    by_folder = [(name, found) for by_class in files.values() for name, found in by_class.items()]
    outside = [file for folder in {path, *roots.values()} for file in _files_here(folder)]
    everything = [*outside, *(file for _, found in by_folder for file in found)]
    beside = [] if path in roots.values() else [folder for folder in _folders_in(path) if folder not in roots.values()]
    unfilled = [folder for folder in beside if folder.name.casefold() in SPLIT_WORDS and not _folders_in(folder)]
    ignored = {
        "folders of splits without a class folder": [folder.name for folder in unfilled],
        "folders beside those of the splits": [folder.name for folder in beside if folder not in unfilled],
        "folders without an image": [name for name, found in by_folder if not any(map(is_image, found))],
        f"images, {_CONVERT}": [file.name for file in everything if _is_unread(file)],
        "files that are no images": [file.name for file in everything if not (is_image(file) or _is_unread(file))],
        "images in no class folder": [file.name for file in outside if is_image(file)],
    }
    return tuple(
        f"ignored {what} ({len(names)}): {name_some(sorted(names))}" for what, names in ignored.items() if names
    )


def _split_roots(path: Path) -> dict[str, Path]:
    """Return the folder of each split: {"train": path} where the class folders lie in path itself."""
    folders = _split_folders(path)
    if not folders:
        return {"train": path}
    repeated = [split for split, count in Counter(map(_split_of, folders)).items() if count > 1]
    if repeated:
        raise DataError(f"{path} has more than one folder for the split {repeated[0]}. Keep one of them.")
    roots = {_split_of(folder): folder for folder in folders}
    return {split: roots[split] for split in SPLITS if split in roots}


def _split_folders(path: Path) -> list[Path]:
    """Return the folders of splits. One that is named so but has images of its own is a class: trains, say."""
    named = [folder for folder in _folders_in(path) if folder.name.casefold() in SPLIT_WORDS]
    return [folder for folder in named if _folders_in(folder) and not any(map(is_image, _files_here(folder)))]


def _split_of(folder: Path) -> str:
    return SPLIT_WORDS[folder.name.casefold()]


def _files_by_class(root: Path) -> dict[str, list[Path]]:
    """Return the files of each class folder. Letters with accents are the same however a system writes them."""
    found: dict[str, list[Path]] = {}
    for folder in _folders_in(root):
        found.setdefault(unicodedata.normalize("NFC", folder.name), []).extend(sorted(_files_below(folder)))
    return found


def _folders_in(path: Path) -> list[Path]:
    return sorted(child for child in path.iterdir() if child.is_dir() and not _is_hidden(child.name))


def _files_here(path: Path) -> list[Path]:
    return sorted(child for child in path.iterdir() if child.is_file() and not _is_hidden(child.name))


def _files_below(path: Path) -> Iterator[Path]:
    """Yield the files, those of a folder to which several links lead once: links may go in a circle."""
    seen = set()
    for folder, subfolders, names in os.walk(path, onerror=_refuse, followlinks=True):
        if (place := os.path.realpath(folder)) in seen:
            subfolders.clear()
            continue
        seen.add(place)
        subfolders[:] = [name for name in subfolders if not _is_hidden(name)]
        yield from (Path(folder, name) for name in names if not _is_hidden(name))


def _refuse(error: OSError) -> NoReturn:
    """Name a folder that cannot be read: without its images the others would be taken for all."""
    raise DataError(f"{error.filename} cannot be read ({error.strerror}).") from error


def is_image(path: Path) -> bool:
    """Return whether a file is an image by its name."""
    return path.suffix.lower() in IMAGE_SUFFIXES


def _is_unread(path: Path) -> bool:
    return path.suffix.lower() in _UNREAD_SUFFIXES


def _is_hidden(name: str) -> bool:
    return name.startswith(".")
