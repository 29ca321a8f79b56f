"""Steps a second of the training loop, beside an ordinary one in the same run.

    python -m benchmarks.train [--batch 256] [--images 10847] [--variants float32 ...] [--json FILE]

The setting is the recipe of ProCo on CIFAR-100-LT at imbalance 100: ResNet-32, three views an image; the images are
generated. Loops take turns, and a turn is whole epochs, views included. An image counts once, however many views it
has. "ours" has the default engine: on a GPU bfloat16 and a recorded step. The variants below it differ in one thing;
lanes are runs side by side, their steps added up.

"plain" has the same network and losses, channels first and at torch's default precision (float32, on a GPU TF32 in
convolutions), worker processes with torchvision's transforms on Pillow images, and torch's SGD. Nothing in its steps
waits for the device.

The second table (as JSON in a file beside the first, "_parts" added to its name) takes an epoch of ours apart, the
device waited for around each part. "loss" is what steps take longer than with next to nothing in its place. "set-up" is
once a run, from the construction to the end of the first step; its share says how many epochs it is worth.
"""

import argparse
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any
from unittest.mock import patch

import torch
from PIL import Image
from torch import Tensor
from torch.utils import data
from torchvision import transforms

from benchmarks.augment import SIDE, pictures
from benchmarks.measure import add_json_option, interleaved_ms, report, synchronize
from proco import LogitAdjustedLoss, ProCoLoss
from proco.data.array_images import ArrayImages
from proco.data.dataset import Dataset, Split
from proco.data.long_tail import exponential_counts
from proco.kernels import layers
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.method import Targets, Term, WeightedTerm
from proco.methods.proco import ProCo
from proco.models.network import Network, Outputs
from proco.optim import learning_rate
from proco.training.device import find_device, set_precision
from proco.training.lanes import in_lanes, wait_for
from proco.training.loader import Batch
from proco.training.looks import Looks
from proco.training.pixels import normalisation
from proco.training.recipes import load_recipe
from proco.training.settings import TrainConfig
from proco.training.setup import Setup
from proco.training.stage_training import StageTraining

IMAGES = 10_847  # of CIFAR-100-LT at imbalance 100
LANE_EPOCHS = 3  # of a turn, so that runs side by side get out of step, as they do in the long run
ENGINES: dict[str, dict[str, Any]] = {"float32": {"precision": "float32"}, "no graph": {"graph": False}}
LANES = {"2 lanes": 2, "4 lanes": 4}
# Of a GPU alone: a CPU has float32 anyway, and neither graph nor kernels nor lanes.
VARIANTS = [*ENGINES, "no kernels", *LANES]


def long_tail(num_images: int, num_classes: int) -> Tensor:
    """Return how many of about so many images each class has, (K,): those of the recipe, scaled, and one at least."""
    counts = exponential_counts(500, num_classes, 100)
    return torch.tensor([max(1, round(count * num_images / sum(counts))) for count in counts])


def generate(class_counts: Tensor, num_test: int) -> Dataset:
    num_classes = len(class_counts)
    labels = torch.repeat_interleave(torch.arange(num_classes), class_counts)
    pixels = pictures(len(labels) + num_test)
    splits = {
        "train": Split(ArrayImages(pixels[: len(labels)]), labels),
        "test": Split(ArrayImages(pixels[len(labels) :]), torch.arange(num_test) % num_classes),
    }
    return Dataset("pictures", tuple(map(str, range(num_classes))), splits)


def recipe(backbone: str, batch_size: int, **engine: Any) -> TrainConfig:
    changes = {"network": {"backbone": backbone}, "batch_size": batch_size, "engine": engine}
    return load_recipe("cifar100_lt/proco_100", changes)


