"""Ranks, gathered rows and the process group: two gloo ranks, and one process alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tests.distributed.ranks import be_rank, free_port, run_on_two_ranks
from torch.nn.parallel import DistributedDataParallel

from proco.distributed import (
    all_gather_rows,
    all_reduce_sum,
    gather_texts,
    is_main_process,
    process_group,
    rank,
    world_size,
)
from proco.errors import ConfigError

ROWS = torch.arange(12, dtype=torch.float64).reshape(4, 3)
WEIGHTS = torch.tensor([1.0, 10.0], dtype=torch.float64)


def work(own_rank: int) -> dict[str, Any]:
    own_rows = ROWS[2 * own_rank : 2 * own_rank + 2]
    rows = own_rows.clone().requires_grad_()
    gathered = all_gather_rows(rows)
    (gradient,) = torch.autograd.grad((WEIGHTS[own_rank] * gathered.square()).sum(), rows)
    with process_group("cpu"):  # joined already: nothing happens, also at its end
        pass
    return {
        "identity": [rank(), world_size(), is_main_process(), dist.get_backend()],
        "sum": all_reduce_sum(torch.tensor([1.0 + own_rank])).item(),
        "gathered": gathered.detach(),
        "gradient": gradient,
        "labels": all_gather_rows(torch.tensor([own_rank, 7])).tolist(),
        "transposed": all_gather_rows(own_rows.T),
        "texts": gather_texts(["of both", f"of rank {own_rank}"] if own_rank else ["of both"]),
    }


def test_two_ranks_gather_rows_and_sum_gradients() -> None:
    for own_rank, found in enumerate(run_on_two_ranks(work)):
        assert found["identity"] == [own_rank, 2, own_rank == 0, "gloo"]
        assert found["sum"] == 3
        assert torch.equal(found["gathered"], ROWS)
        assert found["labels"] == [0, 7, 1, 7]
        assert torch.equal(found["transposed"], torch.cat([ROWS[:2].T, ROWS[2:].T]))
        assert found["texts"] == ["of both", "of rank 1"]
        # Both ranks' losses depend on the rows of each: 1 x^2 + 10 x^2.
        torch.testing.assert_close(found["gradient"], 22 * ROWS[2 * own_rank : 2 * own_rank + 2])


def train_in_parallel(own_rank: int, port: int, folder: Path) -> None:
    be_rank(own_rank, port)
    with process_group("cpu"):
        DistributedDataParallel(torch.nn.Linear(3, 2))(torch.ones(4, 3)).sum().backward()
        inside = names_of_threads()
    torch.save({"inside": inside, "after": names_of_threads()}, folder / f"{own_rank}.pt")


def names_of_threads() -> list[str]:
    return [task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux")
def test_no_thread_of_the_group_outlives_it(tmp_path: Path) -> None:
    # One that frees a tensor while Python ends aborts the process, which has done all its work.
    mp.spawn(train_in_parallel, args=(free_port(), tmp_path), nprocs=2)
    for own_rank in range(2):
        names = torch.load(tmp_path / f"{own_rank}.pt", weights_only=True)
        assert any("gloo" in name for name in names["inside"])
        assert not any("gloo" in name for name in names["after"])


def test_one_process_is_rank_0_of_1_and_gathers_its_own_rows() -> None:
    assert (rank(), world_size(), is_main_process()) == (0, 1, True)
    assert all_gather_rows(ROWS) is ROWS
    assert gather_texts(["b", "a", "b"]) == ["b", "a"]


@pytest.mark.parametrize("launched", [{}, {"WORLD_SIZE": "1"}])
def test_process_group_does_nothing_for_a_process_alone(
    launched: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    for name, value in launched.items():
        monkeypatch.setenv(name, value)
    with process_group():
        assert not dist.is_initialized()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Pretend to be the second of two ranks on a machine of two GPUs; return what torch is asked to do."""
    recorded: list[object] = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", recorded.append)
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **options: recorded.append((backend, options)))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: recorded.append("left"))
    return recorded


def test_process_group_takes_the_gpu_of_the_local_rank_and_ends_also_after_an_error(calls: list[object]) -> None:
    def interrupted() -> None:
        with process_group():
            assert calls == [torch.device("cuda:1"), ("nccl", {"device_id": torch.device("cuda:1")})]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert calls[-1] == "left"


def test_process_group_keeps_to_the_cpu_where_told(calls: list[object]) -> None:
    with process_group("cpu"):
        pass
    assert calls == [("gloo", {}), "left"]


def test_more_processes_than_gpus_are_explained(calls: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "3")
    message = r"local rank 3 needs a GPU .* shows 2; start torchrun with --nproc-per-node 2 or fewer"
    with pytest.raises(ConfigError, match=message), process_group():
        pass
    assert calls == []
