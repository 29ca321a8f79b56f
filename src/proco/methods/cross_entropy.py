"""Cross-entropy, the baseline, and logit adjustment after training (Menon et al., ICLR 2021, section 4.1)."""

from dataclasses import dataclass

from torch import Tensor, nn

from proco.errors import ConfigError
from proco.losses.class_counts import log_prior
from proco.methods.method import Classification, Method, Stage, Task, WeightedTerm
from proco.models.network import Outputs


@Method.registry.register("cross_entropy")
@dataclass(frozen=True, kw_only=True)
class CrossEntropy(Method):
    """Plain cross-entropy: treats every image alike, and so the classes as unevenly as they are filled."""

    post_hoc_tau: float = 0.0
    """Subtract this many log priors from the logits when predicting; 1 is post-hoc logit adjustment."""
    label_smoothing: float = 0.0
    """Share of each label that is spread over all classes."""

    def __post_init__(self) -> None:
        """Refuse what is no share or no strength."""
        super().__post_init__()
        self.require_not_negative("post_hoc_tau")
        if not 0 <= self.label_smoothing < 1:
            raise ConfigError(f"method.label_smoothing is a share, from 0 to below 1; got {self.label_smoothing:g}.")

    def stages(self, task: Task, epochs: int) -> tuple[Stage, ...]:
        """Return the one stage."""
        term = Classification(nn.CrossEntropyLoss(label_smoothing=self.label_smoothing))
        return (
            Stage(
                epochs=epochs, views=self.views, sampler=self.sampler, terms={"cross_entropy": WeightedTerm(1.0, term)}
            ),
        )

    def predict(self, outputs: Outputs, class_counts: Tensor) -> Tensor:
        """Return the logits, less the prior where asked for."""
        return outputs.logits - self.post_hoc_tau * log_prior(class_counts, outputs.logits.dtype)
