"""von Mises-Fisher classifier (Wang et al., ECCV 2022): classes are distributions on the sphere that are to part.

The logit of class j is kappa_j mu_j.z - log C_p(kappa_j) of unit features z, with learnt directions and concentrations;
training adds log n_j, prediction does not. Beside the cross-entropy stand L_icd, the mean overlap 1/(1 + KL) of
different classes, and L_cfc, one less the overlap of each class of the batch with its features; see
`proco.losses.vmf_overlap`. Both count 0.2 (1 - e/E)^0.9 in epoch e of E.

Departures: the authors' code averages L_icd over all K^2 pairs, with 0 for a class and itself; here it is the mean over
those of different classes. L_cfc was announced but not released: their code has a branch for it that no configuration
uses, whose form this is. Concentrations below 1 are read as 1 and can rise again, where the original's get no gradient
any more. The rescaling of concentrations by overlap before a test, which their configurations leave switched off, is
not here. The classifier has the backbone's learning rate; theirs is half of it. Bessel functions are those of
`proco.sphere`, of any dimension; theirs round the order of an odd one. Over several ranks the batch of L_cfc is that of
all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from proco.distributed import all_gather_rows
from proco.losses.logit_adjustment import LogitAdjustedLoss
from proco.losses.vmf_overlap import class_feature_consistency, inter_class_discrepancy
from proco.methods.method import Method, Targets, Task, Term
from proco.methods.one_branch import OneBranch
from proco.models.heads import VonMisesFisherClassifier
from proco.models.network import Outputs


class PartedClassification(Term):
    """A criterion of (logits, labels) on the first view, and the overlaps of a von Mises-Fisher classifier.

    regularisation: what the overlaps count at first; it falls to 0 with the epochs.
    """

    weight: Tensor

    def __init__(self, criterion: nn.Module, regularisation: float) -> None:
        super().__init__()
        self.criterion, self.regularisation = criterion, regularisation
        self.register_buffer("weight", torch.tensor(regularisation))

    def start_epoch(self, done: float = 0.0) -> None:
        """Set what the overlaps count."""
        super().start_epoch(done)
        self.weight.fill_(self.regularisation * (1 - done) ** 0.9)

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the sum of the criterion and the weighted overlaps."""
        assert isinstance(classifier, VonMisesFisherClassifier), "the method brings this classifier"
        loss: Tensor = self.criterion(outputs[0].logits, targets.labels)
        directions, concentration = classifier.distributions()
        features, labels = all_gather_rows(outputs[0].features), all_gather_rows(targets.labels)
        apart = inter_class_discrepancy(directions, concentration)
        together = class_feature_consistency(directions, concentration, features, labels)
        return loss + self.weight * (apart + together)


@Method.registry.register("vmf_classifier")
@dataclass(frozen=True, kw_only=True)
class VmfClassifier(OneBranch):
    """A classifier of von Mises-Fisher distributions that learn how concentrated each class is, and overlap little."""

    family = "classifier"
    source = (
        "Wang et al., Towards calibrated hyper-sphere representation via distribution overlap coefficient for "
        "long-tailed learning, ECCV 2022"
    )
    cost = "one view, and the overlap of every two classes"

    regularisation: float = 0.2
    """What overlaps count beside the cross-entropy at first; it falls to 0 with the epochs."""

    def __post_init__(self) -> None:
        """Refuse a negative or infinite weight."""
        super().__post_init__()
        self.require_not_negative("regularisation")

    def term(self, task: Task) -> Term:
        """Return cross-entropy with the class priors as margins, and the overlaps."""
        return PartedClassification(LogitAdjustedLoss(task.class_counts), self.regularisation)

    def classifier(self, num_features: int, num_classes: int) -> nn.Module:
        """Return the classifier of distributions."""
        return VonMisesFisherClassifier(num_features, num_classes)
