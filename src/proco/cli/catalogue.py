"""`proco methods`, `proco recipes` and `proco settings`: what can be chosen."""

from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from proco.cli.tables import make_console

_CHOICES = "/choices/"


def methods(
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of objects and nothing else.")] = False,
) -> None:
    """List the methods: what each does, who found it, and what its training costs."""
    from proco.methods import Method

    cards = [kind.card() for kind in Method.registry.values()]
    if as_json:
        import json

        typer.echo(json.dumps(cards, indent=2))
        return
    console = make_console()
    for card in cards:
        console.print(Text.assemble((card["name"], "bold"), f"   {card['family']}; {card['cost']}"))
        console.print(Padding(Text(f"{card['summary']}\n{card['source']}"), (0, 0, 0, 4)))
    console.print("their settings: proco settings method.")


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
