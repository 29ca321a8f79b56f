"""The ProCo loss of images left out of their classes: each scored as an image never seen will be."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from proco.losses.batch import checked_labels, reduce
from proco.losses.class_counts import log_prior
from proco.losses.proco import ProCoLoss
from proco.sphere.bessel import bessel_ratio
from proco.sphere.moment_generating import log_mgf
from proco.sphere.moments import ClassMoments


class LeaveOneOutProCoLoss(ProCoLoss):
    """`ProCoLoss` in which the distribution of an image's own class is estimated from the other images of the class.

    In the official code, and in `ProCoLoss`, an image is part of the class it is compared with: of a class of five, a
    fifth. Here what an image has given to the sums, all of its views in the window, is kept too and taken off. A class
    of one image is the uniform distribution to that image.

    num_images: of the training set; (num_images, p) sums are kept, twice. The other arguments are those of ProCoLoss,
    without chunk_size: all (N, K) scores are there at once, and differentiated by autograd.
    """

    def __init__(self, *arguments: Any, num_images: int, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if self.chunk_size is not None:
            raise ValueError("chunk_size has no meaning here: all scores are computed at once.")
        if num_images < 1:
            raise ValueError(f"num_images must be at least 1; got {num_images}.")
        self.images = ClassMoments(num_images, self.dim, self.moments.past_epochs).to(self.class_counts.device)

    def start_epoch(self) -> None:
        """Begin an epoch."""
        super().start_epoch()
        self.images.start_epoch()

    def forward(self, embeddings: Tensor, labels: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return the loss of unit embeddings (N, p) with labels (N,), of the training images at positions (N,).

        Without positions the images are no training images; that is for evaluation mode.
        """
        if positions is None:
            if self.training:
                raise ValueError("in training the loss needs positions: which image each embedding is of.")
            return super().forward(embeddings, labels)
        self._check_embeddings(embeddings)
        size, num_images = len(embeddings), len(self.images.counts)
        labels = checked_labels(labels, size, self.num_classes, validate=self.validate).long()
        positions = checked_labels(positions, size, num_images, validate=self.validate, name="positions")
        with torch.autocast(embeddings.device.type, enabled=False):
            if self.training:
                self.moments.update(embeddings, labels)
                self.images.update(embeddings, positions)
            return reduce(self._losses(embeddings, labels, positions), self.reduction)

    def _losses(self, embeddings: Tensor, labels: Tensor, positions: Tensor) -> Tensor:
        with torch.no_grad():
            sums = self.moments.sums[labels] - self.images.sums[positions]
            counts = (self.moments.counts[labels] - self.images.counts[positions]).clamp_min(1)
            concentration = self.concentration(torch.linalg.vector_norm(sums, dim=1) / counts)
        cosine = (embeddings.to(sums.dtype) * normalize(sums, dim=1)).sum(dim=1)
        prior = log_prior(self.class_counts, sums.dtype)
        own = log_mgf(concentration, cosine, 1 / self.temperature, self.dim) + prior[labels]
        log_weights = (self.logits(embeddings) + prior).scatter(1, labels[:, None], own[:, None])
        if self.form == "out":
            own = bessel_ratio(self.dim / 2 - 1, concentration) * cosine / self.temperature
        return log_weights.logsumexp(dim=1) - own
