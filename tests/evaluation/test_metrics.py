"""All measures together: against numbers counted one by one, over batches and over two ranks."""

import dataclasses

import pytest
import torch
from tests.distributed.ranks import run_on_two_ranks
from torch import Tensor

from proco.evaluation.metrics import Evaluation, Metrics

CLASS_COUNTS = [200, 150, 50, 3, 2, 1]


def predictions() -> tuple[Tensor, Tensor]:
    """Logits that are right in about half of the cases; the last class does not occur."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(5, (101,), generator=generator)
    logits = torch.randn(101, 6, generator=generator)
    logits[torch.arange(101), labels] += 1.5
    return logits, labels


def evaluate(rank: int = 0, num_ranks: int = 1, device: torch.device | str = "cpu") -> Metrics:
    evaluation = Evaluation(6, CLASS_COUNTS, device)
    logits, labels = (tensor[rank::num_ranks].to(device) for tensor in predictions())
    for part, part_labels in zip(logits.split(30), labels.split(30), strict=True):
        evaluation.update(part, part_labels)
    return evaluation.metrics()


def test_measures_are_those_counted_one_by_one(device: torch.device) -> None:
    logits, labels = predictions()
    right = (logits.argmax(dim=1) == labels).tolist()
    accuracies = []
    for label in range(5):
        of_class = [hit for hit, other in zip(right, labels.tolist(), strict=True) if other == label]
        accuracies.append(100 * sum(of_class) / len(of_class))
    found = evaluate(device=device)
    assert found.top1 == pytest.approx(100 * sum(right) / 101)
    assert found.per_class_accuracy == (*map(pytest.approx, accuracies), None)
    assert found.many == pytest.approx(sum(accuracies[:2]) / 2)
    assert found.medium == pytest.approx(accuracies[2])
    assert found.few == pytest.approx(sum(accuracies[3:]) / 2)
    assert found.balanced_accuracy == pytest.approx(sum(accuracies) / 5)
    assert len(set(accuracies)) == 5
    confidence = logits.softmax(dim=1).max(dim=1).values
    assert found.ece is not None
    assert abs(confidence.mean().item() - sum(right) / 101) <= found.ece < 0.5  # Jensen's inequality over the bins


def evaluate_part(rank: int) -> dict[str, object]:
    metrics = dataclasses.asdict(evaluate(rank, 2))
    return metrics | {"per_class_accuracy": list(metrics["per_class_accuracy"])}


def test_two_ranks_measure_what_one_process_measures() -> None:
    expected = dataclasses.asdict(evaluate())
    ece = expected.pop("ece")
    for found in run_on_two_ranks(evaluate_part):
        assert found.pop("ece") == pytest.approx(ece, rel=1e-12)
        assert found | {"per_class_accuracy": tuple(found["per_class_accuracy"])} == expected


def test_measuring_changes_nothing() -> None:
    evaluation = Evaluation(6, CLASS_COUNTS)
    evaluation.update(*predictions())
    assert evaluation.metrics() == evaluation.metrics()


def test_what_the_data_do_not_define_is_none() -> None:
    nothing = Metrics(
        top1=None, many=None, medium=None, few=None, balanced_accuracy=None, per_class_accuracy=(None, None), ece=None
    )
    assert Evaluation(2, [5, 1]).metrics() == nothing
    ungrouped = Evaluation(2)
    ungrouped.update(torch.eye(2), torch.tensor([0, 1]))
    found = ungrouped.metrics()
    assert (found.top1, found.many, found.medium, found.few) == (100, None, None, None)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU to wait for")
def test_updates_do_not_wait_for_the_gpu() -> None:
    evaluation = Evaluation(6, CLASS_COUNTS, "cuda")
    logits, labels = (tensor.cuda() for tensor in predictions())
    evaluation.update(logits, labels)
    torch.cuda.set_sync_debug_mode("error")
    try:
        evaluation.update(logits, labels)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_wrong_input_is_explained() -> None:
    with pytest.raises(ValueError, match="class_counts must hold 3 numbers, one per class; got 2"):
        Evaluation(3, [1, 2])
    with pytest.raises(ValueError, match=r"logits must have shape \(N, 3\); got \(4, 2\)"):
        Evaluation(3).update(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64))


def test_half_precision_is_left_before_probabilities_are_taken() -> None:
    logits, labels = predictions()
    half, full = Evaluation(6, CLASS_COUNTS), Evaluation(6, CLASS_COUNTS)
    half.update(logits.bfloat16(), labels)
    full.update(logits.bfloat16().float(), labels)
    assert half.metrics() == full.metrics()


def measure_twice(rank: int) -> list[float | None]:
    evaluation = Evaluation(6, CLASS_COUNTS)
    logits, labels = (tensor[rank::2] for tensor in predictions())
    for part in (slice(10), slice(10, None)):
        evaluation.update(logits[part], labels[part])
        found = evaluation.metrics()
    return [found.top1, found.balanced_accuracy]


def test_measuring_midway_changes_nothing_on_several_ranks() -> None:
    expected = evaluate()
    assert run_on_two_ranks(measure_twice) == [[expected.top1, expected.balanced_accuracy]] * 2
