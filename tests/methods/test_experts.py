"""Experts side by side: what they learn is the sum of what each would, and parts within heads are those of each."""

from dataclasses import replace

import torch
from tests.methods.small import LABELS, TASK, make_network, outputs_of

from proco.methods.disalign import DisAlign
from proco.methods.experts import side_by_side
from proco.methods.method import Targets
from proco.methods.proco import ProCo
from proco.models.heads import ExpertHeads


def test_values_are_summed_and_each_expert_has_statistics_of_its_own() -> None:
    (stage,) = side_by_side([ProCo().stages(TASK, 1) for _ in range(2)])
    term = stage.terms["proco"].term
    views = outputs_of(make_network(), 3)
    shuffled = [view._replace(embeddings=view.embeddings.flip(0)) for view in views]  # type: ignore[union-attr]
    together = [view._replace(experts=(view, other)) for view, other in zip(views, shuffled, strict=True)]
    heads = ExpertHeads([make_network().classifier for _ in range(2)])
    value = term(together, Targets.of(LABELS), heads)
    alone = [
        ProCo().stages(TASK, 1)[0].terms["proco"].term(outputs, Targets.of(LABELS), None)
        for outputs in (views, shuffled)
    ]
    torch.testing.assert_close(value, alone[0] + alone[1])
    first, second = (of_expert.term.criterion.moments for of_expert in term.terms)
    assert not torch.allclose(first.sums, second.sums)
    term.start_epoch()
    assert first.running_counts.sum() == second.running_counts.sum() == 0


def test_what_learns_or_is_drawn_anew_in_a_head_does_so_in_that_of_each() -> None:
    of_each = ("classifier.0.calibration", "classifier.1.calibration")
    first, second = side_by_side([DisAlign().stages(TASK, 1) for _ in range(2)])
    assert first.learning[0] == "backbone"
    assert (second.learning, second.renewed) == (of_each, ())
    anew = [[replace(DisAlign().stages(TASK, 1)[1], renewed=("classifier.calibration",))] for _ in range(2)]
    assert side_by_side(anew)[0].renewed == of_each
