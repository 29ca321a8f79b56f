"""A small long-tailed data set that ships with the package, so that the first run needs nothing.

The file is made by tools/make_fashion_mnist_lt.py.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from proco.data.arrays import read_npz
from proco.data.dataset import Dataset
from proco.data.decode import Progress
from proco.data.source import Source

FASHION_MNIST_LT = Path(__file__).with_name("fashion_mnist_lt.npz")


@Source.registry.register("fashion_mnist_lt")
@dataclass(frozen=True, kw_only=True)
class FashionMnistLt(Source):
    """Fashion-MNIST, long-tailed: grey images of 28 x 28 pixels, ten classes of clothing.

    2,478 training images, 1000 of the first class down to 10 of the last, and 200 test images of each class.
    """

    def read(self, progress: Progress | None = None) -> Dataset:
        """Read the file beside this one."""
        note = "Fashion-MNIST, MIT licence, copyright 2017 Zalando SE; a subset: exponential profile, imbalance 100"
        return replace(read_npz(FASHION_MNIST_LT), notes=(note,))
