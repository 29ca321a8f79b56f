"""Run by run: time, figures, and settings that differ."""

from collections.abc import Sequence
from math import sqrt
from statistics import mean

from tools.results.cells import number, table
from tools.results.experiments import METHODS, QUICKSTART, SETTINGS
from tools.results.runs import Entry, Runs
from tools.results.spread import Scatter
from tools.results.tables import GROUPS


def hardware_list(runs: Runs) -> str:
    """Name what the runs were made on, and how many were."""
    made = [f"{entry['hardware']}, torch {entry['torch']}" for entry in runs.tested]
    return "; ".join(f"{name} ({made.count(name)} runs)" for name in sorted(set(made))) or "no run yet"


def time_table(runs: Runs) -> str:
    """Return the seconds of runs, alone on the GPU and side by side, by recipe, number of evaluations and hardware."""
    rows = []
    for label in dict.fromkeys(_work(entry) for entry in runs.tested):
        recipe, epochs, evaluations, hardware = label
        entries = [entry for entry in runs.of(recipe) if _work(entry) == label]
        shared = [entry for entry in entries if entry["lanes"] > 1]
        rows.append(
            {
                "recipe": recipe,
                "epochs": str(epochs),
                "evaluations": str(evaluations),
                "alone, s": _seconds([entry for entry in entries if entry["lanes"] == 1]),
                "side by side, s": _seconds(shared),
                "lanes": ", ".join(str(lanes) for lanes in sorted({entry["lanes"] for entry in shared})) or "-",
                "hardware": hardware,
            }
        )
    return table(rows)


def _work(entry: Entry) -> tuple[str, int, int, str]:
    evaluations = sum(accuracy is not None for accuracy in entry["curve"]["top1"])
    return entry["recipe"], entry["epochs"], evaluations, entry["hardware"]


def _seconds(entries: Sequence[Entry]) -> str:
    if not entries:
        return "-"
    return f"{mean(entry['seconds'] / entry['lanes'] for entry in entries):.0f} ({len(entries)})"


def cost_sentence(runs: Runs, method: str, other: str) -> str:
    """Say how many times as long as another a method trains: where as many others were beside both, and elsewhere."""
    alike, unlike = [], []
    for setting in SETTINGS:
        entries = [runs.of(setting.recipe(name)) for name in (method, other)]
        both = {entry["lanes"] for entry in entries[0]} & {entry["lanes"] for entry in entries[1]}
        for lanes in both:
            first, second = (mean(run["seconds"] for run in some if run["lanes"] == lanes) for some in entries)
            alike.append(first / second)
        if all(entries) and not both:
            first, second = (mean(run["seconds"] / run["lanes"] for run in some) for some in entries)
            unlike.append(first / second)
    if not alike:
        return ""
    settings = f"{len(alike)} setting{'s' if len(alike) > 1 else ''}"
    said = f"Training takes {_range(alike)} times as long as {METHODS[other]}'s, at the {settings} where as many runs "
    rest = f", and {_range(unlike)} times elsewhere, by the cost of a run with other numbers of lanes" if unlike else ""
    return f"{said}were side by side{rest} ([Time](#time))."


def _range(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.1f}" + (f" to {max(ratios):.1f}" if len(ratios) > 1 else "")


def error_sentence(runs: Runs) -> str:
    """Say how far the runs of a recipe scatter, and how far a difference of two means does for it."""
    recipes = {run["recipe"] for run in runs.tested if not run["recipe"].startswith(QUICKSTART)}
    common = Scatter.pooled([list(runs.values(recipe).values()) for recipe in recipes])
    if common is None:
        return ""
    error = common.deviation * sqrt(1 / 2 + 1 / 5)
    return (
        f"Seeds of a recipe scatter by {common.deviation:.2f} (CIFAR, all recipes), so that of two against five the\n"
        f"difference has a standard error of {error:.1f}."
    )


def waiting_list(runs: Runs) -> str:
    """Name the recipes for the test set that have no run, by folder."""
    run = {entry["recipe"] for entry in runs.tested}
    folders: dict[str, list[str]] = {}
    for recipe, settings in runs.recipes.items():
        if recipe not in run and not settings["data"].get("left_out"):
            folders.setdefault(recipe.rpartition("/")[0], []).append(recipe)
    lines = [f"- {', '.join(names)}" for names in folders.values()]
    return "\n".join(["Recipes without a run:", "", *lines]) if lines else "Every recipe has a run."


def run_table(runs: Runs) -> str:
    """Return all runs on the test set, one row each."""
    return table(
        [
            {
                "recipe": entry["recipe"],
                "seed": str(entry["seed"]),
                **{group: number(entry[figure]) for figure, group in GROUPS.items()},
                "best": number(entry["best_top1"]) if entry["curve"]["split"] == "test" else "-",
                "last 20": number(entry["mean_last_20"]) if entry["curve"]["split"] == "test" else "-",
                "commit": entry["commit"][:7] or "-",
            }
            for entry in runs.tested
        ]
    )


def departure_list(runs: Runs) -> str:
    """Say which runs on the test set have other settings than their recipe has now."""
    seeds: dict[tuple[str, str], list[str]] = {}
    for entry in runs.tested:
        if departures := runs.departures(entry):
            seeds.setdefault((entry["recipe"], ", ".join(departures)), []).append(str(entry["seed"]))
    lines = [f"- {recipe}, seed {', '.join(found)}: {departures}" for (recipe, departures), found in seeds.items()]
    if not lines:
        return "Every setting that a run and its recipe both have is the same in both."
    return "\n".join(["Runs with other settings than their recipe has now:", "", *lines])
