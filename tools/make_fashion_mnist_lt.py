"""Make src/proco/data/fashion_mnist_lt.npz, the long-tailed data set that ships with the package.

Fashion-MNIST is taken from the Debian package dataset-fashion-mnist (MIT licence):

    apt-get download dataset-fashion-mnist && dpkg -x dataset-fashion-mnist_*.deb FOLDER
    python tools/make_fashion_mnist_lt.py FOLDER/usr/share/datasets/fashion-mnist

Training images: 1000 of the first class, falling exponentially to 10 of the last, chosen by `proco.data.long_tail`.
Test images: the first 200 of each class of the official test set. The file comes out the same every time, byte for byte
as long as zlib is the same.
"""

import argparse
import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from proco.data.bundled import FASHION_MNIST_LT
from proco.data.long_tail import exponential_counts, keep_counts

CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
LARGEST, IMBALANCE = 1000, 100
TEST_IMAGES_PER_CLASS = 200
_BYTES = 0x08  # the code of uint8 in the header of an idx file


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an array in the format of MNIST: two zeros, type, number of sides, the sides, the bytes."""
    content = gzip.decompress(path.read_bytes())
    if content[:3] != bytes([0, 0, _BYTES]):
        raise SystemExit(f"{path} is not an idx file of bytes.")
    sides = np.frombuffer(content, ">u4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(sides)).reshape(sides)


def main() -> None:
    """Read the official files and write the npz."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of the four official idx files, gzipped")
    parser.add_argument("--out", type=Path, default=FASHION_MNIST_LT)
    options = parser.parse_args()
    train_images, train_labels, test_images, test_labels = (
        read_idx(options.folder / f"{part}-{what}-ubyte.gz")
        for part in ("train", "t10k")
        for what in ("images-idx3", "labels-idx1")
    )
    counts = exponential_counts(LARGEST, len(CLASS_NAMES), IMBALANCE)
    train = keep_counts(train_labels, counts, "fashion_mnist_lt").indices
    test = np.concatenate(
        [np.flatnonzero(test_labels == label)[:TEST_IMAGES_PER_CLASS] for label in range(len(CLASS_NAMES))]
    )
    np.savez_compressed(
        options.out,
        train_images=train_images[train],
        train_labels=train_labels[train].astype(np.int64),
        test_images=test_images[test],
        test_labels=test_labels[test].astype(np.int64),
        class_names=np.array(CLASS_NAMES),
    )
    print(f"{options.out}: {len(train)} training and {len(test)} test images, {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
