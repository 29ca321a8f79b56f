"""Write docs/methods.md from the registered methods.

    python -m tools.make_methods

What stands there of a method is what its file says: the docstrings of module and class, its settings, its recipes.
"""

import inspect
from dataclasses import fields
from pathlib import Path
from typing import get_args

from proco.cli.setting_list import Setting, settings_of
from proco.methods import Method
from proco.methods.method import Family
from proco.training.recipes import load_recipe, recipe_names
from tools.results.cells import table

ROOT = Path(__file__).parents[1]

_START = """\
# Methods

Made by `make methods` from the files in [`methods/`](../src/proco/methods), one for each; a test fails when the page is
not what they say. `proco methods` lists them on the terminal, with `--json` for programs. What they reach is in
[results](results.md), how to add one in [add a method](howto/add_a_method.md). Of the systems in the paper's tables
these are not here yet: BBN, SSP, TSC, KCL, Hybrid-SC, MetaSAug, ResLT, DRO-LT, RIDE, NCL, PaCo, GPaCo, SSD, ICCL.

```sh
proco train cifar100_lt/ldam_drw_100 data.source.path=PATH   # any of them; recipes are listed below
proco train --data photos method=crt epochs=30               # on your own images
proco train --data photos method.classification=ldam_drw     # ProCo's contrast beside another loss of the classifier
proco compare quickstart/ldam_drw quickstart/proco           # side by side
```

"""

_SHARED = ", ".join(f"`{field.name}`" for field in fields(Method))
_FAMILIES: dict[Family, str] = {
    "loss": "One classifier, one view, another loss than cross-entropy.",
    "classifier": "Another classifier, in training or only in use.",
    "two stages": "A network is trained, and then its classifier once more.",
    "contrast": "Embeddings are contrasted beside the classifier, which is logit-adjusted where nothing else is said.",
    "ablation": "ProCo with another thing in place of its class distributions, as its paper tries them.",
    "wrapper": "Goes around another method.",
}


def write_page() -> str:
    """Return the page as Markdown."""
    cards = [kind.card() for kind in Method.registry.values()]
    rows = [
        {
            "method": f"[`{card['name']}`](#{card['name']})",
            "family": card["family"],
            "what it does": card["summary"],
            "training costs": card["cost"],
        }
        for card in sorted(cards, key=lambda card: (get_args(Family).index(card["family"]), card["name"]))
    ]
    recipes = _recipes()
    parts = [_START + table(rows)]
    parts.append(f"All have the settings {_SHARED}; `proco settings method.` says what they are.")
    for family in get_args(Family):
        names = [card["name"] for card in cards if card["family"] == family]
        if names:
            common = _common_settings(names)
            parts.append(f"## {family.capitalize()}\n\n{_FAMILIES[family]}")
            if common:
                parts.append(f"All of them have\n\n{_listed(common)}")
            parts += [_section(name, common, recipes.get(name, [])) for name in names]
    return "\n\n".join(parts) + "\n"


def _common_settings(names: list[str]) -> list[Setting]:
    """Return the settings that several methods have alike."""
    first, *others = (_own_settings(Method.registry[name]) for name in names)
    return [setting for setting in first if all(setting in other for other in others)] if others else []


def _listed(settings: list[Setting]) -> str:
    return "\n".join(f"- `{setting.name}` = `{setting.default}`: {setting.sentence}" for setting in settings)


def _section(name: str, common: list[Setting], recipes: list[str]) -> str:
    kind = Method.registry[name]
    text = inspect.cleandoc(inspect.getmodule(kind).__doc__ or "")  # type: ignore[union-attr]
    own = [setting for setting in _own_settings(kind) if setting not in common]
    lines = [f"### {name}", "", inspect.cleandoc(kind.__doc__ or ""), "", text, "", f"Source: {kind.source}."]
    lines += ["", f"Training: {kind.cost}."]
    if own:
        lines += ["", _listed(own)]
    if recipes:
        lines += ["", f"Recipes: {', '.join(f'`{recipe}`' for recipe in recipes)}."]
    return "\n".join(lines)


def _own_settings(kind: type[Method]) -> list[Setting]:
    """Return the settings that not all methods have, without those of their parts."""
    own = {field.name for field in fields(kind)} - {field.name for field in fields(Method)}
    return [setting for setting in settings_of(kind) if setting.name in own]


def _recipes() -> dict[str, list[str]]:
    """Return the recipes that stand for a method, by its name; not those by which settings were chosen or ablated."""
    found: dict[str, list[str]] = {}
    for recipe in recipe_names():
        method = load_recipe(recipe).method.name
        if "/choices/" not in recipe and ("/ablations/" not in recipe or recipe.endswith(f"/{method}")):
            found.setdefault(method, []).append(recipe)
    return found


if __name__ == "__main__":
    (ROOT / "docs" / "methods.md").write_text(write_page())
