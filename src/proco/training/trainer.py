"""The training loop: stages, epochs, steps; evaluation, records and checkpoints between them."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from proco.data.dataset import Dataset, name_some
from proco.data.decode import Progress, set_decode_threads
from proco.data.prepare import prepare
from proco.data.source import Source
from proco.distributed import all_reduce_sum, is_main_process, world_size
from proco.errors import ConfigError
from proco.evaluation.metrics import Metrics
from proco.methods.method import Stage, Task
from proco.models.batch_norm import synchronise_batch_norm
from proco.models.network import Network
from proco.optim import build_optimizer, learning_rate, set_learning_rate
from proco.training.ema import MovingAverage
from proco.training.evaluate import evaluate
from proco.training.learner import Learner, Step
from proco.training.loader import EpochLoader
from proco.training.made_with import made_with
from proco.training.pixels import image_size, normalisation
from proco.training.run_folder import RunError, RunFolder
from proco.training.seeds import seed_for
from proco.training.settings import EngineConfig, TrainConfig


class Listener(Protocol):
    """Who is told how a run goes; the command line draws a progress bar from it."""

    def on_start(self, trainer: "Trainer", first_epoch: int) -> None:
        """Hear that training begins, or goes on, at this epoch of trainer.epochs."""

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        """Hear that a step of an epoch was started."""

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Hear that an epoch ended, with this line for metrics.jsonl."""


