"""ProCo with what else its views and class distributions are good for: no more images a step, no larger network."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from proco.augment import Paste, View, Weak
from proco.data.samplers import SAMPLERS
from proco.errors import ConfigError
from proco.losses.class_counts import log_prior
from proco.losses.logit_adjustment import LogitAdjustedLoss
from proco.losses.proco import ProCoLoss
from proco.methods.agreement import Agreement, ExpertAgreement
from proco.methods.method import (
    EpochTerm,
    Method,
    Stage,
    Targets,
    Task,
    Term,
    WeightedTerm,
    joint_embeddings,
    side_by_side,
)
from proco.methods.proco import ProCo
from proco.methods.two_branch import BehindFirst
from proco.models.experts import first_expert
from proco.models.network import Network, Outputs

_DRAWS = 20  # epochs of a sampler by which its frequencies are known to a few percent


class SharedClassification(EpochTerm):
    """Logit adjustment on the first view, in which something may be pasted: share l(y) + (1 - share) l(pasted).

    share is that of the area, moved by `trust` towards what the class distributions see in the embedding: the
    probability of y rather than the pasted class, without the prior (ConCutMix's idea, with ProCo's distributions for
    its prototypes). tau is the strength of the adjustment; in the first plain_epochs it is 0, plain cross-entropy.
    """

    adjustment: Tensor

    def __init__(
        self,
        class_counts: Tensor,
        *,
        tau: float,
        trust: float,
        distributions: ProCoLoss,
        plain_epochs: int = 0,
    ) -> None:
        super().__init__()
        self.criterion = LogitAdjustedLoss(class_counts, tau=tau, reduction="none")
        self.trust, self.plain_epochs = trust, plain_epochs
        self.register_buffer("adjustment", tau * log_prior(class_counts, torch.float32))
        self.distributions = (distributions,)  # in a tuple: another term's module, which saves and moves it

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the mean loss."""
        share = targets.share
        if self.trust:
            share = torch.where(share < 1, torch.lerp(share, self._seen_share(outputs[0], targets), self.trust), share)
        logits = outputs[0].logits
        if self.plain_epochs:  # what the criterion will add is taken off
            logits = logits - self.adjustment * (self.epoch <= self.plain_epochs)
        own, pasted = (self.criterion(logits, labels) for labels in (targets.labels, targets.pasted))
        loss: Tensor = (share * own + (1 - share) * pasted).mean()
        return loss

    @torch.no_grad()
    def _seen_share(self, view: Outputs, targets: Targets) -> Tensor:
        (embeddings,) = joint_embeddings([view])
        scores = self.distributions[0].logits(embeddings)
        both = torch.stack([targets.labels, targets.pasted], dim=1)
        return scores.gather(1, both).softmax(dim=1)[:, 0].to(targets.share.dtype)


