"""Tables of every registered method: on the bundled images, and on CIFAR-100-LT under one recipe and its own."""

from statistics import mean

from proco.methods import Method
from tools.results.cells import NO_RUN, number, spread_or_no_run, table
from tools.results.experiments import ABLATIONS, QUICKSTART, SHORT
from tools.results.runs import Runs
from tools.results.tables import GROUPS

OWN = "cifar100_lt/own/"
COMBINED = "cifar100_lt/combined/"


def quickstart_table(runs: Runs) -> str:
    """Return what the recipes for the bundled images gave, the best first, and how long a run took."""
    rows = []
    for recipe in sorted(runs.known(QUICKSTART), key=lambda recipe: -_mean(runs, recipe)):
        entries = runs.of(recipe)
        row = {"recipe": recipe.removeprefix(QUICKSTART)}
        row |= {group: spread_or_no_run(runs.spread(recipe, figure)) for figure, group in GROUPS.items()}
        row["seconds"] = f"{mean(entry['seconds'] for entry in entries):.0f}" if entries else NO_RUN
        rows.append(row)
    return table(rows)


def method_table(runs: Runs) -> str:
    """Return accuracy under the common recipe and under each method's own, beside what is published for it."""
    rows = []
    for name, kind in Method.registry.items():
        own = f"{OWN}{name}_{SHORT.imbalance}"
        rows.append(
            {
                "method": name,
                "family": kind.family,
                "common: paper": number(runs.paper(common_recipe(runs, name)), 1),
                "common: ours": spread_or_no_run(runs.spread(common_recipe(runs, name))),
                "own: published": number(runs.paper(own), 1),
                "own: ours": spread_or_no_run(runs.spread(own)) if runs.knows(own) else "-",
            }
        )
    return table(rows)


def combination_table(runs: Runs) -> str:
    """Return accuracy of ProCo's contrast beside other classifications than logit adjustment."""
    return table(
        [
            {"recipe": recipe.removeprefix(COMBINED), "ours": spread_or_no_run(runs.spread(recipe))}
            for recipe in runs.known(COMBINED)
        ]
    )


def common_recipe(runs: Runs, method: str) -> str:
    """Return the recipe in which a method has ProCo's views, network and course of training."""
    recipe, ablation = SHORT.recipe(method), f"{ABLATIONS}/{method}"
    return recipe if runs.knows(recipe) else ablation


def _mean(runs: Runs, recipe: str) -> float:
    spread = runs.spread(recipe)
    return 0.0 if spread is None else spread.mean
