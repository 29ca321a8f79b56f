"""Mean directions as class complements: written out over two views."""

import torch
from tests.methods.small import COUNTS, LABELS, TASK, make_network, outputs_of, values_of
from torch.nn.functional import cross_entropy, normalize

from proco.methods.centroid_prototype import CentroidPrototype


def test_centroids_are_of_all_views_so_far() -> None:
    network = make_network()
    outputs = outputs_of(network, 3)
    (stage,) = CentroidPrototype(temperature=0.2).stages(TASK, 1)
    value = values_of(stage, outputs, network)["centroid_prototype"]
    embeddings = [view.embeddings for view in outputs[1:]]
    losses = []
    for seen in (1, 2):
        rows, labels = torch.cat(embeddings[:seen]).detach(), LABELS.repeat(seen)  # type: ignore[arg-type]
        centroids = torch.stack([normalize(rows[labels == j].sum(dim=0), dim=0) for j in range(len(COUNTS))])
        scores = embeddings[seen - 1] @ centroids.T / 0.2 + (COUNTS / COUNTS.sum()).log()
        losses.append(cross_entropy(scores, LABELS))
    torch.testing.assert_close(value, torch.stack(losses).mean())