class Silent:
    """A listener that says nothing."""

    def on_start(self, trainer: "Trainer", first_epoch: int) -> None:
        """Say nothing."""

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        """Say nothing."""

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Say nothing."""


class Trainer:
    """Data, network and stages of a run, built from its settings.

    dataset: what to train on instead of what the settings say. progress hears of image files as they are checked.

    >>> Trainer(TrainConfig(epochs=1)).fit(RunFolder(path))  # doctest: +SKIP
    """

    def __init__(
        self, config: TrainConfig, dataset: Dataset | None = None, *, progress: Progress | None = None
    ) -> None:
        self.config = config
        if config.engine.workers:
            set_decode_threads(config.engine.workers)
        self.device = find_device(config.engine.device)
        self.autocast = _autocast(config.engine, self.device)
        self.dataset = _on_device(dataset or prepare(config.data, progress), self.device)
        self.class_counts = self.dataset.class_counts
        train = self.dataset.splits["train"]
        self.batch_size = _fitting_batch(len(train)) if config.batch_size == "auto" else config.batch_size
        self.lr_scale = self.batch_size / 256 if config.batch_size == "auto" else 1.0
        self.size = image_size(config.data, train.images)
        with torch.random.fork_rng(devices=[]):  # the caller's random numbers are not used up
            torch.manual_seed(seed_for(config.seed, "weights"))
            self.network = Network(
                config.network,
                self.dataset.num_classes,
                normalisation(config.data, train.images),
                with_projector=config.method.needs_projector,
            )
            task = Task(
                self.class_counts, self.network.backbone.num_features, config.network.hidden, config.network.dim
            )
            self.stages = config.method.stages(task, config.epochs)
        self.terms = nn.ModuleList(
            nn.ModuleDict({name: weighted.term for name, weighted in stage.terms.items()}) for stage in self.stages
        )
        self.network.to(self.device)
        self.terms.to(self.device)
        if world_size() > 1:
            synchronise_batch_norm(self.network)
        if config.engine.precision == "float64":
            self.network.double()
            self.terms.double()
        if config.engine.channels_last and self.device.type == "cuda":
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.average = None if config.ema is None else MovingAverage(self.network, config.ema)

    @property
    def epochs(self) -> int:
        """Epochs of all stages together."""
        return sum(stage.epochs for stage in self.stages)

    @property
    def evaluated_network(self) -> nn.Module:
        """The network that is evaluated and kept: the average where there is one."""
        return self.network if self.average is None else self.average.network

    @property
    def test_split(self) -> str:
        """The split the summary is about: test, or validation where there is no test."""
        return "test" if "test" in self.dataset.splits else "val"

    def evaluate(self, split: str) -> Metrics:
        """Return the metrics of the network, or of its average, on a split."""
        return evaluate(
            self.evaluated_network,
            self.config.method.predict,
            self.dataset.splits[split],
            self.class_counts,
            size=self.size,
            centre=self.config.data.centre,
            device=self.device,
            autocast=self.autocast,
        )

    def fit(self, folder: RunFolder, listener: Listener | None = None, *, resume: bool = False) -> dict[str, Any]:
        """Train to the end, leaving everything in the folder; return the summary.

        resume: go on from the folder's last checkpoint. On a CPU the weights then end as the same bits as without the
        interruption.
        """
        listener = listener or Silent()
        checkpoint = folder.load_checkpoint(self.device) if resume else None
        if is_main_process() and not (resume and folder.is_begun):
            folder.begin(replace(self.config, made_with=made_with(self.device)))
        state = checkpoint or {"epoch": 0, "seconds": 0.0, "train_seconds": 0.0, "images": 0}
        if is_main_process():
            folder.forget_records_from(state["epoch"])
        listener.on_start(self, state["epoch"])
        with _determinism(self.config.engine), _events(folder, state["epoch"]) as events:
            first_epoch = 0  # of the stage
            for number, stage in enumerate(self.stages):
                if state["epoch"] < first_epoch + stage.epochs:
                    self._train_stage(number, stage, first_epoch, state, folder, events, listener)
                first_epoch += stage.epochs
        return self._finish(folder, state)

    def _train_stage(
        self,
        number: int,
        stage: Stage,
        first_epoch: int,
        state: dict[str, Any],
        folder: RunFolder,
        events: Any,
        listener: Listener,
    ) -> None:
        config, engine, started = self.config, self.config.engine, time.perf_counter()
        self.network.requires_grad_(True)
        learner = Learner(self.network, stage, self.autocast).to(self.device)
        optim = stage.optim or config.optim
        optimizer = build_optimizer(learner.parameters(), optim)
        if "optimizer" in state and state["stage"] == number:
            self._restore(state, optimizer)
        on_one_gpu = self.device.type == "cuda" and world_size() == 1
        step = Step(learner, optimizer, self.average, compile=engine.compile, graph=engine.graph and on_one_gpu)
        loader = EpochLoader(
            self.dataset.splits["train"],
            stage.views,
            batch_size=self.batch_size,
            size=self.size,
            seed=config.seed,
            device=self.device,
            sampler=stage.sampler,
        )
        saved = started
        for epoch in range(state["epoch"], first_epoch + stage.epochs):
            rate = self.lr_scale * learning_rate(optim, epoch - first_epoch, stage.epochs)
            set_learning_rate(optimizer, rate)
            epoch_started = time.perf_counter()
            values = self._train_epoch(learner, step, loader, epoch, folder, listener)
            state["train_seconds"] += time.perf_counter() - epoch_started
            state["images"] += len(values) * loader.batch_size
            record = {"epoch": epoch, "stage": number, "lr": rate, **_means(learner, values)}
            is_last = epoch + 1 == self.epochs
            if is_last or (epoch + 1) % engine.evaluate_every == 0:
                for name in self.dataset.splits:
                    if name != "train":
                        record[name] = _scalars(self.evaluate(name))
            now = time.perf_counter()
            state.update(epoch=epoch + 1, stage=number, seconds=state["seconds"] + now - started)
            started = now
            record["seconds"] = state["seconds"]
            if is_main_process():
                folder.record(record)
                _log(events, record)
                if is_last or now - saved >= engine.checkpoint_seconds:
                    folder.save_checkpoint(state | self._state(optimizer))
                    saved = now
            listener.on_epoch(record)

    def _train_epoch(
        self, learner: Learner, step: Step, loader: EpochLoader, epoch: int, folder: RunFolder, listener: Listener
    ) -> Tensor:
        """Return the values of the terms and the accuracy of every step, (steps, T + 1), on the CPU."""
        torch.manual_seed(seed_for(self.config.seed, epoch, "network"))  # dropout and its like
        learner.start_epoch()
        history = []
        for number, batch in enumerate(loader.batches(epoch)):
            history.append(step(batch).clone())  # the recorded step writes its values to one place
            listener.on_step(epoch, number + 1, len(loader))
        values = (all_reduce_sum(torch.stack(history)) / world_size()).cpu()
        _require_finite(values, learner.names, epoch, folder)
        return values

    def _state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        return {
            "network": self.network.state_dict(),
            "terms": self.terms.state_dict(),
            "optimizer": optimizer.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
        }

    def _restore(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        try:
            self.network.load_state_dict(state["network"])
            self.terms.load_state_dict(state["terms"])
            optimizer.load_state_dict(state["optimizer"])
            if self.average is not None:
                self.average.load_state_dict(state["average"])
        except (RuntimeError, ValueError, KeyError) as error:
            raise RunError(f"the checkpoint does not fit the settings of the run: {error}") from error

    def _warnings(self) -> list[str]:
        """Return what went wrong with images meanwhile."""
        return [warning for split in self.dataset.splits.values() for warning in split.images.warnings]

    def _finish(self, folder: RunFolder, state: dict[str, Any]) -> dict[str, Any]:
        """Write weights and summary."""
        metrics = self.evaluate(self.test_split)
        selection = "val" if "val" in self.dataset.splits else self.test_split
        if not is_main_process():
            return {}
        curve = [(record[selection]["top1"], record["epoch"]) for record in folder.records() if selection in record]
        best_top1, best_epoch = max(curve, key=lambda point: (point[0], -point[1]))
        summary = asdict(metrics) | {
            "split": self.test_split,
            "seconds": state["seconds"],
            "images_per_second": state["images"] / state["train_seconds"],
            "last_epoch": self.epochs - 1,
            "best_epoch": best_epoch,
            "best_top1": best_top1,
            "best_split": selection,
            "image_size": self.size,
            "class_names": self.dataset.class_names,
            "class_counts": self.class_counts.tolist(),
            "notes": [*self.dataset.notes, *self._warnings()],
        }
        folder.save_weights(self.evaluated_network.state_dict())
        folder.save_summary(summary)
        return summary


def _fitting_batch(num_images: int) -> int:
    """Return a power of two near a sixteenth of the images, from 16 to 256."""
    return int(2 ** min(max(round(math.log2(max(num_images, 1) / 16)), 4), 8))


def find_device(name: str) -> torch.device:
    """Return the device of that name; "auto" is the GPU of this rank, or the CPU."""
    if name == "auto":
        return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"engine.device: {name!r} is not usable here ({str(error).splitlines()[0]}).") from error
    return device


def _autocast(engine: EngineConfig, device: torch.device) -> torch.dtype | None:
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.set_float32_matmul_precision("highest" if engine.precision == "float32" else "high")
        torch.backends.cudnn.allow_tf32 = engine.precision != "float32"
        torch.backends.cudnn.benchmark = not engine.deterministic
    wants_half = engine.precision == "bfloat16" or (engine.precision == "auto" and on_gpu)
    return torch.bfloat16 if wants_half else None


def _on_device(dataset: Dataset, device: torch.device) -> Dataset:
    """Move arrays to the device once: there the views are made. Files stay where they are."""
    splits = {name: replace(split, images=split.images.to(device)) for name, split in dataset.splits.items()}
    return replace(dataset, splits=splits)


@contextmanager
def _determinism(engine: EngineConfig) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(engine.deterministic or before)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@contextmanager
def _events(folder: RunFolder, epoch: int) -> Iterator[Any]:
    """Open TensorBoard's event file, forgetting what an interrupted run wrote of this epoch and later ones."""
    if not is_main_process():
        yield None
        return
    from torch.utils.tensorboard.writer import SummaryWriter

    with SummaryWriter(str(folder.path), purge_step=epoch) as writer:
        yield writer


