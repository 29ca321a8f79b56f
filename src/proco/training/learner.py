"""What a stage trains: the network and the terms of the objective as one module."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from proco.methods.method import PARTS, Stage, Targets, Term, WeightedTerm
from proco.models.network import Network, Outputs
from proco.roles import WithoutDecay
from proco.training.device import autocast_to


class Learner(nn.Module):
    """Views and targets in, losses out: what gradients flow through, DDP wraps and the compiler sees.

    All views go through the network together. autocast: the type of the network's products, or None for float32; terms
    always see float32.
    """

    weights: Tensor

    def __init__(self, network: Network, stage: Stage, autocast: torch.dtype | None) -> None:
        super().__init__()
        self.network, self.autocast = network, autocast
        self.names = tuple(stage.terms)
        self.terms = nn.ModuleList(weighted.term for weighted in stage.terms.values())
        self.register_buffer("weights", term_weights(stage.terms), persistent=False)
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(_is_within(name, stage.learning))
        # What learns may be a part of a module, which is then not frozen, though all else in it is.
        self.frozen = [
            module
            for name, module in network.named_modules()
            if _is_within(name, PARTS) and not _is_within(name, stage.learning)
            if not any(_is_within(part, (name,)) for part in stage.learning)
        ]

    def forward(self, views: Tensor, targets: Targets) -> tuple[Tensor, Tensor]:
        """Return the weighted sum of the terms, and their values with the accuracy on the first view, (T + 1,).

        Where that view shows another image too, either class counts by the share that is seen of it.

        views: (V, B, C, H, W) uint8.
        """
        with autocast_to(self.autocast, views.device):
            outputs: Outputs = self.network(views.flatten(0, 1))
        by_view = outputs.split(len(views))
        values = torch.stack([term(by_view, targets, self.network.classifier) for term in self.terms])
        predicted = by_view[0].logits.argmax(dim=1)
        shown = targets.share * (predicted == targets.labels) + (1 - targets.share) * (
            predicted == targets.other_labels
        )
        return (values * self.weights).sum(), torch.cat([values.detach(), shown.mean()[None]])

    def without_decay(self) -> list[nn.Parameter]:
        """Return the parameters that weight decay leaves alone."""
        modules = [module for module in self.modules() if isinstance(module, WithoutDecay)]
        return [module.get_parameter(name) for module in modules for name in module.undecayed]

    def start_epoch(self, done: float = 0.0) -> None:
        """Turn training on, and let the terms do what is due before the first batch.

        done: share of the stage's epochs that are over.
        """
        self.train()
        for term in self.terms:
            assert isinstance(term, Term)
            term.start_epoch(done)

    def train(self, mode: bool = True) -> "Learner":
        """Turn training on or off, but leave what is frozen in evaluation mode."""
        super().train(mode)
        for module in self.frozen:
            module.training = False
        return self


def _is_within(name: str, parts: Sequence[str]) -> bool:
    """Return whether a module or parameter is one of the parts, or in one of them."""
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def require_parts(network: Network, stage: Stage) -> None:
    """Refuse a stage in which parts are to learn, or to be drawn anew, that the network has not."""
    modules, parameters = dict(network.named_modules()), dict(network.named_parameters())
    for part in stage.learning:
        if part not in PARTS and part not in modules and part not in parameters:  # there may be no projector
            raise ValueError(f"the network has no part {part!r} that could learn.")
    for part in stage.renewed:
        if part not in modules:
            raise ValueError(f"the network has no module {part!r} that could be drawn anew.")


def term_weights(terms: Mapping[str, WeightedTerm]) -> Tensor:
    """Return the weights of the terms, (T,)."""
    return torch.tensor([weighted.weight for weighted in terms.values()])
