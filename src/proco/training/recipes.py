"""Recipes by name: YAML files of settings, those that ship with the package and those of the user."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from proco.augment import View, Weak
from proco.config import RECIPES, Settings, as_settings, merge, overlay, read_recipe
from proco.data.source import source_of
from proco.errors import ConfigError
from proco.methods import Method
from proco.registry import suggest
from proco.training.settings import AUTO_RATE_BATCH, TrainConfig

_COURSE = ("network", "optim", "ema", "renew_statistics", "epochs", "batch_size")  # what is trained, and how


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
    names = recipe_names()
    if name in names:
        return RECIPES / f"{name}.yaml"
    if path.is_dir():
        raise ConfigError(f"{name} is a folder, not a recipe. Is it data? Then give it with --data {name}.")
    if path.suffix in (".yaml", ".yml"):
        raise ConfigError(f"there is no file {name}.")
    if Path(f"{name}.yaml").is_file():
        raise ConfigError(f"there is no recipe {name!r}; did you mean the file {name}.yaml?")
    if group := [one for one in names if one.startswith(f"{name.rstrip('/')}/")]:
        raise ConfigError(f"{name} is a group of recipes, such as {group[0]}; proco recipes {name} lists all of them.")
    hint = suggest(name, names, otherwise="proco recipes lists them.")
    raise ConfigError(f"there is no recipe {name!r}; {hint} A file of your own is given by its path.")


def load_recipe(name: str, *overrides: Settings) -> TrainConfig:
    """Read a recipe and merge it, and then the overrides, over the defaults.

    Relative places of the data are from the working directory. They are made absolute, so that what a run notes means
    the same from anywhere.
    """
    return _from_anywhere(merge(TrainConfig, read_recipe(TrainConfig, find_recipe(name)), *overrides))


def load_own_data(path: Path, name: str | None, *overrides: Settings) -> TrainConfig:
    """Return the settings for data of one's own: what suits it, then a recipe where one is named, then the overrides.

    Where the recipe has data of its own, what it says about that goes with it, but for the size of what the network
    sees, and its network and course of training are whole as they stand. Where nobody names the views, the classifier's
    is a weak one, whatever the method: policies found on other data need not suit this. A teacher whose own are not
    named has those of the run.
    """
    base = read_recipe(TrainConfig, RECIPES / "_own_data.yaml")
    recipe = {} if name is None else read_recipe(TrainConfig, find_recipe(name))
    if not isinstance(data := recipe.get("data", {}), dict):  # not to be hidden under the source that is given
        raise ConfigError(f"data: expected settings of its own, got {data!r}.")
    if "source" in data:
        base, recipe = _without(base, *_COURSE), _without_its_data(recipe)
    if any("path" in _source(layer) for layer in overrides):
        raise ConfigError("--data and data.source.path both say where the data lies; give one of them.")
    source = {"data": {"source": as_settings(source_of(path))}}
    settings = overlay(TrainConfig, base, recipe, source, *overrides)
    config = merge(TrainConfig, settings)
    if not _names_views(settings["method"]):
        config = replace(config, method=_with_views(config.method, (Weak(),)))
    teacher = config.teacher
    if teacher is not None and teacher.path is None:
        its_method = teacher.run.get("method")
        if its_method is not None and not _names_views(its_method):
            method = as_settings(_with_views(config.teaching_run().method, config.method.views))
            config = replace(config, teacher=replace(teacher, run={**teacher.run, "method": method}))
    return _from_anywhere(config)


def data_note(name: str, overrides: Settings) -> str:
    """Say which images a recipe is trained on where neither it nor a setting names any."""
    if "source" in overrides.get("data", {}) or "source" in read_recipe(TrainConfig, find_recipe(name)).get("data", {}):
        return ""
    return "the recipe names no data, so the images are those that ship with proco; --data PATH gives yours."


def rate_note(load: Callable[..., TrainConfig], overrides: Settings, batch_size: int | None = None) -> str:
    """Say which learning rate is in proportion where a batch size, but no rate, is set over what load gives.

    batch_size: what batches really have, where that is known; there may be fewer images than were asked for.
    """
    if not isinstance(overrides.get("batch_size"), int) or "lr" in overrides.get("optim", {}):
        return ""
    before, made = load(), batch_size or overrides["batch_size"]
    usual = AUTO_RATE_BATCH if before.batch_size == "auto" else before.batch_size
    if made == usual:
        return ""
    rate, fitting = f"{before.optim.lr:g}", f"{before.optim.lr * made / usual:.3g}"
    return f"optim.lr={rate} is the rate for batches of {usual}; for batches of {made} try optim.lr={fitting}."


def _source(settings: Settings) -> Settings:
    """Return what settings say of the source of the data, nothing where that is not settings of its own."""
    data = settings.get("data")
    source = data.get("source") if isinstance(data, dict) else None
    return source if isinstance(source, dict) else {}


def _names_views(method: Any) -> bool:
    return isinstance(method, dict) and "views" in method


def _with_views(method: Method, views: Sequence[View]) -> Method:
    """Return the method with these as its first views, as far as it has so many."""
    return replace(method, views=(*views, *method.views[len(views) :])[: len(method.views)])


def _without_its_data(recipe: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe for other data: subsets, statistics and results of its own do not go along."""
    kept = {name: value for name, value in recipe["data"].items() if name in ("size", "centre")}
    return _without(recipe, "about", "published") | {"data": kept}


def _without(settings: Settings, *names: str) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}


def _from_anywhere(config: TrainConfig) -> TrainConfig:
    data, teacher, engine = config.data, config.teacher, config.engine
    data = replace(data, source=data.source.from_anywhere())
    if teacher is not None and teacher.path is not None:
        teacher = replace(teacher, path=teacher.path.absolute())
    if engine.first_run is not None:
        engine = replace(engine, first_run=engine.first_run.absolute())
    return replace(config, data=data, teacher=teacher, engine=engine)
