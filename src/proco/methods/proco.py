"""ProCo (Du et al., T-PAMI 2024): a logit-adjusted classifier and the probabilistic contrastive loss, side by side."""

from dataclasses import dataclass

from proco.errors import ConfigError
from proco.losses.proco import ProCoLoss
from proco.losses.supcon import ContrastForm
from proco.methods.method import Method, Task, Term
from proco.methods.two_branch import MeanOverViews, TwoBranch
from proco.sphere.concentration import ConcentrationMethod


@Method.registry.register("proco")
@dataclass(frozen=True, kw_only=True)
class ProCo(TwoBranch):
    """Contrast against infinitely many samples of every class, drawn from its von Mises-Fisher distribution."""

    branch = "proco"

    form: ContrastForm = "in"
    concentration: ConcentrationMethod = "official"
    window: int = 1
    """Previous epochs that the distributions are estimated from, beside the one at hand."""
    leave_one_out: bool = False
    """Score an embedding by its class without it."""

    def __post_init__(self) -> None:
        """Refuse an empty window."""
        super().__post_init__()
        if self.window < 1:
            raise ConfigError(f"method.window is at least 1; got {self.window}.")

    def criterion(self, task: Task) -> ProCoLoss:
        """Return the loss, with the statistics it keeps."""
        return ProCoLoss(
            task.class_counts,
            task.dim,
            self.temperature,
            self.form,
            window=self.window,
            leave_one_out=self.leave_one_out,
            concentration=self.concentration,
        )

    def representation(self, task: Task) -> Term:
        """Return the mean of the loss over the views, each of which enters the statistics in turn."""
        return MeanOverViews(self.criterion(task))
