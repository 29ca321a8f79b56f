"""A classifier by cosines that leaves out, when predicting, what all features have in common."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from proco.distributed import all_reduce_sum
from proco.errors import ConfigError
from proco.models.heads.otherwise import EvaluatesOtherwise
from proco.ranges import require_below_one, require_not_negative, require_positive
from proco.roles import FollowsBatches


class CausalClassifier(nn.Module, EvaluatesOtherwise, FollowsBatches):
    """(scale/H) sum_h cos(x_h, w_jh) |w_jh| / (|w_jh| + offset): logits (N, K) of features x (N, d) cut into H heads.

    In training it follows the mean m of the features over all ranks: m <- momentum m + mean of the batch. Momentum
    carries the features of every class along m, most of all towards frequent ones. In evaluation that part is taken
    off (the total direct effect): x_h/|x_h| is replaced by x_h/|x_h| - alpha cos(x_h, m_h) m_h/|m_h|. Only the
    direction of m counts, which is why the batch's mean is not weighted. There is no bias; where nothing was seen yet,
    nothing is taken off.

    Rows that are not finite do not enter the mean: one overflow would stay there for the rest of the run.
    """

    mean: Tensor

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        heads: int = 2,
        scale: float = 16.0,
        alpha: float = 1.5,
        momentum: float = 0.9,
        offset: float = 1 / 32,
    ) -> None:
        super().__init__()
        if heads < 1 or num_features % heads:
            raise ConfigError(f"heads must divide the {num_features} features into equal parts; got {heads}.")
        require_below_one(momentum=momentum)
        require_positive(scale=scale)
        require_not_negative(alpha=alpha, offset=offset)
        self.heads, self.scale, self.alpha, self.momentum, self.offset = heads, scale, alpha, momentum, offset
        self.weight = nn.Parameter(torch.empty(num_classes, num_features))
        self.register_buffer("mean", torch.zeros(num_features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew, uniformly as the authors' code does, and forget the mean."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        nn.init.uniform_(self.weight, -bound, bound)
        self.mean.zero_()

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits; in training, take the features into the mean."""
        directions = normalize(self._cut(features), dim=2)
        if self.training and self.is_following:
            self._follow(features)
        if not self.training:
            shared = normalize(self._cut(self.mean[None]), dim=2)
            directions = directions - self.alpha * (directions * shared).sum(dim=2, keepdim=True) * shared
        weight = self._cut(self.weight)
        weight = weight / (torch.linalg.vector_norm(weight, dim=2, keepdim=True) + self.offset)
        logits: Tensor = self.scale / self.heads * directions.flatten(1) @ weight.flatten(1).T
        return logits

    def extra_repr(self) -> str:
        """Return the sizes and settings."""
        num_classes, num_features = self.weight.shape
        return (
            f"num_features={num_features}, num_classes={num_classes}, heads={self.heads}, scale={self.scale}, "
            f"alpha={self.alpha}, momentum={self.momentum}, offset={self.offset}"
        )

    def _cut(self, rows: Tensor) -> Tensor:
        return rows.reshape(len(rows), self.heads, rows.shape[1] // self.heads)

    @torch.no_grad()
    def _follow(self, features: Tensor) -> None:
        is_finite = features.isfinite().all(dim=1, keepdim=True)
        rows = torch.cat([torch.where(is_finite, features, 0.0), is_finite.to(features.dtype)], dim=1)
        sums = all_reduce_sum(rows.sum(dim=0).to(self.mean.dtype))
        self.mean.mul_(self.momentum).add_(sums[:-1] / sums[-1].clamp_min(1))
