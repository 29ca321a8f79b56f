"""Our descent beside torch's, and what it must not cost."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from proco.errors import ConfigError
from proco.optim import SGD, OptimConfig, goes_uphill, learning_rate


@pytest.mark.parametrize(
    "config",
    [
        OptimConfig(lr=0.1),
        OptimConfig(lr=0.1, nesterov=True, weight_decay=0.0),
        OptimConfig(lr=0.1, momentum=0.0),
    ],
    ids=["momentum", "nesterov", "plain"],
)
def test_parameters_move_as_with_torch(config: OptimConfig) -> None:
    torch.manual_seed(0)
    ours = nn.ParameterList([torch.randn(3, 4), torch.randn(5), torch.ones(2)])
    ours[2].requires_grad_(False)
    theirs = nn.ParameterList([nn.Parameter(parameter.detach().clone()) for parameter in ours[:2]])
    own = SGD(ours.parameters(), config)
    reference = torch.optim.SGD(
        theirs.parameters(),
        lr=0.1,
        momentum=config.momentum,
        nesterov=config.nesterov,
        weight_decay=config.weight_decay,
        fused=True,
    )
    for step, rate in enumerate([0.1, 0.1, 0.02, 0.02]):
        own.rate.fill_(rate)
        reference.param_groups[0]["lr"] = rate
        for mine, other in zip(ours, theirs, strict=False):
            gradient = torch.randn_like(other)
            # In the second step one parameter has no gradient: it and its momentum stay.
            mine.grad, other.grad = (None, None) if step == 1 and mine is ours[1] else (gradient.clone(), gradient)
        own.step()
        reference.step()
        for mine, other in zip(ours, theirs, strict=False):
            assert torch.equal(mine, other)
    assert torch.equal(ours[2], torch.ones(2))
    own.forget_gradients()
    assert all(parameter.grad is None for parameter in ours)


def test_warm_up_by_steps_is_a_straight_line() -> None:
    config = OptimConfig(lr=0.4, warmup=0.2, warmup_by="step")
    rates = [learning_rate(config, epoch, 10, (step + 1) / 4) for epoch in range(3) for step in range(4)]
    assert rates == pytest.approx([0.4 * (n + 1) / 8 for n in range(8)] + [0.4] * 4)
    shorter = [learning_rate(replace(config, warmup=0.15), 0, 5, (step + 1) / 4) for step in range(4)]
    assert shorter == pytest.approx([0.4 / 3, 0.8 / 3, 0.4, 0.4])  # over three quarters of an epoch
    by_epoch = replace(config, warmup_by="epoch")
    assert [learning_rate(by_epoch, 0, 10, (step + 1) / 4) for step in range(4)] == [0.2] * 4


def test_uphill_is_a_step_of_that_length_and_back() -> None:
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(5)), nn.Parameter(torch.randn(2))]
    own = SGD(parameters, OptimConfig(sharpness=0.3))
    before = [parameter.detach().clone() for parameter in parameters]
    parameters[0].grad, parameters[1].grad = torch.randn(3, 4), torch.randn(5)
    gradient = torch.cat([parameters[0].grad.flatten(), parameters[1].grad])
    with own.uphill():
        moved = torch.cat([(now - old).flatten() for now, old in zip(parameters, before, strict=True)])
        torch.testing.assert_close(moved, torch.cat([0.3 * gradient / gradient.norm(), torch.zeros(2)]))
    assert all(torch.equal(now, old) for now, old in zip(parameters, before, strict=True))


def test_uphill_begins_late() -> None:
    late = OptimConfig(sharpness=0.1, sharpness_from=0.7)
    assert [epoch for epoch in range(10) if goes_uphill(late, epoch, 10)] == [7, 8, 9]
    assert all(goes_uphill(OptimConfig(sharpness=0.1), epoch, 3) for epoch in range(3))
    assert not goes_uphill(OptimConfig(), 2, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr": -1.0},
        {"weight_decay": -1.0},
        {"factor": -1.0},
        {"factor": math.nan},
        {"sharpness": -0.1},
        {"sharpness": 0.1, "sharpness_from": 1.5},
        {"momentum": 1.0},
        {"lr": math.inf},
        {"lr": math.nan},
        {"warmup": 5.0},
        {"milestones": (0.5, 60.0)},
        {"momentum": 0.0, "nesterov": True},
    ],
)
def test_wrong_numbers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=list(wrong)[-1]):
        OptimConfig(**wrong)


def test_momenta_are_its_state() -> None:
    parameter = nn.Parameter(torch.ones(3))
    own = SGD([parameter], OptimConfig(lr=0.1, weight_decay=0.0))
    parameter.grad = torch.full((3,), 2.0)
    own.step()
    own.rate.fill_(0.5)
    again = SGD([parameter], OptimConfig(lr=0.1))
    again.load_state_dict(own.state_dict())
    torch.testing.assert_close(again.state_dict(), {"momentum_0": torch.full((3,), 2.0)})
    assert float(again.rate) == pytest.approx(0.1)  # the rate is the run's, not the checkpoint's


def test_a_run_does_not_import_the_compiler(tmp_path: Path) -> None:
    code = (
        "import sys; from proco.cli.main import main\n"
        "sys.argv[1:] = ['train', 'quickstart/proco', 'epochs=1', 'network.backbone=resnet8', '--out', sys.argv[1]]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print('compiler', 'torch._dynamo' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("compiler False\n")


def test_shares_of_the_epochs_are_rounded_not_cut() -> None:
    """0.29 * 100 is 28.999999999999996."""
    config = OptimConfig(lr=1.0, warmup=0.29, milestones=(0.29,), sharpness=0.1, sharpness_from=0.29)
    assert learning_rate(config, 0, 100) == pytest.approx(1 / 29)
    assert learning_rate(config, 28, 100) == 1.0
    assert learning_rate(replace(config, warmup=0.0), 28, 100) == 1.0
    assert learning_rate(replace(config, warmup=0.0), 29, 100) == pytest.approx(0.1)
    assert [goes_uphill(config, epoch, 100) for epoch in (28, 29)] == [False, True]
    short = [learning_rate(OptimConfig(warmup=0.0), epoch, 4) for epoch in range(4)]
    assert short == [0.3, 0.3, 0.3, 0.03]  # the second milestone, at 3.6 epochs, is not within it


def test_uphill_of_no_gradient_is_nowhere() -> None:
    parameter = nn.Parameter(torch.ones(3))
    own = SGD([parameter], OptimConfig(sharpness=0.3))
    parameter.grad = torch.zeros(3)
    with own.uphill():
        assert torch.equal(parameter, torch.ones(3))


def test_weights_come_back_from_uphill_after_an_error() -> None:
    parameter = nn.Parameter(torch.ones(3))
    own = SGD([parameter], OptimConfig(sharpness=0.3))
    parameter.grad = torch.ones(3)
    with pytest.raises(KeyError), own.uphill():
        raise KeyError
    assert torch.equal(parameter, torch.ones(3))


def test_cosine_falls_to_nearly_nothing() -> None:
    rates = [learning_rate(OptimConfig(lr=1.0, schedule="cosine", warmup=0.0), epoch, 3) for epoch in range(3)]
    assert rates == pytest.approx([0.5 + math.sqrt(2) / 4, 0.5, 0.5 - math.sqrt(2) / 4])


def test_some_parameters_do_not_decay() -> None:
    torch.manual_seed(0)
    ours = [nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(2))]
    theirs = [nn.Parameter(parameter.detach().clone()) for parameter in ours]
    own = SGD(ours, OptimConfig(lr=0.1, weight_decay=0.1), undecayed=[ours[1]])
    groups = [{"params": theirs[:1], "weight_decay": 0.1}, {"params": theirs[1:], "weight_decay": 0.0}]
    reference = torch.optim.SGD(groups, lr=0.1, momentum=0.9, fused=True)
    for _ in range(3):
        for mine, other in zip(ours, theirs, strict=True):
            other.grad = torch.randn_like(other)
            mine.grad = other.grad.clone()
        own.step()
        reference.step()
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other)
