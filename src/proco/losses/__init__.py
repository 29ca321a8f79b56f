"""Losses for unevenly filled classes: modules, and a few functions, of logits, embeddings or features.

Statistics are buffers.
"""

from proco.losses.balanced_contrastive import BalancedContrastiveLoss
from proco.losses.balanced_softmax import BalancedSoftmaxLoss
from proco.losses.centroid_prototype import CentroidPrototypeLoss
from proco.losses.class_balanced_focal import ClassBalancedFocalLoss
from proco.losses.class_counts import class_counts_from_labels
from proco.losses.effective_number import effective_number_weights
from proco.losses.ema_prototype import EmaPrototypeLoss
from proco.losses.focal import FocalLoss
from proco.losses.gaussian_clouded import GaussianCloudedLoss
from proco.losses.inverse_frequency import InverseFrequencyLoss
from proco.losses.isda import IsdaLoss
from proco.losses.ldam import LdamLoss
from proco.losses.learnable_prototype import LearnablePrototypeLoss
from proco.losses.logit_adjustment import LogitAdjustedLoss
from proco.losses.normal_distribution import NormalDistributionLoss
from proco.losses.proco import ProCoLoss
from proco.losses.proco_leave_one_out import LeaveOneOutProCoLoss
from proco.losses.supcon import SupConLoss
from proco.losses.vmf_overlap import class_feature_consistency, class_overlap, inter_class_discrepancy

__all__ = [
    "BalancedContrastiveLoss",
    "BalancedSoftmaxLoss",
    "CentroidPrototypeLoss",
    "ClassBalancedFocalLoss",
    "EmaPrototypeLoss",
    "FocalLoss",
    "GaussianCloudedLoss",
    "InverseFrequencyLoss",
    "IsdaLoss",
    "LdamLoss",
    "LearnablePrototypeLoss",
    "LeaveOneOutProCoLoss",
    "LogitAdjustedLoss",
    "NormalDistributionLoss",
    "ProCoLoss",
    "SupConLoss",
    "class_counts_from_labels",
    "class_feature_consistency",
    "class_overlap",
    "effective_number_weights",
    "inter_class_discrepancy",
]
