"""Images in files, decoded when they are needed."""

import hashlib
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from proco.augment.choices import send
from proco.data.decode import in_threads, read_image
from proco.data.images import Cut, identity
from proco.errors import DataError

_GREY = 128
_PART = 2**14  # bytes of a file's beginning, and of its end, by which it is known again
# Files that a thread decodes in one go, and their bytes: of large photographs one at a time, since all that are under
# way are in memory.
_GROUP = 8
_GROUP_BYTES = 2**22
# Where more than half of this many files cannot be read, the disk is gone and not the files.
_FEWEST_FILES_TO_JUDGE = 16
_NAMED_FILES = 3
NOT_UTF_8 = "surrogateescape"
"""How names of files and folders that are not UTF-8 are read, by Python, and so are to be written."""


class FileImages:
    """Image files, decoded to RGB by a pool of threads each time they are cut, once for all cuts.

    A file that cannot be read does not end an epoch: it is replaced by a grey image and recorded (`bad_files`,
    `warnings`). Files are checked before training (`find_bad_images`), so this is for those that go bad later or were
    trusted unseen. Where most of the files of a cut cannot be read, a DataError says so instead.
    """

    channels = 3
    common_size = None
    are_slow = True

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        self.bad_files: dict[Path, str] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence about the files that were replaced by grey images, if any were."""
        if not self.bad_files:
            return ()
        count = len(self.bad_files)
        return (
            f"{count} of {len(self)} image files could not be read and {'was' if count == 1 else 'were'} replaced by "
            f"grey: {name_bad_files(self.bad_files)}.",
        )

    @property
    def fingerprint(self) -> bytes:
        """The SHA-256 of the files' names, those of their folders and their sizes: these stay when all of them move."""
        files = "\n".join(f"{path.parent.name}/{path.name} {_file_size(path)}" for path in self.paths)
        return hashlib.sha256(files.encode(errors=NOT_UTF_8)).digest()

    @property
    def identities(self) -> Tensor:
        """A number for each image, int64 (N,), of the file's size, beginning and end, whatever it is called."""
        return torch.tensor(list(in_threads(_identity, self.paths)), dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.paths)

    def cut(self, positions: Tensor, cuts: Sequence[Cut], size: tuple[int, int], device: torch.device) -> list[Tensor]:
        """Return for each cut the windows of the images at positions (n,), resized: uint8 (n, 3, *size) on device.

        The resize is bilinear and antialiased. Results do not depend on which thread is first.
        """
        numbers = positions.tolist()
        is_pinned = device.type == "cuda"  # so that the copy to the device does not hold up the host
        results = [
            torch.empty(len(numbers), self.channels, *size, dtype=torch.uint8, pin_memory=is_pinned) for _ in cuts
        ]
        rules = [Cut(cut.window, cut.randoms.cpu()) for cut in cuts]
        groups = _groups([_file_size(self.paths[number]) for number in numbers])

        def read(group: range) -> list[Tensor | DataError]:
            return [_read(self.paths[numbers[row]]) for row in group]

        # Boxes are computed here, between the threads that decode and those that resize: they take many small steps,
        # for each of which a thread would have to wait its turn.
        tasks = (
            _Resize(group, images, [_boxes(rule, group, images) for rule in rules])
            for group, images in zip(groups, in_threads(read, groups), strict=True)
        )
        failures = [failure for failed in in_threads(lambda task: task.into(results), tasks) for failure in failed]
        self._record({self.paths[numbers[row]]: reason for row, reason in failures}, numbers)
        return [send(result, device) for result in results]

    def subset(self, positions: Tensor) -> "FileImages":
        """Return the files at positions (n,), in that order, with a record of their own."""
        return FileImages([self.paths[position] for position in positions.tolist()])

    def to(self, device: torch.device) -> "FileImages":
        """Return the same: files stay where they are."""
        return self

    def _record(self, bad: dict[Path, str], numbers: list[int]) -> None:
        self.bad_files.update(bad)
        num_files = len(set(numbers))
        if num_files >= _FEWEST_FILES_TO_JUDGE and 2 * len(bad) > num_files:
            raise DataError(
                f"{len(bad)} of {num_files} image files cannot be read: {name_bad_files(bad)}. "
                "Is the disk still there, and the folder of the images right?"
            )


def name_bad_files(reasons: dict[Path, str]) -> str:
    """Return the first few files with their reasons, for a sentence."""
    named = ", ".join(f"{path} ({reason})" for path, reason in list(reasons.items())[:_NAMED_FILES])
    return named + (f" and {len(reasons) - _NAMED_FILES} more" if len(reasons) > _NAMED_FILES else "")


class _Resize(NamedTuple):
    """The rest of the work on a few images: their rows of the results, themselves or why not, a box for each cut."""

    rows: range
    images: list[Tensor | DataError]
    boxes: list[list[tuple[int, ...]]]

    def into(self, results: list[Tensor]) -> list[tuple[int, str]]:
        """Write the rows of the results; return those of images that cannot be read, with the reason."""
        failures = []
        for number, (row, image) in enumerate(zip(self.rows, self.images, strict=True)):
            if isinstance(image, DataError):
                failures.append((row, str(image)))
            for result, boxes in zip(results, self.boxes, strict=True):
                result[row] = _GREY if isinstance(image, DataError) else _resize(image, boxes[number], result.shape[2:])
        return failures


def _groups(sizes: Sequence[int]) -> list[range]:
    """Return the rows of each group, for files of these sizes in bytes."""
    starts, total = [0] if sizes else [], 0
    for row, size in enumerate(sizes):
        total += size
        if row - starts[-1] >= _GROUP or (total > _GROUP_BYTES and row > starts[-1]):
            starts.append(row)
            total = size
    return [range(start, end) for start, end in pairwise([*starts, len(sizes)])]


def _identity(path: Path) -> int:
    """Return a number that stands for a file; for one that cannot be read, of its path."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            head = file.read(_PART)
            file.seek(max(size - _PART, 0))
            return identity(b"%d " % size + head + file.read(_PART))
    except (OSError, ValueError):
        return identity(os.fsencode(path))


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except (OSError, ValueError):  # reading it will say why
        return 0


def _read(path: Path) -> Tensor | DataError:
    try:
        return read_image(path)
    except DataError as error:
        return error


def _boxes(cut: Cut, rows: range, images: list[Tensor | DataError]) -> list[tuple[int, ...]]:
    """Return (top, left, height, width) for each image, computed together for images of one size."""
    by_size: dict[tuple[int, int], list[int]] = {}
    for number, image in enumerate(images):
        if not isinstance(image, DataError):
            by_size.setdefault((image.shape[1], image.shape[2]), []).append(number)
    boxes: list[tuple[int, ...]] = [()] * len(images)
    randoms = cut.randoms[rows.start : rows.stop]
    for size, numbers in by_size.items():
        found = torch.stack(cut.window.boxes(randoms[numbers], *size), dim=1)
        for number, box in zip(numbers, found.tolist(), strict=True):
            boxes[number] = tuple(box)
    return boxes


def _resize(image: Tensor, box: tuple[int, ...], size: Sequence[int]) -> Tensor:
    """Cut a box out of an image, (3, H, W), and resize it; torchvision's resized_crop without its checks."""
    top, left, height, width = box
    part = image[None, :, top : top + height, left : left + width]
    return interpolate(part, size=size, mode="bilinear", antialias=True)[0]
