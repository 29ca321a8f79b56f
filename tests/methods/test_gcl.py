"""GCL: its two losses, what is mixed, and what predicts."""

import math

import pytest
import torch
from tests.methods.small import COUNTS, LABELS, TASK, make_network, outputs_of

from proco.augment import Mixup
from proco.errors import ConfigError
from proco.losses import GaussianCloudedLoss
from proco.methods.gcl import Gcl
from proco.methods.method import Stage, Targets
from proco.models.heads import CosineClassifier


def criterion_of(stage: Stage) -> GaussianCloudedLoss:
    (weighted,) = stage.terms.values()
    assert weighted.weight == 1.0
    criterion = weighted.term.criterion
    assert isinstance(criterion, GaussianCloudedLoss)
    return criterion


def test_settings_of_both_stages_are_those_of_the_original_code() -> None:
    first, second = (criterion_of(stage) for stage in Gcl().stages(TASK, 1))
    assert (first.scale, first.margin, first.gamma, first.noise, first.logit_scale) == (30.0, 0.0, 0.0, 0.5, 30.0)
    assert (second.scale, second.margin, second.gamma, second.noise, second.logit_scale) == (20.0, 0.1, 1.0, 0.5, 30.0)
    assert first.deviation == second.deviation == pytest.approx(1 / 3)
    assert Gcl().stages(TASK, 1)[1].epochs == 30


def test_settings_reach_the_losses() -> None:
    method = Gcl(scale=16.0, noise=0.2, classifier_scale=8.0, classifier_margin=0.3, classifier_gamma=2.0)
    first, second = (criterion_of(stage) for stage in method.stages(TASK, 1))
    assert (first.scale, first.noise, first.logit_scale) == (16.0, 0.2, 16.0)
    assert (second.scale, second.margin, second.gamma, second.noise) == (8.0, 0.3, 2.0, 0.2)
    assert second.logit_scale == 16.0
    head = method.classifier(8, 3)
    assert isinstance(head, CosineClassifier)
    assert head.scale == 16.0


def test_images_are_mixed_with_others_that_are_drawn_alike() -> None:
    method = Gcl(sampler="square_root", mixup=0.4)
    assert [stage.blend for stage in method.stages(TASK, 1)] == [
        Mixup(sampler="square_root", alpha=0.4),
        Mixup(sampler="class_balanced", alpha=0.4),
    ]
    assert [stage.blend for stage in Gcl(mixup=0.0).stages(TASK, 1)] == [None, None]


@pytest.mark.parametrize("number", [0, 1])
def test_a_mixed_image_is_of_both_its_classes(number: int) -> None:
    """Also its margin: each class is the label once."""
    stage = Gcl().stages(TASK, 1)[number]
    (term,) = (weighted.term.eval() for weighted in stage.terms.values())
    network = make_network(Gcl())
    outputs = outputs_of(network, 1)
    share, pasted = torch.linspace(0, 1, len(LABELS)), LABELS.flip(0)
    targets = Targets.of(LABELS)._replace(other_labels=pasted, share=share)
    criterion = criterion_of(stage)
    logits = outputs[0].logits
    expected = share * criterion(logits, LABELS) + (1 - share) * criterion(logits, pasted)
    torch.testing.assert_close(term(outputs, targets, network.classifier), expected.mean())


def test_scores_are_as_the_second_stage_was_trained() -> None:
    outputs = outputs_of(make_network(Gcl()), 1)[0]
    torch.testing.assert_close(Gcl().predict(outputs, COUNTS), outputs.logits / 30 * 20)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scale", 0.0),
        ("scale", math.inf),
        ("classifier_scale", -1.0),
        ("noise", -0.1),
        ("mixup", math.nan),
        ("classifier_margin", -0.1),
        ("classifier_gamma", math.inf),
    ],
)
def test_numbers_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"method\.{name} must be"):
        Gcl(**{name: value})
