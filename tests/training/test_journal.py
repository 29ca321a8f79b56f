"""What is told of a run: lines of metrics.jsonl, and the same for TensorBoard."""

from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from proco.training.journal import Journal, Silent
from proco.training.run_folder import RunFolder


def record(epoch: int, top1: float | None) -> dict[str, Any]:
    return {"epoch": epoch, "loss": 2.0 - epoch, "test": {"top1": top1}}


def events(folder: RunFolder) -> dict[str, list[tuple[int, float]]]:
    """The points of each curve that TensorBoard shows."""
    read = EventAccumulator(str(folder.path)).Reload()
    return {tag: [(point.step, point.value) for point in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_curves_have_their_names_and_epochs(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with Journal(folder, Silent(), 0) as journal:
        journal.record(record(0, None))
        journal.record(record(1, 50.0))
    assert events(folder) == {"loss": [(0, 2.0), (1, 1.0)], "test/top1": [(1, 50.0)]}
    assert [line["epoch"] for line in folder.records()] == [0, 1]


def test_what_an_interrupted_run_wrote_is_dropped(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with Journal(folder, Silent(), 0) as journal:
        for epoch in range(3):
            journal.record(record(epoch, 10.0))
    with Journal(folder, Silent(), 1) as journal:
        journal.record(record(1, 60.0))
    assert [(line["epoch"], line["test"]["top1"]) for line in folder.records()] == [(0, 10.0), (1, 60.0)]
    assert events(folder)["test/top1"] == [(0, 10.0), (1, 60.0)]
