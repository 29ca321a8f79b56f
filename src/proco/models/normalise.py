"""The first layer of every network: from grey levels to numbers around zero."""

from torch import Tensor, nn


class Normalise(nn.Module):
    """Turn uint8 images (N, C, H, W) into float ones: (value / 255 - mean) / std, channel by channel.

    mean, std: (C,), in [0, 1]. They are saved with the weights: a network without its normalisation is worth nothing.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        for name, value in (("mean", mean), ("std", std)):
            self.register_buffer(name, 255 * value.float().view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return the normalised images."""
        return (images - self.mean) / self.std
