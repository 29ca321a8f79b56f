"""The step against the official one written out, alone, taught, uphill and recorded."""

import copy
from typing import Any

import pytest
import torch
from tests.training.small_stage import PLAIN_PROCO, batches, make_network, make_stage
from torch import nn

from proco.data.array_images import ArrayImages
from proco.data.dataset import Dataset
from proco.losses import LogitAdjustedLoss, ProCoLoss
from proco.methods.bcl import Bcl
from proco.methods.experts import side_by_side
from proco.methods.method import Task
from proco.methods.proco_plus import ProCoPlus
from proco.optim import SGD, OptimConfig
from proco.training import loader as loader_module
from proco.training.ema import MovingAverage
from proco.training.lanes import wait_for
from proco.training.learner import Learner
from proco.training.settings import TeacherConfig
from proco.training.step import Step
from proco.training.teacher import Teacher, taught_stages


def test_step_is_the_official_step_written_out(tiny_dataset: Dataset) -> None:
    """One joint forward; the first view to the classifier, the others to the statistics and the loss, one by one."""
    network = make_network()
    twin = copy.deepcopy(network)
    stage = make_stage(tiny_dataset)
    learner = Learner(network, stage, None).train()
    step = Step(learner, SGD(learner.parameters(), OptimConfig(lr=0.1)), None)
    adjusted = LogitAdjustedLoss(tiny_dataset.class_counts)
    proco = ProCoLoss(tiny_dataset.class_counts, dim=16)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9, weight_decay=2e-4)
    twin.train()
    for batch in batches(tiny_dataset, torch.device("cpu")):
        values = step(batch)
        images = torch.cat(list(batch.views)).float() / 255
        features = twin.backbone((images - 0.5) / 0.25)
        logits, embeddings = twin.classifier(features), twin.projector(features)
        size = len(batch.targets.labels)
        classification = adjusted(logits[:size], batch.targets.labels)
        second = proco(embeddings[size : 2 * size], batch.targets.labels)
        third = proco(embeddings[2 * size :], batch.targets.labels)
        contrast = (second + third) / 2
        optimizer.zero_grad()
        (classification + 0.5 * contrast).backward()
        optimizer.step()
        accuracy = (logits[:size].argmax(1) == batch.targets.labels).float().mean()
        torch.testing.assert_close(values, torch.stack([classification, contrast, accuracy]), rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=2e-4)


def test_teacher_looks_at_the_first_view_once_a_step(tiny_dataset: Dataset) -> None:
    seen = []

    class Spy(nn.Module):
        def forward(self, outputs, targets, classifier):
            seen.append(targets.teacher_scores)
            return outputs[0].logits.square().sum()

    its_network = make_network()
    with torch.no_grad():
        its_network.classifier.bias += 1  # so that it is not the network
    teacher = Teacher(its_network, PLAIN_PROCO, tiny_dataset.class_counts)
    looks = []
    its_network.register_forward_hook(lambda *_: looks.append(1))
    stage = make_stage(tiny_dataset)
    term = next(iter(stage.terms.values()))._replace(term=Spy())
    learner = Learner(make_network(), make_stage(tiny_dataset, terms={"spy": term}), None).train()
    batch = next(batches(tiny_dataset, torch.device("cpu")))
    step = Step(learner, SGD(learner.parameters(), OptimConfig(lr=0.1, sharpness=0.1)), None, teacher)
    step(batch)
    assert len(looks) == 1
    assert len(seen) == 2  # with the gradient uphill, but one thing is taught
    assert seen[0] is seen[1]
    torch.testing.assert_close(seen[0], its_network(batch.views[0]).logits)
    assert not seen[0].requires_grad


