"""What every registered method must do, with a classifier of its own or a linear one, in each of its stages."""

import copy
import math
import re
import sys
from dataclasses import make_dataclass
from pathlib import Path

import pytest
import torch
from tests.methods.small import (
    COUNTS,
    LABELS,
    TASK,
    every_method,
    images_for,
    learning,
    make_network,
    outputs_of,
    short,
    small_run,
    total_of,
    values_of,
    variants,
)
from tests.training.conftest import make_tiny_dataset
from tests.training.power_cut import PowerCut, PowerCutError
from torch import Tensor, nn

from proco.config import as_settings, merge
from proco.methods import Method
from proco.methods.experts import side_by_side
from proco.methods.method import Stage, Targets
from proco.models.network import Outputs
from proco.optim import SGD, OptimConfig
from proco.training.classifier import Classifier
from proco.training.learner import Learner
from proco.training.loader import Batch
from proco.training.run_folder import RunFolder
from proco.training.step import Step
from proco.training.trainer import Trainer

of_every_method = pytest.mark.parametrize("name", every_method())
of_every_variant = pytest.mark.parametrize("name", variants())


@of_every_variant
def test_every_stage_gives_finite_losses_and_reaches_all_that_learns(name: str) -> None:
    method = variants()[name]
    for stage in method.stages(TASK, epochs=3):
        network = make_network(method)
        begin(stage, 0.5)
        total = total_of(stage, outputs_of(network, len(stage.views)), network)
        assert total.dim() == 0
        assert total.isfinite()
        total.backward()
        for part in stage.learning:
            if part == "projector" and not method.needs_projector:
                continue
            parameters = [own for called, own in network.named_parameters() if f"{called}.".startswith(f"{part}.")]
            assert parameters, part
            assert all(parameter.grad is not None for parameter in parameters), part
            assert any(parameter.grad.abs().max() > 0 for parameter in parameters), part


def begin(stage: Stage, done: float = 0.0) -> None:
    for weighted in stage.terms.values():
        weighted.term.train().start_epoch(done)


@of_every_variant
def test_a_few_steps_lower_the_loss(name: str) -> None:
    method = variants()[name]
    network = make_network(method)
    for stage in method.stages(TASK, epochs=3):
        begin(stage)
        learner = Learner(network, stage, None).train()
        optimizer = torch.optim.SGD(list(learning(stage, network)), lr=0.05)
        totals = []
        for _ in range(12):
            total = total_of(stage, outputs_of(network, len(stage.views)), network)
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
            totals.append(total.item())
        first, last = (sum(some) / 3 for some in (totals[:3], totals[-3:]))
        assert last < first, learner.names


@of_every_variant
@pytest.mark.parametrize("absent", [0, 4])
def test_a_batch_need_not_have_every_class(name: str, absent: int) -> None:
    method = variants()[name]
    labels = torch.where(absent == LABELS, 1, LABELS)
    for stage in method.stages(TASK, epochs=3):
        network = make_network(method)
        begin(stage, 0.9)
        total = total_of(stage, outputs_of(network, len(stage.views), labels), network, labels)
        total.backward()
        assert total.isfinite()
        gradients = [parameter.grad for parameter in learning(stage, network) if parameter.grad is not None]
        assert gradients
        assert all(gradient.isfinite().all() for gradient in gradients)


