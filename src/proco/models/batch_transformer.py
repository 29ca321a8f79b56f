"""Features that have seen those of the other images of their batch."""

from torch import Tensor, nn

from proco.errors import ConfigError
from proco.roles import DrawsOnly


class BatchTransformer(nn.Module, DrawsOnly):
    """A layer of a transformer over a batch, whose images are the words of one sentence: features (N, d) to (N, d).

    Attention of `heads` heads, then two linear layers of width d, with dropout (Hou et al., CVPR 2022). There is no
    position: other orders of the images are other orders of the same features. heads has to divide num_features.
    """

    def __init__(self, num_features: int, *, heads: int = 4, dropout: float = 0.5) -> None:
        super().__init__()
        if heads < 1 or num_features % heads:
            raise ConfigError(f"heads must divide the {num_features} features into equal parts; got {heads}.")
        self.layer = nn.TransformerEncoderLayer(num_features, heads, dim_feedforward=num_features, dropout=dropout)

    def forward(self, features: Tensor) -> Tensor:
        """Return the features that have seen each other."""
        seen: Tensor = self.layer(features[:, None])  # (length of the sentence, number of sentences, d)
        return seen[:, 0]