class Loop:
    """Our loop, of the parts that the trainer has."""

    def __init__(
        self, config: TrainConfig, dataset: Dataset, *, with_kernels: bool = True, with_loss: bool = True
    ) -> None:
        self.config, self.with_kernels, self.num_epochs = config, with_kernels, 0
        self.device = find_device(config.engine.device)
        on_gpu = self.device.type == "cuda"
        self.stream = torch.cuda.Stream(self.device) if on_gpu else None  # type: ignore[no-untyped-call]
        with self._as_set():
            self.setup = Setup(config, dataset)
            if not with_loss:
                (stage,) = self.setup.stages
                self.setup.stages = (replace(stage, terms={"nothing": WeightedTerm(1.0, Nothing())}),)
            self.training = StageTraining(self.setup, 0, teacher=None)
            self.upcoming: Iterator[Batch] | None = None

    def views(self) -> list[Batch]:
        """Return the batches of an epoch."""
        with self._as_set():
            return list(self.training.loader.batches(self.num_epochs))

    def train_on(self, batches: Iterable[Batch], *, begin_next: bool = False) -> Tensor:
        """Return the values of the terms and the accuracy of every step, (steps, T + 1), on the CPU.

        begin_next: begin the views of the next epoch before waiting for this one, as the trainer does.
        """
        with self._as_set():
            self.training.optimizer.rate.fill_(learning_rate(self.config.optim, self.num_epochs, self.config.epochs))
            self.training.learner.start_epoch()
            values = torch.stack([self.training.step(batch).clone() for batch in batches])
            self.upcoming = self.training.loader.begin(self.num_epochs + 1) if begin_next else None
            wait_for(self.device)
            return values.cpu()

    def epoch(self) -> Tensor:
        """Train for an epoch, its views made on the way."""
        values = self.train_on(self.upcoming or self.training.loader.batches(self.num_epochs), begin_next=True)
        self.num_epochs += 1
        return values

    def evaluate(self) -> None:
        """Evaluate on the test split."""
        with self._as_set():
            Looks(self.setup).evaluate("test")

    @contextmanager
    def _as_set(self) -> Iterator[None]:
        """Work on the stream of this loop, at its precision, with or without our kernels."""
        set_precision(self.config.engine, self.device)
        kernels = (
            nullcontext()
            if self.with_kernels
            else patch.object(layers, "_triton_serves", lambda images, channels: False)
        )
        with torch.cuda.stream(self.stream), kernels:
            yield


class Nothing(Term):
    """Next to nothing in place of a loss, with gradients of the outputs that ProCo's terms have them of."""

    def forward(self, outputs: Sequence[Outputs], targets: Targets, network: Network) -> Tensor:
        """Return a number that no step can make endless."""
        value = outputs[0].logits.square().mean()
        for view in outputs[1:]:
            assert view.embeddings is not None
            value = value + view.embeddings.mean()
        return value


class Cutout:
    """Black out a square of so many pixels around a random one, in a float image (C, H, W)."""

    def __init__(self, side: int) -> None:
        self.side = side

    def __call__(self, image: Tensor) -> Tensor:
        """Return the image, changed in place."""
        top, left = (int(torch.randint(length, ())) - self.side // 2 for length in image.shape[1:])
        image[:, max(top, 0) : max(top + self.side, 0), max(left, 0) : max(left + self.side, 0)] = 0
        return image


class PlainViews(data.Dataset[tuple[list[Tensor], int]]):
    """Three views of an image and its label, one image at a time."""

    def __init__(self, split: Split, mean: Sequence[float], std: Sequence[float]) -> None:
        assert isinstance(split.images, ArrayImages)
        self.pixels = split.images.pixels.permute(0, 2, 3, 1).contiguous().numpy()
        self.labels = split.labels.tolist()
        flip, to_tensor = transforms.RandomHorizontalFlip(), transforms.ToTensor()
        normalise = transforms.Normalize(mean, std)
        policy = transforms.AutoAugment(transforms.AutoAugmentPolicy.CIFAR10, fill=[128] * 3)
        jitter = transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
        crop, grey = transforms.RandomCrop(SIDE, padding=4), transforms.RandomGrayscale(0.2)
        auto = transforms.Compose([crop, flip, policy, to_tensor, Cutout(16), normalise])
        sim = transforms.Compose([transforms.RandomResizedCrop(SIDE), flip, jitter, grey, to_tensor, normalise])
        self.transforms = [auto, sim, sim]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, position: int) -> tuple[list[Tensor], int]:
        image = Image.fromarray(self.pixels[position])
        return [transform(image) for transform in self.transforms], self.labels[position]