@of_every_variant
def test_the_order_of_the_classes_does_not_matter(name: str) -> None:
    """Classes are renamed in counts, labels and all that is kept of them; then the losses are the same."""
    method = variants()[name]
    order = torch.tensor([3, 0, 4, 1, 2])  # where each class goes
    task = TASK._replace(class_counts=torch.empty_like(COUNTS).index_copy(0, order, COUNTS))
    for stage, renamed in zip(method.stages(TASK, 3), method.stages(task, 3), strict=True):
        network = make_network(method).eval()
        outputs = outputs_of(network, len(stage.views))
        begin(stage, 0.9)
        begin(renamed, 0.9)
        with torch.no_grad():
            values_of(stage, outputs, network)  # statistics are filled
        twin = copy.deepcopy(network)
        twin.classifier.load_state_dict(reordered(network.classifier.state_dict(), order))
        for called, weighted in stage.terms.items():
            other = renamed.terms[called].term
            other.load_state_dict(reordered(weighted.term.state_dict(), order))
            weighted.term.eval()
            other.eval()
        expected = values_of(stage, outputs, network)
        outputs = outputs_of(twin, len(stage.views))
        found = values_of(renamed, outputs, twin, order[LABELS])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def reordered(state: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """Return a state with its classes renamed, along every dimension that has one place for each class."""
    renamed = {}
    for name, value in state.items():
        for dimension, length in enumerate(value.shape):
            if length == len(order):
                value = torch.empty_like(value).index_copy(dimension, order, value)
        renamed[name] = value
    return renamed


@of_every_variant
def test_terms_keep_their_state_in_state_dicts(name: str) -> None:
    method = variants()[name]
    for stage, fresh in zip(method.stages(TASK, 3), method.stages(TASK, 3), strict=True):
        network = make_network(method).eval()
        outputs = outputs_of(network, len(stage.views))
        begin(stage, 0.9)
        begin(fresh, 0.9)
        with torch.no_grad():
            values_of(stage, outputs, network)
        for called, weighted in stage.terms.items():
            fresh.terms[called].term.load_state_dict(weighted.term.state_dict())
            weighted.term.eval()
            fresh.terms[called].term.eval()
        torch.testing.assert_close(
            values_of(fresh, outputs, network), values_of(stage, outputs, network), rtol=0, atol=0
        )


@of_every_variant
def test_products_in_bfloat16_give_about_the_same_loss(name: str) -> None:
    method = variants()[name]
    for number, stage in enumerate(method.stages(TASK, 3)):
        network = make_network(method)
        begin(stage)
        views = images_for(LABELS, len(stage.views)).unflatten(0, (len(stage.views), -1))
        totals = []
        for precision in (None, torch.bfloat16):
            torch.manual_seed(0)
            learner = Learner(network, method.stages(TASK, 3)[number], precision).train()
            learner.terms.load_state_dict(nn.ModuleList(w.term for w in stage.terms.values()).state_dict())
            learner.start_epoch()
            total, values = learner(views, Targets.of(LABELS))
            assert total.dtype == values.dtype == torch.float32
            total.backward()
            totals.append(total.item())
        assert math.isfinite(totals[1])
        assert totals[1] == pytest.approx(totals[0], rel=0.1, abs=0.1)


@of_every_variant
def test_a_second_look_uphill_leaves_no_trace(name: str) -> None:
    """Statistics of terms and classifiers are those of the first look, as without sharpness."""
    method = variants()[name]
    for number, stage in enumerate(method.stages(TASK, 3)):
        states = []
        for sharpness in (0.0, 1e-9):
            network = make_network(method)
            torch.manual_seed(0)
            learner = Learner(network, method.stages(TASK, 3)[number], None)
            learner.start_epoch(0.5)
            step = Step(learner, SGD(learner.parameters(), OptimConfig(lr=0.01, sharpness=sharpness)), None)
            views = images_for(LABELS, len(stage.views)).unflatten(0, (len(stage.views), -1))
            torch.manual_seed(0)
            step(Batch(views, Targets.of(LABELS)))
            kept = {**dict(learner.terms.named_buffers()), **dict(network.classifier.named_buffers())}
            states.append({called: kept[called] for called in kept if not called.endswith("num_batches_tracked")})
        torch.testing.assert_close(states[1], states[0], rtol=1e-4, atol=1e-5)


def three_steps(method: Method, number: int, device: str, *, graph: bool) -> dict[str, Tensor]:
    """Return what a stage has left after three steps in float64, the last of them later in the course."""
    network = make_network(method).to(device).double()
    torch.manual_seed(0)
    learner = Learner(network, method.stages(TASK, 3)[number], None).to(device).double()
    step = Step(learner, SGD(learner.parameters(), OptimConfig(lr=0.01), learner.without_decay()), None, graph=graph)
    num_views = len(method.stages(TASK, 3)[number].views)
    views = images_for(LABELS, num_views).unflatten(0, (num_views, -1)).to(device)
    targets = Targets.of(LABELS.to(device))
    for done in (0.1, 0.5, 0.9):
        learner.start_epoch(done)
        values = step(Batch(views, targets)).clone()
    return {"values": values.cpu(), **{name: value.cpu() for name, value in learner.state_dict().items()}}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="steps are recorded on a GPU")
@of_every_variant
def test_recorded_steps_are_the_plain_ones(name: str) -> None:
    """What is scheduled is written where a recording reads it, and nothing waits for the host."""
    method = variants()[name]
    for number in range(len(method.stages(TASK, 3))):
        plain, recorded = (three_steps(method, number, "cuda", graph=graph) for graph in (False, True))
        assert recorded["values"].isfinite().all()
        if method.is_equal_on_ranks:  # the others draw random numbers as they go
            torch.testing.assert_close(recorded, plain, rtol=1e-6, atol=1e-6)


@of_every_variant
def test_what_is_scheduled_is_written_in_place(name: str) -> None:
    """A recorded step reads the tensors that were there when it was recorded."""
    for stage in variants()[name].stages(TASK, 3):
        terms = nn.ModuleList(weighted.term for weighted in stage.terms.values())
        begin(stage, 0.0)
        places = {called: buffer.data_ptr() for called, buffer in terms.named_buffers()}
        begin(stage, 0.9)
        assert {called: buffer.data_ptr() for called, buffer in terms.named_buffers()} == places


