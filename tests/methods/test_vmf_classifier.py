"""The von Mises-Fisher classifier as a method: its terms, their weight over the epochs, and ranks."""

import math

import pytest
import torch
from tests.distributed.ranks import run_on_two_ranks
from torch import Tensor

from proco.distributed import all_reduce_sum
from proco.errors import ConfigError
from proco.losses import LogitAdjustedLoss, class_feature_consistency, inter_class_discrepancy
from proco.methods.experts import side_by_side
from proco.methods.method import Targets, Task
from proco.methods.proco import ProCo
from proco.methods.proco_plus import ProCoPlus
from proco.methods.vmf_classifier import PartedClassification, VmfClassifier
from proco.models.heads import ExpertHeads, VonMisesFisherClassifier
from proco.models.network import Outputs

COUNTS = torch.tensor([40, 10, 3])
TASK = Task(COUNTS, num_features=8, hidden=8, dim=6)
LABELS = torch.tensor([0, 0, 1, 2, 1, 0])


def head(seed: int = 0) -> VonMisesFisherClassifier:
    torch.manual_seed(seed)
    made = VonMisesFisherClassifier(8, 3)
    with torch.no_grad():
        made.concentration.copy_(torch.tensor([16.0, 5.0, 40.0]))
    return made


def view(classifier: VonMisesFisherClassifier, seed: int = 1) -> Outputs:
    features = torch.randn(6, 8, generator=torch.Generator().manual_seed(seed))
    return Outputs(features, classifier(features), None)


def term_of(**settings: float) -> PartedClassification:
    term = VmfClassifier(**settings).term(TASK)  # type: ignore[arg-type]
    assert isinstance(term, PartedClassification)
    return term


@pytest.mark.parametrize("done", [0.0, 0.5, 0.995])
def test_value_is_the_sum_of_its_parts(done: float) -> None:
    classifier, term = head(), term_of(regularisation=0.4)
    term.start_epoch(done)
    outputs = view(classifier)
    directions = classifier.weight / classifier.weight.norm(dim=1, keepdim=True)
    kappa = classifier.concentration
    overlaps = inter_class_discrepancy(directions, kappa) + class_feature_consistency(
        directions, kappa, outputs.features, LABELS
    )
    margins = LogitAdjustedLoss(COUNTS)(outputs.logits, LABELS)
    expected = margins + 0.4 * (1 - done) ** 0.9 * overlaps
    torch.testing.assert_close(term([outputs], Targets.of(LABELS), classifier), expected)
    assert overlaps > 0.1


def test_overlaps_count_from_the_first_step_and_can_be_left_out() -> None:
    classifier = head()
    outputs = view(classifier)
    fresh, begun, without = term_of(), term_of(), term_of(regularisation=0.0)
    begun.start_epoch(0.0)
    value = fresh([outputs], Targets.of(LABELS), classifier)
    assert torch.equal(value, begun([outputs], Targets.of(LABELS), classifier))
    plain = without([outputs], Targets.of(LABELS), classifier)
    torch.testing.assert_close(plain, LogitAdjustedLoss(COUNTS)(outputs.logits, LABELS))
    assert value > plain


def test_their_weight_is_written_in_place() -> None:
    """A recorded step reads it where it was."""
    term = term_of()
    weight = term.weight
    term.start_epoch(0.5)
    assert term.weight is weight
    assert weight.item() == pytest.approx(0.2 * 0.5**0.9)
    other = term_of()
    other.load_state_dict(term.state_dict())
    assert other.weight == weight


def test_every_expert_has_its_own() -> None:
    (stage,) = side_by_side([VmfClassifier().stages(TASK, 4) for _ in range(2)])
    term = stage.terms["vmf_classifier"].term
    term.start_epoch(0.25)
    heads = [head(0), head(5)]
    views = [view(one, seed) for seed, one in enumerate(heads)]
    joint = Outputs(torch.zeros(6, 16), torch.zeros(6, 3), None, tuple(views))
    alone = term_of()
    alone.start_epoch(0.25)
    expected = sum(alone([outputs], Targets.of(LABELS), one) for outputs, one in zip(views, heads, strict=True))
    torch.testing.assert_close(term([joint], Targets.of(LABELS), ExpertHeads(heads)), expected)


def test_beside_a_contrast_and_under_pasted_boxes() -> None:
    (stage,) = ProCo(classification=VmfClassifier(regularisation=0.3)).stages(TASK, 4)
    term = stage.terms["vmf_classifier"].term
    assert isinstance(term, PartedClassification)
    assert term.regularisation == 0.3
    assert isinstance(ProCo(classification=VmfClassifier()).classifier(8, 3), VonMisesFisherClassifier)
    with pytest.raises(ConfigError, match="vmf_classifier cannot stand where an image shows two classes"):
        ProCoPlus(classification=VmfClassifier())


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan])
def test_a_weight_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ConfigError, match=r"method\.regularisation must be finite and not negative"):
        VmfClassifier(regularisation=value)


def gradients_of(rank: int, num_ranks: int = 2) -> list[Tensor]:
    """Of the features' own weights and the classifier's, averaged over ranks as training does."""
    classifier, term = head(), term_of()
    inputs = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    mixing = torch.eye(8).requires_grad_()
    features = inputs[rank::num_ranks] @ mixing
    outputs = Outputs(features, classifier(features), None)
    value = term([outputs], Targets.of(LABELS[rank::num_ranks]), classifier)
    value.backward()
    found = [mixing.grad, classifier.weight.grad, classifier.concentration.grad]
    return [all_reduce_sum(part) / num_ranks for part in found if part is not None] + [
        all_reduce_sum(value.detach().clone()) / num_ranks
    ]


def test_two_ranks_have_the_loss_and_the_gradients_of_one_process() -> None:
    expected = gradients_of(0, 1)
    assert len(expected) == 4
    for found in run_on_two_ranks(gradients_of):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
