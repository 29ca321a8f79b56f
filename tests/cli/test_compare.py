"""What `proco compare` reads and refuses; tests/cli/test_commands.py runs it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from proco.cli.compare import _changes_the_result, _read, _require_comparable, _Run, _shared_engine
from proco.config import read_assignments
from proco.errors import ConfigError
from proco.training.settings import EngineConfig


def test_recipes_seeds_and_settings_are_told_apart() -> None:
    assert _read(["a", "b", "epochs=3"], []) == (["a", "b"], [0], {"epochs": 3})
    for words, seeds in ((["a"], ["0, 1,2"]), (["a", "1,2"], ["0,"]), (["a", "1", "2"], ["0"])):
        assert _read(words, seeds) == (["a"], [0, 1, 2], {})


@pytest.mark.parametrize(
    ("words", "seeds", "message"),
    [
        ([], [], "at least one recipe"),
        (["a", "a"], [], "every recipe and seed once"),
        (["a", "1", "1"], ["0"], "every recipe and seed once"),
        (["a"], ["2", "2"], "every recipe and seed once"),
        (["a"], ["one"], "whole numbers from 0 on, --seeds 0 1 2; got 'one'"),
        (["a"], ["-1"], "whole numbers from 0 on, --seeds 0 1 2; got '-1'"),
        (["a"], [","], "whole numbers from 0 on, --seeds 0 1 2; got ''"),
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
        (["engine.evaluate_every=5"], "engine.evaluate_every"),  # the best epoch is of those looked at
        (["engine.evaluate_last=5"], "engine.evaluate_last"),
        (["engine.checkpoint_seconds=5"], ""),
        (["engine.precision=float64"], "engine.precision"),
        (["engine.precision=bfloat16"], ""),  # as a GPU takes it by itself
        (["engine.precision=float32", "engine.deterministic=true"], "engine.deterministic"),
        (["epochs=1"], "epochs"),
    ],
    ids=str,
)
def test_the_ledger_takes_what_changes_no_result(words: list[str], expected: str) -> None:
    assert _changes_the_result(read_assignments(words), ["cifar100_lt/proco_100", "quickstart/crt"]) == expected


def test_a_precision_that_a_recipe_names_is_part_of_it() -> None:
    recipes = ["cifar100_lt/proco_100", "cifar100_lt/ablations/proco_float32"]
    assert _changes_the_result({"engine": {"precision": "bfloat16"}}, recipes) == "engine.precision"


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


def test_lanes_share_determinism_and_give_it_back() -> None:
    before = torch.are_deterministic_algorithms_enabled()
    with _shared_engine([EngineConfig(device="cpu", deterministic=True)] * 2, 2) as device:
        assert device == torch.device("cpu")
        assert torch.are_deterministic_algorithms_enabled()
    assert torch.are_deterministic_algorithms_enabled() == before
