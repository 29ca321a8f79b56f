"""Evaluation of a network that says what it was shown."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from proco.data.array_images import ArrayImages
from proco.data.dataset import Split
from proco.evaluation.metrics import Metrics
from proco.models.network import Outputs
from proco.training import evaluate as evaluate_module
from proco.training.evaluate import evaluate, features_of


class Corners(nn.Module):
    """Says what it was shown: a score for class 1 where the corners are bright."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[torch.Tensor, bool]] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen.append((images, self.training))
        return nn.functional.one_hot((images[:, 0, 0, 0] > 0).long(), 2).float()


def corner_images() -> Split:
    pixels = torch.zeros(5, 3, 8, 8, dtype=torch.uint8)
    pixels[3:, :, 0, 0] = 255
    return Split(ArrayImages(pixels), torch.tensor([0, 0, 0, 1, 1]))


def look(split: Split, centre: float = 1.0) -> tuple[Metrics, Corners]:
    network = Corners()
    counts = torch.tensor([3, 2])
    metrics = evaluate(
        network, lambda outputs, _: outputs, split, counts, size=(8, 8), centre=centre, device=torch.device("cpu")
    )
    return metrics, network


def test_network_is_evaluated_in_evaluation_mode_and_given_back() -> None:
    metrics, network = look(corner_images())
    assert metrics.top1 == 100
    assert [training for _, training in network.seen] == [False]
    assert network.training


def test_the_centre_is_what_is_evaluated() -> None:
    metrics, _ = look(corner_images(), centre=0.5)  # without the corners
    assert metrics.top1 == pytest.approx(60)


def test_all_images_are_evaluated_whatever_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate_module, "_BATCH_BYTES", 2 * 3 * 8 * 8)
    metrics, network = look(replace(corner_images(), labels=torch.tensor([0, 0, 0, 1, 0])))
    assert [len(images) for images, _ in network.seen] == [2, 2, 1]
    assert metrics.top1 == pytest.approx(80)


def test_ranks_evaluate_each_its_own_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate_module, "world_size", lambda: 2)
    for rank, number in ((0, 3), (1, 2)):
        monkeypatch.setattr(evaluate_module, "rank", lambda rank=rank: rank)
        _, network = look(corner_images())
        assert sum(len(images) for images, _ in network.seen) == number


def test_a_rank_without_images_looks_at_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate_module, "world_size", lambda: 7)
    monkeypatch.setattr(evaluate_module, "rank", lambda: 6)
    _, network = look(corner_images())
    assert network.seen == []


def test_evaluation_keeps_nothing_for_gradients() -> None:
    kept = []

    class Scores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 2)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.layer(images[:, 0, 0, :1].float())
            kept.append(scores.requires_grad)
            return scores

    counts, device = torch.tensor([3, 2]), torch.device("cpu")
    evaluate(Scores(), lambda scores, _: scores, corner_images(), counts, size=(8, 8), centre=1.0, device=device)
    assert kept == [False]


class Means(nn.Module):
    """Features that are the mean grey level of each image."""

    def forward(self, images: torch.Tensor) -> Outputs:
        means = images.float().mean(dim=(1, 2, 3))[:, None]
        return Outputs(means, means, None)


def test_features_are_of_all_images_each_on_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = torch.arange(5, dtype=torch.uint8)[:, None, None, None].expand(5, 3, 8, 8).contiguous()
    split = Split(ArrayImages(pixels), torch.tensor([7, 6, 5, 4, 3]))
    monkeypatch.setattr(evaluate_module, "_BATCH_BYTES", 2 * 3 * 8 * 8)

    def seen() -> list[tuple[float, int]]:
        features, labels = features_of(Means(), split, size=(8, 8), centre=1.0, device=torch.device("cpu"))
        return list(zip(features[:, 0].tolist(), labels.tolist(), strict=True))

    assert seen() == [(0.0, 7), (1.0, 6), (2.0, 5), (3.0, 4), (4.0, 3)]
    monkeypatch.setattr(evaluate_module, "world_size", lambda: 2)
    assert seen() == [(0.0, 7), (2.0, 5), (4.0, 3)]
    monkeypatch.setattr(evaluate_module, "rank", lambda: 1)
    assert seen() == [(1.0, 6), (3.0, 4)]
