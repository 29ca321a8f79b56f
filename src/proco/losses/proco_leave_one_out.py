"""The ProCo loss of images left out of their classes: each scored as an image never seen will be."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from proco.losses.batch import Reduction, checked_labels, reduce
from proco.losses.class_counts import ClassCounts, log_prior
from proco.losses.contrast_form import ContrastForm
from proco.losses.proco import ProCoLoss
from proco.sphere.bessel import bessel_ratio
from proco.sphere.concentration import ConcentrationMethod
from proco.sphere.moment_generating import log_mgf
from proco.sphere.moments import ClassMoments


class LeaveOneOutProCoLoss(ProCoLoss):
    """`ProCoLoss` in which the distribution of an image's own class is estimated from the other images of the class.

    In the official code, and in `ProCoLoss`, an image is part of the class it is compared with: of a class of five, a
    fifth. Here what an image has given to the sums, all of its views in the window, is kept too and taken off. A class
    of one image is the uniform distribution to that image.

    num_images: of the training set; past_epochs + 1 sums of shape (num_images, p) are kept. The other arguments are
    those of ProCoLoss, without chunk_size: all (N, K) scores are there at once, and differentiated by autograd.
    """

    def __init__(
        self,
        class_counts: ClassCounts,
        dim: int = 128,
        temperature: float = 0.1,
        form: ContrastForm = "in",
        *,
        num_images: int,
        past_epochs: int = 1,
        concentration: ConcentrationMethod = "official",
        max_concentration: float = 1e5,
        reduction: Reduction = "mean",
        validate: bool = False,
    ) -> None:
        super().__init__(
            class_counts,
            dim,
            temperature,
            form,
            past_epochs=past_epochs,
            concentration=concentration,
            max_concentration=max_concentration,
            reduction=reduction,
            validate=validate,
        )
        if num_images < 1:
            raise ValueError(f"num_images must be at least 1; got {num_images}.")
        self.image_moments = ClassMoments(num_images, dim, past_epochs).to(self.class_counts.device)

    def start_epoch(self) -> None:
        """Begin an epoch."""
        super().start_epoch()
        self.image_moments.start_epoch()

    def forward(self, embeddings: Tensor, labels: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return the loss of unit embeddings (N, p) with labels (N,), of the training images at positions (N,).

        Without positions the images are no training images; that is for evaluation mode.
        """
        if positions is None:
            if self.training:
                raise ValueError("in training the loss needs positions: which image each embedding is of.")
            return super().forward(embeddings, labels)
        self._check_embeddings(embeddings)
        size, num_images = len(embeddings), len(self.image_moments.counts)
        labels = checked_labels(labels, size, self.num_classes, validate=self.validate).long()
        positions = checked_labels(positions, size, num_images, validate=self.validate, name="positions")
        with torch.autocast(embeddings.device.type, enabled=False):
            if self.training:
                self.moments.update(embeddings, labels)
                self.image_moments.update(embeddings, positions)
            return reduce(self._losses(embeddings, labels, positions), self.reduction)

    def _losses(self, embeddings: Tensor, labels: Tensor, positions: Tensor) -> Tensor:
        with torch.no_grad():
            sums = self.moments.sums[labels] - self.image_moments.sums[positions]
            counts = (self.moments.counts[labels] - self.image_moments.counts[positions]).clamp_min(1)
            concentration = self.concentration(torch.linalg.vector_norm(sums, dim=1) / counts)
        cosine = (embeddings.to(sums.dtype) * normalize(sums, dim=1)).sum(dim=1)
        prior = log_prior(self.class_counts, sums.dtype)
        own = log_mgf(concentration, cosine, 1 / self.temperature, self.dim) + prior[labels]
        log_weights = (self.logits(embeddings) + prior).scatter(1, labels[:, None], own[:, None])
        if self.form == "out":
            own = bessel_ratio(self.dim / 2 - 1, concentration) * cosine / self.temperature
        return log_weights.logsumexp(dim=1) - own