class PlainLoop:
    """The ordinary loop; steps: of its epochs, all of them or fewer."""

    def __init__(
        self, config: TrainConfig, dataset: Dataset, device: torch.device, *, workers: int, steps: int | None = None
    ) -> None:
        assert isinstance(config.method, ProCo)
        assert config.data.mean is not None
        assert config.data.std is not None
        assert isinstance(config.batch_size, int)
        assert isinstance(config.method.classification, LogitAdjustment)
        self.config, self.device, self.num_epochs = config, device, 0
        train, method, counts = dataset.splits["train"], config.method, dataset.class_counts
        batch_size = min(config.batch_size, len(train))
        self.steps = min(steps or len(train), len(train) // batch_size)
        images = PlainViews(train, config.data.mean, config.data.std)
        self.batches = data.DataLoader(
            images,
            batch_size,
            sampler=data.RandomSampler(images, num_samples=self.steps * batch_size),
            num_workers=workers,
            pin_memory=device.type == "cuda",
            persistent_workers=workers > 0,
        )
        normalise = normalisation(config.data, train.images)  # a part of the network that is not called here
        self.network = Network(config.network, dataset.num_classes, normalise, with_projector=True).to(device)
        self.classification = LogitAdjustedLoss(counts, tau=method.classification.tau).to(device)
        self.proco = ProCoLoss(
            counts, config.network.dim, method.temperature, method.form, concentration=method.concentration
        ).to(device)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(),
            lr=config.optim.lr,
            momentum=config.optim.momentum,
            weight_decay=config.optim.weight_decay,
        )

    def step(self, views: Sequence[Tensor], labels: Tensor) -> Tensor:
        """Train on a batch and return its loss; views: normalised, (B, C, H, W) each."""
        assert isinstance(self.config.method, ProCo)
        assert self.network.projector is not None
        features = self.network.backbone(torch.cat(list(views)))
        logits, embeddings = self.network.classifier(features), self.network.projector(features)
        classification: Tensor = self.classification(logits[: len(labels)], labels)
        contrast = torch.stack([self.proco(view, labels) for view in embeddings.split(len(labels))[1:]]).mean()
        loss = classification + self.config.method.weight * contrast
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def epoch(self) -> Tensor:
        """Train for an epoch; return the losses, (steps,), on the CPU."""
        if self.device.type == "cuda":  # torch's defaults, which our loop changes, and the fastest algorithms of them
            torch.set_float32_matmul_precision("highest")
            torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.config.optim, self.num_epochs, self.config.epochs)
        self.num_epochs += 1
        self.network.train()
        self.proco.start_epoch()
        losses = []
        for views, labels in self.batches:
            on_device = [view.to(self.device, non_blocking=True) for view in views]
            losses.append(self.step(on_device, labels.to(self.device, non_blocking=True)))
        return torch.stack(losses).cpu()


def set_up(config: TrainConfig, dataset: Dataset) -> tuple[Loop, float]:
    """Return a loop that has taken its first step, and the seconds until then."""
    started = time.perf_counter()
    loop = Loop(config, dataset)
    loop.train_on(islice(loop.training.loader.batches(0), 1))
    return loop, time.perf_counter() - started


def variants_of(ours: Loop, names: Sequence[str], dataset: Dataset) -> dict[str, Callable[[], object]]:
    """Return a turn of each variant, warmed up."""
    config = ours.config
    loops = {
        name: Loop(replace(config, engine=replace(config.engine, **engine)), dataset)
        for name, engine in ENGINES.items()
        if name in names
    }
    if "no kernels" in names:
        loops["no kernels"] = Loop(config, dataset, with_kernels=False)
    lanes_of = {name: lanes for name, lanes in LANES.items() if name in names}
    others = [Loop(replace(config, seed=seed), dataset) for seed in range(1, max(lanes_of.values(), default=1))]
    for loop in (*loops.values(), *others):
        loop.epoch()
    turns: dict[str, Callable[[], object]] = {name: loop.epoch for name, loop in loops.items()}
    return turns | {name: side_by_side([ours, *others][:lanes]) for name, lanes in lanes_of.items()}


def side_by_side(loops: Sequence[Loop]) -> Callable[[], None]:
    def epochs(loop: Loop) -> None:
        for _ in range(LANE_EPOCHS):
            loop.epoch()

    def run() -> None:
        jobs = [lambda loop=loop: epochs(loop) for loop in loops]
        for _, outcome in in_lanes(jobs, len(loops), threading.Event(), loops[0].device):
            outcome.result()

    return run


