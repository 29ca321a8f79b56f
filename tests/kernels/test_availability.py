"""Where kernels of ours may be called."""

import pytest
import torch

from proco.kernels import availability
from proco.kernels.availability import has_triton, kernels_run_on

CPU = torch.device("cpu")


def test_cpus_have_no_triton() -> None:
    """They would interpret it."""
    assert not has_triton(CPU)
    assert not kernels_run_on(CPU)


def test_kernels_are_not_called_under_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "has_triton", lambda device: True)
    assert kernels_run_on(CPU)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not kernels_run_on(CPU)


def test_without_triton_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "find_spec", lambda name: None)
    assert not has_triton.__wrapped__(torch.device("cuda"))


def test_where_triton_does_not_work_a_warning_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))

    def broken(device: torch.device) -> None:
        raise OSError("no C compiler")

    monkeypatch.setattr(torch.cuda, "Stream", broken)
    with pytest.warns(UserWarning, match="take longer: no C compiler"):
        assert not has_triton.__wrapped__(torch.device("cuda"))
