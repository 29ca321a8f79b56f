"""`proco compare`: several recipes over several seeds, with spread and paired differences."""

import json
import os
import re
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proco.cli.train import recipe_label

if TYPE_CHECKING:
    import torch
    from rich.console import Console

    from proco.data.prepare import SharedData
    from proco.training.run_folder import RunFolder
    from proco.training.settings import EngineConfig, TrainConfig

_SEEDS = re.compile(r"[\d,]+")


def compare(
    words: Annotated[
        list[str], typer.Argument(metavar="RECIPE... [SETTING=VALUE]...", help="Recipes, and settings over them all.")
    ],
    seeds: Annotated[list[str] | None, typer.Option(help="Seeds of the runs: --seeds 0 1 2, or 0,1,2.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Own data, as for proco train, in place of that of the recipes.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder of the run folders; what is finished there is not trained again.")
    ] = Path("runs/compare"),
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:1; the same as engine.device.")] = None,
    lanes: Annotated[
        int, typer.Option(min=1, help="Runs side by side on one GPU; small networks take less time so.")
    ] = 1,
    results: Annotated[
        Path | None, typer.Option(help="Folder to which each run adds its entry for the ledger as it ends.")
    ] = None,
) -> None:
    """Train every recipe with every seed and compare: mean, standard deviation, paired difference to the first."""
    from proco.cli.tables import make_console
    from proco.errors import ConfigError, ProCoError
    from proco.training.recipes import load_own_data, load_recipe, rate_note
    from proco.training.run_folder import RunFolder

    recipes, all_seeds, overrides = _read(
        [*words, *([] if device is None else [f"engine.device={device}"])], seeds or []
    )
    load = load_recipe if data is None else partial(load_own_data, data.resolve())
    configs = {(recipe, seed): load(recipe, overrides, {"seed": seed}) for recipe in recipes for seed in all_seeds}
    if results is not None:
        changed = "--data" if data is not None else _changes_the_result(overrides, recipes)
        if changed:
            raise ConfigError(
                f"--results keeps what recipes give as they stand; {changed} changes that. Write a recipe that extends "
                "it."
            )
    out.mkdir(parents=True, exist_ok=True)
    runs = [
        _Run(f"{number + 1} of {len(configs)}", recipe, config, RunFolder(run_folder(out, recipe, seed)))
        for number, ((recipe, seed), config) in enumerate(configs.items())
    ]
    for run in runs:  # before the first is trained
        run.folder.require_settings(run.config)
    console = make_console()
    for recipe in recipes:
        if advice := rate_note(partial(load, recipe), overrides):
            console.print(f"note: {recipe}: {advice}")
    failures = _train_all(runs, console, lanes, results)
    unfinished = {run.recipe for run in runs if not run.summary}
    # A mean over other seeds than its neighbour's would be no comparison.
    compared = [run for run in runs if run.recipe not in unfinished]
    if compared:
        _show(compared, console, all_seeds, out)
    if compared and failures:
        console.print(f"note: compared without {' and '.join(sorted(unfinished))}, not all runs of which are finished.")
    if failures:
        raise ProCoError(f"{len(failures)} of {len(runs)} runs failed: {' '.join(failures)}")


def _show(runs: "list[_Run]", console: "Console", seeds: list[int], out: Path) -> None:
    """Show runs that are finished, each recipe with every seed, and write down their figures."""
    from proco.cli.comparison import show_comparison
    from proco.training.whole_files import write_whole

    for note in dict.fromkeys(note for run in runs for note in run.summary["notes"]):
        console.print(f"note: {note}")
    if len({run.summary["data_hash"] for run in runs}) > 1:
        console.print("note: not all of these runs have the same data; differences are not of the methods alone.")
    summaries: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        summaries.setdefault(run.recipe, []).append(run.summary)
    show_comparison(console, {recipe_label(recipe): group for recipe, group in summaries.items()}, seeds)
    figures = {
        figure: {recipe: [summary[figure] for summary in group] for recipe, group in summaries.items()}
        for figure in ("top1", "balanced_accuracy")
    }
    content = json.dumps({"seeds": seeds, **figures}, indent=2) + "\n"
    write_whole(out / "comparison.json", content.encode())
    console.print("run folders:")
    for run in runs:
        console.print(f"  {run.folder.path}", soft_wrap=True)


