"""Settings: frozen dataclasses, merged strictly from defaults, a recipe file and the command line.

A recipe is YAML; a setting on the command line is `optim.lr=0.1`, its value read as YAML too. Later layers win. An
unknown name or a value of the wrong type is an error that names the setting and the nearest one.

Where a setting is one of several kinds (a method, a view), its settings begin with the kind's name: `method: proco`, or
`method: {name: proco, temperature: 0.07}`. See `Choice`.
"""

import dataclasses
import types
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from proco.errors import ConfigError
from proco.registry import Registry, suggest

RECIPES = Path(__file__).parent / "recipes"
"""The folder of the recipes that ship with the package."""

C = TypeVar("C")
Settings = Mapping[str, Any]


def packaged_name(recipe: str) -> str:
    """Return a recipe as it is given; one that ships with the package, and is given by its path there, by its name."""
    name = recipe.removeprefix("recipes/").removesuffix(".yaml")
    is_own = any(Path(file).is_file() for file in (recipe, f"{recipe}.yaml"))
    is_there = (RECIPES / f"{name}.yaml").is_file() and not {"..", "."} & set(Path(name).parts)
    return name if is_there and not is_own and not Path(name).name.startswith("_") else recipe


class Choice:
    """Base of the dataclasses among which a setting chooses by name, all filed in the base's registry.

    >>> @dataclasses.dataclass(frozen=True, kw_only=True)
    ... class Shape(Choice):
    ...     registry = Registry[type]("shape")
    >>> @Shape.registry.register("circle")
    ... @dataclasses.dataclass(frozen=True, kw_only=True)
    ... class Circle(Shape):
    ...     radius: float = 1.0
    >>> as_settings(Circle(radius=2.0))
    {'name': 'circle', 'radius': 2.0}
    """

    registry: ClassVar[Registry[Any]]


def read_recipe(kind: type[Any], path: Path) -> dict[str, Any]:
    """Read a YAML file of settings of a config dataclass.

    Its `extends: FILE`, relative to it, or the name of a recipe that ships with the package, is what its settings go
    over; of `[FILE, FILE]` the second goes over the first.
    """
    return _read_chain(kind, path, ())


def _read_chain(kind: type[Any], path: Path, extended_by: tuple[Path, ...]) -> dict[str, Any]:
    if path.resolve() in extended_by:
        raise ConfigError(f"{path} extends itself, by way of {extended_by[-1].name}.")
    content = _read_yaml(path)
    bases = content.pop("extends", [])
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise _MismatchError("extends", "the path of a recipe, or several in a list", bases)
    chain = (*extended_by, path.resolve())
    return overlay(kind, *(_read_chain(kind, _find_base(path, base), chain) for base in bases), content)


def _find_base(path: Path, base: str) -> Path:
    """Return the file of a recipe that the one at the path extends: beside it, or one that ships with the package."""
    for found in (path.parent / base, RECIPES / base, RECIPES / f"{base}.yaml"):
        if found.is_file():
            return found
    raise ConfigError(
        f"{path} extends {base}, but there is no file {path.parent / base}, and no recipe of that name that ships with "
        "the package; proco recipes lists them."
    )


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_loader_of_settings())
    except OSError as error:
        raise ConfigError(f"cannot read the recipe {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no text, and so no recipe. Is it data? Then give it with --data.") from error
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split()).replace('in "<unicode string>", ', "")
        raise ConfigError(f"{path} is not valid YAML: {problem}.") from error
    if content is None:
        raise ConfigError(f"{path} is empty; a recipe holds settings, name: value.")
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold settings, name: value; got {type(content).__name__}.")
    return content


@cache
def _loader_of_settings() -> type[Any]:
    """Return YAML's safe loader, but one that refuses a setting that stands there twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            names = [self.construct_object(name, deep=True) for name, _ in node.value]
            if twice := [name for number, name in enumerate(names) if name in names[:number]]:
                raise yaml.YAMLError(f"{twice[0]} stands there twice, line {node.start_mark.line + 1} and after")
            return dict(super().construct_mapping(node, deep=deep))

    return Loader


def read_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Turn `optim.lr=0.1` and the like into nested settings; of one that is given twice the last counts.

    >>> read_assignments(["optim.lr=0.1", "views=[a, b]", "method=proco", "method.weight=2"])
    {'optim': {'lr': 0.1}, 'views': ['a', 'b'], 'method': {'name': 'proco', 'weight': 2}}
    """
    import yaml

    settings: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise ConfigError(f"a setting is written name=value; got {assignment!r}.")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"{name}: cannot read the value {text!r}.") from error
        for part in reversed(name.split(".")):
            value = {part: value}
        settings = overlay(None, settings, value)
    return settings


def merge(kind: type[C], *layers: Settings) -> C:
    """Build a config dataclass from its defaults and layers of settings, later ones winning."""
    return _build(kind, overlay(kind, *layers), "")


def as_settings(config: object) -> dict[str, Any]:
    """Return a config dataclass as plain settings, from which `merge` builds an equal one."""
    settings: dict[str, Any] = {"name": config.registry.name_of(type(config))} if isinstance(config, Choice) else {}
    assert dataclasses.is_dataclass(config)
    return settings | {field.name: _plain(getattr(config, field.name)) for field in dataclasses.fields(config)}


