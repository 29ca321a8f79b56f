"""What several ranks of `proco train` agree on before they begin."""

import time
from functools import partial
from pathlib import Path

import pytest
from tests.distributed.ranks import run_on_two_ranks

from proco.cli.train import _require_unused
from proco.training.run_folder import RunError, RunFolder
from proco.training.settings import TrainConfig


def begin(rank: int, path: Path) -> str:
    """Begin a run as the command does, one rank a moment after the other; return what is said against it."""
    if rank == 1:
        time.sleep(0.5)
    try:
        _require_unused(RunFolder(path))
    except RunError as error:
        return str(error)
    if rank == 0:
        RunFolder(path).begin(TrainConfig())
    return ""


def test_a_rank_that_comes_late_finds_the_folder_of_the_others(tmp_path: Path) -> None:
    assert run_on_two_ranks(partial(begin, path=tmp_path / "run")) == ["", ""]
    assert RunFolder(tmp_path / "run").is_begun


def test_a_folder_in_use_is_refused_on_every_rank(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").begin(TrainConfig())
    for refusal in run_on_two_ranks(partial(begin, path=tmp_path / "run")):
        assert "is not empty and is left as it is" in refusal


def test_one_process_asks_for_itself(tmp_path: Path) -> None:
    _require_unused(RunFolder(tmp_path / "run"))
    RunFolder(tmp_path / "run").begin(TrainConfig())
    with pytest.raises(RunError, match="is not empty"):
        _require_unused(RunFolder(tmp_path / "run"))
