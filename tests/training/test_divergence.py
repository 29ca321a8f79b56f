"""Where a run has diverged is said as people count: from 1 on."""

from pathlib import Path

import pytest
import torch
from torch import nn

from proco.training.divergence import require_finite, require_finite_weights
from proco.training.run_folder import RunError, RunFolder


def test_first_value_that_is_no_number_is_named(tmp_path: Path) -> None:
    values = torch.ones(5, 3)
    require_finite(values, ("a", "b"), 0, RunFolder(tmp_path))
    values[3, 0] = torch.inf
    values[2, 1] = torch.nan
    with pytest.raises(RunError, match=r"the loss b became nan in epoch 7, step 3; no checkpoint was written before"):
        require_finite(values, ("a", "b"), 6, RunFolder(tmp_path))
    RunFolder(tmp_path).save_checkpoint({})
    with pytest.raises(RunError, match=r"the last good state is .*last\.pt"):
        require_finite(values, ("a", "b"), 6, RunFolder(tmp_path))


def test_weights_that_are_no_numbers_are_named() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    require_finite_weights(network, 0)
    with torch.no_grad():
        network[1].bias[1] = torch.nan
    with pytest.raises(RunError, match=r"the weights 1\.bias became infinite in epoch 3"):
        require_finite_weights(network, 2)
