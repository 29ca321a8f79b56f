"""Class means of images that two ranks have looked at, against one process that has looked at all of them."""

from typing import Any

import pytest
import torch
from tests.distributed.ranks import run_on_two_ranks

from proco.distributed import world_size
from proco.models.heads import NearestMeanClassifier
from proco.models.heads.nearest_mean import Distance

DISTANCES: tuple[Distance, ...] = ("cl2n", "l2n", "raw")


def fitted(rank: int) -> dict[str, Any]:
    """What classifiers have in their buffers after they were shown every world_size-th image."""
    features = 5 + torch.randn(31, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0] * 20 + [1] * 10 + [3])  # the last class has one image, on one rank; class 2 has none
    heads = {distance: NearestMeanClassifier(6, 4, distance=distance).double() for distance in DISTANCES}
    for head in heads.values():
        head.fit(features[rank :: world_size()], labels[rank :: world_size()])
    return {distance: dict(head.named_buffers()) for distance, head in heads.items()}


@pytest.mark.parametrize("distance", DISTANCES)
def test_both_ranks_have_the_means_of_all_images(distance: Distance) -> None:
    expected = fitted(0)[distance]
    assert expected["is_known"].tolist() == [True, True, False, True]
    for found in run_on_two_ranks(fitted):
        torch.testing.assert_close(found[distance], expected, rtol=1e-12, atol=1e-12)
