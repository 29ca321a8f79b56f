"""What the figures show, as numbers; an empty answer means there is nothing to draw."""

from statistics import mean
from typing import NamedTuple

from tools.results.experiments import LOSS_WEIGHTS, METHODS, PROBES, SHORT
from tools.results.runs import Entry, Runs
from tools.results.spread import Spread

LEARNING_CURVES, LOSS_WEIGHT, BATCH_SIZE = FIGURES = ("learning_curves", "loss_weight", "batch_size")


class Point(NamedTuple):
    """A recipe at a value of the setting that is varied; spread is None where there is no run."""

    x: float
    recipe: str
    spread: Spread | None


class Epoch(NamedTuple):
    """Test accuracy after an epoch (counted from 1): mean, least and most over the seeds."""

    epoch: int
    mean: float
    least: float
    most: float


def loss_weights(runs: Runs) -> list[Point]:
    """Return accuracy by the weight of the contrastive loss. Logit adjustment, without that loss, stands at 0."""
    recipes = [SHORT.recipe("proco"), *runs.known(LOSS_WEIGHTS)]
    weighted = [(float(runs.settings(recipe)["method"]["weight"]), recipe) for recipe in recipes]
    return [
        Point(weight, recipe, runs.spread(recipe))
        for weight, recipe in sorted([(0.0, SHORT.recipe("logit_adjustment")), *weighted])
    ]


def probes(runs: Runs) -> dict[str, list[Point]]:
    """Return, by method, accuracy of a classifier on the frozen representation, by batch size."""
    found: dict[str, list[Point]] = {}
    for recipe in runs.known(PROBES):
        settings = runs.settings(recipe)
        found.setdefault(settings["method"]["name"], []).append(
            Point(settings["batch_size"], recipe, runs.spread(recipe))
        )
    return {method: sorted(found[method]) for method in sorted(found, key=_in_order)}


def learning_curves(runs: Runs) -> dict[str, list[Epoch]]:
    """Return, by method, the course of test accuracy on CIFAR-100-LT at imbalance 100.

    Only epochs that were evaluated with every seed are in it.
    """
    curves = {method: _course(runs.of(SHORT.recipe(method))) for method in METHODS}
    return {method: course for method, course in curves.items() if course}


def _course(entries: list[Entry]) -> list[Epoch]:
    by_epoch: dict[int, list[float]] = {}
    for entry in entries:
        epochs = range(1, entry["epochs"] + 1)
        for epoch, accuracy in zip(epochs, entry["curve"]["top1"], strict=True):
            if accuracy is not None:  # an epoch that was not evaluated
                by_epoch.setdefault(epoch, []).append(accuracy)
    return [
        Epoch(epoch, mean(values), min(values), max(values))
        for epoch, values in sorted(by_epoch.items())
        if len(values) == len(entries)  # a mean over other seeds than its neighbour's would jump
    ]


def run_points(points: list[Point]) -> list[tuple[float, Spread]]:
    """Return where there were runs."""
    return [(point.x, point.spread) for point in points if point.spread is not None]


def drawable(runs: Runs) -> list[str]:
    """Return the names of the figures that have something to show."""
    found = {
        LEARNING_CURVES: bool(learning_curves(runs)),
        LOSS_WEIGHT: len(run_points(loss_weights(runs))) > 2,  # more than logit adjustment and ProCo
        BATCH_SIZE: any(run_points(points) for points in probes(runs).values()),
    }
    return [name for name, is_there in found.items() if is_there]


def _in_order(method: str) -> tuple[int, str]:
    order = ("supcon", "bcl", "proco")
    return (order.index(method) if method in order else len(order), method)
