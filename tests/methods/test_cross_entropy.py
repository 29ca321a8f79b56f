"""Cross-entropy as a method: labels that are smoothed, and settings that are refused."""

import pytest
import torch
from tests.methods.small import LABELS, TASK, make_network, outputs_of, values_of

from proco.errors import ConfigError
from proco.methods.cross_entropy import CrossEntropy


def test_labels_are_smoothed() -> None:
    """Written out: a share of every label is spread over all classes."""
    network = make_network()
    outputs = outputs_of(network, 1)
    (stage,) = CrossEntropy(label_smoothing=0.2).stages(TASK, 1)
    value = values_of(stage, outputs, network)["cross_entropy"]
    log_probabilities = outputs[0].logits.log_softmax(dim=1)
    own = torch.stack([row[y] for row, y in zip(log_probabilities, LABELS, strict=True)])
    torch.testing.assert_close(value, -(0.8 * own + 0.2 * log_probabilities.mean(dim=1)).mean())
    assert stage.terms["cross_entropy"].weight == 1.0


@pytest.mark.parametrize("label_smoothing", [1.0, -0.1])
def test_smoothing_is_a_share(label_smoothing: float) -> None:
    with pytest.raises(ConfigError, match=r"method\.label_smoothing"):
        CrossEntropy(label_smoothing=label_smoothing)
