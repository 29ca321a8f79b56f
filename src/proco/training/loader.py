"""The way of an epoch to the device: which images in which order, their views, batch by batch.

Everything random is drawn for the whole epoch before it begins, from generators seeded by (seed, epoch). What an image
undergoes depends on its place in the epoch alone: not on the batch size, the device or the number of ranks.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from proco.augment import Blend, View
from proco.augment.choices import select, send, to_device
from proco.data.dataset import Split
from proco.data.images import Cut
from proco.data.samplers import SAMPLERS
from proco.distributed import rank, world_size
from proco.errors import ConfigError
from proco.methods.method import Targets
from proco.training.seeds import generator_for

# Pixels of the views made in one go: on a GPU enough to make launches cheap, on a CPU few enough to stay in its cache.
_GPU_BLOCK_BYTES = 2**28
_CPU_BLOCK_BYTES = 2**23


class Batch(NamedTuple):
    """One step's images on one rank."""

    views: Tensor  # (V, B, C, H, W) uint8
    targets: Targets


class _Drawn(NamedTuple):
    """Images and what they undergo, a row for each place in the epoch."""

    positions: Tensor  # (slots,) into the split
    views: tuple[View, ...]
    randoms: list[Tensor]  # per view, (slots, r), of its window
    choices: list[Any]  # per view, of what it does


class _Others(NamedTuple):
    """What the first view of each place in the epoch shows beside its own image."""

    drawn: _Drawn
    choices: Any  # where, or how much of it


class _Epoch(NamedTuple):
    own: _Drawn
    others: _Others | None


