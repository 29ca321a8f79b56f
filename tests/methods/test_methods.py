"""What methods are known to equal, and that their settings reach what they are for."""

import copy
import math
from collections.abc import Sequence
from dataclasses import make_dataclass
from operator import attrgetter

import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from proco.augment import Plain
from proco.config import merge
from proco.errors import ConfigError
from proco.losses import SupConLoss
from proco.losses.class_counts import log_prior
from proco.methods import Method, Task
from proco.methods.bcl import Bcl
from proco.methods.centroid_prototype import CentroidPrototype
from proco.methods.cross_entropy import CrossEntropy
from proco.methods.ema_prototype import EmaPrototype
from proco.methods.learnable_prototype import LearnablePrototype
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.logit_adjustment_posthoc import LogitAdjustmentPosthoc
from proco.methods.method import Stage, Targets, side_by_side
from proco.methods.normal_distribution import NormalDistribution
from proco.methods.proco import ProCo
from proco.methods.proco_supcon import ProCoSupCon
from proco.methods.supcon import SupCon
from proco.methods.two_branch import TwoBranch
from proco.models.network import Network, NetworkConfig, Outputs
from proco.models.normalise import Normalise

COUNTS = torch.tensor([40, 10, 3])
TASK = Task(COUNTS, num_features=64, hidden=16, dim=8)
LABELS = torch.arange(12) % 3


def make_network(**options: int) -> Network:
    torch.manual_seed(0)
    config = NetworkConfig(backbone="resnet8", options=options, hidden=16, dim=8)
    return Network(config, 3, Normalise(torch.zeros(3), torch.ones(3)), with_projector=True)


def outputs_of(network: Network, views: int) -> tuple[list[Outputs], torch.Tensor]:
    torch.manual_seed(1)
    labels = torch.tensor([0, 0, 0, 1, 1, 2])
    images = torch.randint(0, 256, (views * len(labels), 3, 8, 8), dtype=torch.uint8)
    return network(images).split(views), labels


def values_of(
    stage: Stage, outputs: Sequence[Outputs], labels: torch.Tensor, network: Network
) -> dict[str, torch.Tensor]:
    return {
        name: weighted.term(outputs, Targets.of(labels), network.classifier) for name, weighted in stage.terms.items()
    }


def test_methods_with_equal_counts_and_no_contrast_are_cross_entropy() -> None:
    network = make_network()
    outputs, labels = outputs_of(network, 1)
    even = TASK._replace(class_counts=torch.tensor([7, 7, 7]))
    (cross_entropy,) = values_of(CrossEntropy().stages(even, 1)[0], outputs, labels, network).values()
    (adjusted,) = values_of(LogitAdjustment().stages(even, 1)[0], outputs, labels, network).values()
    torch.testing.assert_close(adjusted, cross_entropy)


def test_tau_zero_is_cross_entropy_and_post_hoc_subtracts_the_prior() -> None:
    network = make_network()
    outputs, labels = outputs_of(network, 1)
    (cross_entropy,) = values_of(CrossEntropy().stages(TASK, 1)[0], outputs, labels, network).values()
    (adjusted,) = values_of(LogitAdjustment(tau=0.0).stages(TASK, 1)[0], outputs, labels, network).values()
    torch.testing.assert_close(adjusted, cross_entropy)
    assert torch.equal(LogitAdjustmentPosthoc(tau=0.0).predict(outputs[0], COUNTS), outputs[0].logits)
    predicted = LogitAdjustmentPosthoc(tau=1.0).predict(outputs[0], COUNTS)
    expected = outputs[0].logits - log_prior(COUNTS, torch.float32)
    torch.testing.assert_close(predicted, expected)


def test_supcon_compares_both_contrast_views_with_each_other() -> None:
    network = make_network()
    outputs, labels = outputs_of(network, 3)
    value = values_of(SupCon().stages(TASK, 1)[0], outputs, labels, network)["supcon"]
    stacked = torch.cat([outputs[1].embeddings, outputs[2].embeddings])  # type: ignore[list-item]
    torch.testing.assert_close(value, SupConLoss(0.1)(stacked, labels.repeat(2)))


