"""A linear classifier of questions that are mostly answered by no."""

import math

from torch import nn

from proco.roles import WithoutDecay


class RareEventClassifier(nn.Linear, WithoutDecay):
    """weight features + bias: logits (N, K) of features (N, d), each for "is it class j?" and begun at the odds.

    The bias starts at -log(K - 1): through a sigmoid every class then has a probability of 1/K, and an untrained
    network is not punished by K - 1 noes that it gets half wrong (Cui et al., CVPR 2019, after Lin et al., ICCV 2017).
    Weight decay would pull it back to 0, and so leaves it alone. The weight begins as PyTorch draws it.
    """

    undecayed = ("bias",)

    def __init__(self, num_features: int, num_classes: int) -> None:
        if num_classes < 2:
            raise ValueError(f"num_classes must be at least 2, or there are no odds; got {num_classes}.")
        super().__init__(num_features, num_classes)

    def reset_parameters(self) -> None:
        """Draw the weight anew and set the bias to where it starts."""
        super().reset_parameters()
        nn.init.constant_(self.bias, -math.log(self.out_features - 1))
