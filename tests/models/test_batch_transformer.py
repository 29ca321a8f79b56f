"""A transformer over a batch: written out, without positions, and with sizes that fit."""

import math

import pytest
import torch
from torch.nn.functional import layer_norm, linear

from proco.models.batch_transformer import BatchTransformer


def test_it_is_attention_and_two_layers_written_out() -> None:
    torch.manual_seed(0)
    module, features = BatchTransformer(8, heads=2, dropout=0.0), torch.randn(5, 8)
    layer = module.layer
    queries, keys, values = linear(features, layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias).chunk(3, 1)
    mixed = torch.zeros(5, 8)
    for head in (slice(0, 4), slice(4, 8)):
        for n in range(5):
            scores = torch.stack([queries[n, head] @ keys[m, head] / math.sqrt(4) for m in range(5)])
            mixed[n, head] = sum(p * values[m, head] for m, p in enumerate(scores.softmax(dim=0)))
    hidden = layer_norm(features + layer.self_attn.out_proj(mixed), (8,))
    expected = layer_norm(hidden + layer.linear2(layer.linear1(hidden).relu()), (8,))
    torch.testing.assert_close(module(features), expected, rtol=1e-4, atol=1e-5)
    assert layer.linear1.out_features == 8


def test_the_order_of_the_batch_does_not_matter_but_its_images_do() -> None:
    module, features = BatchTransformer(8, dropout=0.0), torch.randn(5, 8)
    order = torch.tensor([3, 1, 0, 4, 2])
    torch.testing.assert_close(module(features[order]), module(features)[order], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(module(features[:2]), module(features)[:2], atol=1e-3)
    assert module(features[:1]).shape == (1, 8)


def test_dropout_is_of_training_alone() -> None:
    module, features = BatchTransformer(8, dropout=0.5), torch.randn(5, 8)
    assert not torch.equal(module(features), module(features))
    module.eval()
    assert torch.equal(module(features), module(features))


@pytest.mark.parametrize("heads", [0, -1, 3])
def test_heads_that_do_not_fit_are_refused(heads: int) -> None:
    with pytest.raises(ValueError, match=f"divide the 8 features into equal parts; got {heads}"):
        BatchTransformer(8, heads=heads)
