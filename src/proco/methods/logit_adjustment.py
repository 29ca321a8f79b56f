"""Logit adjustment (Menon et al., ICLR 2021; with tau 1 the balanced softmax of Ren et al., NeurIPS 2020)."""

from dataclasses import dataclass

from proco.losses.logit_adjustment import LogitAdjustedLoss
from proco.methods.method import Classification, Method, Stage, Task, WeightedTerm


@Method.registry.register("logit_adjustment")
@dataclass(frozen=True, kw_only=True)
class LogitAdjustment(Method):
    """Cross-entropy with the class priors as margins: cheap, and the base of the methods below."""

    tau: float = 1.0
    """Strength of the adjustment: how many log priors are added to the logits in training."""

    def __post_init__(self) -> None:
        """Refuse a strength that is none."""
        super().__post_init__()
        self.require_not_negative("tau")

    def stages(self, task: Task, epochs: int) -> tuple[Stage, ...]:
        """Return the one stage."""
        term = Classification(LogitAdjustedLoss(task.class_counts, tau=self.tau))
        return (
            Stage(
                epochs=epochs,
                views=self.views,
                sampler=self.sampler,
                terms={"logit_adjustment": WeightedTerm(1.0, term)},
            ),
        )
