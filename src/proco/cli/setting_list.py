"""All that can be set: the full name, default and sentence of every setting below a config dataclass."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

from proco.config import Choice


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting as a user meets it."""

    name: str
    """In full, such as `optim.lr`; `[]` stands for each item of a list."""
    default: str
    """As it is written; `-` where there is none."""
    sentence: str
    """What its declaration says of it."""
    kinds: tuple[str, ...] = ()
    """The choices that have it, where others of the same setting do not: `proco`, `bcl`."""


def settings_of(kind: type, prefix: str = "") -> list[Setting]:
    """Return the settings of a config dataclass in the order of their declaration, those of choices after the choice.

    >>> from proco.training.settings import EngineConfig
    >>> settings_of(EngineConfig, "engine.")[0].name
    'engine.device'
    """
    return list(_settings(kind, prefix, ()))


def _settings(kind: type, prefix: str, listed: tuple[Any, ...]) -> Iterator[Setting]:
    """Yield the settings below a dataclass; listed: registries whose choices are being listed, and not once more."""
    hints, sentences = get_type_hints(kind), _sentences(kind)
    for field in dataclasses.fields(kind):
        name, sentence = prefix + field.name, sentences.get(field.name, "")
        hint, name_below = _below(hints[field.name], name)
        is_branch = isinstance(hint, type) and dataclasses.is_dataclass(hint)
        if isinstance(hint, type) and issubclass(hint, Choice):
            chosen = f"One of {', '.join(_choices(hint))}."
            yield Setting(name, _default(field), " ".join(filter(None, (sentence, chosen))))
            if hint.registry not in listed:
                yield from _settings_of_choices(hint, f"{name_below}.", (*listed, hint.registry))
            continue
        if not is_branch or sentence:
            yield Setting(name, _default(field), sentence)
        if is_branch:
            yield from _settings(hint, f"{name_below}.", listed)


def _choices(base: type[Choice]) -> dict[str, type[Choice]]:
    """Return the kinds that a choice has, by name."""
    return {name: kind for name, kind in base.registry.items() if issubclass(kind, base)}


def _settings_of_choices(base: type[Choice], prefix: str, listed: tuple[Any, ...]) -> Iterator[Setting]:
    """Yield the settings of all kinds of a choice; those that several have alike, once."""
    kinds: dict[Setting, list[str]] = {}
    choices = _choices(base)
    for name, kind in choices.items():
        for setting in _settings(kind, prefix, listed):
            kinds.setdefault(setting, []).append(name)
    for setting, names in kinds.items():
        own = () if len(names) == len(choices) else tuple(names)
        yield dataclasses.replace(setting, kinds=own or setting.kinds)


def _below(hint: Any, name: str) -> tuple[Any, str]:
    """Return what a setting is made of, without None and lists, and its name then."""
    arguments = [argument for argument in get_args(hint) if argument not in (type(None), Ellipsis)]
    if get_origin(hint) is tuple:
        return arguments[0], f"{name}[]"
    return (arguments[0] if len(arguments) == 1 else hint), name


def written(value: Any) -> str:
    """Return a value as one writes it in a recipe: of settings, what is other than their defaults.

    >>> from proco.augment import Auto, Sim
    >>> written((Auto(cutout=0), Sim())), written(None), written(False)
    ('[{name: auto, cutout: 0}, sim]', 'null', 'false')
    """
    if isinstance(value, Choice):
        name, other = value.registry.name_of(type(value)), _other_than_defaults(value)
        return written({"name": name, **other}) if other else name
    if dataclasses.is_dataclass(value):
        return written(_other_than_defaults(value))
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {written(item)}' for name, item in value.items())}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(written, value))}]"
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else str(value) or "''"


def _other_than_defaults(config: Any) -> dict[str, Any]:
    own = [(field, getattr(config, field.name)) for field in dataclasses.fields(config)]
    return {field.name: value for field, value in own if value != _value(field)}


def _default(field: "dataclasses.Field[Any]") -> str:
    value = _value(field)
    return "-" if value is dataclasses.MISSING else written(value)


def _value(field: "dataclasses.Field[Any]") -> Any:
    """Return the default of a field, or MISSING."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _sentences(kind: type) -> dict[str, str]:
    """Return the strings that stand below the fields of a dataclass and of its bases, as one line each."""
    found: dict[str, str] = {}
    for part in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(part):
            continue
        (declared,) = ast.parse(textwrap.dedent(inspect.getsource(part))).body
        assert isinstance(declared, ast.ClassDef)
        for field, below in zip(declared.body, declared.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                text = below.value if isinstance(below, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found[field.target.id] = " ".join(text.value.split())
    return found
