"""Checkpoints: what goes in comes back, and one of other settings is named."""

import pytest
import torch
from torch import nn

from proco.training.checkpoint import Course, checkpoint_of, restore
from proco.training.run_folder import RunError


def test_course_and_states_come_back() -> None:
    course = Course(epoch=3, stage=1, seconds=2.5, train_seconds=2.0, images=96)
    first, second = nn.Linear(2, 3), nn.BatchNorm1d(3)
    second.running_mean += 1
    checkpoint = checkpoint_of(course, {"network": first, "average": second})
    other, statistics = nn.Linear(2, 3), nn.BatchNorm1d(3)
    assert restore(checkpoint, {"network": other}) == course  # a part of it
    assert torch.equal(other.weight, first.weight)
    assert float(statistics.running_mean.sum()) == 0
    restore(checkpoint, {"average": statistics})
    assert torch.equal(statistics.running_mean, second.running_mean)


@pytest.mark.parametrize(
    "modules", [{"network": nn.Linear(2, 4)}, {"average": nn.Linear(2, 3)}, {"network": nn.BatchNorm1d(3)}], ids=str
)
def test_other_modules_do_not_fit(modules: dict[str, nn.Module]) -> None:
    checkpoint = checkpoint_of(Course(), {"network": nn.Linear(2, 3)})
    with pytest.raises(RunError, match="does not fit the settings of the run"):
        restore(checkpoint, modules)
    del checkpoint["epoch"]
    with pytest.raises(RunError, match="does not fit"):
        restore(checkpoint, {"network": nn.Linear(2, 3)})
