"""The parts of ProCo plus against their definitions."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from proco.augment import Paste, Plain, Weak
from proco.errors import ConfigError
from proco.losses import LogitAdjustedLoss, ProCoLoss
from proco.methods.method import Targets, Task
from proco.methods.proco_plus import OtherViews, ProCoPlus, SharedClassification, shown_frequencies
from proco.models.heads import ExpertHeads
from proco.models.network import Outputs
from proco.optim import OptimConfig, learning_rate

COUNTS = torch.tensor([40, 10, 3])
TASK = Task(COUNTS, num_features=8, hidden=8, dim=6)
LABELS = torch.tensor([0, 0, 1, 2])


def view(seed: int) -> Outputs:
    generator = torch.Generator().manual_seed(seed)
    logits, embeddings = torch.randn(4, 3, generator=generator), torch.randn(4, 6, generator=generator)
    return Outputs(torch.zeros(4, 8), logits, normalize(embeddings, dim=1))


CLASSIFIER = None  # none of the terms looks at it


def pasted() -> Targets:
    share = torch.tensor([0.75, 1.0, 0.5, 0.2])
    return Targets.of(LABELS)._replace(pasted=torch.tensor([1, 0, 2, 0]), share=share)


def test_both_classes_count_by_the_area_they_cover() -> None:
    targets = pasted()
    term = SharedClassification(COUNTS, tau=1.0, trust=0.0, distributions=ProCoLoss(COUNTS, 6))
    outputs = view(0)
    log_probabilities = (outputs.logits + (COUNTS / COUNTS.sum()).log()).log_softmax(1)
    expected = sum(
        -share * row[y] - (1 - share) * row[other]
        for row, y, other, share in zip(log_probabilities, *targets[:3], strict=True)
    )
    torch.testing.assert_close(term([outputs], targets, CLASSIFIER), expected / 4)


def test_without_pasting_it_is_logit_adjustment() -> None:
    term = SharedClassification(COUNTS, tau=1.3, trust=0.5, distributions=ProCoLoss(COUNTS, 6))
    expected = LogitAdjustedLoss(COUNTS, tau=1.3)(view(0).logits, LABELS)
    torch.testing.assert_close(term([view(0)], Targets.of(LABELS), CLASSIFIER), expected)


def test_full_trust_takes_the_share_the_distributions_see() -> None:
    criterion = ProCoLoss(COUNTS, 6)
    criterion(view(5).embeddings, LABELS)
    targets = pasted()
    outputs = view(0)
    assert outputs.embeddings is not None
    scores = criterion.logits(outputs.embeddings).exp()
    seen = torch.stack([scores[i, targets.labels[i]] / (scores[i, targets.labels[i]] + scores[i, targets.pasted[i]])
                        for i in range(4)])  # fmt: skip
    seen[1] = 1.0  # nothing is pasted there
    trusting = SharedClassification(COUNTS, tau=1.0, trust=1.0, distributions=criterion)
    blind = SharedClassification(COUNTS, tau=1.0, trust=0.0, distributions=criterion)
    expected = blind([outputs], targets._replace(share=seen), CLASSIFIER)
    torch.testing.assert_close(trusting([outputs], targets, CLASSIFIER), expected)


def test_prior_is_of_what_is_shown() -> None:
    counts = torch.tensor([900, 90, 10])
    for sampler, pasted in (("class_balanced", torch.ones(3) / 3), ("instance", counts / 1000)):
        paste = Paste(probability=1.0, sampler=sampler)
        shown = shown_frequencies(counts, paste).float()
        expected = (1 - 77 / 240) * counts / 1000 + 77 / 240 * pasted
        torch.testing.assert_close(shown / shown.sum(), expected, rtol=0.05, atol=1e-3)
    (stage,) = ProCoPlus(paste=Paste()).stages(TASK, 5)
    term = stage.terms["logit_adjustment"].term
    assert torch.equal(term.criterion.class_counts, shown_frequencies(COUNTS, Paste()))
    (stage,) = ProCoPlus(paste=Paste(), shown_prior=False).stages(TASK, 5)
    assert torch.equal(stage.terms["logit_adjustment"].term.criterion.class_counts, COUNTS.float())


def test_other_views_are_classified_too() -> None:
    criterion = LogitAdjustedLoss(COUNTS)
    expected = (criterion(view(1).logits, LABELS) + criterion(view(2).logits, LABELS)) / 2
    value = OtherViews(COUNTS, tau=1.0)([view(0), view(1), view(2)], Targets.of(LABELS), CLASSIFIER)
    torch.testing.assert_close(value, expected)


def test_adjustment_may_come_in_late() -> None:
    (stage,) = ProCoPlus(paste=Paste(probability=0), plain_share=0.4).stages(TASK, 5)
    term = stage.terms["logit_adjustment"].term
    plain, adjusted = (LogitAdjustedLoss(COUNTS, tau=tau)(view(0).logits, LABELS) for tau in (0.0, 1.0))
    for expected in (plain, plain, adjusted, adjusted, adjusted):
        term.start_epoch()
        torch.testing.assert_close(term([view(0)], Targets.of(LABELS), CLASSIFIER), expected)


def experts(number: int) -> tuple[list[Outputs], ExpertHeads]:
    """Return three views by experts, and their classifiers."""
    views = [[view(10 * expert + seed) for expert in range(number)] for seed in range(3)]
    outputs = [Outputs(torch.zeros(4, 8), torch.stack([e.logits for e in v]).mean(0), None, tuple(v)) for v in views]
    return outputs, ExpertHeads(nn.Linear(8, 3) for _ in range(number))


def test_each_expert_learns_as_if_alone_with_a_strength_of_its_own() -> None:
    taus = (0.0, 1.0, 2.0)
    method = ProCoPlus(paste=Paste(probability=0), expert_taus=taus, plain_share=0.2)
    (stage,) = method.expert_stages(TASK, 5, 3)
    alone = [ProCoPlus(paste=method.paste, tau=tau, plain_share=0.2).stages(TASK, 5)[0] for tau in taus]
    outputs, heads = experts(3)
    assert set(stage.terms) == {"logit_adjustment", "proco"}
    for epoch in range(2):  # in the first the adjustment is not there yet
        for name, (weight, term) in stage.terms.items():
            own = [one.terms[name] for one in alone]
            assert {one.weight for one in own} == {weight}
            for one in (term, *(one.term for one in own)):
                one.start_epoch()
            values = [
                one.term([view.experts[e] for view in outputs], Targets.of(LABELS), heads[e])
                for e, one in enumerate(own)
            ]
            assert epoch == 0 or len({float(value) for value in values}) == 3
            torch.testing.assert_close(term(outputs, Targets.of(LABELS), heads), sum(values))


def test_experts_and_settings_for_them_must_fit() -> None:
    with pytest.raises(ConfigError, match="has 3 strengths, but the network has 2 experts"):
        ProCoPlus(expert_taus=(0.0, 1.0, 2.0)).expert_stages(TASK, 5, 2)
    for setting in ({"expert_taus": (0.0, 2.0)}, {"expert_agreement": 1.0}, {"first_expert": True}):
        with pytest.raises(ConfigError, match=f"method.{next(iter(setting))} is for experts; set network.options"):
            ProCoPlus(**setting).stages(TASK, 5)


def test_prediction_is_by_all_experts_or_by_the_first() -> None:
    (outputs, *_), _ = experts(2)
    assert torch.equal(ProCoPlus().predict(outputs, COUNTS), outputs.logits)
    assert torch.equal(ProCoPlus(first_expert=True).predict(outputs, COUNTS), outputs.experts[0].logits)


def test_head_is_the_last_of_the_epochs() -> None:
    joint, head = ProCoPlus(paste=Paste(), head_epochs=5).stages(TASK, 30)
    assert (joint.epochs, head.epochs) == (25, 5)
    assert joint.paste == Paste()
    assert head.paste is None
    assert head.learning == ("classifier",)
    with pytest.raises(ConfigError, match="make 5, but the run has 5 epochs"):
        ProCoPlus(head_epochs=3, closing_epochs=2).stages(TASK, 5)


def test_closing_shows_images_as_they_are_and_goes_on_with_the_distributions() -> None:
    joint, closing, head = ProCoPlus(paste=Paste(), closing_epochs=4, head_epochs=1, others_weight=0.5).stages(TASK, 30)
    assert (joint.epochs, closing.epochs, head.epochs) == (25, 4, 1)
    assert closing.views == (Weak(), *joint.views[1:])
    assert closing.paste is None
    assert closing.learning == joint.learning
    optim = replace(OptimConfig(sharpness=0.1), **closing.optim)
    assert [learning_rate(optim, epoch, 4) for epoch in range(4)] == [0.003] * 4
    assert optim.sharpness == 0.1  # the run's
    assert closing.terms["proco"] is joint.terms["proco"]
    assert closing.terms["others"] is joint.terms["others"]
    # Nothing is pasted any more, so that the prior is that of the images.
    plain = LogitAdjustedLoss(COUNTS)(view(0).logits, LABELS)
    value = closing.terms["logit_adjustment"].term([view(0)], Targets.of(LABELS), CLASSIFIER)
    torch.testing.assert_close(value, plain)
    assert not torch.isclose(joint.terms["logit_adjustment"].term([view(0)], Targets.of(LABELS), CLASSIFIER), plain)


def test_in_closing_experts_agree_under_the_prior_of_the_images() -> None:
    method = ProCoPlus(
        paste=Paste(), expert_taus=(0.0, 2.0), expert_agreement=0.5, closing_epochs=1, closing_view=Plain()
    )
    joint, closing = method.expert_stages(TASK, 3, 2)
    log_prior = (COUNTS / COUNTS.sum()).log()
    expected = torch.stack([0 * log_prior, 2 * log_prior])
    torch.testing.assert_close(closing.terms["expert_agreement"].term.adjustments, expected)
    assert not torch.allclose(joint.terms["expert_agreement"].term.adjustments, expected)
    assert closing.views[0] == Plain()


def test_plain_epochs_must_fit_before_the_closing() -> None:
    with pytest.raises(ConfigError, match="makes 8 epochs, but 7 come before closing and head"):
        ProCoPlus(plain_share=0.8, closing_epochs=3).stages(TASK, 10)


@pytest.mark.parametrize(
    "wrong",
    [
        {"trust": 2.0},
        {"agreement": -1.0},
        {"ramp": 0},
        {"classifier_epochs": 3},
        {"plain_share": 1.5},
        {"first_expert": True, "expert_taus": (0.0, 2.0)},
        {"expert_taus": (1.0,)},
        {"expert_taus": (1.0, 1.0), "tau": 2.0},
        {"plain_share": 0.5, "others_weight": 1.0},
        {"plain_share": 0.5, "expert_agreement": 1.0},
        {"expert_agreement": 1.0, "soft_temperature": 0.0},
        {"soft_temperature": 3.0},
        {"expert_taus": (1.0, -1.0)},
        {"expert_taus": (1.0, float("nan"))},
        {"plain_share": 0.5, "agreement": 1.0},
        {"past_epochs": 0},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        ProCoPlus(**wrong)  # type: ignore[arg-type]
