"""Heads: what comes out has the lengths and values it should."""

import torch

from proco.models.heads import CosineClassifier, Projector


def test_cosine_logits_are_scaled_cosines() -> None:
    head = CosineClassifier(6, 4, scale=30.0)
    features = torch.randn(5, 6)
    expected = 30 * torch.nn.functional.cosine_similarity(features[:, None], head.weight[None], dim=-1)
    torch.testing.assert_close(head(features), expected)
    torch.testing.assert_close(head(7 * features), expected)
    torch.testing.assert_close(head.weight.norm(dim=1), torch.ones(4))


def test_embeddings_have_unit_length() -> None:
    projector = Projector(64)
    embeddings = projector(torch.randn(8, 64))
    assert embeddings.shape == (8, 128)
    torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(8))


def test_embeddings_are_normalised_in_float32_under_autocast() -> None:
    projector = Projector(64).eval()
    with torch.autocast("cpu", dtype=torch.float16):
        embeddings = projector(torch.randn(8, 64))
    assert embeddings.dtype == torch.float32
    torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(8))
