"""Devices by name, precision and determinism."""

import pytest
import torch

from proco.errors import ConfigError
from proco.training.device import determinism, find_device, set_precision
from proco.training.settings import EngineConfig


@pytest.mark.parametrize("name", ["cuda:99", "warp drive"])
def test_unusable_device_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"engine\.device: '{name}' is not usable here"):
        find_device(name)


def test_a_gpu_comes_with_its_number_and_a_cpu_without() -> None:
    assert find_device("cpu") == torch.device("cpu")
    if torch.cuda.is_available():
        assert find_device("auto").index is not None


def test_automatic_precision_is_float32_on_a_cpu() -> None:
    assert set_precision(EngineConfig(), torch.device("cpu")) is None
    assert set_precision(EngineConfig(precision="bfloat16"), torch.device("cpu")) == torch.bfloat16


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
