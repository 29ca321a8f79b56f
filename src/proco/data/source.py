"""Sources: kinds of places data is read from. Each is a dataclass of settings in a file of its own."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self, get_args, get_type_hints

from proco.config import Choice
from proco.data.dataset import Dataset
from proco.data.decode import Progress
from proco.errors import DataError
from proco.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Source(Choice, ABC):
    """Settings that say where data is and how to read it."""

    registry: ClassVar[Registry[type["Source"]]] = Registry("data source")
    looks_for: ClassVar[str] = ""
    """What `recognises` looks for, for a list of such things; empty where there is no path to recognise."""
    is_general: ClassVar[bool] = False
    """Whether the source gives way to others that recognise the same path."""

    @abstractmethod
    def read(self, progress: Progress | None = None) -> Dataset:
        """Read the data. progress hears of files as they are checked, where there are files."""

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the path, which exists, holds what this source reads with default settings."""
        return False

    @classmethod
    def near_miss(cls, path: Path) -> str:
        """Say what a path, which no source recognises, lacks to be of this kind; nothing where it is far from it."""
        return ""

    @classmethod
    def places(cls) -> tuple[str, ...]:
        """Return the names of the settings that say where the data lies; the others say what it is."""
        hints = get_type_hints(cls)
        return tuple(field.name for field in fields(cls) if Path in (hints[field.name], *get_args(hints[field.name])))

    def from_anywhere(self) -> Self:
        """Return the source with absolute places: relative ones are from the working directory."""
        own = {name: getattr(self, name) for name in self.places()}
        return replace(self, **{name: path.absolute() for name, path in own.items() if path is not None})


def source_of(path: Path) -> Source:
    """Return the source, with default settings, that reads what lies at path."""
    if not path.exists():
        raise DataError(f"{path} does not exist.")
    fitting = [name for name, kind in Source.registry.items() if kind.recognises(path)]
    fitting = [name for name in fitting if not Source.registry[name].is_general] or fitting
    if len(fitting) > 1:
        raise DataError(
            f"{path} can be read as {' and as '.join(fitting)}. Say which is meant: the setting data.source.name."
        )
    if not fitting:
        known = "; ".join(f"{kind.looks_for} ({name})" for name, kind in Source.registry.items() if kind.looks_for)
        reasons = [reason for kind in Source.registry.values() if (reason := kind.near_miss(path))]
        raise DataError(" ".join([f"{path} is not data of a known kind.", *reasons, f"Looked for: {known}."]))
    kind: Any = Source.registry[fitting[0]]
    source: Source = kind(path=path)
    return source
