"""Experts side by side: networks with some stages in common, each of which learns as if it were alone."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from proco.methods.method import Stage, Targets, Term, WeightedTerm
from proco.models.heads import ExpertHeads
from proco.models.network import Outputs


class EachExpert(Term):
    """The sum of a term over experts, each of which has its own."""

    def __init__(self, terms: Sequence[Term]) -> None:
        super().__init__()
        self.terms = nn.ModuleList(terms)

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the sum, of outputs of a network of experts and with its classifiers."""
        assert isinstance(classifier, ExpertHeads)
        by_expert = zip(*(view.experts for view in outputs), strict=True)
        values = [
            term(views, targets, head) for term, views, head in zip(self.terms, by_expert, classifier, strict=True)
        ]
        return torch.stack(values).sum()


def side_by_side(stages_of: Sequence[Sequence[Stage]]) -> tuple[Stage, ...]:
    """Return stages in which experts learn side by side, each as if it were alone, from the stages of each.

    They are alike but for the state of their terms. These are summed, so that the gradient of what belongs to one
    expert alone is as without the others.
    """
    together = []
    for stages in zip(*stages_of, strict=True):
        terms = {
            name: WeightedTerm(weight, EachExpert([stage.terms[name].term for stage in stages]))
            for name, (weight, _) in stages[0].terms.items()
        }
        learning, renewed = (_of_experts(parts, len(stages)) for parts in (stages[0].learning, stages[0].renewed))
        together.append(replace(stages[0], terms=terms, learning=learning, renewed=renewed))
    return tuple(together)


def _of_experts(parts: Sequence[str], number: int) -> tuple[str, ...]:
    """Return the names of parts of a network with several experts: what is in a head is in that of each.

    >>> _of_experts(["backbone", "classifier.scale"], 2)
    ('backbone', 'classifier.0.scale', 'classifier.1.scale')
    """
    named: list[str] = []
    for part in parts:
        head, _, inside = part.partition(".")
        is_of_a_head = bool(inside) and head != "backbone"
        named += [f"{head}.{expert}.{inside}" for expert in range(number)] if is_of_a_head else [part]
    return tuple(named)
