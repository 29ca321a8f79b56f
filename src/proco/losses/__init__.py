"""Losses for unevenly filled classes: modules of (embeddings or logits, labels) with all state in buffers."""

from proco.losses.balanced_contrastive import BalancedContrastiveLoss
from proco.losses.class_counts import class_counts_from_labels
from proco.losses.logit_adjustment import LogitAdjustedLoss
from proco.losses.proco import ProCoLoss
from proco.losses.proco_leave_one_out import LeaveOneOutProCoLoss
from proco.losses.prototypes import (
    CentroidPrototypeLoss,
    EmaPrototypeLoss,
    LearnablePrototypeLoss,
    NormalDistributionLoss,
)
from proco.losses.supcon import SupConLoss

__all__ = [
    "BalancedContrastiveLoss",
    "CentroidPrototypeLoss",
    "EmaPrototypeLoss",
    "LearnablePrototypeLoss",
    "LeaveOneOutProCoLoss",
    "LogitAdjustedLoss",
    "NormalDistributionLoss",
    "ProCoLoss",
    "SupConLoss",
    "class_counts_from_labels",
]
