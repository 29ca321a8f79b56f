"""Tables of every registered method: on the bundled images, and on CIFAR-100-LT under one recipe and its own."""

from statistics import mean

from proco.methods import Method
from tools.results.cells import NO_RUN, number, spread_or_no_run, table
from tools.results.experiments import ABLATIONS, QUICKSTART, SHORT
from tools.results.runs import Runs
from tools.results.tables import GROUPS

OWN = "cifar100_lt/own/"
COMBINED = "cifar100_lt/combined/"
_NEAR = 1.0  # points that a figure may be off by the choice of images and of the epoch


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
        own = own_recipe(name)
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


def common_recipes(runs: Runs) -> list[str]:
    """Return the recipes of the column "common"."""
    return [common_recipe(runs, name) for name in Method.registry]


def own_recipes(runs: Runs) -> list[str]:
    """Return the recipes of the column "own"."""
    return [own for name in Method.registry if runs.knows(own := own_recipe(name))]


def own_recipe(method: str) -> str:
    """Return the recipe with a method's own settings; not every method has one."""
    return f"{OWN}{method}_{SHORT.imbalance}"


def own_sentence(runs: Runs) -> str:
    """Return how far the methods by their own recipes are from what is published for them."""
    distances = {}
    for name in Method.registry:
        own = own_recipe(name)
        ours, published = runs.spread(own), runs.paper(own)
        if ours is not None and published is not None:
            distances[name] = ours.mean - published
    if not distances:
        return "No run by a recipe for which there is a published figure yet."
    far = {name: distance for name, distance in distances.items() if abs(distance) > _NEAR}
    those = " and ".join(f"{name} ({distance:+.2f})" for name, distance in far.items())
    others = f"; farther from theirs: {those}." if far else "."
    return (
        f"By their own recipes {len(distances) - len(far)} of {len(distances)} methods with a published figure are "
        f"within a point of it{others}"
    )


def corrected_sentence(runs: Runs) -> str:
    """Return which methods' own runs were made before their recipe was corrected, and with what; "" for none."""
    found = {}
    for name in Method.registry:
        for entry in runs.of(own_recipe(name)):
            changes = [change for change in runs.departures(entry) if not change.startswith("engine.")]
            if changes:
                found[name] = ", ".join(changes)
    those = "; ".join(f"{name} with {changes}" for name, changes in found.items())
    return f"Made before the recipe was corrected, which has no run since: {those}." if found else ""


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
