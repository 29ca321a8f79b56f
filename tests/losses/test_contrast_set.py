"""The set that anchors are compared with: what it holds, and that wrong calls explain themselves."""

import pytest
import torch

from proco.losses.contrast_set import contrast_set

ANCHORS, LABELS = torch.eye(5)[1:3], torch.tensor([1, 0])
ALL, ALL_LABELS = torch.eye(5), torch.tensor([0, 1, 0, 1, 0])


def test_anchors_alone_are_compared_with_each_other() -> None:
    found = contrast_set(ANCHORS, LABELS)
    assert found.embeddings is ANCHORS
    assert found.labels is LABELS
    assert found.itself is not None
    assert found.itself.tolist() == [[True, False], [False, True]]


def test_anchors_are_found_at_their_offset() -> None:
    itself = contrast_set(ANCHORS, LABELS, ALL, ALL_LABELS, 1).itself
    assert itself is not None
    assert itself.tolist() == [[False, True, False, False, False], [False, False, True, False, False]]
    assert torch.equal(ALL[itself.int().argmax(dim=1)], ANCHORS)


def test_without_an_offset_the_anchors_are_elsewhere() -> None:
    assert contrast_set(ANCHORS, LABELS, ALL, ALL_LABELS).itself is None


def test_wrong_input_is_explained() -> None:
    with pytest.raises(ValueError, match="go together"):
        contrast_set(ANCHORS, LABELS, ALL)
    with pytest.raises(ValueError, match="row of contrast, which was not given"):
        contrast_set(ANCHORS, LABELS, anchor_offset=0)
    for offset in (-1, 4):
        with pytest.raises(ValueError, match=f"2 anchors from row {offset} on are not within the 5 rows"):
            contrast_set(ANCHORS, LABELS, ALL, ALL_LABELS, offset)
