"""Every recipe is read and takes a step on data of its shape; names and wrong names."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from proco.augment import Auto, Plain, Rand, Sim, Weak
from proco.config import RECIPES, as_settings
from proco.data.arrays import Arrays
from proco.data.dataset import Dataset, Split
from proco.data.images import Cut
from proco.data.prepare import DataConfig
from proco.errors import ConfigError
from proco.methods.ema_prototype import EmaPrototype
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.proco import ProCo
from proco.optim import SGD, learning_rate
from proco.training import loader as loader_module
from proco.training.learner import Learner
from proco.training.recipes import find_recipe, load_own_data, load_recipe, rate_note, recipe_names
from proco.training.settings import EngineConfig, TrainConfig
from proco.training.step import Step
from proco.training.teacher import Teacher
from proco.training.trainer import Trainer

# Classes, channels and size (None: files of any size) of each source.
SHAPES = {
    "cifar10": (10, 3, (32, 32)),
    "cifar100": (100, 3, (32, 32)),
    "imagenet_lt": (1000, 3, None),
    "inaturalist2018": (8142, 3, None),
    "cub200": (200, 3, None),
    "fashion_mnist_lt": (10, 1, (28, 28)),
}


class GeneratedImages:
    """Noise of the asked-for size, as many images as there are classes."""

    warnings: tuple[str, ...] = ()
    are_slow = False

    def __init__(self, length: int, channels: int, common_size: tuple[int, int] | None) -> None:
        self.length, self.channels, self.common_size = length, channels, common_size

    def __len__(self) -> int:
        return self.length

    def cut(self, positions: Tensor, cuts: Sequence[Cut], size: tuple[int, int], device: torch.device) -> list[Tensor]:
        shape = (len(positions), self.channels, *size)
        return [torch.randint(0, 256, shape, dtype=torch.uint8, device=device) for _ in cuts]

    def subset(self, positions: Tensor) -> "GeneratedImages":
        return GeneratedImages(len(positions), self.channels, self.common_size)

    def to(self, device: torch.device) -> "GeneratedImages":
        return self


def generated(source: str) -> Dataset:
    num_classes, channels, common_size = SHAPES[source]
    split = Split(GeneratedImages(num_classes, channels, common_size), torch.arange(num_classes))
    return Dataset(
        name="noise", class_names=tuple(map(str, range(num_classes))), splits={"train": split, "test": split}
    )


@pytest.mark.parametrize("name", recipe_names())
def test_recipe_takes_a_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_module, "_CPU_BLOCK_BYTES", 1)  # the views of one step, not of many
    config = load_recipe(name)
    assert config.about.endswith(".")
    small = replace(
        config,
        batch_size=4 if config.data.size is None else 2,
        network=replace(config.network, pretrained=False),
        engine=EngineConfig(device="cpu"),
    )
    trainer = Trainer(small, generated(config.data.source.registry.name_of(type(config.data.source))))
    setup = trainer.setup
    teacher = trainer.teacher and Teacher(trainer.teacher.setup.network, config.method, setup.class_counts)
    for stage, loader in zip(setup.stages, setup.loaders, strict=True):
        setup.network.requires_grad_(True)
        learner = Learner(setup.network, stage, None)
        learner.start_epoch(0.0)
        step = Step(learner, SGD(learner.parameters(), replace(config.optim, **stage.optim)), None, teacher)
        before = {name: weight.detach().clone() for name, weight in setup.network.named_parameters()}
        values = step(next(loader.batches(0)))
        assert values.isfinite().all()
        for name, weight in setup.network.named_parameters():
            if not weight.requires_grad:
                assert torch.equal(weight, before[name]), name
            elif weight.dim() > 1:
                assert not torch.equal(weight, before[name]), name


def test_every_figure_of_the_paper_has_a_recipe() -> None:
    """Tables 2 to 7 of the paper, as far as ProCo, BCL, logit adjustment and cross-entropy are in them."""
    published = {name: load_recipe(name).published["top1"] for name in recipe_names() if load_recipe(name).published}
    expected = [
        *(50.5, 54.9, 64.0, 84.3, 87.1, 90.9),  # logit adjustment on CIFAR
        *(51.9, 56.4, 64.6, 84.5, 87.2, 91.1),  # BCL
        *(52.8, 57.1, 65.5, 85.9, 88.2, 91.9),  # ProCo
        *(52.1, 53.1, 54.2),  # 400 epochs
        *(55.1, 56.0, 57.3, 56.5, 56.7, 58.0),  # ImageNet-LT, 90 epochs
        *(55.4, 57.2, 57.8),  # 180 epochs
        *(71.8, 73.5, 75.8),  # iNaturalist
        *(71.5, 73.0, 93.4, 94.6, 81.6, 82.9),  # balanced
        *(51.6, 52.0, 52.1),  # class complements
        *(50.6, 51.8, 52.6),  # CC, SC, SC+CC+CR+MM
        *(52.0, 56.6, 65.1),  # L_out
        *(49.7, 50.1, 50.5),  # without AutoAugment
        *(39.6, 42.0, 44.1, 51.9),  # CB-Focal, LDAM-DRW, TDE and BCL by their own recipes
        *(44.1, 44.1),  # logit adjustment by its own, in training and after it: what its authors report
    ]
    missing = Counter(expected) - Counter(published.values())
    assert not missing


def test_groups_add_up_to_the_published_total() -> None:
    groups = {"cifar100_lt/proco_100": (35, 35, 30), "cifar100_lt/bcl_100": (35, 35, 30)}
    for name, sizes in groups.items():
        published = load_recipe(name).published
        total = sum(n * published[group] for n, group in zip(sizes, ("many", "medium", "few"), strict=True)) / 100
        assert total == pytest.approx(published["top1"], abs=0.1)


def test_official_settings_of_cifar() -> None:
    config = load_recipe("cifar100_lt/proco_100")
    assert (config.epochs, config.batch_size, config.optim.lr, config.optim.weight_decay) == (200, 256, 0.3, 2e-4)
    assert config.data.profile == "exponential"
    assert config.data.imbalance == 100
    assert [round(learning_rate(config.optim, epoch, 200), 6) for epoch in (0, 4, 5, 159, 160, 180, 199)] == [
        *(0.06, 0.3, 0.3, 0.3, 0.03, 0.003, 0.003)
    ]
    assert (config.optim.momentum, config.optim.nesterov) == (0.9, False)
    assert (config.network.backbone, config.network.classifier) == ("resnet32", "linear")
    assert (config.network.hidden, config.network.dim) == (512, 128)
    assert as_settings(config.method) == as_settings(ProCo(temperature=0.1, views=(Auto(), Sim(), Sim()), weight=1.0))
    assert load_recipe("cifar100_lt/ablations/ema_prototype").method == EmaPrototype(momentum=0.99)
    longer = load_recipe("cifar100_lt/proco_100_400epochs")
    assert [round(learning_rate(longer.optim, epoch, 400), 6) for epoch in (0, 9, 359, 360, 380)] == [
        *(0.03, 0.3, 0.3, 0.03, 0.003)
    ]


def test_what_was_chosen_for_proco_plus() -> None:
    teacher = load_recipe("cifar100_lt/proco_plus_100").teacher
    assert teacher is not None
    assert (teacher.weight, teacher.temperature) == (1.0, 3.0)


@pytest.mark.parametrize(
    ("name", "lr", "weight_decay", "epochs"),
    [
        ("imagenet_lt/resnet50_90epochs/proco", 0.1, 5e-4, 90),
        ("imagenet_lt/resnext50_90epochs/proco", 0.1, 5e-4, 90),
        ("imagenet_lt/resnet50_180epochs/proco", 0.1, 5e-4, 180),
        ("inaturalist2018/proco_90epochs", 0.2, 1e-4, 90),
    ],
)
def test_official_settings_of_the_large_sets(name: str, lr: float, weight_decay: float, epochs: int) -> None:
    config = load_recipe(name)
    assert (config.optim.lr, config.optim.weight_decay, config.epochs) == (lr, weight_decay, epochs)
    assert (config.optim.schedule, config.optim.warmup, config.batch_size) == ("cosine", 0.0, 256)
    assert learning_rate(config.optim, 0, epochs) == pytest.approx(lr * 0.5 * (1 + math.cos(math.pi / (epochs + 1))))
    network = config.network
    assert (network.classifier, network.scale, network.hidden, network.dim) == ("cosine", 30.0, 2048, 1024)
    assert config.method == ProCo(temperature=0.07, views=(Rand(), Sim(), Sim()))


def test_recipes_by_path_and_by_name(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(f"extends: {RECIPES / 'quickstart' / 'proco.yaml'}\nepochs: 3\n")
    assert load_recipe(str(own)).epochs == 3
    assert load_recipe("quickstart/proco", {"epochs": 7}).epochs == 7
    with pytest.raises(ConfigError, match="there is no recipe 'quickstart/prco'; did you mean 'quickstart/proco'"):
        find_recipe("quickstart/prco")
    for group in ("quickstart", "cifar100_lt/own/"):
        with pytest.raises(
            ConfigError, match=rf"^{group} is a group of recipes, such as {group.rstrip('/')}/.* lists all"
        ):
            find_recipe(group)


def test_a_file_may_be_named_without_its_suffix_by_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("adjusted.yaml").write_text("method: logit_adjustment\n")
    with pytest.raises(ConfigError, match=r"there is no recipe 'adjusted'; did you mean the file adjusted\.yaml\?"):
        find_recipe("adjusted")


def test_a_folder_of_the_same_name_does_not_hide_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """proco compare --out . makes folders that are called like its recipes."""
    (tmp_path / "quickstart" / "proco").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert find_recipe("quickstart/proco") == RECIPES / "quickstart" / "proco.yaml"
    with pytest.raises(ConfigError, match="quickstart is a folder, not a recipe"):
        find_recipe("quickstart")


PROCO_ON_OWN_DATA = ProCo(views=(Weak(), Sim(), Sim()))


@pytest.fixture
def own_data(tmp_path: Path) -> Path:
    path = tmp_path / "own.npz"
    labels = np.repeat(np.arange(3), [50, 40, 30])
    np.savez(path, images=np.zeros((len(labels), 8, 8), np.uint8), labels=labels)
    return path


@pytest.mark.parametrize("name", ["proco_100", "bcl_100", "logit_adjustment_100"])
def test_own_data_is_not_treated_as_that_of_the_recipe(own_data: Path, name: str) -> None:
    config = load_own_data(own_data, f"cifar100_lt/{name}")
    recipe = load_recipe(f"cifar100_lt/{name}")
    assert config.data == DataConfig(source=Arrays(path=own_data), size=64)  # no profile, no statistics
    assert (config.about, config.published) != (recipe.about, recipe.published)
    for name in ("network", "optim", "ema", "renew_statistics", "epochs", "batch_size"):
        assert getattr(config, name) == getattr(recipe, name)
    assert config.method == replace(recipe.method, views=(Weak(), *recipe.method.views[1:]))


def test_what_a_recipe_for_other_data_leaves_to_the_defaults_stays_there(own_data: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("data: {source: cifar100, profile: exponential}\nmethod: logit_adjustment\n")
    config = load_own_data(own_data, str(mine))
    assert config == TrainConfig(about=config.about, data=config.data, method=LogitAdjustment(views=(Weak(),)))


@pytest.mark.parametrize("data", ["", "5", "[source]"])
def test_data_that_is_no_mapping_is_refused_beside_own_data_too(own_data: Path, tmp_path: Path, data: str) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(f"data: {data}\n")
    with pytest.raises(ConfigError, match="data: expected"):
        load_own_data(own_data, str(mine))


def test_a_teacher_sees_own_data_as_its_pupil_does(own_data: Path, tmp_path: Path) -> None:
    config = load_own_data(own_data, "cifar100_lt/proco_plus_100")
    teaching = config.teaching_run()
    assert (config.method.views, teaching.method) == (PROCO_ON_OWN_DATA.views, PROCO_ON_OWN_DATA)
    assert teaching.network.options == {"experts": 3, "shared_stages": 1}
    mine = tmp_path / "mine.yaml"
    for run in ("{epochs: 3}", "{method: {weight: 0.5}}", "{method: proco_plus}"):
        mine.write_text(f"method: {{name: proco, views: [plain, sim]}}\nteacher: {{run: {run}}}\n")
        config = load_own_data(own_data, str(mine))
        assert config.method.views == (Plain(), Sim())
        assert config.teaching_run().method.views[:2] == config.method.views
    mine.write_text("method: proco\nteacher: {run: {method: {views: [plain, sim]}}}\n")
    assert load_own_data(own_data, str(mine)).teaching_run().method.views == (Plain(), Sim())


def test_a_finished_teacher_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_recipe("quickstart/proco", {"teacher": {"path": "runs/large"}})
    assert config.teacher is not None
    assert config.teacher.path == tmp_path / "runs" / "large"


def test_what_is_said_about_own_data_counts(own_data: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("data: {validation: 0.2}\nmethod: {name: logit_adjustment, views: [auto]}\n")
    config = load_own_data(own_data, str(mine), {"data": {"profile": "step"}})
    assert (config.data.validation, config.data.profile) == (0.2, "step")
    assert config.method.views == (Auto(),)
    assert load_own_data(own_data, "imagenet_lt/resnet50_90epochs/proco").data.size == 224
    other = load_own_data(own_data, None, {"method": "logit_adjustment"}).method
    assert other == LogitAdjustment(views=(Weak(),))


def test_a_batch_size_without_a_rate_is_answered_with_the_one_in_proportion(tmp_path: Path) -> None:
    recipe = partial(load_recipe, "cifar100_lt/proco_100")
    assert rate_note(recipe, {"batch_size": 64}) == (
        "optim.lr=0.3 is the rate for batches of 256; for batches of 64 try optim.lr=0.075."
    )
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "1.png").touch()
    own = partial(load_own_data, tmp_path, None)
    assert "for batches of 16 try optim.lr=0.0187" in rate_note(own, {"batch_size": 16})
    assert "for batches of 83 try optim.lr=0.0973" in rate_note(own, {"batch_size": 1024}, 83)  # there are no more
    for settled in ({}, {"batch_size": 256}, {"batch_size": "auto"}, {"batch_size": 64, "optim": {"lr": 0.1}}):
        assert rate_note(recipe, settled) == ""