class EpochLoader:
    """Batches of views of a split, epoch by epoch."""

    def __init__(
        self,
        split: Split,
        views: tuple[View, ...],
        *,
        batch_size: int,
        size: tuple[int, int],
        seed: int,
        device: torch.device,
        sampler: str = "instance",
        blend: Blend | None = None,
    ) -> None:
        self.split, self.views, self.size, self.seed, self.device = split, views, size, seed, device
        self.sampler = SAMPLERS[sampler]
        self.blend = blend if blend is not None and blend.probability else None
        self.other_sampler = SAMPLERS[blend.sampler] if blend is not None else self.sampler
        self.batch_size = min(batch_size, len(split.labels) // world_size() * world_size())
        if self.batch_size % world_size() or not self.batch_size:
            raise ConfigError(
                f"a batch of {batch_size} cannot be shared by {world_size()} ranks evenly ({len(split.labels)} images)."
            )
        # An epoch is drawn to count it: samplers have lengths of their own.
        self.num_steps = len(self.sampler(split.labels, torch.Generator())) // self.batch_size
        bytes_per_step = self.batch_size * len(views) * split.images.channels * size[0] * size[1]
        block_bytes = _CPU_BLOCK_BYTES if device.type == "cpu" else _GPU_BLOCK_BYTES
        self.steps_per_block = max(1, block_bytes // bytes_per_step)

    def draw(self, epoch: int) -> _Epoch:
        """Draw the order and all choices of an epoch, on the CPU; also for what does not fill a batch at its end."""
        positions = self.sampler(self.split.labels, generator_for(self.seed, epoch, "order"))
        own = self._draw(positions, self.views, epoch, "")
        if self.blend is None:
            return _Epoch(own, None)
        others = self._other_positions(len(positions), generator_for(self.seed, epoch, "pasted order"))
        choices = self.blend.draw(len(positions), generator_for(self.seed, epoch, "boxes"))
        return _Epoch(own, _Others(self._draw(others, self.views[:1], epoch, "pasted "), choices))

    def begin(self, epoch: int) -> Iterator[Batch]:
        """Return the batches of an epoch, the first of them made already: a GPU makes them when it gets to it."""
        batches = self.batches(epoch)
        return chain([next(batches)], batches)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield the batches of this rank: of each step's images, the rank-th of world_size equal parts."""
        drawn = self.draw(epoch)
        steps = len(drawn.own.positions) // self.batch_size
        local = self.batch_size // world_size()
        slots = torch.arange(steps * self.batch_size).view(steps, world_size(), local)[:, rank()]
        blocks = torch.split(slots, self.steps_per_block)
        stream = torch.cuda.current_stream(self.device) if self.device.type == "cuda" else None

        def cut(block: Tensor) -> list[Tensor]:
            with torch.cuda.stream(stream):  # in the order of the run's other work, though in another thread
                own = self._cut(drawn.own, block.flatten())
                return own if drawn.others is None else own + self._cut(drawn.others.drawn, block.flatten())

        # Files are decoded for the next block while this one is trained on. Arrays are not worth a thread, which on a
        # CPU takes a sixth of an epoch.
        all_cuts = _one_ahead(cut, blocks) if self.split.images.are_slow else map(cut, blocks)
        for block, cuts in zip(blocks, all_cuts, strict=True):
            yield from self._finish(drawn, block.flatten(), cuts, local)

    def __len__(self) -> int:
        """Return the number of steps of an epoch."""
        return self.num_steps

    def _draw(self, positions: Tensor, views: tuple[View, ...], epoch: int, purpose: str) -> _Drawn:
        randoms, choices = [], []
        for number, view in enumerate(views):
            window, change = (generator_for(self.seed, epoch, purpose + part, number) for part in ("window", "view"))
            randoms.append(view.window.draw(len(positions), window))
            choices.append(view.draw(len(positions), change))
        return _Drawn(positions, views, randoms, choices)

    def _other_positions(self, size: int, generator: torch.Generator) -> Tensor:
        """Return positions of size other images; a sampler gives an epoch at a time."""
        positions = self.other_sampler(self.split.labels, generator)
        while len(positions) < size:
            positions = torch.cat([positions, self.other_sampler(self.split.labels, generator)])
        return positions[:size]

    def _cut(self, drawn: _Drawn, slots: Tensor) -> list[Tensor]:
        cuts = [Cut(view.window, randoms[slots]) for view, randoms in zip(drawn.views, drawn.randoms, strict=True)]
        return self.split.images.cut(drawn.positions[slots], cuts, self.size, self.device)

    def _finish(self, drawn: _Epoch, slots: Tensor, cuts: list[Tensor], local: int) -> Iterator[Batch]:
        made = self._change(drawn.own, slots, cuts[: len(self.views)])
        positions = send(drawn.own.positions[slots], self.device)
        targets = Targets.of(self._labels(drawn.own, slots), positions)
        if drawn.others is not None:
            assert self.blend is not None
            (others,) = self._change(drawn.others.drawn, slots, cuts[len(self.views) :])
            choices = to_device(select(drawn.others.choices, slots), self.device)
            made[0], share = self.blend.apply(made[0], others, choices)
            labels = torch.where(share < 1, self._labels(drawn.others.drawn, slots), targets.labels)
            targets = targets._replace(other_labels=labels, share=share)
        views = torch.stack([images.view(-1, local, *images.shape[1:]) for images in made], dim=1)
        columns = (target.view(-1, local) for target in targets if target is not None)
        for step_views, *step_targets in zip(views, *columns, strict=True):
            yield Batch(step_views, Targets(*step_targets))

    def _change(self, drawn: _Drawn, slots: Tensor, cuts: list[Tensor]) -> list[Tensor]:
        return [
            view.apply(images, to_device(select(choices, slots), self.device))
            for view, images, choices in zip(drawn.views, cuts, drawn.choices, strict=True)
        ]

    def _labels(self, drawn: _Drawn, slots: Tensor) -> Tensor:
        return send(self.split.labels[drawn.positions[slots]], self.device)


def _one_ahead(make: Callable[[Tensor], list[Tensor]], blocks: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield what is made of each block; the next is made meanwhile."""
    with ThreadPoolExecutor(1) as ahead:
        pending = ahead.submit(make, blocks[0])
        for following in blocks[1:]:
            made = pending.result()
            pending = ahead.submit(make, following)
            yield made
        yield pending.result()


def fitting_batch(num_images: int) -> int:
    """Return a power of two near a sixteenth of the images, from 16 to 256, or what of it the ranks share evenly."""
    return int(2 ** min(max(round(math.log2(max(num_images, 1) / 16)), 4), 8)) // world_size() * world_size()
