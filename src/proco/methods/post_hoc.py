"""What methods share that train by plain cross-entropy and differ only in how they predict."""

from dataclasses import dataclass
from typing import ClassVar

from proco.methods.cross_entropy import CrossEntropy
from proco.methods.method import Family, Method
from proco.methods.one_branch import OneLoss


@dataclass(frozen=True, kw_only=True)
class PostHoc(OneLoss):
    """Cross-entropy of a linear classifier in training, and another rule of prediction."""

    family: ClassVar[Family] = "classifier"
    cost: ClassVar[str] = "one view"

    def begins_as(self) -> Method:
        """Return cross-entropy, on the same views and samples: all of the training."""
        return CrossEntropy(views=self.views, sampler=self.sampler)
