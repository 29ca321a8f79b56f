"""Recipes by name: YAML files of settings, those that ship with the package and those of the user."""

from difflib import get_close_matches
from pathlib import Path

import proco
from proco.config import Settings, merge, read_recipe
from proco.errors import ConfigError
from proco.training.settings import TrainConfig

FOLDER = Path(proco.__file__).parent / "recipes"


def recipe_names() -> list[str]:
    """Return the names of the recipes that ship with the package, such as `cifar100_lt/proco_100`."""
    return sorted(
        path.relative_to(FOLDER).with_suffix("").as_posix()
        for path in FOLDER.rglob("*.yaml")
        if not path.name.startswith("_")  # what others extend
    )


def find_recipe(name: str) -> Path:
    """Return the file of a recipe: a path to a YAML file, or the name of one that ships with the package."""
    if Path(name).is_file():
        return Path(name)
    if name not in recipe_names():
        near = get_close_matches(name, recipe_names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "proco recipes lists them."
        raise ConfigError(f"there is no recipe {name!r}; {hint} A file of your own is given by its path.")
    return FOLDER / f"{name}.yaml"


def load_recipe(name: str, *overrides: Settings) -> TrainConfig:
    """Read a recipe and merge it, and then the overrides, over the defaults."""
    return merge(TrainConfig, read_recipe(find_recipe(name)), *overrides)