@of_every_variant
def test_terms_can_be_compiled(name: str) -> None:
    method = variants()[name]
    for stage in method.stages(TASK, 3):
        network = make_network(method)
        outputs = [Outputs(*(part.detach() for part in view[:3])) for view in outputs_of(network, len(stage.views))]
        begin(stage, 0.9)
        for called, weighted in stage.terms.items():
            torch.compiler.reset()
            term, twin = weighted.term, copy.deepcopy(weighted.term)
            compiled = torch.compile(twin, backend="aot_eager", fullgraph=True)
            torch.manual_seed(0)
            expected = term(outputs, Targets.of(LABELS), network.classifier)
            torch.manual_seed(0)
            found = compiled(outputs, Targets.of(LABELS), network.classifier)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, msg=called)


@of_every_method
def test_an_expert_learns_as_if_it_were_alone(name: str) -> None:
    """Gradients of what belongs to the first of two experts are those of a network without the second."""
    method = every_method()[name]
    torch.manual_seed(3)
    stage = side_by_side([method.stages(TASK, 3) for _ in range(2)])[0]
    torch.manual_seed(3)
    stage_alone = method.stages(TASK, 3)[0]  # its terms begin as those of the first expert
    network = make_network(method, experts=2, shared_stages=0)
    alone = make_network(method)
    weights = network.state_dict()
    for called in alone.state_dict():
        if ".stages." in called:
            weights[called] = weights[called.replace(".stages.", ".experts.0.")]
        elif called.startswith(("classifier.", "projector.")):
            weights[called] = weights[called.replace(".", ".0.", 1)]
    alone.load_state_dict({called: weights[called] for called in alone.state_dict()})
    for each, objective in ((network, stage), (alone, stage_alone)):
        outputs = outputs_of(each, len(stage.views))
        begin(objective)
        torch.manual_seed(4)  # the first expert draws first
        total_of(objective, outputs, each).backward()
    for own, expected in (
        (network.backbone.experts[0], alone.backbone.stages),
        (network.classifier[0], alone.classifier),
        (network.projector[0], alone.projector),
    ):
        for parameter, twin in zip(own.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(parameter.grad, twin.grad, rtol=1e-4, atol=1e-5)
    assert any(parameter.grad.abs().max() > 0 for parameter in network.backbone.experts[1].parameters())


@of_every_variant
def test_settings_round_trip(name: str) -> None:
    method = variants()[name]
    holder = make_dataclass("Holder", [("method", Method)], frozen=True)
    assert merge(holder, {"method": as_settings(method)}).method == method  # type: ignore[attr-defined]


@of_every_method
def test_a_card_says_what_it_is(name: str) -> None:
    card = type(every_method()[name]).card()
    assert card["name"] == name
    assert all(card.values())
    assert card["summary"].endswith(".")
    assert len(card["summary"]) <= 120


@of_every_method
def test_the_module_says_how_by_a_formula(name: str) -> None:
    module = sys.modules[type(every_method()[name]).__module__]
    text = module.__doc__ or ""
    assert re.search(r"[=~] |log(?!it)|cos\(|\|", text), f"the docstring of {module.__name__} needs its formula: {text}"


@of_every_method
def test_a_run_resumes_to_the_same_bits_and_is_what_is_read_back(name: str, tmp_path: Path) -> None:
    """Killed in the middle of its last epoch, where methods with several stages are in the last of them."""
    dataset, config = make_tiny_dataset(), small_run(short(every_method()[name]))
    whole, killed = (RunFolder(tmp_path / part) for part in ("whole", "killed"))
    Trainer(config, dataset).fit(whole)
    again = Trainer(config, dataset)
    with pytest.raises(PowerCutError):
        again.fit(killed, PowerCut(again.setup.epochs - 1, 2))
    Trainer(config, dataset).fit(killed, resume=True)
    assert killed.weights_file.read_bytes() == whole.weights_file.read_bytes()
    classifier = Classifier.of(whole, "cpu")
    test = dataset.splits["test"]
    metrics, summary = classifier.evaluate(test), whole.summary()
    assert metrics.top1 == summary["top1"]
    require_independence_of_the_batch(classifier, test.images.pixels)  # type: ignore[attr-defined]


def require_independence_of_the_batch(classifier: Classifier, images: Tensor) -> None:
    """An image is seen the same whatever stands beside it."""
    together = classifier(images)
    apart = torch.cat([classifier(some) for some in images.flip(0).split(3)]).flip(0)
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-4)
    assert together.isfinite().all()
