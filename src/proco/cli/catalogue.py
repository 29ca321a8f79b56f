"""`proco methods` and `proco recipes`: what can be chosen."""

from rich import box
from rich.table import Table

from proco.cli.tables import make_console


def methods() -> None:
    """List the methods, their settings and defaults."""
    from proco.config import as_settings
    from proco.methods import Method

    table = Table(box=box.SIMPLE)
    for column in ("method", "what it does", "settings"):
        table.add_column(column, overflow="fold")
    for name, kind in Method.registry.items():
        settings = as_settings(kind())
        views = ", ".join(view["name"] for view in settings.pop("views"))
        shown = [f"views=[{views}]", *(f"{key}={value}" for key, value in settings.items() if key != "name")]
        table.add_row(name, (kind.__doc__ or "").strip().splitlines()[0], " ".join(shown))
    make_console().print(table)


def recipes() -> None:
    """List the recipes that ship with the package, with the paper's figure where it has one."""
    from proco.training.recipes import load_recipe, recipe_names

    table = Table(box=box.SIMPLE)
    table.add_column("recipe", no_wrap=True)
    table.add_column("paper, %", justify="right")
    table.add_column("what it is", overflow="fold")
    for name in recipe_names():
        config = load_recipe(name)
        published = config.published.get("top1")
        table.add_row(name, "" if published is None else f"{published:.1f}", config.about)
    make_console().print(table)