def test_bcl_centres_are_made_of_the_classifier() -> None:
    """Written out from the definition, anchor by anchor."""
    network = make_network().eval()
    stage = Bcl().stages(TASK, 1)[0]
    term = stage.terms["bcl"].term.eval()
    outputs, labels = outputs_of(network, 3)
    value = term(outputs, Targets.of(labels), network.classifier)
    layers = term.term.centre_projector.layers
    centres = normalize(layers(network.classifier.weight), dim=1)
    items = torch.cat([outputs[1].embeddings, outputs[2].embeddings, centres]).double()  # type: ignore[list-item]
    item_labels = torch.cat([labels, labels, torch.arange(3)])
    losses = []
    for i in range(2 * len(labels)):
        others = [a for a in range(len(items)) if a != i]
        sizes = {j: sum(int(item_labels[a]) == j for a in others) for j in range(3)}
        weights = [torch.exp(items[i] @ items[a] / 0.1) / sizes[int(item_labels[a])] for a in others]
        total = torch.stack(weights).sum().log()
        positives = [a for a in others if item_labels[a] == item_labels[i]]
        losses.append(torch.stack([total - items[i] @ items[p] / 0.1 for p in positives]).mean())
    torch.testing.assert_close(value.double(), torch.stack(losses).mean(), rtol=1e-4, atol=1e-5)


def test_proco_scores_each_view_after_taking_it_in() -> None:
    network = make_network()
    stage = ProCo().stages(TASK, 1)[0]
    term = stage.terms["proco"].term
    outputs, labels = outputs_of(network, 3)
    criterion = term.term.criterion
    twin = copy.deepcopy(criterion)
    value = term(outputs, Targets.of(labels), network.classifier)
    expected = (twin(outputs[1].embeddings, labels) + twin(outputs[2].embeddings, labels)) / 2
    torch.testing.assert_close(value, expected)
    assert criterion.moments.counts.tolist() == [6, 4, 2]
    term.start_epoch()
    assert criterion.moments.running_counts.tolist() == [0, 0, 0]


def test_decoupled_supcon_has_two_stages() -> None:
    representation, classifier = SupCon(classifier_epochs=7).stages(TASK, epochs=5)
    assert (representation.epochs, classifier.epochs) == (5, 7)
    assert len(representation.views) == 2
    assert len(classifier.views) == 1
    assert "classifier" not in representation.learning
    assert classifier.learning == ("classifier",)
    assert classifier.optim["lr"] == 2.5


def views_of(number: int) -> list[Outputs]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(12, 3, generator=generator)
    draws = torch.randn(number, 12, 8, generator=generator)
    return [Outputs(torch.zeros(12, 64), logits, normalize(drawn, dim=1)) for drawn in draws]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (EmaPrototype(momentum=0.5, temperature=0.2), {"momentum": 0.5, "temperature": 0.2, "prior": True}),
        (LearnablePrototype(temperature=0.2), {"temperature": 0.2, "prior": False}),
        (CentroidPrototype(temperature=0.2), {"temperature": 0.2, "prior": True}),
        (NormalDistribution(temperature=0.2), {"temperature": 0.2, "prior": True}),
        (SupCon(form="in", temperature=0.2), {"form": "in", "temperature": 0.2}),
        (Bcl(temperature=0.2), {"temperature": 0.2}),
        (
            ProCo(form="out", concentration="exact", past_epochs=3, temperature=0.2),
            {"form": "out", "concentration_method": "exact", "moments.past_epochs": 3, "temperature": 0.2},
        ),
        (
            ProCo(form="out", concentration="sra", past_epochs=3, temperature=0.2, leave_one_out=True),
            {"form": "out", "concentration_method": "sra", "images.past_epochs": 3, "temperature": 0.2},
        ),
    ],
    ids=str,
)
def test_settings_reach_the_criterion(method: TwoBranch, expected: dict[str, object]) -> None:
    criterion = method.representation(TASK).criterion
    assert {name: attrgetter(name)(criterion) for name in expected} == expected


@pytest.mark.parametrize("kind", Method.registry.values())
def test_sampler_reaches_the_first_stage(kind: type[Method]) -> None:
    assert kind(sampler="square_root").stages(TASK, 1)[0].sampler == "square_root"


def test_a_contrast_stands_beside_any_classification() -> None:
    """Terms, their names and the prediction are those of both."""
    posthoc = LogitAdjustmentPosthoc(tau=2.0)
    network = make_network()
    outputs, labels = outputs_of(network, 3)
    (stage,), (plain,) = ProCo(classification=posthoc).stages(TASK, 1), ProCo().stages(TASK, 1)
    values, expected = (values_of(each, outputs, labels, network) for each in (stage, plain))
    assert list(values) == ["logit_adjustment_posthoc", "proco"]
    torch.testing.assert_close(values["logit_adjustment_posthoc"], cross_entropy(outputs[0].logits, labels))
    torch.testing.assert_close(values["proco"], expected["proco"])
    predicted = ProCo(classification=posthoc).predict(outputs[0], COUNTS)
    torch.testing.assert_close(predicted, posthoc.predict(outputs[0], COUNTS))