def test_sharpness_is_looked_for_uphill_and_leaves_no_trace(tiny_dataset: Dataset) -> None:
    """The step written out: gradient, rho along it, gradient there, update from where it began."""
    network = make_network().double()
    learner = Learner(network, make_stage(tiny_dataset), None).double().train()
    twin = copy.deepcopy(learner)
    config = OptimConfig(lr=0.1, sharpness=0.05)
    batch = next(batches(tiny_dataset, torch.device("cpu")))
    step = Step(learner, SGD(learner.parameters(), config), None)
    values = step(batch)

    parameters = list(twin.parameters())
    total, expected = twin(batch.views, batch.targets)
    torch.testing.assert_close(values, expected)
    trace = {name: buffer.clone() for name, buffer in twin.named_buffers()}
    gradients = torch.autograd.grad(total, parameters)
    length = sum(gradient.square().sum() for gradient in gradients).sqrt()
    before = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter += 0.05 * gradient / length
    twin.terms.eval()
    total, _ = twin(batch.views, batch.targets)
    there = torch.autograd.grad(total, parameters)
    assert any(not torch.allclose(here, new) for here, new in zip(gradients, there, strict=True))
    for ours, old, gradient in zip(learner.parameters(), before, there, strict=True):
        torch.testing.assert_close(ours, old - 0.1 * (gradient + 2e-4 * old))
    for name, buffer in learner.named_buffers():
        if not name.endswith("num_batches_tracked"):
            torch.testing.assert_close(buffer, trace[name], msg=name)
    assert all(part.training for part in learner.modules())