def speeds(
    ours: Loop, plain: PlainLoop, variants: dict[str, Callable[[], object]], seconds: float
) -> list[dict[str, Any]]:
    """Measure the loops in turn."""
    ours.epoch()  # warm up
    plain.epoch()
    turns: dict[str, Callable[[], object]] = {"ours": ours.epoch, **variants, "plain": plain.epoch}
    steps = dict.fromkeys(turns, len(ours.training.loader)) | {"plain": plain.steps}
    steps |= {name: lanes * LANE_EPOCHS * len(ours.training.loader) for name, lanes in LANES.items()}
    times = interleaved_ms(turns, ours.device, seconds=seconds)
    per_second = {name: 1e3 * steps[name] / times[name] for name in turns}
    what = {name: f"ours, {name}" for name in variants} | {"plain": f"plain, {plain.batches.num_workers} workers"}
    return [
        {
            "what": what.get(name, name),
            "steps/s": rate,
            "images/s": rate * ours.training.loader.batch_size,
            "ms a step": 1e3 / rate,
            "ratio": rate / per_second["plain"],
        }
        for name, rate in per_second.items()
    ]


def parts(ours: Loop, dataset: Dataset, setup_seconds: float, seconds: float) -> list[dict[str, Any]]:
    """Measure what an epoch of ours consists of."""
    bare, batches = Loop(ours.config, dataset, with_loss=False), ours.views()
    synchronize(ours.device)  # the other loop has a stream of its own
    bare.train_on(batches)  # warm up
    turns: dict[str, Callable[[], object]] = {
        "views": ours.views,
        "steps": lambda: ours.train_on(batches),
        "bare": lambda: bare.train_on(batches),
        "evaluation": ours.evaluate,
    }
    times = interleaved_ms(turns, ours.device, seconds=seconds)
    epoch = times["views"] + times["steps"] + times["evaluation"]
    rows = {
        "views": times["views"],
        f"{len(batches)} steps": times["steps"],
        "loss, a part of the steps": times["steps"] - times["bare"],
        f"evaluation, {len(dataset.splits['test'])} images": times["evaluation"],
        "epoch": epoch,
        "set-up": 1e3 * setup_seconds,
    }
    return [{"part": name, "ms": ms, "share": ms / epoch} for name, ms in rows.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    device = find_device("auto")
    on_cpu = device.type == "cpu"
    parser.add_argument("--batch", type=int, default=32 if on_cpu else 256, help="images of a step")
    parser.add_argument("--images", type=int, default=128 if on_cpu else IMAGES, metavar="N", help="trained on")
    parser.add_argument("--test-images", type=int, default=500 if on_cpu else 10_000, metavar="N", help="evaluated on")
    parser.add_argument("--classes", type=int, default=100, metavar="K")
    parser.add_argument("--backbone", default="resnet32")
    parser.add_argument("--variants", nargs="*", choices=VARIANTS, default=[] if on_cpu else VARIANTS, help="of ours")
    parser.add_argument("--workers", type=int, default=min(16, os.cpu_count() or 1), help="processes of the plain loop")
    parser.add_argument("--plain-steps", type=int, metavar="N", help="of the plain loop's epochs, by default all")
    parser.add_argument(
        "--seconds", type=float, default=10.0 if on_cpu else 20.0, help="about how long to measure the loops"
    )
    add_json_option(parser)
    options = parser.parse_args()
    if on_cpu and options.variants:
        parser.error("variants are those of a GPU, and there is none")

    dataset = generate(long_tail(options.images, options.classes), options.test_images)
    config = recipe(options.backbone, options.batch)
    ours, setup_seconds = set_up(config, dataset)  # before all others: it finds nothing prepared
    plain = PlainLoop(config, dataset, device, workers=options.workers, steps=options.plain_steps)
    variants = variants_of(ours, options.variants, dataset)
    report(speeds(ours, plain, variants, options.seconds), device, options.json)
    path = options.json and options.json.with_stem(options.json.stem + "_parts")
    report(parts(ours, dataset, setup_seconds, options.seconds / 4), device, path)


if __name__ == "__main__":
    main()
