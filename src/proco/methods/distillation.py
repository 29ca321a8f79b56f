"""Knowledge distillation (Hinton et al., 2015): a network learns what another one says of the same images."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn
from torch.nn.functional import kl_div

from proco.methods.method import Targets, Term
from proco.models.network import Outputs


class Distillation(Term):
    """A network is to say what its teacher says of the first view: T^2 KL(teacher || network), softened by T.

    Probabilities are those of the scores s that predict, softmax(s / T): where these are without the class priors, as
    after logit adjustment, so is what is taught, and rare classes count like others. The factor keeps gradients of the
    same size whatever T. Experts are taught together.

    predict: from outputs and class_counts (K,) to scores (N, K), as a method does.
    """

    class_counts: Tensor

    def __init__(
        self, predict: Callable[[Outputs, Tensor], Tensor], class_counts: Tensor, *, temperature: float
    ) -> None:
        super().__init__()
        self.predict, self.temperature = predict, temperature
        self.register_buffer("class_counts", class_counts, persistent=False)

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the mean over images."""
        assert targets.teacher_scores is not None, "the run has a teacher"
        said, taught = (
            (scores / self.temperature).log_softmax(dim=1)
            for scores in (self.predict(outputs[0], self.class_counts), targets.teacher_scores)
        )
        return self.temperature**2 * kl_div(said, taught, reduction="batchmean", log_target=True)
