"""ProCo and SupCon together."""

import torch
from tests.methods.small import LABELS, TASK, make_network, outputs_of

from proco.losses import SupConLoss
from proco.methods.method import Targets
from proco.methods.proco import ProCo
from proco.methods.proco_supcon import ProCoSupCon


def test_it_is_the_sum_of_both() -> None:
    outputs = outputs_of(make_network(), 2)
    value = ProCoSupCon(temperature=0.2).representation(TASK)(outputs, Targets.of(LABELS), None)
    proco = ProCo(temperature=0.2).representation(TASK)(outputs, Targets.of(LABELS), None)
    embeddings = torch.cat([view.embeddings for view in outputs])  # type: ignore[misc]
    torch.testing.assert_close(value, proco + SupConLoss(0.2, form="out")(embeddings, LABELS.repeat(2)))


def test_an_epoch_begins_for_its_parts() -> None:
    term = ProCoSupCon().representation(TASK)
    term(outputs_of(make_network(), 2), Targets.of(LABELS), None)
    moments = term.terms[0].criterion.moments
    assert moments.running_counts.sum() == 2 * len(LABELS)
    term.start_epoch()
    assert moments.running_counts.sum() == 0
