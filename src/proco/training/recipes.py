"""Recipes by name: YAML files of settings, those that ship with the package and those of the user."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from proco.augment import Weak
from proco.config import RECIPES, Settings, as_settings, merge, overlay, read_recipe
from proco.data.source import source_of
from proco.errors import ConfigError
from proco.methods import Method
from proco.registry import suggest
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
    if path.is_dir() and name not in recipe_names():
        raise ConfigError(f"{name} is a folder, not a recipe. Is it data? Then give it with --data {name}.")
    if path.suffix in (".yaml", ".yml"):
        raise ConfigError(f"there is no file {name}.")
    if name not in recipe_names():
        hint = suggest(name, recipe_names(), otherwise="proco recipes lists them.")
        raise ConfigError(f"there is no recipe {name!r}; {hint} A file of your own is given by its path.")
    return RECIPES / f"{name}.yaml"


def load_recipe(name: str, *overrides: Settings) -> TrainConfig:
    """Read a recipe and merge it, and then the overrides, over the defaults.

    Relative places of the data are from the working directory. They are made absolute, so that what a run notes means
    the same from anywhere.
    """
    return _from_anywhere(merge(TrainConfig, read_recipe(find_recipe(name)), *overrides))


def load_own_data(path: Path, name: str | None, *overrides: Settings) -> TrainConfig:
    """Return the settings for data of one's own: what suits it, then a recipe where one is named, then the overrides.

    Where the recipe has data of its own, what it says about that goes with it, but for the size of what the network
    sees. Where nobody names the views, the classifier's is a weak one, whatever the method, a teacher's too: policies
    found on other data need not suit this.
    """
    recipe = {} if name is None else _without_its_data(read_recipe(find_recipe(name)))
    source = {"data": {"source": as_settings(source_of(path))}}
    settings = overlay(read_recipe(RECIPES / "_own_data.yaml"), recipe, source, *overrides)
    config = merge(TrainConfig, settings)
    if not _names_views(settings["method"]):
        config = replace(config, method=_with_weak_view(config.method))
    teacher = config.teacher
    if teacher is not None and "method" in teacher.run and not _names_views(teacher.run["method"]):
        method = as_settings(_with_weak_view(config.teaching_run().method))
        config = replace(config, teacher=replace(teacher, run={**teacher.run, "method": method}))
    return _from_anywhere(config)


def _names_views(method: Any) -> bool:
    return isinstance(method, dict) and "views" in method


def _with_weak_view(method: Method) -> Method:
    return replace(method, views=(Weak(), *method.views[1:]))


def _without_its_data(recipe: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe for other data: subsets, statistics and results of its own do not go along."""
    if "source" not in recipe.get("data", {}):
        return recipe
    rest = {name: value for name, value in recipe.items() if name not in ("about", "published", "data")}
    return rest | {"data": {name: value for name, value in recipe["data"].items() if name in ("size", "centre")}}


def _from_anywhere(config: TrainConfig) -> TrainConfig:
    return replace(config, data=replace(config.data, source=config.data.source.from_anywhere()))