def test_a_classification_has_no_views_of_its_own() -> None:
    for settings in ({"views": (Plain(),)}, {"sampler": "square_root"}):
        with pytest.raises(ConfigError, match="has no views and no sampler of its own"):
            ProCo(classification=CrossEntropy(**settings))  # type: ignore[arg-type]


def test_a_contrast_is_no_classification() -> None:
    holder = make_dataclass("Holder", [("method", Method)], frozen=True)
    with pytest.raises(
        ConfigError, match=r"method\.classification: 'bcl' cannot stand there; choose from .*cross_entropy"
    ):
        merge(holder, {"method": {"name": "proco", "classification": "bcl"}})
    built = merge(holder, {"method": {"name": "proco", "classification": {"tau": 1.3}}})
    assert built.method == ProCo(classification=LogitAdjustment(tau=1.3))  # type: ignore[attr-defined]


def test_stages_in_turn_have_settings_of_their_own() -> None:
    method = SupCon(sampler="square_root", weight=0.5, classifier_epochs=7, classifier_lr=1.5, classifier_batch_size=32)
    representation, classifier = method.stages(TASK, epochs=5)
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


def test_images_are_left_out_by_their_positions() -> None:
    term = ProCo(leave_one_out=True).representation(TASK)
    positions = torch.randperm(53, generator=torch.Generator().manual_seed(3))[:12]
    term(views_of(2), Targets.of(LABELS, positions), None)
    expected = torch.zeros(53)
    expected[positions] = 2.0
    assert torch.equal(term.criterion.images.counts, expected)


def test_an_epoch_begins_for_every_expert() -> None:
    (stage,) = side_by_side([ProCo().stages(TASK, 1) for _ in range(2)])
    term = stage.terms["proco"].term
    for of_expert in term.terms:
        of_expert(views_of(3), Targets.of(LABELS), None)
    term.start_epoch()
    assert all(of_expert.term.criterion.moments.running_counts.sum() == 0 for of_expert in term.terms)


def test_proco_with_supcon_is_the_sum_of_both() -> None:
    value = ProCoSupCon(temperature=0.2).representation(TASK)(views_of(2), Targets.of(LABELS), None)
    embeddings = torch.cat([view.embeddings for view in views_of(2)])
    proco = ProCo(temperature=0.2).representation(TASK)(views_of(2), Targets.of(LABELS), None)
    torch.testing.assert_close(value, proco + SupConLoss(0.2, form="out")(embeddings, LABELS.repeat(2)))


def test_bcl_weighs_its_contrast_as_published_for_three_views() -> None:
    assert Bcl().stages(TASK, 1)[0].terms["bcl"].weight == 0.3


def test_labels_are_smoothed() -> None:
    (stage,) = CrossEntropy(label_smoothing=0.2).stages(TASK, 1)
    value = stage.terms["cross_entropy"].term(views_of(1), Targets.of(LABELS), None)
    torch.testing.assert_close(value, cross_entropy(views_of(1)[0].logits, LABELS, label_smoothing=0.2))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (CrossEntropy, {"label_smoothing": 1.0}),
        (CrossEntropy, {"label_smoothing": -0.1}),
        (LogitAdjustmentPosthoc, {"tau": math.nan}),
        (EmaPrototype, {"momentum": 1.0}),
        (EmaPrototype, {"momentum": -0.1}),
        (ProCo, {"past_epochs": 0}),
        (SupCon, {"classifier_batch_size": 0}),
        (ProCo, {"temperature": 0.0}),
        (ProCo, {"temperature": math.inf}),
        (ProCo, {"weight": -1.0}),
        (ProCo, {"weight": math.nan}),
        (LogitAdjustment, {"tau": math.inf}),
    ],
    ids=str,
)
def test_numbers_out_of_range_are_refused(kind: type[Method], settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=rf"method\.{next(iter(settings))}"):
        kind(**settings)


@pytest.mark.parametrize("method", [CrossEntropy(), LogitAdjustment()])
def test_a_loss_alone_has_weight_one(method: Method) -> None:
    (stage,) = method.stages(TASK, 1)
    assert [term.weight for term in stage.terms.values()] == [1.0]
