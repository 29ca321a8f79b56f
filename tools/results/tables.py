"""Tables of accuracy by recipe, beside the paper's."""

from collections.abc import Sequence

from tools.results.cells import NO_RUN, number, spread_or_no_run, table
from tools.results.experiments import METHODS, NAMES, SHORT, Aim, Grid, Setting
from tools.results.runs import Runs
from tools.results.series import loss_weights, probes

GROUPS = {"top1": "all", "many": "many", "medium": "medium", "few": "few"}


def grid_table(runs: Runs, grid: Grid) -> str:
    """Return paper, ours and best epoch for each cell, and the gain over the row of reference where there is one.

    A row is left out until one of its recipes is there.
    """
    rows = []
    references = grid.rows[grid.reference] if grid.reference else [None] * len(grid.columns)
    for name, recipes in grid.rows.items():
        if any(runs.knows(recipe) for recipe in recipes):
            row = {grid.corner: name}
            for column, recipe, reference in zip(grid.columns, recipes, references, strict=True):
                start = f"{column}: " if column else ""
                row[f"{start}paper"] = number(runs.paper(recipe), 1)
                row[f"{start}ours"] = spread_or_no_run(runs.spread(recipe))
                row[f"{start}best"] = _best(runs, recipe)
                if reference is not None:
                    row[f"{start}over ProCo"] = _gain(runs, recipe, reference)
            rows.append(row)
    return table(rows)


def _gain(runs: Runs, recipe: str, reference: str) -> str:
    """Write by how much the mean of a recipe is above that of another."""
    ours, other = runs.spread(recipe), runs.spread(reference)
    if recipe == reference or ours is None or other is None:
        return "-"
    return number(ours.mean - other.mean, signed=True)


def _best(runs: Runs, recipe: str) -> str:
    best = runs.spread(recipe, "best_top1")
    return number(None if best is None else best.mean)


def group_table(runs: Runs, setting: Setting) -> str:
    """Return accuracy of all, many, medium and few beside the paper's, one row a method."""
    rows = []
    for method, name in METHODS.items():
        recipe = setting.recipe(method)
        if runs.knows(recipe):
            row = {"method": name}
            for figure, group in GROUPS.items():
                row[f"{group}: paper"] = number(runs.paper(recipe, figure), 1)
                row[f"{group}: ours"] = spread_or_no_run(runs.spread(recipe, figure))
            rows.append(row)
    return table(rows)


def aim_table(runs: Runs, aims: Sequence[Aim]) -> str:
    """Return what was to be reached and whether it was, by the mean of the last epoch."""
    rows = []
    for aim, wanted in _known(runs, aims):
        spread = runs.spread(aim.recipe)
        missing = NO_RUN if spread is None else f"no, by {wanted - spread.mean:.2f}"
        reached = "yes" if spread is not None and spread.mean >= wanted else missing
        ours = spread_or_no_run(spread)
        rows.append({"what": aim.name, "aim": number(wanted, 1), "why": aim.why, "ours": ours, "reached": reached})
    return table(rows)


def aim_sentence(runs: Runs, aims: Sequence[Aim]) -> str:
    """Say how many aims were reached, and how many wait for a run."""
    found = [(runs.spread(aim.recipe), wanted) for aim, wanted in _known(runs, aims)]
    reached = sum(spread is not None and spread.mean >= wanted for spread, wanted in found)
    waiting = sum(spread is None for spread, _ in found)
    missed = len(found) - reached - waiting
    return f"{reached} of {len(found)} aims were reached, {missed} missed, {waiting} not tried yet."


def _known(runs: Runs, aims: Sequence[Aim]) -> list[tuple[Aim, float]]:
    """Return the aims that are known, and what is wanted; the paper does not report every recipe."""
    wanted = [runs.paper(aim.wanted) if isinstance(aim.wanted, str) else aim.wanted for aim in aims]
    return [(aim, value) for aim, value in zip(aims, wanted, strict=True) if value is not None]


def loss_weight_table(runs: Runs) -> str:
    """Return accuracy by the weight of the contrastive loss, and by how much it is above that with weight 1."""
    return table(
        [
            {
                "alpha": "0 (logit adjustment)" if point.x == 0 else f"{point.x:g}",
                "ours": spread_or_no_run(point.spread),
                "best": _best(runs, point.recipe),
                "over 1": _gain(runs, point.recipe, SHORT.recipe("proco")),
            }
            for point in loss_weights(runs)
        ]
    )


def probe_table(runs: Runs) -> str:
    """Return accuracy of the representation branch alone, a row a batch size, a column a method."""
    found = {method: {point.x: point.spread for point in points} for method, points in probes(runs).items()}
    sizes = sorted({size for spreads in found.values() for size in spreads})
    return table(
        [
            {"batch size": f"{size:g}"}
            | {NAMES.get(method, method): spread_or_no_run(spreads.get(size)) for method, spreads in found.items()}
            for size in sizes
        ]
    )
