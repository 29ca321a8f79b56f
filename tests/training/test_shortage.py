"""A device without memory: real shortages of the CPU's, and the error of GPUs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from proco.data.dataset import Dataset
from proco.training.run_folder import RunError, RunFolder
from proco.training.settings import TrainConfig
from proco.training.shortage import shortage_explained
from proco.training.step import Step
from proco.training.trainer import Trainer

CPU = torch.device("cpu")
# As PyTorch says it on a GPU.
GPU_TEXT = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.80 GiB."


def on_a_gpu() -> None:
    raise torch.OutOfMemoryError(GPU_TEXT)


def while_a_step_is_recorded() -> None:
    """The recording ends with an error of its own, which hides the one that matters."""
    try:
        on_a_gpu()
    finally:
        raise RuntimeError("CUDA error: operation failed due to a previous error during capture")


@pytest.mark.parametrize(
    ("ask", "asked"),
    [
        (lambda: torch.empty(2**50), "can't allocate memory: you tried to allocate 4503599627370496 bytes"),
        (lambda: np.empty(2**56), "Unable to allocate 512. PiB for an array with shape (72057594037927936,)"),
        (on_a_gpu, "Tried to allocate 20.00 GiB"),
        (while_a_step_is_recorded, "Tried to allocate 20.00 GiB"),
    ],
    ids=["torch", "numpy", "gpu", "recording"],
)
def test_a_shortage_is_one_sentence_and_a_remedy(ask: Callable[[], object], asked: str) -> None:
    with pytest.raises(RunError) as caught, shortage_explained(CPU, "Take less."):
        ask()
    text = str(caught.value)
    assert text.startswith("cpu has run out of memory (")
    assert asked in text
    assert text.endswith("). Take less.")
    assert "capacity" not in text


def test_other_errors_are_left_as_they_are() -> None:
    with pytest.raises(RuntimeError, match=r"^shapes do not fit$") as caught, shortage_explained(CPU, "Take less."):
        raise RuntimeError("shapes do not fit")
    assert not isinstance(caught.value, RunError)


def test_a_run_without_memory_says_which_settings_need_less(
    tmp_path: Path, tiny_dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Step, "__call__", lambda *_: on_a_gpu())
    trainer = Trainer(TrainConfig(epochs=1, batch_size=8), tiny_dataset)
    with pytest.raises(
        RunError, match=r"20\.00 GiB\)\. Less is needed with a batch_size below 8 .*data\.size below 8\.$"
    ):
        trainer.fit(RunFolder(tmp_path / "run"))
