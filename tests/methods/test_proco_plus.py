"""ProCo plus against its definition, and against ProCo where nothing is pasted."""

import pytest
import torch

from proco.augment import Auto, Paste
from proco.errors import ConfigError
from proco.losses import LogitAdjustedLoss
from proco.methods.classification import SharedClassification
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.method import Method, Targets, Task
from proco.methods.proco import ProCo
from proco.methods.proco_plus import ProCoPlus
from proco.models.network import Outputs

COUNTS = torch.tensor([40, 10, 3])
TASK = Task(COUNTS, num_features=8, hidden=8, dim=6)
LABELS = torch.tensor([0, 0, 1, 2])
VIEW = Outputs(torch.zeros(4, 8), torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), None)
STRONGER = LogitAdjustment(tau=1.3)
TERM = ProCoPlus(classification=STRONGER).stages(TASK, 1)[0].terms["logit_adjustment"].term


def test_both_classes_count_by_the_area_they_cover() -> None:
    share, pasted = torch.tensor([0.75, 1.0, 0.5, 0.2]), torch.tensor([1, 0, 2, 0])
    targets = Targets.of(LABELS)._replace(other_labels=pasted, share=share)
    log_probabilities = (VIEW.logits + 1.3 * (COUNTS / COUNTS.sum()).log()).log_softmax(1)
    expected = sum(
        -part * row[y] - (1 - part) * row[other]
        for row, y, other, part in zip(log_probabilities, LABELS, pasted, share, strict=True)
    )
    torch.testing.assert_close(TERM([VIEW], targets, None), expected / 4)


def test_without_pasting_it_is_logit_adjustment() -> None:
    expected = LogitAdjustedLoss(COUNTS, tau=1.3)(VIEW.logits, LABELS)
    torch.testing.assert_close(TERM([VIEW], Targets.of(LABELS), None), expected)


def test_boxes_are_pasted_where_the_classifier_learns() -> None:
    paste = Paste(probability=0.3)
    (joint,) = ProCoPlus(paste=paste).stages(TASK, 5)
    representation, classifier = ProCoPlus(paste=paste, classifier_epochs=2).stages(TASK, 5)
    assert [stage.blend for stage in (joint, representation, classifier)] == [paste, None, paste]
    assert not isinstance(representation.terms["proco_plus"].term, SharedClassification)
    for stage in (joint, classifier):
        assert isinstance(stage.terms["logit_adjustment"].term, SharedClassification)


def test_all_else_is_as_in_proco() -> None:
    (ours,), (plain,) = (kind(classification=STRONGER, weight=2.0).stages(TASK, 5) for kind in (ProCoPlus, ProCo))
    assert ours.views[1:] == plain.views[1:]
    assert ours.views[0] == Auto(cutout=0)  # the box stands for the one that Cutout leaves empty
    assert {name: weight for name, (weight, _) in ours.terms.items()} == {"logit_adjustment": 1.0, "proco_plus": 2.0}
    adjustment, expected = (stage.terms["logit_adjustment"].term.criterion for stage in (ours, plain))
    assert adjustment.tau == expected.tau == 1.3
    assert torch.equal(adjustment.class_counts, expected.class_counts)  # of the images, whatever is pasted


@pytest.mark.parametrize("name", ["isda", "ldam_drw", "batchformer", "vmf_classifier"])
def test_a_classification_that_is_more_than_a_loss_of_logits_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} cannot stand where an image shows two classes") as refusal:
        ProCoPlus(classification=Method.registry[name]())
    advised = str(refusal.value).rpartition(": ")[2].rstrip(".").split(", ")
    assert {"logit_adjustment", "ldam"} < set(advised)
    for other in advised:
        assert ProCoPlus(classification=Method.registry[other]()).stages(TASK, 1)