def run_steps(
    dataset: Dataset,
    device: torch.device,
    *,
    sharpness: float = 0.0,
    experts: int = 1,
    taught: bool = False,
    **how: bool,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    # In float64, so that what differs is a mistake, not rounding grown large.
    network = make_network(experts=experts).to(device).double()
    stage = make_stage(dataset)
    if experts > 1:
        method = ProCoPlus(views=PLAIN_PROCO.views, past_epochs=2, leave_one_out=True)
        task = Task(dataset.class_counts, 64, 16, 16)
        (stage,) = side_by_side([method.stages(task, 1) for _ in range(experts)])
    teacher = None
    if taught:
        teacher = Teacher(make_network(experts=2).to(device).double(), PLAIN_PROCO, dataset.class_counts)
        (stage,) = taught_stages([stage], TeacherConfig(), PLAIN_PROCO, dataset.class_counts)
    learner = Learner(network, stage, None).to(device).double().train()
    average = MovingAverage(network, 0.9)
    optim = OptimConfig(lr=0.1, sharpness=sharpness)
    step = Step(learner, SGD(learner.parameters(), optim), average, teacher, **how)
    values = []
    for number, batch in enumerate(batches(dataset, device)):
        if number == 2:  # what was recorded before is of no use any more
            wait_for(device)
            step.go_uphill(False)
        values.append(step(batch).clone())
    assert number > 2
    values = torch.stack(values)
    return values.cpu(), {name: value.cpu() for name, value in (learner.state_dict() | average.state_dict()).items()}


def test_each_expert_has_statistics_of_its_own(tiny_dataset: Dataset) -> None:
    values, state = run_steps(tiny_dataset, torch.device("cpu"), experts=2)
    assert values.isfinite().all()
    counts = [value for name, value in state.items() if name.endswith("image_moments.counts")]
    assert len(counts) == 2  # of two experts, to each of which the projector's two views of all images came
    assert all(int(each.sum()) == 2 * 8 * len(values) for each in counts)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are recorded on a GPU")
def test_step_is_recorded_while_the_next_block_is_made(tiny_dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_module, "_GPU_BLOCK_BYTES", 1)
    monkeypatch.setattr(ArrayImages, "are_slow", True)
    device = torch.device("cuda", 0)
    plain_values, _ = run_steps(tiny_dataset, device)
    values, _ = run_steps(tiny_dataset, device, graph=True)
    torch.testing.assert_close(values, plain_values, rtol=1e-6, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are recorded on a GPU")
@pytest.mark.parametrize("settings", [{"sharpness": 0.05, "taught": True}, {"experts": 2}], ids=str)
def test_unusual_steps_are_recorded(tiny_dataset: Dataset, settings: dict[str, Any]) -> None:
    device = torch.device("cuda")
    plain_values, plain_state = run_steps(tiny_dataset, device, **settings)
    values, state = run_steps(tiny_dataset, device, **settings, graph=True)
    torch.testing.assert_close(values, plain_values, rtol=1e-6, atol=1e-6)
    for name, value in state.items():
        torch.testing.assert_close(value, plain_state[name], rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are recorded on a GPU")
@pytest.mark.parametrize("how", [{"graph": True}, {"compile": True}, {"graph": True, "compile": True}], ids=str)
def test_recorded_and_compiled_steps_are_the_plain_one(tiny_dataset: Dataset, how: dict[str, bool]) -> None:
    device = torch.device("cuda")
    plain_values, plain_state = run_steps(tiny_dataset, device)
    values, state = run_steps(tiny_dataset, device, **how)
    torch.testing.assert_close(values, plain_values, rtol=1e-6, atol=1e-6)
    assert torch.equal(
        state["terms.1.term.criterion.moments.counts"], plain_state["terms.1.term.criterion.moments.counts"]
    )
    for name, value in state.items():
        torch.testing.assert_close(value, plain_state[name], rtol=1e-6, atol=1e-6, msg=name)


def test_the_second_look_uphill_is_at_the_same_function(tiny_dataset: Dataset) -> None:
    """BCL's centres pass a batch norm of its own: were it in evaluation mode, another loss would be looked at."""
    bcl = Bcl(views=PLAIN_PROCO.views)
    network = make_network()
    (stage,) = bcl.stages(Task(tiny_dataset.class_counts, network.backbone.num_features, 16, 16), 2)
    learner = Learner(network, stage, None).train()
    batch = next(batches(tiny_dataset, torch.device("cpu")))
    seen = []
    learner.terms[1].register_forward_hook(lambda _, __, value: seen.append(value.detach()))
    # Not a step up, so that both looks are at the same place.
    step = Step(learner, SGD(learner.parameters(), OptimConfig(lr=0.1, sharpness=1e-12)), None)
    step(batch)
    torch.testing.assert_close(seen[1], seen[0])


def test_the_average_follows_the_network_step_by_step(tiny_dataset: Dataset) -> None:
    network = make_network()
    learner = Learner(network, make_stage(tiny_dataset), None).train()
    average = MovingAverage(network, 0.9)
    expected = {name: value.clone() for name, value in network.state_dict().items()}
    step = Step(learner, SGD(learner.parameters(), OptimConfig(lr=0.1)), average)
    for number, batch in enumerate(batches(tiny_dataset, torch.device("cpu")), start=1):
        step(batch)
        share = 1 - min(0.9, (1 + number) / (10 + number))
        for name, value in network.state_dict().items():
            expected[name] = torch.lerp(expected[name], value, share) if value.is_floating_point() else value
    torch.testing.assert_close(dict(average.network.state_dict()), expected)


def test_the_teacher_computes_as_its_pupil_does(tiny_dataset: Dataset) -> None:
    its_network, seen = make_network(), []
    its_network.backbone.stem.register_forward_hook(lambda _, __, features: seen.append(features.dtype))
    teacher = Teacher(its_network, PLAIN_PROCO, tiny_dataset.class_counts)
    learner = Learner(make_network(), make_stage(tiny_dataset), torch.float16).train()
    step = Step(learner, SGD(learner.parameters(), OptimConfig(lr=0.1)), None, teacher)
    step(next(batches(tiny_dataset, torch.device("cpu"))))
    assert seen == [torch.float16]


def test_gradients_are_gone_after_a_step(tiny_dataset: Dataset) -> None:
    learner = Learner(make_network(), make_stage(tiny_dataset), None).train()
    step = Step(learner, SGD(learner.parameters(), OptimConfig(lr=0.1)), None)
    step(next(batches(tiny_dataset, torch.device("cpu"))))
    assert all(parameter.grad is None for parameter in learner.parameters())


def test_the_teacher_looks_at_the_first_of_different_views(tiny_dataset: Dataset) -> None:
    its_network, seen = make_network(), []
    its_network.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    teacher = Teacher(its_network, PLAIN_PROCO, tiny_dataset.class_counts)
    learner = Learner(make_network(), make_stage(tiny_dataset), None).train()
    step = Step(learner, SGD(learner.parameters(), OptimConfig(lr=0.1)), None, teacher)
    batch = next(batches(tiny_dataset, torch.device("cpu")))
    views = torch.stack([batch.views[0], 255 - batch.views[1], batch.views[2] // 2])
    step(batch._replace(views=views))
    assert torch.equal(seen[0], views[0])
