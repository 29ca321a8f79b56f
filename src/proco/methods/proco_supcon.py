"""ProCo and supervised contrast within the batch, both beside the classifier (the ablation SC+CC+CR+MM).

L = L_ProCo + L_SupCon. The paper does not say how the two are weighted: 1 and 1 is a choice of this library.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from proco.losses.supcon import SupConLoss
from proco.methods.method import Method, Targets, Task, Term
from proco.methods.pairs import Pairs
from proco.methods.proco import ProCo
from proco.models.network import Outputs


class Sum(Term):
    """The sum of terms."""

    def __init__(self, *terms: Term) -> None:
        super().__init__()
        self.terms = nn.ModuleList(terms)

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the sum."""
        values: list[Tensor] = [term(outputs, targets, classifier) for term in self.terms]
        return sum(values[1:], start=values[0])


@Method.registry.register("proco_supcon")
@dataclass(frozen=True, kw_only=True)
class ProCoSupCon(ProCo):
    """ProCo with SupCon over the same views, the two weighing the same."""

    family = "ablation"
    source = "Du et al., T-PAMI 2024, ablation SC + CC + CR + MM"

    def representation(self, task: Task) -> Term:
        """Return the sum of both losses."""
        return Sum(super().representation(task), Pairs(SupConLoss(self.temperature, form="out")))
