"""Running statistics of batch norms, losses and classifiers: leaving them as they are, or taking those of one batch."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from proco.errors import ConfigError
from proco.roles import DrawsOnly, FollowsBatches


def running_statistics(module: nn.Module) -> list[Tensor]:
    """Return the running mean and variance of every batch norm that keeps them."""
    both = (statistic for norm in _norms(module) for statistic in (norm.running_mean, norm.running_var))
    return [statistic for statistic in both if statistic is not None]


@contextmanager
def follow_the_batch(module: nn.Module) -> Iterator[None]:
    """Train until the block ends, the running statistics of batch norms being those of the last batch alone."""
    was_training = module.training
    module.train()
    try:
        with _momentum(module, 1.0):
            yield
    finally:
        module.train(was_training)


@contextmanager
def keep_running_statistics(module: nn.Module) -> Iterator[None]:
    """Let batch norms normalise by the batch but keep their running means and variances, until the block ends.

    For norms with a momentum: those without one average over the batches they have counted, and go on counting.
    """
    if any(norm.momentum is None for norm in _norms(module)):
        raise ConfigError("batch norms without a momentum take every batch into their statistics; set one.")
    with _momentum(module, 0.0):
        yield


@contextmanager
def in_evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a module, but for its batch norms, into evaluation mode until the block ends.

    Losses then keep the statistics of their classes as they are. Norms still normalise by the batch, and what only
    draws (`DrawsOnly`), with all that is in it, still draws.
    """
    drawing = {id(part) for top in module.modules() if isinstance(top, DrawsOnly) for part in top.modules()}
    parts = [
        part
        for part in module.modules()
        if part.training and not isinstance(part, _BatchNorm) and id(part) not in drawing
    ]
    for part in parts:
        part.training = False
    try:
        yield
    finally:
        for part in parts:
            part.training = True


@contextmanager
def _momentum(module: nn.Module, momentum: float) -> Iterator[None]:
    """Give every batch norm this momentum until the block ends; what else follows the batches does not meanwhile."""
    norms = _norms(module)
    following = [part for part in module.modules() if isinstance(part, FollowsBatches)]
    before = [norm.momentum for norm in norms]
    were_following = [part.is_following for part in following]
    for norm in norms:
        norm.momentum = momentum
    for part in following:
        part.is_following = False
    try:
        yield
    finally:
        for norm, old in zip(norms, before, strict=True):
            norm.momentum = old
        for part, was_following in zip(following, were_following, strict=True):
            part.is_following = was_following


def _norms(module: nn.Module) -> list[_BatchNorm]:
    return [part for part in module.modules() if isinstance(part, _BatchNorm)]
