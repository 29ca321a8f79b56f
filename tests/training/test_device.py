"""Devices by name, precision and determinism."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from proco.errors import ConfigError
from proco.training.device import determinism, find_device, set_precision
from proco.training.settings import EngineConfig


@pytest.mark.parametrize("name", ["cuda:99", "warp drive"])
def test_unusable_device_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"engine\.device: '{name}' is not usable here"):
        find_device(name)


def test_ranks_do_not_share_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proco.training.device.world_size", lambda: 2)
    with pytest.raises(ConfigError, match=r"cuda:1 is one device, for 2 ranks\. Name cuda"):
        find_device("cuda:1")


def test_a_gpu_comes_with_its_number_and_a_cpu_without() -> None:
    assert find_device("cpu") == torch.device("cpu")
    if torch.cuda.is_available():
        assert find_device("auto").index is not None


def test_automatic_precision_is_float32_on_a_cpu() -> None:
    assert set_precision(EngineConfig(), torch.device("cpu")) is None
    assert set_precision(EngineConfig(precision="bfloat16"), torch.device("cpu")) == torch.bfloat16


@pytest.mark.parametrize(
    ("capability", "expected"), [((7, 5), None), ((8, 0), torch.bfloat16), ((9, 0), torch.bfloat16)]
)
def test_automatic_precision_is_bfloat16_on_gpus_that_have_it(
    capability: tuple[int, int], expected: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = SimpleNamespace(major=capability[0], minor=capability[1])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    for name in ("allow_tf32", "benchmark"):
        monkeypatch.setattr(torch.backends.cudnn, name, getattr(torch.backends.cudnn, name))  # put back afterwards
    before = torch.get_float32_matmul_precision()
    try:
        assert set_precision(EngineConfig(), torch.device("cuda", 0)) == expected
        assert set_precision(EngineConfig(precision="bfloat16"), torch.device("cuda", 0)) == torch.bfloat16
        assert set_precision(EngineConfig(precision="float32"), torch.device("cuda", 0)) is None
    finally:
        torch.set_float32_matmul_precision(before)


def test_determinism_lasts_for_the_run() -> None:
    with determinism(EngineConfig(deterministic=True)):
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # by whoever calls
    try:
        with determinism(EngineConfig(deterministic=True)):
            pass
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
