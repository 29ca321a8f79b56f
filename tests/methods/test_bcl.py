"""Balanced contrast as a method: written out from its definition, centres made of the classifier among it."""

import torch
from tests.methods.small import COUNTS, LABELS, TASK, make_network, outputs_of
from torch.nn.functional import normalize

from proco.methods.bcl import Bcl
from proco.methods.method import Targets


def test_centres_are_made_of_the_classifier() -> None:
    """Anchor by anchor."""
    network = make_network().eval()
    (stage,) = Bcl(temperature=0.2).stages(TASK, 1)
    term = stage.terms["bcl"].term.eval()
    outputs = outputs_of(network, 3)
    value = term(outputs, Targets.of(LABELS), network.classifier)
    layers = term.term.centre_projector.layers
    centres = normalize(layers(network.classifier.weight), dim=1)
    items = torch.cat([outputs[1].embeddings, outputs[2].embeddings, centres]).double()  # type: ignore[list-item]
    item_labels = torch.cat([LABELS, LABELS, torch.arange(len(COUNTS))])
    losses = []
    for i in range(2 * len(LABELS)):
        others = [a for a in range(len(items)) if a != i]
        sizes = {j: sum(int(item_labels[a]) == j for a in others) for j in range(len(COUNTS))}
        weights = [torch.exp(items[i] @ items[a] / 0.2) / sizes[int(item_labels[a])] for a in others]
        total = torch.stack(weights).sum().log()
        positives = [a for a in others if item_labels[a] == item_labels[i]]
        losses.append(torch.stack([total - items[i] @ items[p] / 0.2 for p in positives]).mean())
    torch.testing.assert_close(value.double(), torch.stack(losses).mean(), rtol=1e-4, atol=1e-5)


def test_gradients_of_the_centres_reach_the_classifier() -> None:
    network = make_network()
    term = Bcl().stages(TASK, 1)[0].terms["bcl"].term
    term(outputs_of(network, 3), Targets.of(LABELS), network.classifier).backward()
    assert network.classifier.weight.grad.abs().max() > 0
