"""The two forms of the supervised contrastive loss: its mean over positives inside or outside of the logarithm."""

from typing import Literal

ContrastForm = Literal["in", "out"]
