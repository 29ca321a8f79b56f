"""The official code and a plain loop beside ours: what was measured of them, as benchmarks/results/ has it."""

import json
from pathlib import Path
from typing import Any

from tools.results.experiments import SHORT
from tools.results.runs import Runs

_RECORDED = Path(__file__).parents[2] / "benchmarks" / "results"


def official_sentence(runs: Runs) -> str:
    """Say what one run of the official code gave at imbalance 100, beside the paper's number and ours."""
    official, recipe = _official(), SHORT.recipe("proco")
    last, best = official["last epoch"], official["best epoch"]
    paper, ours, ours_best = runs.paper(recipe), runs.spread(recipe), runs.spread(recipe, "best_top1")
    said = f"The official code, run once on CIFAR-100-LT at imbalance 100, gave {last} % in its last epoch"
    if paper is None or ours is None or ours_best is None:
        return f"{said} and {best} % in its best."
    return (
        f"{said}, ours {ours}. Its best epoch is {paper - float(best):.1f} below the paper, ours "
        f"{paper - ours_best.mean:.1f}."
    )


def speed_sentence() -> str:
    """Say how long that run takes, and how many steps a second there are beside a plain loop."""
    ours, official = float(_rows("whole_runs_h200")[-1]["one run, s"]), int(_official()["seconds"])
    (loop,) = (row["ratio"] for row in _rows("train_h200") if row["what"] == "ours")
    return (
        f"From the start of the process to its end ProCo takes {ours:.0f} s there on one GPU, {official:,} s with the "
        f"official code; a plain loop takes {loop:.1f} times as long for a step. Ours is in bfloat16 and looks at the "
        "test set after 38 epochs, theirs in float32 and after all 200 ([performance](performance.md))."
    )


def _official() -> dict[str, str]:
    (row,) = _rows("official_h200")
    return row


def _rows(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((_RECORDED / f"{name}.json").read_text())["rows"]
    return rows
