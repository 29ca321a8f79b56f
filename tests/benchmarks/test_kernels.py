"""The benchmark of the kernels: that its two ways compute the same, and what it says without a GPU."""

import sys

import pytest
import torch

pytest.importorskip("triton")

from benchmarks import kernels


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernels multiply bfloat16 on a GPU only")
def test_rows_of_a_small_size() -> None:
    rows = kernels.measure(4, (16,), 0.01, torch.device("cuda"))
    assert [row["layer"].split(",")[1].strip() for row in rows] == ["forward", "backward"] * 2
    assert all(row["ours us"] > 0 and row["torch us"] > 0 for row in rows)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernels multiply bfloat16 on a GPU only")
@pytest.mark.parametrize("channels", kernels.SHAPES)
def test_both_ways_compute_the_same(channels: int) -> None:
    for name, ways in kernels.layers(channels, 4, torch.device("cuda")).items():
        ours, theirs = ways["ours"]()(), ways["torch"]()()
        for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (ours, theirs)), strict=True):
            error = (a.float() - b.float()).norm() / b.float().norm()
            assert error < 0.02, name


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["kernels"])
    with pytest.raises(SystemExit, match="needs a CUDA GPU"):
        kernels.main()
