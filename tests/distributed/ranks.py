"""Two processes joined by gloo, for tests that compare them with one process.

They are started once for all tests of a run, because starting them costs more than any test does in them.
"""

import io
import os
import socket
import traceback
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import torch
import torch.multiprocessing as mp

from proco.distributed import process_group

_PATIENCE = 120.0  # seconds; a rank that waits for the other in vain never answers


def run_on_two_ranks(work: Callable[[int], Any]) -> list[Any]:
    """Return what work(rank), a function of a module, gives on each of two ranks: tensors, numbers, lists and dicts."""
    ranks = _ranks()
    try:
        for _, connection in ranks:
            connection.send(work)
        return [_answer(connection) for _, connection in ranks]
    except Exception:
        # They may be out of step now: let the next test start new ones.
        _ranks.cache_clear()
        for process, _ in ranks:
            process.terminate()
        raise


@cache
def _ranks() -> list[tuple[SpawnProcess, Connection]]:
    port = free_port()
    context = mp.get_context("spawn")
    ranks = []
    for rank in range(2):
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(rank, port, there), daemon=True)
        process.start()
        ranks.append((process, here))
    return ranks


def free_port() -> int:
    """Return a port for two ranks to meet at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def be_rank(rank: int, port: int) -> None:
    """Set what torchrun sets, for one of two ranks."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)


def _answer(connection: Connection) -> Any:
    if not connection.poll(_PATIENCE):
        raise TimeoutError(f"a rank has not answered for {_PATIENCE:g} seconds.")
    answer = torch.load(io.BytesIO(connection.recv_bytes()), weights_only=True)
    if "error" in answer:
        raise RuntimeError(f"a rank failed:\n{answer['error']}")
    return answer["result"]


def _serve(rank: int, port: int, connection: Connection) -> None:
    """Join the group and do work after work, until the tests end."""
    be_rank(rank, port)
    with process_group("cpu"):
        while True:
            work = connection.recv()
            try:
                answer = {"result": work(rank)}
            except Exception:
                answer = {"error": traceback.format_exc()}
            data = io.BytesIO()
            torch.save(answer, data)
            connection.send_bytes(data.getvalue())