def overlay(kind: type[Any] | None, *layers: Settings) -> dict[str, Any]:
    """Return layers of settings as one, later ones winning; settings of another choice replace those of the first.

    kind: the dataclass they are of, which says whose settings without a name are where no layer below names a choice:
    the default's. None where that is not known, or all are one layer; they then go with a name that comes after them.
    """
    fields = {} if kind is None else {field.name: field for field in dataclasses.fields(kind)}
    base: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            old, field = base.get(name), fields.get(name)
            # Only where a name comes over them: else these layers may yet go, as one, over another than the default.
            if field is not None and (isinstance(value, str) or (isinstance(value, Mapping) and "name" in value)):
                old = _named(old, field)
            # A choice given by its name alone goes with settings of that choice, in whichever order they come.
            if isinstance(value, Mapping) and isinstance(old, str):
                old = {"name": old}
            if isinstance(value, str) and isinstance(old, Mapping) and old.get("name", value) == value:
                old, value = {**old, "name": value}, {}
            if isinstance(value, Mapping) and isinstance(old, Mapping) and _same_kind(old, value):
                value = overlay(_kind_of(old, field), old, value)
            base[name] = value
    return base


def _same_kind(old: Settings, new: Settings) -> bool:
    """Whether new settings go over the old ones or, being those of another choice, replace them."""
    return bool(new.get("name", old.get("name")) == old.get("name"))


def _build(kind: type[C], settings: Settings, prefix: str) -> C:
    hints = get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in settings:
        if name == "name" and name not in fields:  # text was given, which would name one of several kinds
            raise _MismatchError(prefix.removesuffix("."), "settings of its own", settings[name])
        if name not in fields:
            below = [f"{prefix}{own}.{name}" for own, field in fields.items() if name in _names_below(field)]
            hint = f"did you mean '{below[0]}'?" if below else suggest(str(name), fields, prefix=prefix)
            if "." in str(name):
                first, _, rest = str(name).partition(".")
                hint = f"in files and in Python settings are nested, {first}: {{{rest}: ...}}."
            raise ConfigError(f"unknown setting '{prefix}{name}'; {hint}")
    required = {
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    for name in sorted(required - set(settings)):
        raise ConfigError(f"the setting '{prefix}{name}' is missing; it has no default.")
    given = {name: _named(value, fields[name]) for name, value in settings.items()}
    return kind(**{name: _convert(hints[name], value, prefix + name) for name, value in given.items()})


def _named(value: Any, field: "dataclasses.Field[Any]") -> Any:
    """Return settings of a choice with its name: where none is given, they are of the field's default."""
    default = _default(field)
    if isinstance(default, Choice) and isinstance(value, Mapping) and "name" not in value:
        return {"name": default.registry.name_of(type(default)), **value}
    return value


def _kind_of(settings: Settings, field: "dataclasses.Field[Any] | None") -> type[Any] | None:
    """Return the dataclass that settings are of, as far as the field's default tells."""
    if field is None:
        return None
    default = _default(field)
    if isinstance(default, Choice):
        chosen = _named(settings, field)["name"]
        return next((kind for name, kind in default.registry.items() if name == chosen), None)  # wrong: said when built
    return type(default) if dataclasses.is_dataclass(default) else None


def _names_below(field: "dataclasses.Field[Any]") -> list[str]:
    """Return the names of the settings that a setting has by default, where it has any."""
    default = _default(field)
    return [own.name for own in dataclasses.fields(default)] if dataclasses.is_dataclass(default) else []


def _default(field: "dataclasses.Field[Any]") -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _convert(hint: Any, value: Any, name: str) -> Any:
    if isinstance(hint, type) and issubclass(hint, Choice):
        return _choose(hint, value, name)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise _MismatchError(name, "settings of its own", value)
        return _build(hint, value, f"{name}.")
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _convert_union(arguments, value, name)
    if origin is Literal:
        if not any(value == choice and type(value) is type(choice) for choice in arguments):  # True == 1, but is not 1
            raise _MismatchError(name, " or ".join(map(repr, arguments)), value)
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _MismatchError(name, "a list", value)
        return tuple(_convert(arguments[0], item, f"{name}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _MismatchError(name, "a mapping", value)
        return {str(key): _convert(arguments[1], item, f"{name}.{key}") for key, item in value.items()}
    return value if hint is Any else _convert_scalar(hint, value, name)


def _choose(hint: type[Choice], value: Any, name: str) -> Any:
    if isinstance(value, hint):
        return value
    settings = {"name": value} if isinstance(value, str) else value
    if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
        raise _MismatchError(name, f"the name of a {hint.registry.kind} or settings that begin with it", value)
    kind = hint.registry[settings["name"]]
    if not issubclass(kind, hint):
        fitting = [choice for choice, other in hint.registry.items() if issubclass(other, hint)]
        raise ConfigError(f"{name}: {settings['name']!r} cannot stand there; choose from {', '.join(fitting)}.")
    return _build(kind, {key: item for key, item in settings.items() if key != "name"}, f"{name}.")


def _convert_union(arguments: tuple[Any, ...], value: Any, name: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    problems: list[ConfigError] = []
    for argument in arguments:
        if argument is not type(None):
            try:
                return _convert(argument, value, name)
            except ConfigError as error:
                problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    expected = [problem.expected for problem in problems if isinstance(problem, _MismatchError)]
    raise _MismatchError(name, " or ".join(expected), value) if len(expected) == len(problems) else problems[0]


def _convert_scalar(hint: Any, value: Any, name: str) -> Any:
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 1e-3 as a string
        except ValueError:
            pass
    if hint is str and isinstance(value, str):
        return value
    if hint is Path and isinstance(value, str | Path):
        return Path(value)
    raise _MismatchError(
        name,
        {bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path"}[hint],
        value,
    )


class _MismatchError(ConfigError):
    """A value of another kind than the setting's."""

    def __init__(self, name: str, expected: str, value: Any) -> None:
        super().__init__(f"{name}: expected {expected}, got {value!r}.")
        self.expected = expected


def _plain(value: Any) -> Any:
    """Return a value of a config as YAML has it: numbers, text, lists, mappings."""
    if dataclasses.is_dataclass(value):
        return as_settings(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