class OtherViews(Term):
    """Logit adjustment on the views behind the first, which pass the network anyway."""

    def __init__(self, class_counts: Tensor, *, tau: float) -> None:
        super().__init__()
        self.criterion = LogitAdjustedLoss(class_counts, tau=tau)

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the mean over the views."""
        return torch.stack([self.criterion(view.logits, targets.labels) for view in outputs[1:]]).mean()


def shown_frequencies(class_counts: Tensor, paste: Paste) -> Tensor:
    """Return the share of each class in the area of the first views, (K,)."""
    labels = torch.arange(len(class_counts)).repeat_interleave(class_counts.cpu())
    generator = torch.Generator().manual_seed(0)
    drawn = torch.cat([SAMPLERS[paste.sampler](labels, generator) for _ in range(_DRAWS)])
    pasted = labels[drawn].bincount(minlength=len(class_counts)) / len(drawn)
    own = class_counts.cpu() / class_counts.sum().cpu()
    return torch.lerp(own, pasted, paste.mean_share).to(class_counts.device)


@Method.registry.register("proco_plus")
@dataclass(frozen=True, kw_only=True)
class ProCoPlus(ProCo):
    """ProCo with pasted boxes, all views classified, views or experts that teach each other, last epochs apart."""

    paste: Paste = field(default_factory=lambda: Paste(probability=0.0))
    """Boxes of other images in the classifier's view (CutMix); none by default."""
    expert_taus: tuple[float, ...] = ()
    """Strengths of the logit adjustment of the network's experts, such as 0, 1 and 2 (BalPoE, CVPR 2023): their mean
    should be 1, that of what they say together. Without them it is tau for all."""
    expert_agreement: float = 0.0
    """Weight of the divergence of each expert from all together, which then teach it."""
    soft_temperature: float = 1.0
    """What logits are divided by in this divergence."""
    first_expert: bool = False
    """Keep the first expert alone, a network like one without experts: the others have only helped to train it."""
    shown_prior: bool = True
    """Adjust the classifier's logits by how much it is shown of a class, pasted boxes too, instead of by the images of
    the class: boxes of rare classes make them less rare."""
    trust: float = 0.0
    """How far the share of a pasted class follows the class distributions instead of its area, from 0 to 1."""
    plain_share: float = 0.0
    """Share of the epochs, from the first, in which the classifier learns by plain cross-entropy, before its logits are
    adjusted: features are then those of the images as they come."""
    others_weight: float = 0.0
    """Weight of the classifier's loss on the projector's views."""
    agreement: float = 0.0
    """Weight of the divergence between the classifier's view and the projector's."""
    ramp: int = 20
    """Epochs over which the agreement comes in."""
    norms_apart: bool = False
    """Normalise the classifier's view by itself: features it is recognised by are then not scaled by how the
    projector's views are distorted."""
    closing_epochs: int = 0
    """Epochs at the end, out of the run's, in which the classifier sees images nearly as they will be shown to it, and
    nothing is pasted."""
    closing_view: View = field(default_factory=Weak)
    """What it sees in those epochs."""
    closing_lr: float = 0.003
    """Learning rate of those epochs; the default is where the step schedule of the long-tailed recipes ends."""
    head_epochs: int = 0
    """Epochs after those, out of the run's, in which the classifier alone learns, without pasted boxes."""
    head_lr: float = 0.1
    """Learning rate of those epochs."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and settings that leave each other without meaning."""
        super().__post_init__()
        if self.classifier_epochs:
            raise ConfigError("the method proco_plus is trained together; it has head_epochs, not classifier_epochs.")
        weights = ("others_weight", "agreement", "expert_agreement")
        for name in (*weights, "closing_epochs", "closing_lr", "head_epochs", "head_lr"):
            if getattr(self, name) < 0:
                raise ConfigError(f"method.{name} must not be negative; got {getattr(self, name):g}.")
        for name in ("trust", "plain_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"method.{name} lies between 0 and 1; got {getattr(self, name):g}.")
        if self.ramp < 1:
            raise ConfigError(f"method.ramp is at least 1; got {self.ramp}.")
        for tau in self.expert_taus:
            if not 0 <= tau < math.inf:
                raise ConfigError(f"method.expert_taus are strengths, finite and not negative; got {tau:g}.")
        if not self.soft_temperature > 0:
            raise ConfigError(f"method.soft_temperature must be positive; got {self.soft_temperature:g}.")
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        taus = self.expert_taus
        contradictions = {
            "method.expert_taus is for two experts or more.": len(taus) == 1,
            "method.tau has no part where method.expert_taus are given.": bool(taus) and self.tau != 1,
            "method.first_expert needs method.expert_taus that begin with 1: it predicts on its own.": (
                self.first_expert and bool(taus) and taus[0] != 1
            ),
            "method.plain_share is of the classifier's own view; leave method.others_weight out.": (
                self.plain_share > 0 and self.others_weight > 0
            ),
            "method.plain_share leaves logits unadjusted, by which views and experts are compared.": (
                self.plain_share > 0 and (self.agreement > 0 or self.expert_agreement > 0)
            ),
            "method.soft_temperature has no part without method.expert_agreement.": (
                self.soft_temperature != 1 and not self.expert_agreement
            ),
        }
        for sentence, is_so in contradictions.items():
            if is_so:
                raise ConfigError(sentence)

    def stages(self, task: Task, epochs: int) -> tuple[Stage, ...]:
        """Return the joint stage, and the closing and the head's where they have epochs."""
        for name in ("expert_taus", "expert_agreement", "first_expert"):
            if getattr(self, name):
                raise ConfigError(f"method.{name} is for experts; set network.options={{experts: N}}.")
        return self._stages(task, epochs, self.tau)

    def _stages(self, task: Task, epochs: int, tau: float) -> tuple[Stage, ...]:
        """Return the stages of a network, or of one of its experts, that is adjusted by strength tau."""
        if (late := self.closing_epochs + self.head_epochs) >= epochs:
            raise ConfigError(
                f"method.closing_epochs and method.head_epochs make {late}, but the run has {epochs} epochs."
            )
        plain_epochs = round(self.plain_share * epochs)
        if plain_epochs > epochs - late:
            raise ConfigError(
                f"method.plain_share makes {plain_epochs} epochs, but {epochs - late} come before closing and head."
            )
        criterion = self.criterion(task)
        shown = self._frequencies(task, self.paste)
        terms = {
            "logit_adjustment": self._classification(shown, tau, criterion, plain_epochs),
            self.branch: WeightedTerm(self.weight, BehindFirst(self.over_views(criterion))),
        }
        if self.others_weight:
            terms["others"] = WeightedTerm(self.others_weight, OtherViews(task.class_counts, tau=tau))
        if self.agreement:
            terms["agreement"] = WeightedTerm(self.agreement, Agreement(task.class_counts, tau=tau, ramp=self.ramp))
        joint = Stage(
            epochs=epochs - late,
            views=self.views,
            sampler=self.sampler,
            terms=terms,
            paste=self.paste,
            norms_apart=self.norms_apart,
        )
        stages = [joint]
        late_classification = {"logit_adjustment": self._classification(task.class_counts, tau, criterion)}
        if self.closing_epochs:
            closing = replace(
                joint,
                epochs=self.closing_epochs,
                views=(self.closing_view, *self.views[1:]),
                terms=terms | late_classification,
                paste=None,
                optim={"lr": self.closing_lr, "schedule": "constant", "warmup": 0.0},
            )
            stages.append(closing)
        if self.head_epochs:
            head = Stage(
                epochs=self.head_epochs,
                views=self.views[:1],
                terms=late_classification,
                learning=("classifier",),
                optim={"lr": self.head_lr, "weight_decay": 0.0, "schedule": "cosine", "warmup": 0.0},
            )
            stages.append(head)
        return tuple(stages)

    def expert_stages(self, task: Task, epochs: int, num_experts: int) -> tuple[Stage, ...]:
        """Return the stages of experts that differ in strength, and that teach each other."""
        taus = self.expert_taus or (self.tau,) * num_experts
        if len(taus) != num_experts:
            raise ConfigError(
                f"method.expert_taus has {len(taus)} strengths, but the network has {num_experts} experts."
            )
        stages = side_by_side([self._stages(task, epochs, tau) for tau in taus])
        if not self.expert_agreement:
            return stages
        return tuple(
            replace(stage, terms={**stage.terms, "expert_agreement": self._expert_agreement(task, stage, taus)})
            for stage in stages
        )

    def _frequencies(self, task: Task, paste: Paste | None) -> Tensor:
        """Return how often the classifier is shown a class, as far as its adjustment is to know, (K,)."""
        return shown_frequencies(task.class_counts, paste) if paste and self.shown_prior else task.class_counts

    def _classification(
        self, frequencies: Tensor, tau: float, distributions: ProCoLoss, plain_epochs: int = 0
    ) -> WeightedTerm:
        term = SharedClassification(
            frequencies, tau=tau, trust=self.trust, distributions=distributions, plain_epochs=plain_epochs
        )
        return WeightedTerm(1.0, term)

    def _expert_agreement(self, task: Task, stage: Stage, taus: Sequence[float]) -> WeightedTerm:
        frequencies = self._frequencies(task, stage.paste)
        term = ExpertAgreement(frequencies, taus=taus, temperature=self.soft_temperature)
        return WeightedTerm(self.expert_agreement, term)

    def kept(self, network: Network) -> Network:
        """Return the network, or its first expert."""
        return first_expert(network) if self.first_expert else network

    def predict(self, outputs: Outputs, class_counts: Tensor) -> Tensor:
        """Return the classifier's logits: of all experts together, or of the first."""
        if self.first_expert and outputs.experts:  # before the others are gone
            return outputs.experts[0].logits
        return outputs.logits
