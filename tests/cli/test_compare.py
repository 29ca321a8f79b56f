"""What `proco compare` reads, refuses and shows; tests/cli/test_commands.py runs it."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from proco.cli.compare import _changes_the_result, _read, _require_comparable, _Run, _shared_engine, _show, _spread
from proco.config import read_assignments
from proco.errors import ConfigError
from proco.training.settings import EngineConfig


def test_spread_is_the_standard_deviation_of_a_sample() -> None:
    assert _spread([1.0, 2.0, 4.0]) == "2.3 ± 1.5"
    assert _spread([1.0], signed=True) == "+1.0"
    assert _spread([None, 3.0]) == "3.0"
    assert _spread([None, None]) == "-"


def summary(top1: float, balanced: float | None = None) -> dict[str, Any]:
    means = {"top1": top1, "balanced_accuracy": top1 if balanced is None else balanced}
    return {"split": "test", "many": 70.0, "medium": None, "few": 10.0, **means}


def test_differences_are_taken_seed_by_seed_to_the_first_recipe() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    _show(console, {"x/a": [summary(50.0), summary(60.0)], "x/b": [summary(51.0), summary(63.0)]}, [0, 1])
    rows = {words[0]: words[1:] for line in console.export_text().splitlines() if (words := line.split())}
    assert rows["b"] == ["70.0", "±", "0.0", "-", "10.0", "±", "0.0", "57.0", "±", "8.5", "+2.0", "±", "1.4"]
    assert rows["a"][:9] == ["70.0", "±", "0.0", "-", "10.0", "±", "0.0", "55.0", "±"]


def test_uneven_images_are_compared_by_the_mean_of_the_classes() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    _show(console, {"a": [summary(90.0, 60.0)], "b": [summary(85.0, 70.0)]}, [0])
    text = console.export_text()
    rows = {words[0]: words[1:] for line in text.splitlines() if (words := line.split())}
    assert rows["many"] == ["medium", "few", "all", "balanced", "difference"]
    assert rows["b"] == ["70.0", "-", "10.0", "85.0", "70.0", "+10.0"]
    assert "balanced: the mean of the classes' accuracies" in text
    assert "difference: of balanced to a" in text


def test_names_are_not_cut_on_a_narrow_terminal() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    names = ["cifar100_lt/ablations/logit_adjustment_views", "cifar10_lt/ablations/logit_adjustment_views"]
    runs = [{**summary(90.0, 60.0), "many": 95.0, "few": 5.0, "medium": 90.0}, {**summary(10.0, 5.0), "medium": 9.0}]
    _show(console, dict.fromkeys(names, runs), [0, 1])
    text = console.export_text()
    column = "".join(line[2:].split(" ")[0] for line in text.splitlines() if line.startswith("  "))
    assert all(name in column for name in names)
    assert "…" not in text
    assert "32.5 ± 38.9" in text  # of what is compared the spread is kept


def test_recipes_seeds_and_settings_are_told_apart() -> None:
    assert _read(["a", "b", "epochs=3"], []) == (["a", "b"], [0], {"epochs": 3})
    assert _read(["a"], ["0,1,2"]) == _read(["a", "1", "2"], ["0"]) == (["a"], [0, 1, 2], {})


@pytest.mark.parametrize(
    ("words", "seeds", "message"),
    [
        ([], [], "at least one recipe"),
        (["a", "a"], [], "every recipe and seed once"),
        (["a", "1", "1"], ["0"], "every recipe and seed once"),
        (["a"], ["2", "2"], "every recipe and seed once"),
        (["a"], ["one"], "whole numbers, --seeds 0 1 2; got 'one'"),
        (["x/a.yaml", "y/a.yaml"], [], "different names for their folders"),
        (["a", "seed=3"], [], "give the seeds with --seeds"),
    ],
    ids=str,
)
def test_what_cannot_be_compared_is_refused(
    words: list[str], seeds: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for word in words:
        if "/" in word:  # a file of one's own, known by its name alone
            Path(word).parent.mkdir()
            Path(word).touch()
    with pytest.raises(ConfigError, match=message):
        _read(words, seeds)


def test_several_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="trains in one process"):
        _read(["a"], [])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ""),
        (["engine.device=cpu"], ""),
        (["data.source.path=x", "data.source.download=true"], ""),
        (["data.source.name=cifar10"], "data"),
        (["data.source=cifar10"], "data"),
        (["data.source.path=x", "data.profile=step"], "data"),
        (["data.size=3"], "data"),
        (["engine.deterministic=true"], "engine.deterministic"),
        (["engine.precision=float64"], "engine.precision"),
        (["epochs=1"], "epochs"),
    ],
    ids=str,
)
def test_the_ledger_takes_what_changes_no_result(words: list[str], expected: str) -> None:
    assert _changes_the_result(read_assignments(words)) == expected


def run_of(recipe: str, split: str, data: str, data_hash: str) -> _Run:
    config, folder = SimpleNamespace(data=data), SimpleNamespace(path=recipe)
    return _Run("1", recipe, config, folder, {"split": split, "data_hash": data_hash})  # type: ignore[arg-type]


def test_runs_on_other_splits_or_on_data_that_changed_do_not_compare() -> None:
    with pytest.raises(ConfigError, match="different splits"):
        _require_comparable([run_of("a", "val", "x", "1"), run_of("b", "test", "y", "1")])
    with pytest.raises(ConfigError, match="the data has changed between a and b"):
        _require_comparable([run_of("a", "test", "x", "1"), run_of("b", "test", "x", "2")])
    _require_comparable([run_of("a", "test", "x", "1"), run_of("b", "test", "y", "2")])  # meant to be of other data


@pytest.mark.parametrize(
    ("name", "values"),
    [("device", ("cpu", "cuda")), ("precision", ("float32", "float64")), ("deterministic", (False, True))],
)
def test_what_a_process_has_one_of_is_the_same_in_all_lanes(name: str, values: tuple[Any, Any]) -> None:
    engines = [EngineConfig(**{name: value}) for value in values]
    with pytest.raises(ConfigError, match=rf"share engine\.{name}"), _shared_engine(engines, 2):
        pass
