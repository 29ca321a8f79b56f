"""Terms that let what a network says follow something else it says: of other views, by all experts, on average."""

from collections.abc import Sequence

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
    other view is recognised count, and of which nothing is covered (MDCS, ICCV 2023, without its experts). The others
    are taken as they are, or as the teacher sees them where there is one. The loss comes in over the first ramp epochs.
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
        others = [view.logits.detach() for view in outputs[1:]] if targets.taught is None else targets.taught
        for logits in others:
            said = logits + self.adjustment
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
    """The network is to say what its average over time says: T^2 KL(average || network), probabilities softened by T.

    (Mean teacher, NeurIPS 2017, with labels.) Both look at the first view, the one that labels are learnt by; the
    average is that of the weights, which at a high learning rate knows more than the network. Probabilities are those
    under the class priors, softmax((z + tau log prior) / T).
    """

    adjustment: Tensor

    def __init__(self, class_counts: Tensor, *, tau: float, temperature: float) -> None:
        super().__init__()
        self.register_buffer("adjustment", tau * log_prior(class_counts, torch.float32))
        self.temperature = temperature

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the mean over images."""
        assert targets.taught is not None, "the stage has the first view taught"
        said, taught = outputs[0].logits + self.adjustment, targets.taught[0] + self.adjustment
        return soft_divergence(said, taught, self.temperature).mean()
