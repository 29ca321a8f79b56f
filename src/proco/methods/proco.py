"""ProCo (Du et al., T-PAMI 2024): a logit-adjusted classifier and the probabilistic contrastive loss, side by side.

L_in = -log softmax(g + log pi)_y, g_j = log E e^(z.Z_j/tau) with Z_j ~ vMF(mu_j, kappa_j) in closed form; mean
direction and concentration of a class are estimated from its embeddings in the last epoch and this one (`ProCoLoss`).

Departures from the official code, which has L_in alone: sums stand in place of running means, a class never seen has a
uniform distribution and not a random one, and the scores are by an expansion in place of a recurrence: the same numbers
to 1e-6. Over several ranks the statistics are of all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from proco.errors import ConfigError
from proco.losses.contrast_form import ContrastForm
from proco.losses.proco import ProCoLoss
from proco.losses.proco_leave_one_out import LeaveOneOutProCoLoss
from proco.methods.method import Method, Targets, Task, Term, embeddings_by_view
from proco.methods.two_branch import MeanOverViews, TwoBranch
from proco.models.network import Outputs
from proco.sphere.concentration import ConcentrationMethod


class LeftOut(MeanOverViews):
    """The mean over views of a criterion that knows which image it looks at, and leaves it out of its class."""

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the mean loss."""
        views = embeddings_by_view(outputs)
        return torch.stack([self.criterion(view, targets.labels, targets.positions) for view in views]).mean()


@Method.registry.register("proco")
@dataclass(frozen=True, kw_only=True)
class ProCo(TwoBranch):
    """Contrast against infinitely many samples of every class, drawn from its von Mises-Fisher distribution."""

    source = "Du et al., Probabilistic contrastive learning for long-tailed visual recognition, T-PAMI 2024"

    form: ContrastForm = "in"
    """`in` is the paper's L_in, with the expectation inside of the logarithm; `out` its L_out."""
    concentration: ConcentrationMethod = "official"
    """How a class's concentration is estimated: as in the official code, by the paper's formula (`sra`), or exactly."""
    past_epochs: int = 1
    """Previous epochs that the distributions are estimated from, beside the one at hand."""
    leave_one_out: bool = False
    """Compare an image with its class without it, as an image never seen will be."""

    def __post_init__(self) -> None:
        """Refuse to estimate from nothing."""
        super().__post_init__()
        if self.past_epochs < 1:
            raise ConfigError(f"method.past_epochs is at least 1; got {self.past_epochs}.")

    def representation(self, task: Task) -> Term:
        """Return the mean of the loss over the views, each of which enters the statistics in turn."""
        counts, where = task.class_counts, (task.dim, self.temperature, self.form)
        window, kappa = self.past_epochs, self.concentration
        if not self.leave_one_out:
            return MeanOverViews(ProCoLoss(counts, *where, past_epochs=window, concentration=kappa))
        num_images = int(counts.sum())
        return LeftOut(
            LeaveOneOutProCoLoss(counts, *where, num_images=num_images, past_epochs=window, concentration=kappa)
        )
