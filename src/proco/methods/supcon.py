"""Supervised contrastive learning (Khosla et al., NeurIPS 2020), beside a classifier or before it.

out: mean over positives p of -log(e^(z.z_p/tau) / sum_a e^(z.z_a/tau)); in: -log of the mean of these ratios. z are the
embeddings of all views but the first, a goes over all but the anchor, tau is the temperature.

Departures: the original trains the representation first and the classifier after it (classifier_epochs); beside a
classifier is how ProCo's paper has it, without saying what the contrast then counts: 1, as ProCo's does, is a choice of
this library. The original's code multiplies the loss by tau/0.07, a weight that is left out here. Probes
are logit-adjusted, and of standardised features in the recipes; the original's are not.
"""

from dataclasses import dataclass

from proco.losses.contrast_form import ContrastForm
from proco.losses.supcon import SupConLoss
from proco.methods.method import Method, Task, Term
from proco.methods.pairs import Pairs
from proco.methods.two_branch import TwoBranch


@Method.registry.register("supcon")
@dataclass(frozen=True, kw_only=True)
class SupCon(TwoBranch):
    """A logit-adjusted classifier and contrast within the batch; or the contrast first, and the classifier after it."""

    source = "Khosla et al., Supervised contrastive learning, NeurIPS 2020"

    form: ContrastForm = "out"
    """Whether the mean over positives is taken outside of the logarithm or inside: `out`, `in`."""

    def representation(self, task: Task) -> Term:
        """Return the loss over all pairs of the views."""
        return Pairs(SupConLoss(self.temperature, form=self.form))
