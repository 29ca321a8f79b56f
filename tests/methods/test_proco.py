"""ProCo as a method: the order in which views are taken in and scored, and settings that reach the loss."""

import copy
import math
from operator import attrgetter

import pytest
import torch
from tests.methods.small import LABELS, TASK, make_network, outputs_of, values_of

from proco.errors import ConfigError
from proco.methods.method import Targets
from proco.methods.proco import ProCo


def test_each_view_is_scored_after_it_was_taken_in() -> None:
    network = make_network()
    (stage,) = ProCo().stages(TASK, 1)
    term = stage.terms["proco"].term
    outputs = outputs_of(network, 3)
    criterion = term.term.criterion
    twin = copy.deepcopy(criterion)
    value = values_of(stage, outputs, network)["proco"]
    expected = (twin(outputs[1].embeddings, LABELS) + twin(outputs[2].embeddings, LABELS)) / 2
    torch.testing.assert_close(value, expected)
    assert criterion.moments.counts.tolist() == [6, 4, 2, 2, 2]
    term.start_epoch()
    assert criterion.moments.running_counts.tolist() == [0, 0, 0, 0, 0]


def test_images_are_left_out_by_their_positions() -> None:
    term = ProCo(leave_one_out=True).representation(TASK)
    positions = torch.randperm(74, generator=torch.Generator().manual_seed(3))[: len(LABELS)]
    term(outputs_of(make_network(), 2), Targets.of(LABELS, positions), None)
    expected = torch.zeros(74)
    expected[positions] = 2.0
    assert torch.equal(term.criterion.image_moments.counts, expected)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (
            ProCo(form="out", concentration="exact", past_epochs=3, temperature=0.2),
            {"form": "out", "concentration_method": "exact", "moments.past_epochs": 3, "temperature": 0.2},
        ),
        (
            ProCo(form="out", concentration="sra", past_epochs=3, temperature=0.2, leave_one_out=True),
            {"form": "out", "concentration_method": "sra", "image_moments.past_epochs": 3, "temperature": 0.2},
        ),
    ],
    ids=str,
)
def test_settings_reach_the_loss(method: ProCo, expected: dict[str, object]) -> None:
    criterion = method.representation(TASK).criterion
    assert {name: attrgetter(name)(criterion) for name in expected} == expected


@pytest.mark.parametrize(
    "settings",
    [{"past_epochs": 0}, {"temperature": 0.0}, {"temperature": math.inf}, {"weight": -1.0}, {"weight": math.nan}],
    ids=str,
)
def test_numbers_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=rf"method\.{next(iter(settings))}"):
        ProCo(**settings)  # type: ignore[arg-type]
