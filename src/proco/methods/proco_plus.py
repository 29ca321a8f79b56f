"""ProCo with what else its views and class distributions are good for: no more images a step, no larger network."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from proco.augment import Paste, Weak
from proco.data.samplers import SAMPLERS
from proco.errors import ConfigError
from proco.losses.class_counts import log_prior
from proco.losses.logit_adjustment import LogitAdjustedLoss
from proco.losses.proco import ProCoLoss
from proco.methods.agreement import Agreement, ExpertAgreement
from proco.methods.method import Method, Stage, Targets, Task, Term, WeightedTerm, joint_embeddings
from proco.methods.proco import ProCo
from proco.methods.two_branch import BehindFirst, MeanOverViews
from proco.models.network import Network, Outputs
from proco.optim import OptimConfig

_DRAWS = 20  # epochs of a sampler by which its frequencies are known to a few percent


class SharedClassification(Term):
    """Logit adjustment on the first view, in which something may be pasted: share l(y) + (1 - share) l(pasted).

    share is that of the area, moved by `trust` towards what the class distributions see in the embedding: the
    probability of y rather than the pasted class, without the prior (ConCutMix's idea, with ProCo's distributions for
    its prototypes).

    taus: strength of the adjustment, one for the logits or one for each expert, whose losses are then averaged. In the
    first plain_epochs it is 0, plain cross-entropy.
    """

    epoch: Tensor
    log_prior: Tensor

    def __init__(
        self,
        class_counts: Tensor,
        *,
        taus: Sequence[float],
        trust: float,
        distributions: ProCoLoss,
        plain_epochs: int = 0,
    ) -> None:
        super().__init__()
        self.criteria = nn.ModuleList(LogitAdjustedLoss(class_counts, tau=tau, reduction="none") for tau in taus)
        self.taus, self.trust, self.plain_epochs = tuple(taus), trust, plain_epochs
        self.register_buffer("log_prior", log_prior(class_counts, torch.float32))
        self.register_buffer("epoch", torch.zeros(()))  # a tensor, so that a recorded step sees it move
        self.distributions = (distributions,)  # in a tuple: another term's module, which saves and moves it

    def start_epoch(self) -> None:
        """Count the epoch."""
        self.epoch += 1

    def forward(self, outputs: Sequence[Outputs], targets: Targets, network: Network) -> Tensor:
        """Return the mean loss."""
        share = targets.share
        if self.trust:
            share = torch.where(share < 1, torch.lerp(share, self._seen_share(outputs[0], targets), self.trust), share)
        losses = [
            share * criterion(logits, targets.labels) + (1 - share) * criterion(logits, targets.pasted)
            for criterion, logits in zip(self.criteria, self._logits(outputs[0]), strict=True)
        ]
        return torch.stack(losses).mean()

    def _logits(self, view: Outputs) -> tuple[Tensor, ...]:
        """Return those of each expert, or those of all where there is one strength for them, as the criteria want."""
        if len(self.criteria) == 1:
            logits: tuple[Tensor, ...] = (view.logits,)
        else:
            assert view.expert_logits is not None
            logits = view.expert_logits.unbind(dim=1)
        if not self.plain_epochs:
            return logits
        # What the criteria will add is taken off.
        plain_prior = self.log_prior * (self.epoch <= self.plain_epochs)
        return tuple(own - tau * plain_prior for tau, own in zip(self.taus, logits, strict=True))

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

    def forward(self, outputs: Sequence[Outputs], targets: Targets, network: Network) -> Tensor:
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
    """ProCo with pasted boxes, classification of all views, agreement between them, and a last stretch for the head."""

    paste: Paste = field(default_factory=Paste)
    """Boxes of other images in the classifier's view (CutMix)."""
    expert_taus: tuple[float, ...] = ()
    """Strengths of the logit adjustment of the network's experts, such as 0, 1 and 2 (BalPoE, CVPR 2023): their mean
    should be 1, that of what they say together. Without them, experts learn by their mean alone."""
    expert_agreement: float = 0.0
    """Weight of the divergence of each expert from all together, which then teach it."""
    expert_temperature: float = 3.0
    """What logits are divided by in that divergence."""
    first_expert: bool = False
    """Predict by the first expert alone, a network as large as one without experts (`proco.models.first_expert`); the
    others have only helped to train it."""
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
    teacher: bool = False
    """Let the average of the weights (`ema`) say what the projector's views show, in place of the network itself."""
    ramp: int = 20
    """Epochs over which the agreement comes in."""
    closing_epochs: int = 0
    """Epochs at the end, out of the run's, in which the classifier sees weak views without pasted boxes: images as they
    will be shown to it."""
    closing_lr: float = 0.003
    """Learning rate of those epochs; the default is where the step schedule of the long-tailed recipes ends."""
    norms_apart: bool = False
    """Normalise the classifier's view by itself: features it is recognised by are then not scaled by how the
    projector's views are distorted."""
    head_epochs: int = 0
    """Epochs after those, out of the run's, in which the classifier alone learns, without pasted boxes."""
    head_lr: float = 0.1

    def __post_init__(self) -> None:
        """Refuse weights below 0."""
        super().__post_init__()
        if self.classifier_epochs:
            raise ConfigError("the method proco_plus is trained together; it has head_epochs, not classifier_epochs.")
        weights = ("others_weight", "agreement", "expert_agreement")
        for name in (*weights, "closing_epochs", "closing_lr", "head_epochs", "head_lr"):
            if getattr(self, name) < 0:
                raise ConfigError(f"method.{name} must not be negative; got {getattr(self, name):g}.")
        if self.expert_agreement and not self.expert_taus:
            raise ConfigError("method.expert_agreement needs method.expert_taus: experts that learn on their own.")
        if not self.expert_temperature > 0:
            raise ConfigError(f"method.expert_temperature must be positive; got {self.expert_temperature:g}.")
        if self.first_expert and not self.expert_taus:
            raise ConfigError("method.first_expert needs method.expert_taus: an expert that learns on its own.")
        if self.teacher and not self.agreement:
            raise ConfigError("method.teacher has nothing to say without method.agreement.")
        for name in ("trust", "plain_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"method.{name} lies between 0 and 1; got {getattr(self, name):g}.")
        if self.ramp < 1:
            raise ConfigError(f"method.ramp is at least 1; got {self.ramp}.")

    def stages(self, task: Task, epochs: int) -> tuple[Stage, ...]:
        """Return the joint stage, and the closing and the head's where they have epochs."""
        if self.expert_taus and len(self.expert_taus) != task.num_experts:
            raise ConfigError(
                f"method.expert_taus has {len(self.expert_taus)} strengths, but the network has {task.num_experts} "
                "experts; set network.options={experts: N}."
            )
        if (late := self.closing_epochs + self.head_epochs) >= epochs:
            raise ConfigError(
                f"method.closing_epochs and method.head_epochs make {late}, but the run has {epochs} epochs."
            )
        criterion = self.criterion(task)
        taus = self.expert_taus or (self.tau,)

        def classification(frequencies: Tensor, plain_epochs: int = 0) -> WeightedTerm:
            term = SharedClassification(
                frequencies, taus=taus, trust=self.trust, distributions=criterion, plain_epochs=plain_epochs
            )
            return WeightedTerm(1.0, term)

        shown = shown_frequencies(task.class_counts, self.paste) if self.shown_prior else task.class_counts
        terms = {
            "logit_adjustment": classification(shown, round(self.plain_share * epochs)),
            self.branch: WeightedTerm(self.weight, BehindFirst(MeanOverViews(criterion))),
        }
        if self.others_weight:
            terms["others"] = WeightedTerm(self.others_weight, OtherViews(task.class_counts, tau=self.tau))
        if self.agreement:
            terms["agreement"] = WeightedTerm(self.agreement, Agreement(task.class_counts, ramp=self.ramp))
        if self.expert_agreement:
            together = ExpertAgreement(shown, taus=taus, temperature=self.expert_temperature)
            terms["expert_agreement"] = WeightedTerm(self.expert_agreement, together)
        joint = Stage(
            epochs=epochs - late,
            views=self.views,
            sampler=self.sampler,
            terms=terms,
            paste=self.paste,
            norms_apart=self.norms_apart,
            has_teacher=self.teacher,
        )
        stages = [joint]
        if self.closing_epochs:
            constant = OptimConfig(lr=self.closing_lr, schedule="constant", warmup=0.0)
            closing = replace(
                joint,
                epochs=self.closing_epochs,
                views=(Weak(), *self.views[1:]),
                terms=terms | {"logit_adjustment": classification(task.class_counts)},
                paste=None,
                optim=constant,
            )
            stages.append(closing)
        if self.head_epochs:
            head = Stage(
                epochs=self.head_epochs,
                views=self.views[:1],
                terms={"logit_adjustment": classification(task.class_counts)},
                learning=("classifier",),
                optim=OptimConfig(lr=self.head_lr, weight_decay=0.0, schedule="cosine", warmup=0.0),
            )
            stages.append(head)
        return tuple(stages)

    def predict(self, outputs: Outputs, class_counts: Tensor) -> Tensor:
        """Return the classifier's logits: of all experts together, or of the first."""
        if not self.first_expert:
            return outputs.logits
        assert outputs.expert_logits is not None
        return outputs.expert_logits[:, 0]
