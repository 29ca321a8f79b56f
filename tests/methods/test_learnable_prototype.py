"""Learnt vectors as class complements: a cosine classifier of embeddings, without priors."""

import torch
from tests.methods.small import LABELS, TASK, make_network, outputs_of, values_of
from torch.nn.functional import cosine_similarity, cross_entropy

from proco.methods.learnable_prototype import LearnablePrototype


def test_scores_are_cosines_with_vectors_that_learn() -> None:
    network = make_network()
    outputs = outputs_of(network, 3)
    (stage,) = LearnablePrototype(temperature=0.2).stages(TASK, 1)
    weight = stage.terms["learnable_prototype"].term.term.criterion.weight
    value = values_of(stage, outputs, network)["learnable_prototype"]
    losses = [
        cross_entropy(cosine_similarity(view.embeddings[:, None], weight[None], dim=2) / 0.2, LABELS)  # type: ignore[index]
        for view in outputs[1:]
    ]
    torch.testing.assert_close(value, torch.stack(losses).mean())
    value.backward()
    assert weight.grad.abs().max() > 0
