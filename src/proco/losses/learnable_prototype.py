"""Contrast with learnt prototypes of the classes: CC in the ablations of ProCo's paper (Du et al., T-PAMI 2024)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from proco.losses.batch import Reduction
from proco.losses.class_complement import ClassComplementLoss
from proco.losses.class_counts import ClassCounts


class LearnablePrototypeLoss(ClassComplementLoss):
    """score_ij = w_j.z_i / tau with unit vectors w_j that are learnt: a cosine classifier of the embeddings.

    >>> criterion = LearnablePrototypeLoss([90, 10], dim=3, temperature=1.0)
    >>> _ = criterion.weight.data.copy_(torch.eye(2, 3))
    >>> criterion(torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([1]))  # all scores 0: -log pi_1 = log 10
    tensor(2.3026, grad_fn=<DivBackward0>)
    """

    def __init__(
        self,
        class_counts: ClassCounts,
        dim: int = 128,
        temperature: float = 0.1,
        *,
        prior: bool = True,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(class_counts, dim, temperature, prior=prior, reduction=reduction)
        drawn = torch.randn(self.num_classes, dim, device=self.class_counts.device)
        self.weight = nn.Parameter(normalize(drawn, dim=1))

    def scores(self, embeddings: Tensor) -> Tensor:
        """Return cosines over the temperature."""
        return embeddings @ normalize(self.weight.to(embeddings.dtype), dim=1).T / self.temperature
