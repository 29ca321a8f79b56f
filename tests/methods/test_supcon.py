"""SupCon as a method: contrast of all views but the first, beside a classifier or before it."""

import pytest
import torch
from tests.methods.small import LABELS, TASK, make_network, outputs_of, values_of

from proco.errors import ConfigError
from proco.losses.contrast_form import ContrastForm
from proco.methods.supcon import SupCon


@pytest.mark.parametrize("form", ["in", "out"])
def test_both_views_behind_the_first_are_compared_with_each_other(form: ContrastForm) -> None:
    """Written out from the definition, anchor by anchor."""
    network = make_network()
    outputs = outputs_of(network, 3)
    (stage,) = SupCon(form=form, temperature=0.2).stages(TASK, 1)
    value = values_of(stage, outputs, network)["supcon"]
    items = torch.cat([view.embeddings for view in outputs[1:]]).double()  # type: ignore[misc]
    labels = LABELS.repeat(2)
    losses = []
    for i in range(len(items)):
        others = [a for a in range(len(items)) if a != i]
        total = sum(torch.exp(items[i] @ items[a] / 0.2) for a in others)
        ratios = torch.stack([torch.exp(items[i] @ items[p] / 0.2) / total for p in others if labels[p] == labels[i]])
        losses.append(-ratios.mean().log() if form == "in" else -ratios.log().mean())
    torch.testing.assert_close(value.double(), torch.stack(losses).mean(), rtol=1e-4, atol=1e-5)


def test_before_the_classifier_it_has_a_stage_and_settings_of_its_own() -> None:
    method = SupCon(sampler="square_root", weight=0.5, classifier_epochs=7, classifier_lr=1.5, classifier_batch_size=32)
    representation, classifier = method.stages(TASK, epochs=5)
    assert (representation.epochs, classifier.epochs) == (5, 7)
    assert (representation.learning, classifier.learning) == (("backbone", "projector"), ("classifier",))
    assert (representation.batch_size, classifier.batch_size) == (None, 32)
    assert (representation.sampler, classifier.sampler) == ("square_root", "instance")
    assert (representation.views, classifier.views) == (method.views[1:], method.views[:1])
    assert representation.terms["supcon"].weight == classifier.terms["logit_adjustment"].weight == 1.0
    assert representation.optim == {}
    assert classifier.optim == {
        "lr": 1.5,
        "weight_decay": 0.0,
        "schedule": "step",
        "warmup": 0.0,
        "milestones": (0.6, 0.75, 0.9),
        "factor": 0.2,
    }


def test_a_batch_has_an_image() -> None:
    with pytest.raises(ConfigError, match=r"method\.classifier_batch_size"):
        SupCon(classifier_batch_size=0)
