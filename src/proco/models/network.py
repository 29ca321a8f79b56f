"""The network of a recipe: one backbone, a classifier, and a projector where a method wants embeddings."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from proco.errors import ConfigError
from proco.models.backbones import build_backbone
from proco.models.heads import CosineClassifier, ExpertHeads, FittedClassifier, Projector, StandardisedClassifier
from proco.models.normalise import Normalise
from proco.ranges import require_positive


class Outputs(NamedTuple):
    """What a network says of N images, in float32 or float64."""

    features: Tensor  # (N, d), of the backbone
    logits: Tensor  # (N, K), of the classifier
    embeddings: Tensor | None  # (N, p) unit vectors, of the projector where there is one; experts have their own
    experts: tuple["Outputs", ...] = ()  # of each, where there are several: features side by side, logits their mean

    def split(self, parts: int) -> list["Outputs"]:
        """Cut the rows into equal parts, one for each view of a joint forward."""
        features, logits = self.features.chunk(parts), self.logits.chunk(parts)
        embeddings = [None] * parts if self.embeddings is None else self.embeddings.chunk(parts)
        experts = zip(*(expert.split(parts) for expert in self.experts), strict=True) if self.experts else [()] * parts
        return [Outputs(*row) for row in zip(features, logits, embeddings, experts, strict=True)]


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Which network is trained."""

    backbone: str = "resnet32"
    """A name of ours, timm's or torchvision's (`timm/NAME`, `torchvision/NAME`)."""
    options: dict[str, Any] = field(default_factory=dict)
    """Settings of the backbone itself, such as its width."""
    pretrained: bool = False
    """Begin from weights trained on ImageNet, for timm's and torchvision's backbones."""
    classifier: Literal["linear", "standardised", "cosine"] = "linear"
    """Whether logits are products with features and a bias, the same of features standardised by a batch norm, or
    cosines times `scale`. Methods with a classifier of their own leave no choice."""
    scale: float = 30.0
    """What a cosine classifier multiplies its cosines by; methods with one of their own have a scale of their own."""
    hidden: int = 512
    """Width of the projector's hidden layer."""
    dim: int = 128
    """Length of the embeddings."""

    def __post_init__(self) -> None:
        """Refuse numbers no head can have."""
        if self.hidden < 1 or self.dim < 2:
            raise ConfigError(
                f"network.hidden must be at least 1 and network.dim at least 2; got {self.hidden} and {self.dim}."
            )
        if taken := {"name", "in_channels", "pretrained"} & set(self.options):
            raise ConfigError(
                f"network.options cannot have {min(taken)!r}: it has a setting of its own, or follows from the images."
            )
        require_positive(**{"network.scale": self.scale})


class Network(nn.Module):
    """Normalisation, backbone, classifier and, where asked for, projector: uint8 images (N, C, H, W) to `Outputs`.

    Experts, where the backbone has several, have a classifier and a projector each.

    classifier: makes the classifier of a method, from numbers of features and classes; where it makes None, or is none,
    the settings say which.

    Autocast is for the backbone. The heads compute in float32 at least: rounded to bfloat16, logits of 10 would go in
    steps of 0.06, and of classes that are close the first would win. Several views of a batch go through it stacked
    along N, so that batch norms see them together, as in ProCo's official code.
    """

    def __init__(
        self,
        config: NetworkConfig,
        num_classes: int,
        normalise: Normalise,
        *,
        with_projector: bool = False,
        classifier: Callable[[int, int], nn.Module | None] | None = None,
    ) -> None:
        super().__init__()
        self.normalise = normalise
        self.backbone = build_backbone(
            config.backbone, in_channels=len(normalise.mean), pretrained=config.pretrained, **config.options
        )
        num_experts: int = self.backbone.num_experts
        num_features = self.backbone.num_features // num_experts
        make = partial(_classifier, config, classifier)
        classifiers = [make(num_features, num_classes) for _ in range(num_experts)]
        self.classifier = classifiers[0] if num_experts == 1 else ExpertHeads(classifiers)
        self.projector: Projector | ExpertHeads | None = None
        if with_projector:
            projectors = [Projector(num_features, hidden=config.hidden, dim=config.dim) for _ in range(num_experts)]
            self.projector = projectors[0] if num_experts == 1 else ExpertHeads(projectors)

    def forward(self, images: Tensor) -> Outputs:
        """Return features, logits and embeddings of the images."""
        features = self.backbone(self.normalise(images).contiguous(memory_format=torch.channels_last))
        features = features.to(torch.promote_types(features.dtype, torch.float32))
        with torch.autocast(features.device.type, enabled=False):
            return self._heads(features)

    @torch.no_grad()
    def require_size(self, size: tuple[int, int]) -> None:
        """Refuse a height and width of images that the backbone cannot take, by showing it one."""
        images = next(self.backbone.parameters()).new_zeros(1, len(self.normalise.mean), *size)
        was_training = self.backbone.training
        try:
            self.backbone.eval()(images)
        except ConfigError:
            raise
        except Exception as error:  # every library has its own
            height, width = size
            raise ConfigError(
                f"the backbone cannot take images of {height} x {width} pixels ({error}); set data.size to what it is "
                "made for."
            ) from error
        finally:
            self.backbone.train(was_training)

    def require_batch_size(self, size: int) -> None:
        """Refuse batches of so few images that a head cannot learn from them."""
        if size < 2 and any(isinstance(head, StandardisedClassifier) for head in self.modules()):
            raise ConfigError(
                "network.classifier: a standardised one needs batches of 2 images at least, for a spread."
            )

    def fit_classifier(self, features: Tensor, labels: Tensor) -> None:
        """Show the features (n, d) and labels (n,) of this rank's training images to classifiers fitted to them."""
        heads = list(self.classifier) if isinstance(self.classifier, ExpertHeads) else [self.classifier]
        for head, part in zip(heads, features.chunk(len(heads), dim=1), strict=True):
            if isinstance(head, FittedClassifier):
                head.fit(part, labels)

    @property
    def is_fitted(self) -> bool:
        """Whether its classifier is fitted to the features of the training images."""
        return any(isinstance(head, FittedClassifier) for head in self.classifier.modules())

    def _heads(self, features: Tensor) -> Outputs:
        embeddings = None if self.projector is None else self.projector(features)
        logits = self.classifier(features)
        if not isinstance(self.classifier, ExpertHeads):
            return Outputs(features, logits, embeddings)
        parts = features.chunk(len(logits), dim=1)
        experts = tuple(map(Outputs, parts, logits, embeddings or [None] * len(logits)))
        return Outputs(features, torch.stack(logits).mean(dim=0), None, experts)


def _classifier(
    config: NetworkConfig,
    of_the_method: Callable[[int, int], nn.Module | None] | None,
    num_features: int,
    num_classes: int,
) -> nn.Module:
    own = None if of_the_method is None else of_the_method(num_features, num_classes)
    if own is not None:
        is_as_set = config.classifier == "cosine" and isinstance(own, CosineClassifier)
        if config.classifier != "linear" and not is_as_set:
            raise ConfigError(
                f"network.classifier={config.classifier}: the method has a classifier of its own; leave this setting "
                "out, or set it to linear where a recipe has it."
            )
        return own
    if config.classifier == "linear":
        return nn.Linear(num_features, num_classes)
    if config.classifier == "standardised":
        return StandardisedClassifier(num_features, num_classes)
    return CosineClassifier(num_features, num_classes, scale=config.scale)
