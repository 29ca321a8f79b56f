"""The figures, as SVG that comes out the same byte for byte as long as matplotlib is the same."""

from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tools.results.experiments import NAMES, SHORT
from tools.results.runs import Runs
from tools.results.series import (
    BATCH_SIZE,
    LEARNING_CURVES,
    LOSS_WEIGHT,
    Epoch,
    drawable,
    learning_curves,
    loss_weights,
    probes,
    run_points,
)
from tools.results.spread import Spread

# Okabe and Ito's colours, which the colour-blind tell apart; markers tell them apart once more.
COLOURS = {
    "logit_adjustment": "#555555",
    "supcon": "#E69F00",
    "bcl": "#0072B2",
    "proco": "#D55E00",
    "proco_plus": "#009E73",
}
MARKERS = {"supcon": "^", "bcl": "s", "proco": "o"}
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "proco",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
    "errorbar.capsize": 3,
}
_LAST_PART = 0.82  # of the epochs, from where the second panel shows them: the learning rate falls at 0.8 and 0.9


def draw(runs: Runs) -> dict[str, str]:
    """Return the SVG of each figure that has something to show, by name."""
    painters: dict[str, Callable[[Runs], Figure]] = {
        LEARNING_CURVES: _learning_curves,
        LOSS_WEIGHT: _loss_weight,
        BATCH_SIZE: _batch_size,
    }
    with mpl.rc_context():
        mpl.rcdefaults()  # whatever a file of settings on this machine says
        mpl.rcParams.update(_STYLE)
        return {name: _svg(painters[name](runs)) for name in drawable(runs)}


def _svg(figure: Figure) -> str:
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    # The writer leaves spaces at line ends, which not every editor lets be.
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _learning_curves(runs: Runs) -> Figure:
    figure = Figure(figsize=(7.6, 3.2), layout="constrained")
    whole, end = figure.subplots(1, 2)
    for method, course in learning_curves(runs).items():
        last = course[-1].epoch
        label = f"{NAMES[method]} ({len(runs.of(SHORT.recipe(method)))})"
        _draw_course(whole, course, COLOURS[method], label)
        _draw_course(end, [point for point in course if point.epoch >= _LAST_PART * last], COLOURS[method], label)
    whole.set_ylabel("test accuracy, %")
    whole.set_ylim(bottom=0)
    whole.legend(loc="lower right")
    for axes in (whole, end):
        axes.set_xlabel("epoch")
        axes.margins(x=0.02)
    return figure


def _draw_course(axes: Axes, course: Sequence[Epoch], colour: str, label: str) -> None:
    epochs = [point.epoch for point in course]
    least, most = [point.least for point in course], [point.most for point in course]
    axes.fill_between(epochs, least, most, color=colour, alpha=0.2, linewidth=0)
    axes.plot(epochs, [point.mean for point in course], color=colour, label=label, marker=".", markersize=3)


def _loss_weight(runs: Runs) -> Figure:
    figure = Figure(figsize=(4.6, 3.0), layout="constrained")
    axes = figure.subplots()
    points = run_points(loss_weights(runs))
    _error_bars(axes, points, "proco")
    axes.set_xscale("symlog", linthresh=0.1, linscale=0.5)
    weights = [weight for weight, _ in points]
    axes.set_xticks(weights, [f"{weight:g}" for weight in weights])
    axes.minorticks_off()
    axes.set_xlabel("weight of the contrastive loss (0: logit adjustment)")
    axes.set_ylabel("test accuracy, %")
    return figure


def _batch_size(runs: Runs) -> Figure:
    figure = Figure(figsize=(4.6, 3.0), layout="constrained")
    axes = figure.subplots()
    found = {method: run_points(points) for method, points in probes(runs).items()}
    for number, (method, points) in enumerate(found.items()):
        apart = 2 ** (0.08 * (number - (len(found) - 1) / 2))  # so that markers of the same size do not hide each other
        _error_bars(axes, [(size * apart, spread) for size, spread in points], method)
    sizes = sorted({size for points in found.values() for size, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("batch size, images")
    axes.set_ylabel("test accuracy, %")
    axes.legend()
    return figure


def _error_bars(axes: Axes, points: Sequence[tuple[float, Spread]], method: str) -> None:
    axes.errorbar(
        [x for x, _ in points],
        [spread.mean for _, spread in points],
        [spread.deviation or 0.0 for _, spread in points],
        color=COLOURS.get(method, "black"),
        marker=MARKERS.get(method, "D"),
        label=NAMES.get(method, method),
    )
