"""`proco methods`, `proco recipes` and `proco settings`: what can be chosen."""

from typing import Annotated

import typer
from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from proco.cli.tables import make_console

_CHOICES = "/choices/"


def methods() -> None:
    """List the methods, their settings and defaults."""
    from dataclasses import fields

    from proco.cli.setting_list import written
    from proco.methods import Method

    table = Table(box=box.SIMPLE)
    for column in ("method", "what it does", "settings"):
        table.add_column(column, overflow="fold")
    for name, kind in Method.registry.items():
        method = kind()
        shown = " ".join(f"{field.name}={written(getattr(method, field.name))}" for field in fields(method))
        table.add_row(name, (kind.__doc__ or "").strip().splitlines()[0], shown)
    make_console().print(table)


def recipes(
    text: Annotated[str, typer.Argument(help="List those with this in their names; choices of settings too.")] = "",
) -> None:
    """List the recipes that ship with the package, with the paper's figure where it has one."""
    from proco.training.recipes import load_recipe, recipe_names

    console = make_console()
    names = recipe_names()
    listed = [name for name in names if (text in name if text else _CHOICES not in name)]
    for name in listed:
        config = load_recipe(name)
        published = config.published.get("top1")
        paper = "" if published is None else f"   paper: {published:.1f} %"
        console.print(Text.assemble((name, "bold"), paper))
        console.print(Padding(Text(config.about), (0, 0, 0, 4)))
    if not listed:
        console.print(f"no recipe has {text!r} in its name.")
    elif not text:
        left_out = len(names) - len(listed)
        console.print(f"and {left_out} by which settings were chosen: proco recipes choices")


def settings(
    text: Annotated[str, typer.Argument(help="List those with this in their names.")] = "",
) -> None:
    """List what can be set in a recipe or on the command line: name, default and what it does."""
    from proco.cli.setting_list import settings_of
    from proco.training.settings import TrainConfig

    console = make_console()
    listed = [setting for setting in settings_of(TrainConfig) if text in setting.name]
    for setting in listed:
        kinds = f"   ({', '.join(setting.kinds)})" if setting.kinds else ""
        console.print(Text.assemble((setting.name, "bold"), f" = {setting.default}{kinds}"))
        if setting.sentence:
            console.print(Padding(Text(setting.sentence), (0, 0, 0, 4)))
    if not listed:
        console.print(f"no setting has {text!r} in its name.")
