"""The page in docs/ is what the ledger gives, and comes out the same each time."""

from pathlib import Path
from typing import Any

import pytest
from tests.tools.made_up import entry, recipe
from tools.make_results import make_results
from tools.results.experiments import SHORT
from tools.results.figures import draw
from tools.results.page import write_page
from tools.results.runs import Runs
from tools.results.series import FIGURES, Epoch, drawable, learning_curves

ROOT = Path(__file__).parents[2]
RECIPES: dict[str, Any] = {SHORT.recipe(method): recipe() for method in ("proco", "bcl", "logit_adjustment")}


def made(docs: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in [docs / "results.md", *(docs / "figures").glob("*.svg")]}


def test_page_and_figures_are_what_the_ledger_gives(tmp_path: Path) -> None:
    make_results(ROOT / "results", tmp_path)
    fresh, kept = made(tmp_path), made(ROOT / "docs")
    assert {name for name in kept if Path(name).stem in FIGURES} == fresh.keys() - {"results.md"}
    for name, content in fresh.items():
        assert content == kept[name], f"docs: {name} is not what results/ gives; run make results"


@pytest.fixture
def runs() -> Runs:
    entries = [
        entry(SHORT.recipe(method), seed, top1 + seed)
        for method, top1 in (("proco", 51.0), ("bcl", 50.0), ("logit_adjustment", 49.0))
        for seed in range(2)
    ]
    entries += [entry("cifar100_lt/ablations/alpha_2", 0, 50.0, weight=2.0)]
    entries += [entry("cifar100_lt/ablations/probe_x", 0, 40.0, method="supcon", batch_size=32)]
    return Runs(entries, RECIPES)


def test_figures_come_out_the_same_each_time(runs: Runs) -> None:
    figures = draw(runs)
    assert set(figures) == set(FIGURES)
    assert figures == draw(runs)
    assert not any("dc:date" in svg for svg in figures.values())


def test_page_shows_the_figures_that_have_something_to_show(runs: Runs) -> None:
    page = write_page(runs)
    assert all(f"(figures/{name}.svg)" in page for name in FIGURES)
    assert drawable(Runs([], RECIPES)) == []
    empty = write_page(Runs([], RECIPES))
    assert ".svg" not in empty
    assert "## Choices" not in empty
    assert "## Choices" in write_page(Runs([entry("a", split="val")], RECIPES))


def test_curves_skip_epochs_that_were_not_evaluated() -> None:
    entries = [
        entry(SHORT.recipe("proco"), 0, curve=[10.0, 20.0, None, 40.0]),
        entry(SHORT.recipe("proco"), 1, curve=[20.0, None, None, 44.0]),
    ]
    assert learning_curves(Runs(entries, {})) == {"proco": [Epoch(1, 15.0, 10.0, 20.0), Epoch(4, 42.0, 40.0, 44.0)]}


def test_curve_of_another_length_than_the_run_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        learning_curves(Runs([entry(SHORT.recipe("proco"), 0, epochs=200)], {}))
