"""What all sources of image files share: from a listing of files to a data set, and what to do with bad files."""

import os
import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from proco.data.dataset import Dataset, Split
from proco.data.decode import Progress, find_bad_images, in_threads, read_image
from proco.data.file_images import FileImages, name_bad_files
from proco.data.source import Source
from proco.errors import DataError

_DARK = 32  # grey levels, of 256
# Files that are looked at where all would take too long, to tell a wrong folder from a few bad files.
_PROBES = 16


class BadImagesError(DataError):
    """Files that cannot be read, with the reasons, by their paths."""

    def __init__(self, message: str, reasons: Mapping[Path, str]) -> None:
        super().__init__(message)
        self.reasons = dict(reasons)


class Sample(NamedTuple):
    """An image file and its label."""

    path: Path
    label: int
    origin: str = ""
    """Where the sample is listed, "photos.csv, line 7"; empty where no list names it."""


@dataclass(frozen=True)
class Listing:
    """Which files make up a data set, before any was opened."""

    name: str
    class_names: tuple[str, ...]
    splits: Mapping[str, list[Sample]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileSource(Source):
    """A source of image files."""

    on_bad_image: Literal["refuse", "skip", "trust"] = "refuse"
    """What to do about files that are missing, cut short or no images. `refuse`: decode every file before training and
    end with the names of the bad ones. `skip`: decode every file and leave the bad ones out, with a note; class counts
    are those of the others. `trust`: open only a few files to see that the folder is right, for sets so large that
    decoding all of them takes too long. In training a bad file never ends a run: it is replaced by a grey image under
    its label, and a warning at the end says which. After a check this happens only to files that changed since."""

    @abstractmethod
    def listing(self) -> Listing:
        """Find the files, without opening any."""

    def read(self, progress: Progress | None = None) -> Dataset:
        """Find the files and check them."""
        listing = self.listing()
        _require_once(listing)
        if self.on_bad_image == "trust":
            _require_right_folder(listing)
        else:
            listing = self._checked(listing, progress)
        splits = {
            name: Split(
                FileImages([sample.path for sample in samples]),
                torch.tensor([sample.label for sample in samples], dtype=torch.int64),
            )
            for name, samples in listing.splits.items()
        }
        return Dataset(listing.name, listing.class_names, splits, (*listing.notes, *_notes_of_darkness(listing)))

    def _checked(self, listing: Listing, progress: Progress | None) -> Listing:
        """Return the listing without its bad files, or refuse it."""
        samples = _all_samples(listing)
        reasons = find_bad_images([sample.path for sample in samples], progress)
        if not reasons:
            return listing
        bad = {samples[position].path: _with_origin(samples[position], reason) for position, reason in reasons.items()}
        if self.on_bad_image == "refuse":
            said = f"{listing.name}: {len(bad)} of {len(samples)} image files cannot be read: {name_bad_files(bad)}."
            if len(bad) == len(samples):
                raise BadImagesError(f"{said} Is the folder of the images right?", bad)
            raise BadImagesError(
                f"{said} Mend or remove them (proco data describe names them all), or leave them out by the setting "
                "data.source.on_bad_image=skip.",
                bad,
            )
        splits = {
            name: [sample for sample in of_split if sample.path not in bad] for name, of_split in listing.splits.items()
        }
        note = f"{len(bad)} of {len(samples)} image files cannot be read and are left out: {name_bad_files(bad)}"
        return replace(listing, splits=splits, notes=(*listing.notes, note))


def natural_order(name: str) -> tuple[list[str | int], str]:
    """Return a key that sorts names as people count.

    >>> sorted(["b10", "B2", "a", "b1"], key=natural_order)
    ['a', 'b1', 'B2', 'b10']
    """
    parts = re.split(r"([0-9]+)", name)  # text and digits in turn, so that positions compare like with like
    return [int(part) if number % 2 else part.casefold() for number, part in enumerate(parts)], name


def _require_once(listing: Listing) -> None:
    """Refuse a file that is there twice: under two labels one is wrong, in two splits the test has been trained on."""
    place_of = cache(os.path.realpath)  # of folders: links may lead to one by several ways
    first: dict[tuple[str, str], Sample] = {}
    for sample in _all_samples(listing):
        before = first.setdefault((place_of(sample.path.parent), sample.path.name), sample)
        if before is not sample:
            said = f"{sample.path} is listed already ({before.origin or before.path})"
            raise DataError(_with_origin(sample, said) + ".")


def _require_right_folder(listing: Listing) -> None:
    probes = _probes(listing)
    reasons = find_bad_images([sample.path for sample in probes])
    if probes and len(reasons) == len(probes):
        raise DataError(
            f"{listing.name}: none of {len(probes)} image files that were tried can be read: "
            f"{probes[0].path} ({_with_origin(probes[0], reasons[0])}), ... Is the folder of the images right?"
        )


def _notes_of_darkness(listing: Listing) -> tuple[str, ...]:
    """Say so where most images are almost black: files of 16 bits, of which a camera fills 12, look right elsewhere."""
    lightest = [value for value in in_threads(_lightest, [sample.path for sample in _probes(listing)]) if value >= 0]
    dark = sum(value < _DARK for value in lightest)
    if 2 * dark <= len(lightest):
        return ()
    return (
        f"most images are almost black: {dark} of {len(lightest)} that were looked at have no value above {_DARK - 1} "
        "of 255. Files of 16 bits of which a camera fills 12 have to be stretched before.",
    )


def _lightest(path: Path) -> int:
    """Return the largest value of an image, -1 of one that cannot be read."""
    try:
        return int(read_image(path).max())
    except DataError:
        return -1


def _probes(listing: Listing) -> list[Sample]:
    """Return some samples, spread over the whole listing."""
    samples = _all_samples(listing)
    return samples[:: -(-len(samples) // _PROBES) or 1]


def _all_samples(listing: Listing) -> list[Sample]:
    return [sample for samples in listing.splits.values() for sample in samples]


def _with_origin(sample: Sample, reason: str) -> str:
    return f"{sample.origin}: {reason}" if sample.origin else reason
