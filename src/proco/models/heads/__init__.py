"""Heads: from features to logits (classifiers) and to unit embeddings (projector), of several experts too."""

from proco.models.heads.aligned import AlignedClassifier
from proco.models.heads.causal import CausalClassifier
from proco.models.heads.cosine import CosineClassifier
from proco.models.heads.experts import ExpertHeads
from proco.models.heads.fitted import FittedClassifier
from proco.models.heads.nearest_mean import NearestMeanClassifier
from proco.models.heads.otherwise import EvaluatesOtherwise, evaluates_otherwise
from proco.models.heads.projector import Projector
from proco.models.heads.rare_event import RareEventClassifier
from proco.models.heads.scaled import ScaledClassifier
from proco.models.heads.standardised import StandardisedClassifier
from proco.models.heads.tau_norm import TauNormClassifier
from proco.models.heads.vmf import VonMisesFisherClassifier

__all__ = [
    "AlignedClassifier",
    "CausalClassifier",
    "CosineClassifier",
    "EvaluatesOtherwise",
    "ExpertHeads",
    "FittedClassifier",
    "NearestMeanClassifier",
    "Projector",
    "RareEventClassifier",
    "ScaledClassifier",
    "StandardisedClassifier",
    "TauNormClassifier",
    "VonMisesFisherClassifier",
    "evaluates_otherwise",
]
