"""Running statistics, of batch norms and of losses: computing without leaving a trace in them, and taking them anew."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from proco.errors import ConfigError


@torch.no_grad()
def renew_running_statistics(network: nn.Module, batches: Iterable[Tensor]) -> None:
    """Make the running means and variances of batch norms the plain means over what the batches give.

    For weights that have not been trained as they are, such as the mean of others.
    """
    norms = _norms(network)
    momenta = [norm.momentum for norm in norms]
    was_training = network.training
    network.train()
    for number, images in enumerate(batches):
        for norm in norms:
            norm.momentum = 1 / (number + 1)
        network(images)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    network.train(was_training)


@contextmanager
def keep_running_statistics(module: nn.Module) -> Iterator[None]:
    """Let batch norms normalise by the batch but keep their running means and variances, until the block ends.

    For norms with a momentum: those without one average over the batches they have counted, and go on counting.
    """
    norms = _norms(module)
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
    """Put a module, but for its batch norms, into evaluation mode until the block ends.

    Losses then keep the statistics of their classes; norms go on to normalise by the batch.
    """
    parts = [part for part in module.modules() if part.training and not isinstance(part, _BatchNorm)]
    for part in parts:
        part.training = False
    try:
        yield
    finally:
        for part in parts:
            part.training = True


def _norms(module: nn.Module) -> list[_BatchNorm]:
    return [part for part in module.modules() if isinstance(part, _BatchNorm)]
