"""Supervised contrastive learning (Khosla et al., NeurIPS 2020), beside a classifier or before it."""

from dataclasses import dataclass

from proco.losses.supcon import ContrastForm, SupConLoss
from proco.methods.method import Method, Task, Term
from proco.methods.pairs import Pairs
from proco.methods.two_branch import TwoBranch


@Method.registry.register("supcon")
@dataclass(frozen=True, kw_only=True)
class SupCon(TwoBranch):
    """A logit-adjusted classifier and contrast within the batch; or the contrast first, and the classifier after it."""

    branch = "supcon"

    form: ContrastForm = "out"
    """Whether the mean over positives is taken outside of the logarithm or inside: `out`, `in`."""

    def representation(self, task: Task) -> Term:
        """Return the loss over all pairs of the views."""
        return Pairs(SupConLoss(self.temperature, form=self.form))
