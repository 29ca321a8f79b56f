"""The way of an epoch to the device: which images in which order, their views, batch by batch.

Everything random is drawn for the whole epoch before it begins, from generators seeded by (seed, epoch). What an image
undergoes depends on its place in the epoch alone: not on the batch size, the device or the number of ranks.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
from torch import Tensor

from proco.augment import View
from proco.augment.choices import select, to_device
from proco.data.dataset import Split
from proco.data.images import Cut
from proco.data.samplers import SAMPLERS
from proco.distributed import rank, world_size
from proco.errors import ConfigError
from proco.training.seeds import generator_for

# Pixels of the views made in one go: on a GPU enough to make launches cheap, on a CPU few enough to stay in its cache.
_GPU_BLOCK_BYTES = 2**28
_CPU_BLOCK_BYTES = 2**23


class Batch(NamedTuple):
    """One step's images on one rank."""

    views: Tensor  # (V, B, C, H, W) uint8
    labels: Tensor  # (B,)


class _Epoch(NamedTuple):
    positions: Tensor  # (slots,) into the split
    randoms: list[Tensor]  # per view, (slots, r), of its window
    choices: list[Any]  # per view, of what it does


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
    ) -> None:
        self.split, self.views, self.size, self.seed, self.device = split, views, size, seed, device
        self.sampler = SAMPLERS[sampler]
        self.batch_size = min(batch_size, len(split.labels) // world_size() * world_size())
        if self.batch_size % world_size() or not self.batch_size:
            raise ConfigError(
                f"batch_size {batch_size} cannot be shared by {world_size()} ranks evenly ({len(split.labels)} images)."
            )
        bytes_per_step = self.batch_size * len(views) * split.images.channels * size[0] * size[1]
        block_bytes = _CPU_BLOCK_BYTES if device.type == "cpu" else _GPU_BLOCK_BYTES
        self.steps_per_block = max(1, block_bytes // bytes_per_step)

    def draw(self, epoch: int) -> _Epoch:
        """Draw the order and all choices of an epoch, on the CPU."""
        positions = self.sampler(self.split.labels, generator_for(self.seed, epoch, "order"))
        positions = positions[: len(positions) // self.batch_size * self.batch_size]
        randoms, choices = [], []
        for number, view in enumerate(self.views):
            randoms.append(view.window.draw(len(positions), generator_for(self.seed, epoch, "window", number)))
            choices.append(view.draw(len(positions), generator_for(self.seed, epoch, "view", number)))
        return _Epoch(positions, randoms, choices)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield the batches of this rank: of each step's images, the rank-th of world_size equal parts."""
        drawn = self.draw(epoch)
        steps = len(drawn.positions) // self.batch_size
        local = self.batch_size // world_size()
        slots = torch.arange(steps * self.batch_size).view(steps, world_size(), local)[:, rank()]
        blocks = torch.split(slots, self.steps_per_block)
        stream = torch.cuda.current_stream(self.device) if self.device.type == "cuda" else None

        def cut(block: Tensor) -> list[Tensor]:
            with torch.cuda.stream(stream):  # in the order of the run's other work, though in another thread
                return self._cut(drawn, block.flatten())

        # Files are decoded for the next block while this one is trained on.
        with ThreadPoolExecutor(1) as ahead:
            pending = ahead.submit(cut, blocks[0])
            for number, block in enumerate(blocks):
                cuts = pending.result()
                if number + 1 < len(blocks):
                    pending = ahead.submit(cut, blocks[number + 1])
                yield from self._finish(drawn, block.flatten(), cuts, local)

    def __len__(self) -> int:
        """Return the number of steps of an epoch of the instance sampler."""
        return len(self.split.labels) // self.batch_size

    def _cut(self, drawn: _Epoch, slots: Tensor) -> list[Tensor]:
        cuts = [Cut(view.window, randoms[slots]) for view, randoms in zip(self.views, drawn.randoms, strict=True)]
        return self.split.images.cut(drawn.positions[slots], cuts, self.size, self.device)

    def _finish(self, drawn: _Epoch, slots: Tensor, cuts: list[Tensor], local: int) -> Iterator[Batch]:
        made = [
            view.apply(images, to_device(select(choices, slots), self.device))
            for view, images, choices in zip(self.views, cuts, drawn.choices, strict=True)
        ]
        labels = self.split.labels[drawn.positions[slots]].to(self.device)
        views = torch.stack([images.view(-1, local, *images.shape[1:]) for images in made], dim=1)
        for step_views, step_labels in zip(views, labels.view(-1, local), strict=True):
            yield Batch(step_views, step_labels)