@dataclass
class _Run:
    number: str
    recipe: str
    config: "TrainConfig"
    folder: "RunFolder"
    summary: dict[str, Any] = field(default_factory=dict)


def _read(words: list[str], seed_words: list[str]) -> tuple[list[str], list[int], dict[str, Any]]:
    """Return recipes, seeds and settings; of `--seeds 0 1 2` the option takes the first, the others are words."""
    from proco.config import packaged_name, read_assignments
    from proco.errors import ConfigError

    further = [word for word in words if _SEEDS.fullmatch(word)]
    given = [seed.strip() for word in [*seed_words, *further] for seed in word.strip(" ,").split(",")]
    if wrong := [seed for seed in given if not seed.isdecimal()]:
        raise ConfigError(f"seeds are whole numbers from 0 on, --seeds 0 1 2; got {wrong[0]!r}.")
    seeds = [int(seed) for seed in given] or [0]
    recipes = [packaged_name(word) for word in words if "=" not in word and word not in further]
    if not recipes or len(set(recipes)) < len(recipes) or len(set(seeds)) < len(seeds):
        raise ConfigError("give at least one recipe, and every recipe and seed once.")
    labels = [recipe_label(recipe) for recipe in recipes]
    if len(set(labels)) < len(labels):
        raise ConfigError(f"the recipes need different names for their folders; got {' and '.join(labels)}.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("proco compare trains in one process; under torchrun, train the runs one by one.")
    overrides = read_assignments(word for word in words if "=" in word)
    if "seed" in overrides:
        raise ConfigError("give the seeds with --seeds, not as a setting.")
    return recipes, seeds, overrides


def _train_all(runs: list[_Run], console: "Console", lanes: int, results: Path | None) -> list[str]:
    """Give every run its summary, and the ledger, where there is one, its entry; return which runs failed, and why."""
    from proco.cli.interrupt import noted_interrupts
    from proco.data.prepare import SharedData
    from proco.training.lanes import in_lanes
    from proco.training.ledger import write_entry

    failures: list[str] = []
    shared = SharedData()
    try:
        with _shared_engine([run.config.engine for run in runs], lanes) as device, noted_interrupts() as stop:
            for wave in _waves(runs):
                jobs = [
                    partial(_train, run, runs, _finished_before(run, runs), shared, console, lanes, stop)
                    for run in wave
                ]
                for number, outcome in in_lanes(jobs, lanes, stop, device):
                    run = wave[number]
                    if (error := outcome.exception()) is not None:
                        failures.append(f"{run.recipe}, seed {run.config.seed}: {_reason(error)}")
                        console.print(f"failed, the others go on: {failures[-1]}", soft_wrap=True)
                        continue
                    run.summary = outcome.result()
                    if results is not None:
                        write_entry(results, run.folder, recipe_label(run.recipe))
                    _require_comparable([run for run in runs if run.summary])  # not only when all are trained
    except KeyboardInterrupt:
        typer.echo("proco: stopped. The same command goes on where it was.", err=True)
        raise typer.Exit(130) from None
    return failures


def _reason(error: BaseException) -> str:
    """Return why a run failed; where nobody foresaw it, show the place: the others go on meanwhile."""
    from proco.errors import ProCoError

    if isinstance(error, ProCoError):
        return str(error)
    if not isinstance(error, Exception):
        raise error
    traceback.print_exception(error)
    return "".join(traceback.format_exception_only(error)).strip()


def _require_comparable(runs: list[_Run]) -> None:
    """Refuse other splits, and data that is meant to be the same and was not: some runs ended before it changed."""
    from proco.errors import ConfigError

    if len({run.summary["split"] for run in runs}) > 1:
        raise ConfigError("the recipes were evaluated on different splits, validation and test; nothing to compare.")
    first: dict[Any, _Run] = {}
    for run in runs:
        other = first.setdefault(run.config.data, run)
        if run.summary["data_hash"] != other.summary["data_hash"]:
            raise ConfigError(
                f"the data has changed between {other.folder.path} and {run.folder.path}; train anew, with another "
                "folder for --out."
            )


@contextmanager
def _shared_engine(engines: "list[EngineConfig]", lanes: int) -> "Iterator[torch.device]":
    """Hold what a process has once for runs side by side, and give their device; refuse those that differ in it."""
    import torch

    from proco.errors import ConfigError
    from proco.training.device import determinism, find_device

    if lanes == 1:  # each run sees to it
        yield torch.device("cpu")
        return
    for name in ("device", "precision", "deterministic"):
        if len({getattr(engine, name) for engine in engines}) > 1:
            raise ConfigError(f"runs side by side share engine.{name}, but these differ in it; leave --lanes out.")
    with determinism(engines[0]):
        yield find_device(engines[0].device)


def _changes_the_result(overrides: dict[str, Any], recipes: list[str]) -> str:
    """Return the first setting that changes more than where the data lies and how the work is done, if any.

    A recipe that leaves the precision to the machine stands as it is where the precision of some machine is named.
    """
    from proco.data.source import Source
    from proco.training.recipes import load_recipe
    from proco.training.settings import EngineConfig

    places = {"download", *(place for kind in Source.registry.values() for place in kind.places())}
    for name, value in overrides.items():
        if name == "data" and set(value) == {"source"} and set(value["source"]) <= places:
            continue
        if name != "engine":
            return name
        changing = {*EngineConfig.rounding, *EngineConfig.looks} & set(value)
        is_left_open = all(load_recipe(recipe).engine.precision == "auto" for recipe in recipes)
        if is_left_open and value.get("precision") in EngineConfig.automatic:
            changing.remove("precision")
        if changing:
            return f"engine.{min(changing)}"
    return ""


def _finished_before(run: _Run, runs: list[_Run]) -> "RunFolder | None":
    """Return one of the runs on the same data that is finished already, if any is."""
    same = (other.folder for other in runs if other.config.data == run.config.data)
    return next((folder for folder in same if folder.is_finished), None)


def _waves(runs: list[_Run]) -> list[list[_Run]]:
    """Return the runs in groups to be trained one after the other, a run in a later one than its first stage."""
    waves: dict[int, list[_Run]] = {}
    for run in runs:
        waves.setdefault(_stages_before(run, runs), []).append(run)
    return [waves[number] for number in sorted(waves)]


def _stages_before(run: _Run, runs: list[_Run]) -> int:
    return max((1 + _stages_before(first, runs) for first in _first_stages(run, runs)), default=0)


def _first_stages(run: _Run, runs: list[_Run]) -> list[_Run]:
    """Return those of the other runs that are the first stage of a run."""
    from proco.training.first_run import beginning_of, difference_of

    begun = beginning_of(run.config)
    if begun is None or run.config.engine.first_run is not None:
        return []
    return [other for other in runs if not difference_of(other.config, begun)]


def _beginning_with(run: _Run, runs: list[_Run]) -> "TrainConfig":
    """Return the settings of a run, with that of the others which is its first stage, where it is finished."""
    folders = (first.folder for first in _first_stages(run, runs))
    left = (folder.path.absolute() for folder in folders if folder.is_finished and folder.checkpoint_file.exists())
    path = next(left, run.config.engine.first_run)
    return replace(run.config, engine=replace(run.config.engine, first_run=path))


def _train(
    run: _Run,
    runs: list[_Run],
    like: "RunFolder | None",
    data: "SharedData",
    console: "Console",
    lanes: int,
    stop: threading.Event,
) -> dict[str, Any]:
    from proco.cli.progress import ProgressLines, file_progress, progress_for
    from proco.training.runs import fit_or_reuse

    label = f"{run.recipe}, seed {run.config.seed}"
    finished = "; finished already" if run.folder.is_finished else ""
    console.print(f"run {run.number}: {label}, in {run.folder.path}{finished}")
    config = run.config if run.folder.is_finished else _beginning_with(run, runs)
    if config.engine.first_run is not None:
        console.print(f"  goes on from {config.engine.first_run}, with which it shares its first stage")
    if lanes > 1:  # several bars would write over each other
        return fit_or_reuse(config, run.folder, ProgressLines(stop, f"{label}: "), data=data, like=like)
    with file_progress(console) as progress, progress_for(console, stop) as listener:
        return fit_or_reuse(config, run.folder, listener, data=data, progress=progress, like=like)


def run_folder(out: Path, recipe: str, seed: int) -> Path:
    """Return where the run of a recipe, a name or a path, with a seed belongs."""
    return out / recipe_label(recipe) / f"seed{seed}"
