"""Moving averages as class complements: written out over two views."""

import pytest
import torch
from tests.methods.small import COUNTS, LABELS, TASK, make_network, outputs_of, values_of
from torch.nn.functional import cross_entropy, normalize

from proco.errors import ConfigError
from proco.methods.ema_prototype import EmaPrototype


def test_prototypes_move_with_each_view_before_it_is_scored() -> None:
    network = make_network()
    outputs = outputs_of(network, 3)
    (stage,) = EmaPrototype(momentum=0.75, temperature=0.2).stages(TASK, 1)
    value = values_of(stage, outputs, network)["ema_prototype"]
    prototypes: list[torch.Tensor | None] = [None] * len(COUNTS)
    losses = []
    for view in outputs[1:]:
        embeddings = view.embeddings
        assert embeddings is not None
        for j in range(len(COUNTS)):
            mean = embeddings[j == LABELS].mean(dim=0).detach()
            before = prototypes[j]
            prototypes[j] = normalize(mean if before is None else 0.75 * before + 0.25 * mean, dim=0)
        scores = embeddings @ torch.stack(prototypes).T / 0.2 + (COUNTS / COUNTS.sum()).log()  # type: ignore[arg-type]
        losses.append(cross_entropy(scores, LABELS))
    torch.testing.assert_close(value, torch.stack(losses).mean())


@pytest.mark.parametrize("momentum", [1.0, -0.1])
def test_momentum_is_a_share(momentum: float) -> None:
    with pytest.raises(ConfigError, match=r"method\.momentum"):
        EmaPrototype(momentum=momentum)
