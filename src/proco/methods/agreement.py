"""Terms that let what a network says follow something else: what it says of other views, all experts, a teacher."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div

from proco.losses.class_counts import log_prior
from proco.methods.method import EpochTerm, Targets, Term
from proco.models.network import Outputs


def soft_divergence(logits: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """Return T^2 KL(softmax(teacher / T) || softmax(logits / T)) over the last dimension, (..., K) to (...).

    The factor keeps gradients of the same size whatever T (Hinton et al., 2015).
    """
    said, taught = ((values / temperature).log_softmax(dim=-1) for values in (logits, teacher))
    return temperature**2 * kl_div(said, taught, reduction="none", log_target=True).sum(dim=-1)


class Agreement(EpochTerm):
    """The first view is to say what the others say: KL(others || first), of probabilities under the class priors.

    These are softmax(z + tau log prior), tau being the strength of adjustment that z is learnt with. Only images whose
    other view is recognised count, and of which nothing is covered (MDCS, ICCV 2023, without its experts). The loss
    comes in over the first ramp epochs.
    """

    adjustment: Tensor

    def __init__(self, class_counts: Tensor, *, tau: float, ramp: int) -> None:
        super().__init__()
        self.register_buffer("adjustment", tau * log_prior(class_counts, torch.float32))
        self.ramp = ramp

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the mean over views and images, those that do not count being 0."""
        first = outputs[0].logits + self.adjustment
        losses = []
        for view in outputs[1:]:
            said = view.logits.detach() + self.adjustment
            counts = (said.argmax(dim=1) == targets.labels) & (targets.share == 1)
            losses.append((soft_divergence(first, said) * counts).mean())
        return torch.stack(losses).mean() * (self.epoch / self.ramp).clamp_max(1)


class ExpertAgreement(Term):
    """Each expert is to say what all say together: T^2 KL(all || expert), of probabilities softened by T.

    (ONE, NeurIPS 2018, with the mean for its gate; NCL, CVPR 2022.) Probabilities are those under the class priors: of
    expert e, with strength taus[e] of the adjustment, by z_e + taus[e] log prior; of all together by the mean of these.
    The first view alone counts. It is the one that the classifier learns labels by; of views without labels experts
    agree most easily by saying the same of all, and they learn to tell such views, and images as they are, from it.
    What is pasted into it changes nothing: all experts see the same image.
    """

    adjustments: Tensor

    def __init__(self, class_counts: Tensor, *, taus: Sequence[float], temperature: float) -> None:
        super().__init__()
        strengths = torch.tensor(taus, device=class_counts.device)[:, None]
        self.register_buffer("adjustments", strengths * log_prior(class_counts, torch.float32))
        self.temperature = temperature

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the sum over experts of the mean over images."""
        logits = torch.stack([expert.logits for expert in outputs[0].experts], dim=1)
        logits = logits + self.adjustments  # (N, E, K)
        together = logits.detach().mean(dim=1, keepdim=True).expand_as(logits)
        return soft_divergence(logits, together, self.temperature).sum(dim=1).mean()


class Distillation(Term):
    """A network is to say what its teacher says of the first view: T^2 KL(teacher || network), softened by T.

    (Hinton et al., 2015.) Probabilities are those of the scores s that predict, softmax(s / T): where these are without
    the class priors, as after logit adjustment, so is what is taught, and rare classes count like others. Experts are
    taught together.

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
        assert targets.taught is not None, "the run has a teacher"
        scores = self.predict(outputs[0], self.class_counts)
        return soft_divergence(scores, targets.taught, self.temperature).mean()