def _log(events: Any, record: dict[str, Any]) -> None:
    for name, value in record.items():
        values = {f"{name}/{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
        for tag, item in values.items():
            if tag != "epoch" and item is not None:
                events.add_scalar(tag, item, record["epoch"])


def _means(learner: Learner, values: Tensor) -> dict[str, Any]:
    means = values.double().mean(dim=0)
    total = float(means[:-1] @ learner.weights.double().cpu())
    return {
        "loss": total,
        "losses": dict(zip(learner.names, means[:-1].tolist(), strict=True)),
        "accuracy": 100 * float(means[-1]),
    }


def _scalars(metrics: Metrics) -> dict[str, float | None]:
    return {name: value for name, value in asdict(metrics).items() if name != "per_class_accuracy"}


def _require_finite(values: Tensor, names: tuple[str, ...], epoch: int, folder: RunFolder) -> None:
    wrong = (~values.isfinite()).nonzero()
    if len(wrong):
        step, column = wrong[0].tolist()
        saved = folder.checkpoint_file
        kept = f"the last good state is {saved}" if saved.exists() else "none was saved"
        raise RunError(
            f"the loss {names[column]} became {values[step, column].item()} at epoch {epoch}, step {step}; {kept}. A "
            "smaller optim.lr or a longer optim.warmup usually helps."
        )


def load_run(folder: RunFolder, *, data: Source | None = None) -> Trainer:
    """Return the trainer of a finished run with its weights, for evaluation; data: other data with the same classes."""
    config = replace(folder.config(), ema=None)  # the weights kept are the average's
    weights = folder.load_weights()
    trained_on = folder.summary()
    if data is not None:
        config = replace(config, data=replace(config.data, source=data, profile=None))
    trainer = Trainer(config)
    if list(trainer.dataset.class_names) != trained_on["class_names"]:
        known, found = name_some(trained_on["class_names"]), name_some(trainer.dataset.class_names)
        raise RunError(f"the run knows the classes {known}; the data has {found}.")
    trainer.class_counts = torch.tensor(trained_on["class_counts"])
    trainer.size = tuple(trained_on["image_size"])
    trainer.network.load_state_dict(weights)
    return trainer


def fit_or_reuse(config: TrainConfig, folder: RunFolder, listener: Listener) -> dict[str, Any]:
    """Train into the folder, going on with what is there; return the summary at once where the run is finished."""
    if folder.is_begun:
        before = replace(folder.config(), made_with={})
        if before != config:
            raise RunError(f"{folder.path} holds a run with other settings; choose another folder with --out.")
        if folder.is_finished:
            return folder.summary()
    return Trainer(config).fit(folder, listener, resume=folder.is_begun)
