"""The official code and a plain loop beside ours: what was measured of them, as benchmarks/results/ has it."""

import json
from pathlib import Path
from statistics import mean
from typing import Any

from tools.results.experiments import SHORT
from tools.results.runs import Runs

_RECORDED = Path(__file__).parents[2] / "benchmarks" / "results"


def official_sentence(runs: Runs) -> str:
    """Say what one run of the official code gave at imbalance 100, beside the paper's number and ours."""
    official, recipe = _official(), SHORT.recipe("proco")
    last, best = official["last epoch"], official["best epoch"]
    paper, ours = runs.paper(recipe), runs.spread(recipe, "best_top1")
    said = (
        "The official code, run once on CIFAR-100-LT at imbalance 100,"
        f" gave {last} % in its last epoch and {best} % in its best"
    )
    if paper is None or ours is None:
        return f"{said}."
    return f"{said}, {paper - float(best):.1f} below the paper, where ours is {paper - ours.mean:.1f} below."


def speed_sentence(runs: Runs) -> str:
    """Say how long that run takes, and how many steps a second there are beside a plain loop."""
    alone = [run["seconds"] for run in runs.of(SHORT.recipe("proco")) if run["lanes"] == 1]
    ours = f"{mean(alone):.0f} s, alone on a GPU" if alone else "no run alone on a GPU yet"
    (loop,) = (row["ratio"] for row in _rows("train_h200") if row["what"] == "ours")
    return (
        f"Its training: {ours}; the official code's: {int(_official()['seconds']):,} s from start to end. Steps a "
        f"second: {loop:.1f} times those of a plain loop in the same run. [Performance](performance.md) has more."
    )


def _official() -> dict[str, str]:
    (row,) = _rows("official_h200")
    return row


def _rows(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((_RECORDED / f"{name}.json").read_text())["rows"]
    return rows
