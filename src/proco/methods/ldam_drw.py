"""LDAM with deferred re-weighting, DRW (Cao et al., NeurIPS 2019): margins first, class weights once features stand.

Until a share `deferred_from` of the epochs all images weigh the same. From then on those of class j weigh
w_j ~ (1 - beta) / (1 - beta^n_j), the effective number's (Cui et al., CVPR 2019), and the mean of a batch is divided by
the sum of its weights. On CIFAR that is from epoch 160 of 200 on, where the learning rate falls.

Departures: the authors' code counts epochs in steps of 160 and fails from epoch 320 on; here the weights change after a
share of the run. Over several ranks the sum of weights is that of all, as one process would have it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from proco.errors import ConfigError
from proco.losses.effective_number import effective_number_weights
from proco.losses.ldam import LdamLoss
from proco.methods.classification import Classification
from proco.methods.ldam import Ldam
from proco.methods.method import Method, Task, Term


class DeferredWeights(Classification):
    """A criterion whose `class_weights` (K,) are ones, and late in training those that are given.

    begin: share of the epochs that pass before.
    """

    criterion: LdamLoss
    late_weights: Tensor

    def __init__(self, criterion: LdamLoss, weights: Tensor, *, begin: float) -> None:
        super().__init__(criterion)
        self.begin = begin
        self.register_buffer("late_weights", weights, persistent=False)

    def start_epoch(self, done: float = 0.0) -> None:
        """Write the weights of the epoch in place, where a recorded step reads them."""
        super().start_epoch(done)
        is_late = done >= self.begin
        self.criterion.class_weights.copy_(self.late_weights if is_late else torch.ones_like(self.late_weights))


@Method.registry.register("ldam_drw")
@dataclass(frozen=True, kw_only=True)
class LdamDrw(Ldam):
    """Margins that widen for rare classes, and late in training weights that grow for them too."""

    deferred_from: float = 0.8
    """Share of the epochs that pass before classes are weighted."""
    beta: float = 0.9999
    """How far weights go from equal (0) towards inverse frequency (1)."""

    def __post_init__(self) -> None:
        """Refuse a share outside of 0 to 1, and a beta that gives no weights."""
        super().__post_init__()
        if not 0 <= self.deferred_from <= 1:
            raise ConfigError(
                f"method.deferred_from is a share of the epochs, from 0 to 1; got {self.deferred_from:g}."
            )
        self.require_below_one("beta")

    def term(self, task: Task) -> Term:
        """Return the criterion and what changes its weights."""
        weights = effective_number_weights(task.class_counts, self.beta)
        return DeferredWeights(self.criterion(task), weights, begin=self.deferred_from)
