"""What learns and what is frozen in a stage, and what its terms see."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.training.small_stage import CONFIG, batches, make_network, make_stage
from torch import nn

from proco.data.dataset import Dataset
from proco.methods.experts import side_by_side
from proco.methods.method import Targets, Term, WeightedTerm
from proco.methods.two_branch import OtherViews
from proco.models.network import Network
from proco.models.normalise import Normalise
from proco.optim import SGD, OptimConfig
from proco.roles import WithoutDecay
from proco.training.learner import Learner, require_parts
from proco.training.step import Step


def test_accuracy_counts_both_classes_by_what_is_seen_of_them(tiny_dataset: Dataset) -> None:
    network = make_network().eval()
    learner = Learner(network, make_stage(tiny_dataset), None).eval()
    batch = next(iter(batches(tiny_dataset, torch.device("cpu"))))
    with torch.no_grad():
        predicted = network(batch.views[0]).logits.argmax(dim=1)
        share = torch.linspace(0, 1, len(predicted))
        others = (predicted + torch.arange(len(predicted)) % 2) % 2  # every other one is what is predicted
        targets = batch.targets._replace(labels=1 - others, other_labels=others, share=share)
        _, values = learner(batch.views, targets)
    expected = sum(
        (part if label == seen else 0) + (1 - part if other == seen else 0)
        for part, label, other, seen in zip(share.tolist(), 1 - others, others, predicted, strict=True)
    )
    assert values[-1].item() == pytest.approx(float(expected) / len(predicted))


def test_frozen_parts_stay_as_they_are(tiny_dataset: Dataset) -> None:
    network = make_network()
    before = copy.deepcopy(network.state_dict())
    stage = make_stage(tiny_dataset, learning=("classifier", "projector"))
    learner = Learner(network, stage, None).train()
    assert not network.backbone.training
    assert network.projector is not None
    assert network.projector.training
    step = Step(learner, SGD(learner.parameters(), OptimConfig(lr=0.1)), None)
    for batch in batches(tiny_dataset, torch.device("cpu")):
        step(batch)
    for name, value in network.state_dict().items():
        is_frozen = name.startswith(("backbone", "normalise"))
        assert torch.equal(value, before[name]) == is_frozen, name


def test_autocast_is_for_the_network_and_terms_have_float32(tiny_dataset: Dataset) -> None:
    seen, inside = [], []

    class Spy(nn.Module):
        def forward(self, outputs, targets, classifier):
            seen.append(outputs[0])
            return outputs[0].logits.sum()

    stage = make_stage(tiny_dataset)
    term = next(iter(stage.terms.values()))._replace(term=Spy())
    # float16: a bfloat16 product is an illegal instruction on some of the CPUs these tests run on.
    network = make_network()
    network.backbone.stem.register_forward_hook(lambda _, __, hidden: inside.append(hidden.dtype))
    learner = Learner(network, make_stage(tiny_dataset, terms={"spy": term}), torch.float16)
    learner(next(batches(tiny_dataset, torch.device("cpu"))).views, Targets.of(torch.zeros(8, dtype=torch.int64)))
    assert inside == [torch.float16]
    assert {value.dtype for value in seen[0][:3] if value is not None} == {torch.float32}


def test_an_epoch_begins_in_training_but_for_what_is_frozen(tiny_dataset: Dataset) -> None:
    network = make_network()
    learner = Learner(network, make_stage(tiny_dataset, learning=("classifier", "projector")), None)
    learner.eval()
    network.backbone.train()  # as an evaluation leaves it, which gives the network back as it was as a whole
    learner.start_epoch()
    assert learner.training
    assert network.classifier.training
    assert not any(part.training for part in network.backbone.modules())


class Scaled(nn.Linear, WithoutDecay):
    """A classifier with a number that does not decay."""

    undecayed = ("scale",)

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_features, num_classes)
        self.scale = nn.Parameter(torch.ones(num_classes))
        self.norm = nn.BatchNorm1d(num_features)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return super().forward(self.norm(features)) * self.scale


def scaled_network() -> Network:
    torch.manual_seed(0)
    return Network(
        CONFIG, 4, Normalise(torch.full((3,), 0.5), torch.full((3,), 0.25)), with_projector=True, classifier=Scaled
    )


def test_a_parameter_of_a_part_can_learn_alone(tiny_dataset: Dataset) -> None:
    network = scaled_network()
    before = copy.deepcopy(network.state_dict())
    learner = Learner(network, make_stage(tiny_dataset, learning=("classifier.scale",)), None).train()
    step = Step(learner, SGD(learner.parameters(), OptimConfig(lr=0.1)), None)
    step(next(batches(tiny_dataset, torch.device("cpu"))))
    assert network.classifier.training
    assert not network.classifier.norm.training
    assert not any(part.training for part in network.backbone.modules())
    changed = [name for name, value in network.state_dict().items() if not torch.equal(value, before[name])]
    assert changed == ["classifier.scale"]


def test_a_part_can_learn_but_for_what_is_in_it(tiny_dataset: Dataset) -> None:
    network = scaled_network()
    learning = ("backbone", "classifier.weight", "classifier.norm", "projector")
    learner = Learner(network, make_stage(tiny_dataset, learning=learning), None).train()
    still = [name for name, parameter in network.named_parameters() if not parameter.requires_grad]
    assert still == ["classifier.bias", "classifier.scale"]
    assert all(part.training for part in learner.modules())


def test_modules_name_what_does_not_decay(tiny_dataset: Dataset) -> None:
    network = scaled_network()
    (found,) = Learner(network, make_stage(tiny_dataset), None).without_decay()
    assert found is network.classifier.scale


def test_terms_hear_how_much_of_the_stage_is_over(tiny_dataset: Dataset) -> None:
    class Listening(Term):
        heard: float

        def start_epoch(self, done: float = 0.0) -> None:
            self.heard = done

        def forward(self, outputs: Any, targets: Targets, classifier: nn.Module) -> torch.Tensor:
            return outputs[0].logits.sum()

    listening = Listening()
    each = side_by_side([(make_stage(tiny_dataset, terms={"a": WeightedTerm(1.0, term)}),) for term in (listening,)])
    nested = OtherViews(Listening())
    stage = replace(each[0], terms={**each[0].terms, "b": WeightedTerm(1.0, nested)})
    Learner(make_network(), stage, None).start_epoch(0.25)
    assert listening.heard == nested.term.heard == 0.25


def test_a_part_that_is_not_there_cannot_learn(tiny_dataset: Dataset) -> None:
    with pytest.raises(ValueError, match=r"the network has no part 'classifier\.scala' that could learn"):
        require_parts(scaled_network(), make_stage(tiny_dataset, learning=("classifier.scala",)))


def test_what_is_no_module_cannot_be_drawn_anew(tiny_dataset: Dataset) -> None:
    with pytest.raises(ValueError, match=r"the network has no module 'classifier\.weight' that could be drawn anew"):
        require_parts(scaled_network(), make_stage(tiny_dataset, renewed=("classifier.weight",)))
