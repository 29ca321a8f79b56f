"""`proco train`: a recipe, or a folder of images, to a trained network and an honest figure."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from proco.training.run_folder import RunFolder
    from proco.training.settings import TrainConfig


def train(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RECIPE] [SETTING=VALUE]...", help="A recipe by name or path, and settings over it."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Own data: a folder of class folders, a CSV or TSV manifest, or an npz.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; by default a new one under runs/, named by the recipe.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this folder.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of weights, order and views; the same as seed=1.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:1; the same as engine.device.")] = None,
) -> None:
    """Train a network: proco train RECIPE, proco train --data PATH, or proco train --resume FOLDER.

    Settings are written name=value, such as epochs=20, method=logit_adjustment or optim.lr=0.1. `proco recipes`
    lists the recipes, `proco settings` the settings; those of a run are in its config.yaml. Under torchrun the work is
    shared by all ranks.
    """
    from proco.config import read_assignments
    from proco.distributed import process_group
    from proco.errors import ConfigError
    from proco.training.recipes import data_note, load_own_data, load_recipe, rate_note
    from proco.training.run_folder import RunError, RunFolder

    recipe, assignments = split_words(words or [])
    advise: Callable[[int], list[str]] | None = None
    folder: RunFolder | None = None
    if resume is not None:
        if recipe or assignments or data or out or seed is not None:
            raise ConfigError("--resume takes the settings of the run in the folder; give nothing else but --device.")
        folder = RunFolder(resume)
        config = folder.config()
        if folder.is_finished:
            raise RunError(f"the run in {resume} is finished; its result is in {folder.summary_file.name}.")
        name = ""
        if folder.checkpoint_file.exists() and config.teacher is None:
            # The checkpoint has all that was taken over, and that run may be gone. But a teacher is still read there.
            config = replace(config, engine=replace(config.engine, first_run=None))
    else:
        if data is not None:
            load = partial(load_own_data, data.resolve(), recipe)
        elif recipe is not None:
            load = partial(load_recipe, recipe)
        else:
            raise ConfigError("what should be trained? Name a recipe (proco recipes lists them) or give --data PATH.")
        overrides = read_assignments([*assignments, *([] if seed is None else [f"seed={seed}"])])
        if seed is not None and any(word.startswith("seed=") for word in assignments):
            raise ConfigError("give the seed once, with --seed or as seed=.")
        config = load(overrides)
        told = "" if recipe is None or data is not None else data_note(recipe, overrides)

        def advise(batch_size: int) -> list[str]:
            return [told, rate_note(load, overrides, batch_size)]

        # The records want names in UTF-8.
        name = recipe_label(recipe) if recipe else os.fsencode((data or Path()).resolve().stem).decode(errors="replace")
    if device is not None:
        config = replace(config, engine=replace(config.engine, device=device))

    with process_group("cpu" if config.engine.device == "cpu" else None):
        if out is not None:
            folder = RunFolder(out)
            _require_unused(folder)  # before all images are checked
        _train(config, folder, Path("runs") / name, advise, resume=resume is not None)


def _require_unused(folder: "RunFolder") -> None:
    """Refuse a folder that holds something, on all ranks or none: the main one writes there before the last looks."""
    from proco.distributed import broadcast_text, is_main_process
    from proco.training.run_folder import RunError

    refusal = ""
    if is_main_process():
        try:
            folder.require_unused()
        except RunError as error:
            refusal = str(error)
    if refusal := broadcast_text(refusal):
        raise RunError(refusal)


def _train(
    config: "TrainConfig",
    folder: "RunFolder | None",
    parent: Path,
    advise: Callable[[int], list[str]] | None,
    *,
    resume: bool,
) -> None:
    """Train into the folder, or a new one within parent, on every rank; the main one says what is going on.

    A function of its own: what it leaves behind of the ranks must be gone before they part.
    """
    from proco.cli.interrupt import noted_interrupts
    from proco.cli.progress import file_progress, progress_for
    from proco.cli.tables import make_console, show_accuracies, warn_of_scarcity
    from proco.distributed import broadcast_text, is_main_process
    from proco.training.journal import Silent
    from proco.training.run_folder import RunFolder
    from proco.training.runs import place_of_data_explained
    from proco.training.trainer import Trainer

    console = make_console()
    if resume and folder is not None and is_main_process():
        with folder.held():  # that another process has it is said before all images are checked
            pass
    explained = nullcontext() if folder is None or not resume else place_of_data_explained(folder)
    with file_progress(console) as progress, explained:
        trainer = Trainer(config, progress=progress if is_main_process() else None)
    waiting = ""
    if folder is None:  # chosen now, and not while others could still begin in it
        waiting = unfinished_run(parent, config.seed) if is_main_process() else ""
        folder = RunFolder(broadcast_text(str(unused_folder(parent, config.seed))))
    if not is_main_process():
        trainer.fit(folder, Silent(), resume=resume)
        return
    setup, dataset = trainer.setup, trainer.setup.dataset
    console.print(
        f"{dataset.name}: {len(dataset.splits['train'])} training images of {dataset.num_classes} classes, in "
        f"batches of {setup.batch_size}, on {setup.device}. {trainer.outline()} Run folder: {folder.path}"
    )
    for note in filter(None, [waiting, *(advise(setup.batch_size) if advise else []), setup.caution(), *dataset.notes]):
        console.print(f"note: {note}", soft_wrap=True)
    if resume and not (folder.has_checkpoint or folder.weights_file.exists()):
        console.print("note: there is no checkpoint yet; training begins again.")
    try:
        with noted_interrupts() as stop, progress_for(console, stop) as listener:
            summary = trainer.fit(folder, listener, resume=resume)
    except KeyboardInterrupt:
        further = _how_to_go_on(folder, config.engine.checkpoint_seconds)
        typer.echo(f"proco: stopped. {further}", err=True)
        raise typer.Exit(130) from None
    for note in summary["notes"][len(dataset.notes) :]:
        console.print(f"warning: {note}")
    show_accuracies(console, f"accuracy on {summary['split']}, last epoch, %", str(folder.path), summary)
    warn_of_scarcity(console, setup.class_counts, dataset.splits[summary["split"]].labels)


def _how_to_go_on(folder: "RunFolder", checkpoint_seconds: float) -> str:
    """Return how a run that was stopped is continued, and how much of it is trained again."""
    if not folder.is_begun:
        return "Nothing was trained yet."
    where = "goes on from the last checkpoint" if folder.has_checkpoint else "begins again, having no checkpoint yet"
    often = f"after the first epoch, and then engine.checkpoint_seconds={checkpoint_seconds:g} apart"
    return f"Continue with: proco train --resume {folder.path} (it {where}; checkpoints are made {often})"


def split_words(words: list[str]) -> tuple[str | None, list[str]]:
    """Return the recipe, the one word without '=', and the assignments."""
    from proco.config import packaged_name
    from proco.errors import ConfigError

    if any(word.startswith("=") or word.endswith("=") for word in words):
        raise ConfigError("a setting is written name=value, without spaces around the =.")
    recipes = [word for word in words if "=" not in word]
    if len(recipes) > 1:
        raise ConfigError(f"one recipe is trained at a time; got {' and '.join(recipes)}. See proco compare.")
    return (packaged_name(recipes[0]) if recipes else None), [word for word in words if "=" in word]


def recipe_label(recipe: str) -> str:
    """Return the name of a recipe for a folder: that of one that ships with the package, or a file's own."""
    return Path(recipe).stem if Path(recipe).is_file() else recipe


def unfinished_run(parent: Path, seed: int) -> str:
    """Say which run of this name and seed was begun last, is not finished, and is not being trained; "" for none."""
    from proco.training.run_folder import RunError, RunFolder

    for path in sorted(parent.glob(f"seed{seed}*"), key=lambda path: path.stat().st_mtime, reverse=True):
        folder = RunFolder(path)
        if not folder.is_begun or folder.is_finished:
            continue
        try:
            with folder.held():
                return f"the run in {path} is not finished; proco train --resume {path} goes on with it."
        except RunError:  # by another process
            continue
    return ""


def unused_folder(parent: Path, seed: int) -> Path:
    """Return the first of parent/seed0, parent/seed0-2, parent/seed0-3, ... that does not exist."""
    folder, number = parent / f"seed{seed}", 1
    while folder.exists():
        number += 1
        folder = parent / f"seed{seed}-{number}"
    return folder
