"""The way of an epoch to the device: what an image undergoes depends on (seed, epoch) and its place alone."""

from typing import Any

import pytest
import torch

from proco.augment import Blend, Mixup, Paste
from proco.augment.auto import Auto
from proco.augment.plain import Plain
from proco.augment.sim import Sim
from proco.augment.weak import Weak
from proco.data.array_images import ArrayImages
from proco.data.dataset import Dataset
from proco.data.samplers import SAMPLERS
from proco.errors import ConfigError
from proco.training import loader as loader_module
from proco.training.loader import EpochLoader, fitting_batch
from proco.training.seeds import generator_for

VIEWS = (Auto(padding=2, cutout=4), Sim(), Sim())


def make_loader(dataset: Dataset, *, views=VIEWS, batch_size: int = 8, seed: int = 0, sampler: str = "instance"):
    return EpochLoader(
        dataset.splits["train"],
        views,
        batch_size=batch_size,
        size=(8, 8),
        seed=seed,
        device=torch.device("cpu"),
        sampler=sampler,
    )


def epoch_of(loader: EpochLoader, epoch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """All views (V, slots, ...) and labels (slots,) of an epoch."""
    batches = list(loader.batches(epoch))
    return torch.cat([batch.views for batch in batches], dim=1), torch.cat([batch.targets.labels for batch in batches])


def test_batches_have_views_and_labels_of_the_same_images(tiny_dataset: Dataset) -> None:
    loader = make_loader(tiny_dataset, views=(Plain(), Plain()))
    batches = list(loader.batches(0))
    assert len(batches) == len(loader) == 57 // 8
    positions = loader.draw(0).own.positions
    train = tiny_dataset.splits["train"]
    for number, batch in enumerate(batches):
        assert batch.views.shape == (2, 8, 3, 8, 8)
        assert batch.views.dtype == torch.uint8
        chosen = positions[8 * number : 8 * number + 8]
        assert torch.equal(batch.targets.labels, train.labels[chosen])
        for view in batch.views:
            assert torch.equal(view, train.images.pixels[chosen])


def test_boxes_of_other_images_are_pasted_into_the_first_view(tiny_dataset: Dataset) -> None:
    train = tiny_dataset.splits["train"]
    loader = EpochLoader(
        train,
        (Plain(), Plain()),
        batch_size=8,
        size=(8, 8),
        seed=0,
        device=torch.device("cpu"),
        blend=Paste(probability=0.5, sampler="class_balanced"),
    )
    drawn = loader.draw(0)
    assert drawn.others is not None
    shares = []
    for number, (views, targets) in enumerate(loader.batches(0)):
        slots = slice(8 * number, 8 * number + 8)
        own = train.images.pixels[drawn.own.positions[slots]]
        other = train.images.pixels[drawn.others.drawn.positions[slots]]
        assert torch.equal(views[1], own)
        from_own, from_other = views[0] == own, views[0] == other
        assert (from_own | from_other).all()
        is_pasted = targets.share < 1
        assert torch.equal(views[0][~is_pasted], own[~is_pasted])
        assert (from_own.all(dim=1).float().mean(dim=(1, 2)) >= targets.share - 1e-6).all()
        other_labels = train.labels[drawn.others.drawn.positions[slots]]
        assert torch.equal(targets.other_labels, torch.where(is_pasted, other_labels, targets.labels))
        shares.append(targets.share)
    share = torch.cat(shares)
    assert 0.2 < (share < 1).float().mean() < 0.8
    assert ((share >= 0) & (share <= 1)).all()


def test_an_epoch_is_the_same_with_and_without_pasting_but_for_the_boxes(tiny_dataset: Dataset) -> None:
    plain = make_loader(tiny_dataset).draw(2)
    loader = make_loader(tiny_dataset)
    loader.blend = Paste()
    assert torch.equal(loader.draw(2).own.positions, plain.own.positions)
    assert all(torch.equal(a, b) for a, b in zip(loader.draw(2).own.randoms, plain.own.randoms, strict=True))


def test_no_image_comes_twice_in_an_epoch_of_instances(tiny_dataset: Dataset) -> None:
    positions = torch.cat([batch.targets.positions for batch in make_loader(tiny_dataset).batches(3)])
    assert len(positions.unique()) == len(positions) == 56


@pytest.mark.parametrize("blend", [None, Paste(), Mixup()])
def test_views_do_not_depend_on_the_batch_size(tiny_dataset: Dataset, blend: Blend | None) -> None:
    loaders = [make_loader(tiny_dataset, batch_size=size) for size in (8, 16)]
    for loader in loaders:
        loader.blend = blend
    (small, small_labels), (large, large_labels) = (epoch_of(loader, 5) for loader in loaders)
    assert (len(small_labels), len(large_labels)) == (56, 48)  # and yet
    assert torch.equal(small[:, :48], large)
    assert torch.equal(small_labels[:48], large_labels)


@pytest.mark.parametrize("ahead", [False, True])
def test_views_do_not_depend_on_the_blocks_they_are_made_in(
    tiny_dataset: Dataset, monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    whole, _ = epoch_of(make_loader(tiny_dataset), 5)
    monkeypatch.setattr(loader_module, "_CPU_BLOCK_BYTES", 1)
    monkeypatch.setattr(ArrayImages, "are_slow", ahead)
    loader = make_loader(tiny_dataset)
    assert loader.steps_per_block == 1
    by_step, _ = epoch_of(loader, 5)
    assert torch.equal(whole, by_step)


def test_epochs_seeds_and_views_differ(tiny_dataset: Dataset) -> None:
    first, _ = epoch_of(make_loader(tiny_dataset), 0)
    again, _ = epoch_of(make_loader(tiny_dataset), 0)
    next_epoch, _ = epoch_of(make_loader(tiny_dataset), 1)
    other_seed, _ = epoch_of(make_loader(tiny_dataset, seed=1), 0)
    assert torch.equal(first, again)
    assert not torch.equal(first, next_epoch)
    assert not torch.equal(first, other_seed)
    assert not torch.equal(first[1], first[2])


def test_seed_decides_on_each_thing_that_is_drawn(tiny_dataset: Dataset) -> None:
    one, other = (paste_loader(tiny_dataset, seed=seed).draw(0) for seed in (0, 1))
    assert not torch.equal(one.own.positions, other.own.positions)
    windows = [make_loader(tiny_dataset, views=(Sim(),), seed=seed).draw(0).own.randoms[0] for seed in (0, 1)]
    assert not torch.equal(*windows)
    assert one.others is not None
    assert other.others is not None
    assert not torch.equal(one.others.drawn.positions, other.others.drawn.positions)
    assert not torch.equal(one.others.choices.side, other.others.choices.side)


def test_what_is_drawn_together_is_drawn_apart(tiny_dataset: Dataset) -> None:
    """One generator for two things would make, say, the place of a crop depend on its colours."""
    loader = make_loader(tiny_dataset, views=(Sim(),))
    by_the_changes = loader.views[0].window.draw(57, generator_for(0, 0, "view", 0))
    assert not torch.equal(loader.draw(0).own.randoms[0], by_the_changes)
    pasting = paste_loader(tiny_dataset)
    drawn = pasting.draw(0).others
    assert drawn is not None
    assert pasting.blend is not None
    by_the_order = pasting.blend.draw(len(drawn.drawn.positions), generator_for(0, 0, "pasted order"))
    assert not torch.equal(drawn.choices.side, by_the_order.side)


@pytest.mark.parametrize("world_size", [2, 4])
def test_ranks_share_the_batches_of_one_process(
    tiny_dataset: Dataset, monkeypatch: pytest.MonkeyPatch, world_size: int
) -> None:
    alone = list(make_loader(tiny_dataset).batches(2))
    monkeypatch.setattr(loader_module, "world_size", lambda: world_size)
    shares = []
    for number in range(world_size):
        monkeypatch.setattr(loader_module, "rank", lambda number=number: number)
        shares.append(list(make_loader(tiny_dataset).batches(2)))
    for step, batch in enumerate(alone):
        assert torch.equal(torch.cat([share[step].views for share in shares], dim=1), batch.views)
        assert torch.equal(torch.cat([share[step].targets.labels for share in shares]), batch.targets.labels)


def test_a_batch_larger_than_the_data_is_all_of_it(tiny_dataset: Dataset) -> None:
    batches = list(make_loader(tiny_dataset, batch_size=1000).batches(0))
    assert [len(batch.targets.labels) for batch in batches] == [57]


def test_a_batch_that_ranks_cannot_share_is_refused(tiny_dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_module, "world_size", lambda: 3)
    with pytest.raises(ConfigError, match="a batch of 8 cannot be shared by 3 ranks"):
        make_loader(tiny_dataset)


@pytest.mark.parametrize(("images", "batch"), [(1, 16), (79, 16), (600, 32), (2478, 128), (5000, 256), (10**6, 256)])
def test_automatic_batch_is_near_a_sixteenth_of_the_images(
    images: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fitting_batch(images) == batch
    monkeypatch.setattr(loader_module, "world_size", lambda: 3)
    assert fitting_batch(images) == batch // 3 * 3


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_length_is_that_of_the_samplers_epoch(tiny_dataset: Dataset, sampler: str) -> None:
    loader = make_loader(tiny_dataset, sampler=sampler)
    assert len(list(loader.batches(0))) == len(list(loader.batches(1))) == len(loader)


def test_balanced_sampler_reaches_the_batches(tiny_dataset: Dataset) -> None:
    loader = make_loader(tiny_dataset, sampler="class_balanced")
    labels = torch.cat([epoch_of(loader, epoch)[1] for epoch in range(30)])
    share = torch.bincount(labels) / len(labels)
    assert (share - 0.25).abs().max() < 0.05  # 1680 draws: five standard deviations


def paste_loader(dataset: Dataset, **changes: Any) -> EpochLoader:
    settings = {"blend": Paste(), "batch_size": 8, "device": torch.device("cpu"), "seed": 0} | changes
    return EpochLoader(dataset.splits["train"], (Weak(padding=2), Plain()), size=(8, 8), **settings)


def test_boxes_are_of_the_classes_the_sampler_says(tiny_dataset: Dataset) -> None:
    loader, labels = paste_loader(tiny_dataset), tiny_dataset.splits["train"].labels
    drawn = [loader.draw(epoch).others for epoch in range(30)]
    share = torch.bincount(torch.cat([labels[pasted.drawn.positions] for pasted in drawn])) / (30 * 56)
    assert (share - 0.25).abs().max() < 0.05  # 1680 draws: five standard deviations


def test_what_is_pasted_is_drawn_for_itself_and_anew(tiny_dataset: Dataset) -> None:
    loader = paste_loader(tiny_dataset, blend=Paste(sampler="instance"))
    first, second = loader.draw(0), loader.draw(1)
    assert not torch.equal(first.others.drawn.positions, first.own.positions)
    assert not torch.equal(first.others.choices.side, second.others.choices.side)
    own, pasted = first.own.choices[0], first.others.drawn.choices[0]
    assert not torch.equal(own.top, pasted.top)


def test_every_epoch_has_an_order_and_changes_of_its_own(tiny_dataset: Dataset) -> None:
    first, second = (make_loader(tiny_dataset).draw(epoch).own for epoch in (0, 1))
    assert not torch.equal(first.positions, second.positions)
    assert not torch.equal(first.randoms[1], second.randoms[1])  # the windows of Sim
    assert not torch.equal(first.choices[1].is_flipped, second.choices[1].is_flipped)


def test_batches_say_which_images_they_show(tiny_dataset: Dataset) -> None:
    loader = make_loader(tiny_dataset, views=(Plain(),))
    shown = torch.cat([batch.targets.positions for batch in loader.batches(0)])
    assert torch.equal(shown, loader.draw(0).own.positions[:56])


def test_there_are_boxes_for_epochs_that_are_longer_than_their_samplers(tiny_dataset: Dataset) -> None:
    loader = paste_loader(tiny_dataset, sampler="class_aware")  # 30 x 4 draws; boxes come 57 at a time
    assert len(loader) == 15
    assert len(list(loader.batches(0))) == 15


def test_a_batch_larger_than_the_data_is_what_ranks_can_share(
    tiny_dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader_module, "world_size", lambda: 2)
    monkeypatch.setattr(loader_module, "rank", lambda: 0)
    loader = make_loader(tiny_dataset, batch_size=1000)
    assert loader.batch_size == 56
    assert [len(batch.targets.labels) for batch in loader.batches(0)] == [28]
