"""Methods of two branches: a contrast beside any classification."""

from dataclasses import make_dataclass

import pytest
import torch
from tests.methods.small import COUNTS, LABELS, TASK, make_network, outputs_of, values_of
from torch.nn.functional import cross_entropy

from proco.augment import Plain
from proco.config import merge
from proco.errors import ConfigError
from proco.methods import Method
from proco.methods.cross_entropy import CrossEntropy
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.logit_adjustment_posthoc import LogitAdjustmentPosthoc
from proco.methods.proco import ProCo


def test_a_contrast_stands_beside_any_classification() -> None:
    """Terms, their names and the prediction are those of both."""
    posthoc = LogitAdjustmentPosthoc(tau=2.0)
    network = make_network()
    outputs = outputs_of(network, 3)
    (stage,), (plain,) = ProCo(classification=posthoc).stages(TASK, 1), ProCo().stages(TASK, 1)
    values, expected = (values_of(each, outputs, network) for each in (stage, plain))
    assert list(values) == ["logit_adjustment_posthoc", "proco"]
    torch.testing.assert_close(values["logit_adjustment_posthoc"], cross_entropy(outputs[0].logits, LABELS))
    torch.testing.assert_close(values["proco"], expected["proco"])
    predicted = ProCo(classification=posthoc).predict(outputs[0], COUNTS)
    torch.testing.assert_close(predicted, posthoc.predict(outputs[0], COUNTS))


def test_a_classification_has_no_views_of_its_own() -> None:
    for settings in ({"views": (Plain(),)}, {"sampler": "square_root"}):
        with pytest.raises(ConfigError, match="has no views and no sampler of its own"):
            ProCo(classification=CrossEntropy(**settings))  # type: ignore[arg-type]


def test_a_contrast_is_no_classification() -> None:
    holder = make_dataclass("Holder", [("method", Method)], frozen=True)
    with pytest.raises(
        ConfigError, match=r"method\.classification: 'bcl' cannot stand there; choose from .*cross_entropy"
    ):
        merge(holder, {"method": {"name": "proco", "classification": "bcl"}})
    built = merge(holder, {"method": {"name": "proco", "classification": {"tau": 1.3}}})
    assert built.method == ProCo(classification=LogitAdjustment(tau=1.3))  # type: ignore[attr-defined]
