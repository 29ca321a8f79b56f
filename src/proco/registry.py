"""Named things that announce themselves: data sources, samplers, views, backbones, methods."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import TypeVar

from proco.errors import ConfigError

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A mapping from names to things, filled by a decorator where they are defined.

    >>> SHAPES = Registry[type]("shape")
    >>> @SHAPES.register("circle")
    ... class Circle: ...
    >>> SHAPES["circle"].__name__, list(SHAPES)
    ('Circle', ['circle'])
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that files a thing under name.

        A name is given once; what is defined anew, by a reloaded file or a cell run again, takes its own place.
        """

        def file(item: T) -> T:
            if name in self._items and _place_of(item) != _place_of(self._items[name]):
                raise ValueError(f"the {self.kind} {name!r} is registered already, as {self._items[name]}.")
            self._items[name] = item
            return item

        return file

    def name_of(self, item: T) -> str:
        """Return the name under which item is filed."""
        for name, filed in self._items.items():
            if filed is item:
                return name
        raise ConfigError(f"{item} is not a registered {self.kind}; register it where it is defined.")

    def __getitem__(self, name: str) -> T:
        if name not in self._items:
            raise ConfigError(f"unknown {self.kind} {name!r}; {suggest(name, self._items)}")
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._items))

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, name: object) -> bool:
        return name in self._items


def _place_of(item: object) -> object:
    """Return where a class or function is defined; other things are their own place."""
    place = (getattr(item, "__module__", None), getattr(item, "__qualname__", None))
    return item if None in place else place


def suggest(name: str, choices: Iterable[str], *, most: int = 1, otherwise: str = "", prefix: str = "") -> str:
    """Return the end of a sentence that offers the nearest choices or, without any, all of them or what is said.

    prefix: what has to stand before the nearest.

    >>> suggest("cirle", ["circle", "square"]), suggest("x", ["circle", "square"])
    ("did you mean 'circle'?", 'choose from circle, square.')
    """
    names = sorted(set(choices))
    if not names:
        return otherwise or "there are none."
    near = get_close_matches(name, names, n=most, cutoff=0.6)
    offered = " or ".join(repr(prefix + one) for one in near)
    return f"did you mean {offered}?" if near else otherwise or f"choose from {', '.join(names)}."
