"""ELM: margins by the priors in both of its terms."""

import math

import torch
from torch.nn.functional import normalize

from proco.methods.elm import Elm
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.method import Targets, Task
from proco.methods.supcon import SupCon
from proco.models.network import Outputs

COUNTS = torch.tensor([40, 10, 3])
TASK = Task(COUNTS, num_features=64, hidden=16, dim=8)
LABELS = torch.arange(6) % 3


def views_of(number: int) -> list[Outputs]:
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(number, 6, 8, generator=generator)
    return [Outputs(torch.zeros(6, 64), torch.randn(6, 3, generator=generator), normalize(z, dim=1)) for z in draws]


def test_contrast_is_of_the_views_behind_the_first_with_priors() -> None:
    """Written out from the definition, anchor by anchor."""
    outputs = views_of(3)
    (stage,) = Elm(temperature=0.2, weight=0.7).stages(TASK, 5)
    assert {name: weighted.weight for name, weighted in stage.terms.items()} == {"logit_adjustment": 1.0, "elm": 0.7}
    value = stage.terms["elm"].term(outputs, Targets.of(LABELS), None)
    embeddings = torch.cat([outputs[1].embeddings, outputs[2].embeddings]).double()  # type: ignore[list-item]
    labels = LABELS.repeat(2).tolist()
    losses = []
    for i, label in enumerate(labels):
        others = [a for a in range(12) if a != i]
        weights = {
            a: int(COUNTS[labels[a]]) / 53 * math.exp(float(embeddings[i] @ embeddings[a]) / 0.2) for a in others
        }
        positives = [a for a in others if labels[a] == label]
        losses.append(-sum(math.log(weights[p] / sum(weights.values())) for p in positives) / len(positives))
    torch.testing.assert_close(value.item(), sum(losses) / 12, rtol=1e-5, atol=0)


def test_with_equal_counts_it_is_supcon_beside_cross_entropy() -> None:
    even, outputs = TASK._replace(class_counts=torch.tensor([7, 7, 7])), views_of(3)
    found, expected = (
        [weighted.term(outputs, Targets.of(LABELS), None) for weighted in method.stages(even, 5)[0].terms.values()]
        for method in (Elm(), SupCon(classification=LogitAdjustment(tau=0.0)))
    )
    torch.testing.assert_close(found, expected)


def test_settings_reach_the_criterion() -> None:
    criterion = Elm(temperature=0.2).representation(TASK).criterion
    assert (criterion.temperature, criterion.form) == (0.2, "out")
    assert criterion.class_counts.tolist() == [40, 10, 3]


def test_contrast_may_come_before_the_classifier() -> None:
    representation, classifier = Elm(classifier_epochs=4).stages(TASK, 5)
    assert (list(representation.terms), list(classifier.terms)) == (["elm"], ["logit_adjustment"])
