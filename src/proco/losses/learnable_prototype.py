"""Contrast with learnt prototypes of the classes (Du et al., T-PAMI 2024).

Without the prior it is the ablation that the paper calls CC.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from proco.losses.class_complement import ClassComplementLoss


class LearnablePrototypeLoss(ClassComplementLoss):
    """score_ij = w_j.z_i / tau with unit vectors w_j that are learnt: a cosine classifier of the embeddings.

    >>> criterion = LearnablePrototypeLoss([90, 10], dim=3, temperature=1.0)
    >>> _ = criterion.weight.data.copy_(torch.eye(2, 3))
    >>> criterion(torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([1]))  # all scores 0: -log pi_1 = log 10
    tensor(2.3026, grad_fn=<DivBackward0>)
    """

    def begin(self) -> None:
        """Draw the prototypes."""
        self.weight = nn.Parameter(normalize(torch.randn(self.num_classes, self.dim), dim=1))

    def scores(self, embeddings: Tensor) -> Tensor:
        """Return cosines over the temperature."""
        return embeddings @ normalize(self.weight.to(embeddings.dtype), dim=1).T / self.temperature
