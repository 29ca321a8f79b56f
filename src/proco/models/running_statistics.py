"""Computing without leaving a trace in running statistics, of batch norms and of losses."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from proco.errors import ConfigError


@contextmanager
def keep_running_statistics(module: nn.Module) -> Iterator[None]:
    """Let batch norms normalise by the batch but keep their running means and variances, until the block ends.

    For norms with a momentum: those without one average over the batches they have counted, and go on counting.
    """
    norms = [part for part in module.modules() if isinstance(part, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    if None in momenta:
        raise ConfigError("batch norms without a momentum take every batch into their statistics; set one.")
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


@contextmanager
def in_evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode until the block ends: losses then keep the statistics of their classes."""
    parts = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in parts:
            part.training = True
