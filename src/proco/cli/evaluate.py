"""`proco evaluate`: what a trained network is worth, class by class."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from proco.data.source import Source


def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SETTING=VALUE]...", help="Settings of the data that --data names, data.source.*."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="train, val or test; by default the one of the summary.")] = None,
    data: Annotated[Path | None, typer.Option(help="Evaluate on other data of the run's classes.")] = None,
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
    metrics = classifier.evaluate(splits[split])
    for warning in splits[split].images.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if as_json:
        facts = {
            "split": split if what is None else "all",
            "class_names": classifier.class_names,
            "class_counts": classifier.class_counts.tolist(),
        }
        typer.echo(json.dumps(asdict(metrics) | facts, indent=2))
        return
    for note in dataset.notes:
        console.print(f"note: {note}")
    show_accuracies(console, f"accuracy on {what or split}, %", str(run), asdict(metrics))
    warn_of_scarcity(console, classifier.class_counts, splits[split].labels)
    console.print(f"expected calibration error {metrics.ece:.3f}")
    known = [(accuracy, i) for i, accuracy in enumerate(metrics.per_class_accuracy) if accuracy is not None]
    console.print(f"least accurate classes (accuracy, training images), of {len(known)}:")
    for accuracy, i in sorted(known)[:worst]:
        console.print(f"  {accuracy:5.1f} %  {int(classifier.class_counts[i]):6}  {classifier.class_names[i]}")


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
