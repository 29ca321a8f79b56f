"""Logit adjustment after training (Menon et al., ICLR 2021, section 4.1): predict by s_j - tau log pi_j.

Departures from the authors' code: that adds 1e-12 to pi_j, whose classes may be empty; here they may not. Network and
schedule: see logit_adjustment.
"""

from dataclasses import dataclass

from torch import Tensor

from proco.losses.class_counts import log_prior
from proco.methods.method import Method
from proco.methods.post_hoc import PostHoc
from proco.models.network import Outputs


@Method.registry.register("logit_adjustment_posthoc")
@dataclass(frozen=True, kw_only=True)
class LogitAdjustmentPosthoc(PostHoc):
    """Cross-entropy in training; the class priors are taken off the logits when predicting."""

    source = "Menon et al., Long-tail learning via logit adjustment, ICLR 2021"

    tau: float = 1.0
    """How many log priors are subtracted; 0 predicts as cross-entropy does."""

    def __post_init__(self) -> None:
        """Refuse a negative or infinite strength."""
        super().__post_init__()
        self.require_not_negative("tau")

    def predict(self, outputs: Outputs, class_counts: Tensor) -> Tensor:
        """Return the logits less the prior."""
        return outputs.logits - self.tau * log_prior(class_counts, outputs.logits.dtype)
