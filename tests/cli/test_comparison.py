"""What the table of a comparison shows."""

import io
from typing import Any

import pytest
from rich.console import Console

from proco.cli.comparison import show_comparison, spread


def test_spread_is_the_standard_deviation_of_a_sample() -> None:
    assert spread([1.0, 2.0, 4.0]) == "2.3 ± 1.5"
    assert spread([1.0], signed=True) == "+1.0"
    assert spread([None, 3.0]) == "3.0"
    assert spread([None, None]) == "-"


def summary(top1: float, balanced: float | None = None) -> dict[str, Any]:
    means = {"top1": top1, "balanced_accuracy": top1 if balanced is None else balanced}
    return {"split": "test", "many": 70.0, "medium": None, "few": 10.0, **means}


def test_differences_are_taken_seed_by_seed_to_the_first_recipe() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    show_comparison(console, {"x/a": [summary(50.0), summary(60.0)], "x/b": [summary(51.0), summary(63.0)]}, [0, 1])
    rows = {words[0]: words[1:] for line in console.export_text().splitlines() if (words := line.split())}
    assert rows["b"] == ["70.0", "±", "0.0", "-", "10.0", "±", "0.0", "57.0", "±", "8.5", "+2.0", "±", "1.4"]
    assert rows["a"][:9] == ["70.0", "±", "0.0", "-", "10.0", "±", "0.0", "55.0", "±"]


def test_uneven_images_are_compared_by_the_mean_of_the_classes() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    show_comparison(console, {"a": [summary(90.0, 60.0)], "b": [summary(85.0, 70.0)]}, [0])
    text = console.export_text()
    rows = {words[0]: words[1:] for line in text.splitlines() if (words := line.split())}
    assert rows["many"] == ["medium", "few", "all", "balanced", "difference"]
    assert rows["b"] == ["70.0", "-", "10.0", "85.0", "70.0", "+10.0"]
    assert "balanced: the mean of the classes' accuracies" in text
    assert "difference: of balanced to a" in text


@pytest.mark.parametrize("width", [40, 60, 80])
def test_names_are_not_cut_on_a_narrow_terminal(width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    names = ["cifar100_lt/ablations/logit_adjustment_views", "cifar10_lt/ablations/logit_adjustment_views"]
    runs = [{**summary(90.0, 60.0), "many": 95.0, "few": 5.0, "medium": 90.0}, {**summary(10.0, 5.0), "medium": 9.0}]
    show_comparison(console, dict.fromkeys(names, runs), [0, 1])
    text = console.export_text()
    column = "".join(line[2:].split(" ")[0] for line in text.splitlines() if line.startswith("  "))
    assert all(name in column for name in names)
    assert "…" not in text
    assert "32.5 ± 38.9" in text  # of what is compared the spread is kept
    assert ("groups of classes do not fit here" in " ".join(text.split())) == ("many" not in text)
