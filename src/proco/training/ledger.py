"""The ledger: what a finished run gave, in one small file that is kept when the run folder is not."""

import json
from pathlib import Path
from typing import Any

from proco.config import as_settings
from proco.training.run_folder import RunFolder
from proco.training.whole_files import write_whole


def entry_of(folder: RunFolder, recipe: str) -> dict[str, Any]:
    """Return the ledger's entry for a finished run of a recipe.

    top1, many, medium and few are of the last epoch; best_top1 is that of the best epoch on the split of the curve, of
    those evaluated, kept because papers report it; mean_last_20 is None where not all of these were evaluated. lanes is
    how many runs shared the device, and so the seconds. teacher_top1 is that of the run that taught this one, where
    there was one. first_run says that the first stage, its seconds too, is that of another run.
    """
    config, summary, records = folder.config(), folder.summary(), folder.records()
    settings = as_settings(config)
    for place in config.data.source.places():  # where it lay on that machine tells nobody anything
        settings["data"]["source"].pop(place)
    settings["engine"].pop("first_run")
    if config.teacher is not None:
        settings["teacher"].pop("path")
    split = summary["best_split"]
    curve = [record[split]["top1"] if split in record else None for record in records]
    last = [top1 for top1 in curve[-20:] if top1 is not None]
    return {
        "recipe": recipe,
        "method": settings["method"]["name"],
        "dataset": settings["data"]["source"]["name"],
        "imbalance": config.data.imbalance,
        "epochs": len(records),
        "seed": config.seed,
        **{name: _rounded(summary[name]) for name in ("top1", "many", "medium", "few")},
        "split": summary["split"],
        "balanced_accuracy": _rounded(summary["balanced_accuracy"]),
        **({"teacher_top1": _rounded(summary["teacher_top1"])} if config.teacher else {}),
        "best_top1": _rounded(summary["best_top1"]),
        "mean_last_20": _rounded(sum(last) / len(last) if len(last) == len(curve[-20:]) else None),
        "seconds": _rounded(summary["seconds"]),
        "images_per_second": _rounded(summary["images_per_second"]),
        **({"first_run": True} if config.engine.first_run else {}),
        "lanes": int(config.made_with.get("lanes", "1")),
        "hardware": config.made_with.get("hardware", ""),
        "torch": config.made_with.get("torch", ""),
        "commit": config.made_with.get("commit", ""),
        "config": settings,
        "curve": {
            "split": split,
            "top1": [_rounded(value) for value in curve],
            "accuracy": [_rounded(record["accuracy"]) for record in records],
            **{name: [_rounded(record["losses"].get(name)) for record in records] for name in _terms(records)},
        },
    }


def write_entry(results: Path, folder: RunFolder, recipe: str) -> Path:
    """Write the entry of a run to results/RECIPE/seedN.json and return that path."""
    entry = entry_of(folder, recipe)
    path = results / recipe / f"seed{entry['seed']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(entry) + "\n").encode())
    return path


def read_entries(results: Path) -> list[dict[str, Any]]:
    """Read all entries under a folder, in the order of their paths."""
    return [json.loads(path.read_text()) for path in sorted(results.rglob("seed*.json"))]


def _terms(records: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record["losses"]))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
