"""A task, a network and outputs of it, small enough to put every method through."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from proco.augment import Sim, Weak
from proco.methods import Method, Task
from proco.methods.batchformer import BatchFormer
from proco.methods.method import Stage, Targets
from proco.methods.one_branch import OneBranch, is_loss_alone
from proco.methods.proco import ProCo
from proco.methods.two_branch import TwoBranch
from proco.models.network import Network, NetworkConfig, Outputs
from proco.models.normalise import Normalise
from proco.optim import OptimConfig
from proco.training.settings import EngineConfig, TrainConfig

COUNTS = torch.tensor([40, 20, 10, 3, 1])
TASK = Task(COUNTS, num_features=64, hidden=16, dim=8)
LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 3, 4])
VIEWS = (Weak(padding=1), Sim(scale=(0.5, 1.0)), Sim(scale=(0.5, 1.0)))


@cache
def every_method() -> dict[str, Method]:
    """Return all that is registered, with its defaults."""
    return {name: kind() for name, kind in Method.registry.items()}


def variants() -> dict[str, Method]:
    """Return all that is registered and what some of it is with other settings: stages in turn, other classifiers."""
    of_one_branch = {
        name: method for name, method in every_method().items() if isinstance(method, OneBranch) and _is_special(method)
    }
    beside = {f"proco beside {name}": ProCo(classification=method) for name, method in of_one_branch.items()}
    around = {f"batchformer around {name}": BatchFormer(base=method) for name, method in of_one_branch.items()}
    in_turn = {
        f"{name} in turn": replace(method, classifier_epochs=2)
        for name, method in every_method().items()
        if isinstance(method, TwoBranch) and method.family == "contrast"
    }
    return {**every_method(), **in_turn, **beside, **around, "proco left out": ProCo(leave_one_out=True, past_epochs=2)}


def _is_special(method: OneBranch) -> bool:
    """Return whether a method is more than a loss of the logits of the usual classifier."""
    return not is_loss_alone(type(method)) or method.classifier(TASK.num_features, len(COUNTS)) is not None


def short(method: Method) -> Method:
    """Return a method with views for images of 8 x 8 and, where it has stages after the first, two epochs in them."""
    changes: dict[str, object] = {"views": VIEWS[: len(method.views)]}
    if getattr(method, "classifier_epochs", 0):
        changes["classifier_epochs"] = 2
    return replace(method, **changes)  # type: ignore[arg-type]


def small_run(method: Method, **changes: Any) -> TrainConfig:
    """Return the settings of a run of two epochs on a CPU, with a checkpoint after each, or with changes to these."""
    settings: dict[str, Any] = {
        "network": NetworkConfig(backbone="resnet8", hidden=16, dim=16),
        "optim": OptimConfig(lr=0.1, schedule="cosine"),
        "engine": EngineConfig(device="cpu", checkpoint_seconds=0),
        "batch_size": 16,
        "epochs": 2,
    }
    return TrainConfig(method=method, **(settings | changes))


def make_network(method: Method | None = None, num_classes: int = len(COUNTS), **options: int) -> Network:
    """Return a network with a projector and the method's classifier; the same one each time."""
    torch.manual_seed(0)
    config = NetworkConfig(backbone="resnet8", options=options, hidden=16, dim=8)
    return Network(
        config,
        num_classes,
        Normalise(torch.zeros(3), torch.ones(3)),
        with_projector=True,
        classifier=None if method is None else method.classifier,
    )


def images_for(labels: Tensor, views: int) -> Tensor:
    """Return noise, the same each time: as many images for each label as there are views."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (views * len(labels), 3, 8, 8), dtype=torch.uint8, generator=generator)


def outputs_of(network: Network, views: int, labels: Tensor = LABELS) -> list[Outputs]:
    """Return what the network says of each view."""
    return network(images_for(labels, views)).split(views)


def values_of(stage: Stage, outputs: Sequence[Outputs], network: Network, labels: Tensor = LABELS) -> dict[str, Tensor]:
    """Return the values of a stage's terms, by name."""
    return {
        name: weighted.term(outputs, Targets.of(labels), network.classifier) for name, weighted in stage.terms.items()
    }


def total_of(stage: Stage, outputs: Sequence[Outputs], network: Network, labels: Tensor = LABELS) -> Tensor:
    """Return what a stage minimises."""
    values = values_of(stage, outputs, network, labels)
    return torch.stack([stage.terms[name].weight * value for name, value in values.items()]).sum()


def learning(stage: Stage, network: Network) -> Iterator[torch.nn.Parameter]:
    """Yield the parameters that a stage moves."""
    for name, parameter in network.named_parameters():
        if any(name == part or name.startswith(f"{part}.") for part in stage.learning):
            yield parameter
    for weighted in stage.terms.values():
        yield from weighted.term.parameters()
