"""BatchFormer: what its term is the mean of, and what of it is left when predicting."""

import copy
from pathlib import Path

import pytest
import torch
from tests.methods.small import COUNTS, LABELS, TASK, make_network, outputs_of, small_run
from tests.training.conftest import make_tiny_dataset
from torch.nn.functional import cross_entropy

from proco.augment import Plain
from proco.errors import ConfigError
from proco.losses import InverseFrequencyLoss
from proco.methods.batchformer import BatchFormed, BatchFormer
from proco.methods.classification import Classification
from proco.methods.cross_entropy import CrossEntropy
from proco.methods.isda import Isda
from proco.methods.ldam import Ldam
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.logit_adjustment_posthoc import LogitAdjustmentPosthoc
from proco.methods.method import Targets
from proco.methods.one_branch import OneBranch
from proco.methods.tde import Tde
from proco.models.batch_transformer import BatchTransformer
from proco.models.heads import CosineClassifier, StandardisedClassifier
from proco.optim import OptimConfig
from proco.training.classifier import Classifier
from proco.training.run_folder import RunFolder
from proco.training.trainer import Trainer


@pytest.mark.parametrize("power", [0.0, 1.2])
def test_it_is_the_loss_of_both_features_one_behind_the_other(power: float) -> None:
    """As in the original: features and labels doubled, one mean over all, weighted by class or not."""
    network = make_network()
    criterion = InverseFrequencyLoss(COUNTS, power=power)
    term = BatchFormed(Classification(criterion), BatchTransformer(64, dropout=0.0))
    outputs = outputs_of(network, 1)
    features = torch.cat([outputs[0].features, term.transformer(outputs[0].features)])
    expected = cross_entropy(network.classifier(features), LABELS.repeat(2), weight=criterion.weights())
    torch.testing.assert_close(term(outputs, Targets.of(LABELS), network.classifier), expected)


def test_the_base_sees_features_and_logits_of_the_batch_and_the_other_views_as_they_are() -> None:
    seen = []

    class Noting(Classification):
        def forward(self, outputs, targets, classifier):  # type: ignore[no-untyped-def]
            seen.append(outputs)
            return super().forward(outputs, targets, classifier)

    network = make_network()
    term = BatchFormed(Noting(torch.nn.CrossEntropyLoss()), BatchTransformer(64, dropout=0.0))
    outputs = outputs_of(network, 2)
    term(outputs, Targets.of(LABELS), network.classifier)
    (plain, other), (formed, same) = seen
    assert plain is outputs[0]
    assert other is same is outputs[1]
    torch.testing.assert_close(formed.features, term.transformer(plain.features))
    torch.testing.assert_close(formed.logits, network.classifier(formed.features))
    assert formed.embeddings is plain.embeddings


@pytest.mark.parametrize("base", [Tde(), Isda(), CrossEntropy()], ids=["tde", "isda", "standardised"])
def test_what_follows_features_follows_those_that_are_used(base: OneBranch) -> None:
    """Features that have seen the batch come out of a layer norm: a mean with them would be none of either."""
    network = make_network(base)
    if isinstance(base, CrossEntropy):
        network.classifier = StandardisedClassifier(64, len(COUNTS))
    outputs = outputs_of(network, 1)
    alone = torch.nn.ModuleList([copy.deepcopy(network.classifier), base.term(TASK)])
    both = torch.nn.ModuleList([network.classifier, (formed := BatchFormer(base=base).term(TASK)).term])
    for parts, term in ((alone, alone[1]), (both, formed)):
        first = outputs[0]._replace(logits=parts[0](outputs[0].features))
        term([first], Targets.of(LABELS), parts[0])
    kept = {name: value for name, value in both.named_buffers() if value.is_floating_point()}
    torch.testing.assert_close(kept, {name: value for name, value in alone.named_buffers() if name in kept})
    assert any(value.abs().max() > 0 for value in kept.values())
    assert all(part.training for part in both.modules())


def test_the_transformer_learns_and_teaches_the_backbone() -> None:
    network, term = make_network(), BatchFormer().term(TASK)
    outputs = outputs_of(network, 1)
    outputs[0].features.retain_grad()
    term(outputs, Targets.of(LABELS), network.classifier).backward()
    assert all(parameter.grad is not None for parameter in term.transformer.parameters())
    assert term.transformer.layer.self_attn.in_proj_weight.grad.abs().max() > 0
    # An image of the batch changes what is learnt from another: that is what it is for.
    alone = copy.deepcopy(term).eval()
    value = alone(outputs, Targets.of(LABELS), network.classifier)
    parts = [
        alone(
            [type(outputs[0])(*(part[some] for part in outputs[0][:3]))], Targets.of(LABELS[some]), network.classifier
        )
        for some in (slice(0, 4), slice(4, 8))
    ]
    assert not torch.allclose(value, torch.stack(parts).mean(), atol=1e-5)


def test_what_is_of_the_base_stays_so() -> None:
    method = BatchFormer(base=LogitAdjustmentPosthoc(tau=2.0))
    outputs = outputs_of(make_network(), 1)[0]
    assert torch.equal(method.predict(outputs, COUNTS), method.base.predict(outputs, COUNTS))
    assert method.classifier(8, 3) is None
    assert isinstance(BatchFormer(base=Ldam()).classifier(8, 3), CosineClassifier)
    (stage,) = BatchFormer(base=LogitAdjustment(tau=3.0)).stages(TASK, 1)
    assert stage.terms["batchformer"].term.term.criterion.tau == 3.0
    (stage,) = BatchFormer(base=CrossEntropy(), heads=2, dropout=0.25).stages(TASK, 1)
    term = stage.terms["batchformer"].term
    assert term.transformer.layer.self_attn.num_heads == 2
    assert term.transformer.layer.dropout.p == 0.25
    assert isinstance(term.term.criterion, torch.nn.CrossEntropyLoss)


def test_a_run_keeps_no_transformer_and_its_predictions_do_not_see_the_batch(tmp_path: Path) -> None:
    config = small_run(BatchFormer(views=(Plain(),)), optim=OptimConfig(lr=0.1))
    trainer = Trainer(config, make_tiny_dataset())
    drawn = {name: value.clone() for name, value in trainer.setup.terms.state_dict().items()}
    trainer.fit(RunFolder(tmp_path / "run"))
    learnt = trainer.setup.terms.state_dict()
    moved = [name for name in drawn if not torch.equal(drawn[name], learnt[name])]
    assert any("transformer.layer.linear1" in name for name in moved)  # terms learn with the network
    assert not any("transformer" in name for name in RunFolder(tmp_path / "run").load_weights())
    classify = Classifier.of(tmp_path / "run", "cpu")
    pixels = make_tiny_dataset().splits["test"].images.pixels  # type: ignore[attr-defined]
    apart = torch.cat([classify(one) for one in pixels.split(1)])
    torch.testing.assert_close(classify(pixels), apart, rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"heads must divide the 64 features into equal parts; got 3"):
        BatchFormer(heads=3).term(TASK)
    with pytest.raises(ConfigError, match=r"method\.heads must be at least 1; got 0"):
        BatchFormer(heads=0)
    for dropout in (-0.1, 1.0):
        with pytest.raises(ConfigError, match=r"method\.dropout must be at least 0 and below 1"):
            BatchFormer(dropout=dropout)
    with pytest.raises(ConfigError, match=r"method\.base has no views and no sampler of its own"):
        BatchFormer(base=CrossEntropy(sampler="reverse"))
