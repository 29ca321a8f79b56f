"""Recipes by name: YAML files of settings, those that ship with the package and those of the user."""

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from proco.config import RECIPES, Settings, as_settings, merge, read_recipe
from proco.data.source import source_of
from proco.errors import ConfigError
from proco.training.settings import TrainConfig


def recipe_names() -> list[str]:
    """Return the names of the recipes that ship with the package, such as `cifar100_lt/proco_100`."""
    return sorted(
        path.relative_to(RECIPES).with_suffix("").as_posix()
        for path in RECIPES.rglob("*.yaml")
        if not path.name.startswith("_")  # what others extend
    )


def find_recipe(name: str) -> Path:
    """Return the file of a recipe: a path to a YAML file, or the name of one that ships with the package."""
    path = Path(name)
    if path.is_file():
        return path
    if path.is_dir():
        raise ConfigError(f"{name} is a folder, not a recipe. Is it data? Then give it with --data {name}.")
    if path.suffix in (".yaml", ".yml"):
        raise ConfigError(f"there is no file {name}.")
    if name not in recipe_names():
        near = get_close_matches(name, recipe_names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "proco recipes lists them."
        raise ConfigError(f"there is no recipe {name!r}; {hint} A file of your own is given by its path.")
    return RECIPES / f"{name}.yaml"


def load_recipe(name: str, *overrides: Settings) -> TrainConfig:
    """Read a recipe and merge it, and then the overrides, over the defaults.

    A relative path of the data is from the working directory. It is made absolute, so that what a run notes means the
    same from anywhere.
    """
    config = merge(TrainConfig, read_recipe(find_recipe(name)), *overrides)
    source = config.data.source
    if isinstance(path := getattr(source, "path", None), Path):
        source = replace(source, path=path.absolute())  # type: ignore[call-arg]
    return replace(config, data=replace(config.data, source=source))


def load_own_data(path: Path, name: str | None, *overrides: Settings) -> TrainConfig:
    """Return the settings for data of one's own: what suits it, then a recipe where one is named, then the overrides.

    The recipe's own data is not read.
    """
    layers = [read_recipe(RECIPES / "_own_data.yaml"), {} if name is None else read_recipe(find_recipe(name))]
    return merge(TrainConfig, *layers, {"data": {"source": as_settings(source_of(path))}}, *overrides)
