"""`proco evaluate`: what a trained network is worth, class by class."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from proco.data.dataset import Split
    from proco.data.source import Source
    from proco.training.run_folder import RunFolder


def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SETTING=VALUE]...", help="Settings of the data that --data names, data.source.*."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="train, val or test; by default the one of the summary.")] = None,
    data: Annotated[Path | None, typer.Option(help="Evaluate on other data of the run's classes.")] = None,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="Of --data, leave out the images that were trained on.")
    ] = False,
    worst: Annotated[int, typer.Option(min=0, help="How many of the least accurate classes to list.")] = 10,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:1; by default a GPU where there is one.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON and nothing else.")] = False,
) -> None:
    """Evaluate the network of a run: accuracy by shot group, calibration, and the classes it does worst on."""
    import json
    from dataclasses import asdict, replace

    from proco.cli.progress import file_progress
    from proco.cli.tables import make_console, show_accuracies, warn_of_scarcity
    from proco.errors import ConfigError
    from proco.training.classifier import Classifier
    from proco.training.run_folder import RunFolder
    from proco.training.runs import data_of

    console, folder = make_console(), RunFolder(run)
    classifier = Classifier.of(folder, device)
    with file_progress(console) as shown:
        progress = None if as_json else shown
        if data is not None:
            dataset = _source_at(data, settings or []).read(progress)
        elif settings:
            raise ConfigError(f"{settings[0]} is for other data than the run's own; name it with --data.")
        else:
            dataset = data_of(folder, progress)
    what = None
    if set(dataset.splits) == {"train"} and split in (None, "test"):  # all of it is the test
        dataset, what = replace(dataset, splits={"test": dataset.splits["train"]}), f"all images of {dataset.name}"
    splits = classifier.splits_of(dataset)
    split = split or dataset.test_split
    if split not in splits:
        raise ConfigError(f"the data has no split {split!r}; it has {', '.join(splits)}.")
    if unseen and data is None:
        raise ConfigError("--unseen is for other data than the run's own; name it with --data.")
    chosen, seen = _apart_from_training(splits[split], folder, leave_out=unseen)
    metrics = classifier.evaluate(chosen)
    for warning in chosen.images.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if as_json:
        facts = {
            "split": split if what is None else "all",
            "class_names": classifier.class_names,
            "class_counts": classifier.class_counts.tolist(),
            "trained_on": seen,
        }
        typer.echo(json.dumps(asdict(metrics) | facts, indent=2))
        return
    for note in dataset.notes:
        console.print(f"note: {note}")
    if seen:
        way_out = "" if data is None else "; --unseen leaves them out"
        console.print(f"note: {seen} of these {len(chosen)} images were trained on: the figures are too good{way_out}.")
    show_accuracies(console, f"accuracy on {what or split}, %", str(run), asdict(metrics))
    warn_of_scarcity(console, classifier.class_counts, chosen.labels)
    console.print(f"expected calibration error {metrics.ece:.3f}")
    known = [(accuracy, i) for i, accuracy in enumerate(metrics.per_class_accuracy) if accuracy is not None]
    console.print(f"least accurate classes (accuracy, training images), of {len(known)}:")
    for accuracy, i in sorted(known)[:worst]:
        console.print(f"  {accuracy:5.1f} %  {int(classifier.class_counts[i]):6}  {classifier.class_names[i]}")


def _apart_from_training(split: "Split", folder: "RunFolder", *, leave_out: bool) -> tuple["Split", int]:
    """Return a split, without what a run was trained on if that is left out, and how many of it were trained on."""
    import torch

    from proco.errors import ConfigError

    known = folder.training_images()
    if known is None:
        if leave_out:
            raise ConfigError(f"which images were trained on is not known: {folder.training_images_file} is not there.")
        return split, 0
    is_seen = torch.isin(split.images.identities, known)
    if not leave_out:
        return split, int(is_seen.sum())
    if is_seen.all():
        raise ConfigError("all of these images were trained on; --unseen leaves none.")
    return split.subset((~is_seen).nonzero().flatten()), 0


def _source_at(path: Path, assignments: list[str]) -> "Source":
    """Return where the data at path is read from; refuse settings of how it would be trained on."""
    from proco.cli.data import data_settings
    from proco.config import read_assignments
    from proco.errors import ConfigError

    settings = data_settings(path, assignments)
    for name in read_assignments(assignments).get("data", {}):
        if name != "source":
            raise ConfigError(
                f"only data.source.* has a meaning here, for the run has settings of its own; got data.{name}."
            )
    return settings.source
