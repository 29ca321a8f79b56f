"""In which order and how often samples are drawn: from as they come to every class alike.

A sampler is a function of the labels, a generator and nothing else; it returns the positions of one epoch, whose number
depends on the labels alone. The same seed gives the same epoch on any machine.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from proco.losses.class_counts import class_counts_from_labels
from proco.losses.effective_number import effective_numbers
from proco.registry import Registry

Sampler = Callable[[Tensor, torch.Generator], Tensor]
SAMPLERS = Registry[Sampler]("sampler")

_EFFECTIVE_NUMBER_BETA = 0.9999  # Cui et al., CVPR 2019
_CLASS_AWARE_RUN = 4  # samples of a class in a row; Kang et al., ICLR 2020


@SAMPLERS.register("instance")
def instance(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Every sample once, shuffled: classes come as often as they are large."""
    return torch.randperm(len(labels), generator=generator)


@SAMPLERS.register("class_balanced")
def class_balanced(labels: Tensor, generator: torch.Generator) -> Tensor:
    """As many draws as samples, with replacement; every class has the same probability."""
    return _draw(labels, generator, lambda counts: torch.ones_like(counts))


@SAMPLERS.register("square_root")
def square_root(labels: Tensor, generator: torch.Generator) -> Tensor:
    """With replacement; a class's probability is proportional to the root of its count."""
    return _draw(labels, generator, torch.sqrt)


@SAMPLERS.register("reverse")
def reverse(labels: Tensor, generator: torch.Generator) -> Tensor:
    """With replacement; a class's probability is proportional to the inverse of its count (BBN, CVPR 2020)."""
    return _draw(labels, generator, torch.reciprocal)


@SAMPLERS.register("effective_number")
def effective_number(labels: Tensor, generator: torch.Generator) -> Tensor:
    """With replacement; a sample's weight is (1 - b)/(1 - b^n), so its class's probability is n times that."""
    return _draw(labels, generator, lambda counts: counts / effective_numbers(counts, _EFFECTIVE_NUMBER_BETA))


@SAMPLERS.register("class_aware")
def class_aware(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Cycle over shuffled classes, four samples of each at a time, each class running through its own shuffled samples.

    Every class is drawn as often as the largest has samples; where that is no multiple of four, fewer at a time in the
    last turn. So the epoch has (largest count) x (number of classes) draws, many times an instance epoch where classes
    are uneven.
    """
    counts = class_counts_from_labels(labels)
    present = counts.nonzero().flatten()
    largest = int(counts.max())
    streams = {int(label): _endless(labels, int(label), largest, generator) for label in present}
    drawn = []
    for begin in range(0, largest, _CLASS_AWARE_RUN):
        run = slice(begin, begin + _CLASS_AWARE_RUN)
        order = present[torch.randperm(len(present), generator=generator)]
        drawn += [streams[int(label)][run] for label in order]
    return torch.cat(drawn)


def _endless(labels: Tensor, label: int, length: int, generator: torch.Generator) -> Tensor:
    """Positions of a class in shuffled order, shuffled anew each time they run out, length of them."""
    positions = (labels == label).nonzero().flatten()
    passes = -(-length // len(positions))
    return torch.cat([positions[torch.randperm(len(positions), generator=generator)] for _ in range(passes)])[:length]


def _draw(labels: Tensor, generator: torch.Generator, mass: Callable[[Tensor], Tensor]) -> Tensor:
    """Draw len(labels) positions with replacement, class j with probability proportional to mass(count_j)."""
    counts = class_counts_from_labels(labels).double()
    present = counts > 0
    per_sample = torch.zeros_like(counts)
    per_sample[present] = mass(counts[present]) / counts[present]
    cumulative = per_sample[labels].cumsum(0)
    # Not torch.multinomial: it refuses more than 2^24 samples.
    points = torch.rand(len(labels), generator=generator, dtype=torch.float64) * cumulative[-1]
    return torch.searchsorted(cumulative, points, right=True).clamp_max(len(labels) - 1)
