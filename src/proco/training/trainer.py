"""The training loop: stages, epochs, steps; evaluation, records and checkpoints between them."""

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor, nn

from proco.data.dataset import Dataset
from proco.data.decode import Progress, set_decode_threads
from proco.data.prepare import SharedData
from proco.distributed import all_reduce_sum, gather_texts, is_main_process, rank, world_size
from proco.errors import ConfigError
from proco.evaluation.metrics import Metrics
from proco.methods.experts import side_by_side
from proco.methods.method import Stage, Task
from proco.models.batch_norm import synchronise_batch_norm
from proco.models.network import Network
from proco.optim import SGD, goes_uphill, learning_rate
from proco.training.checkpoint import Checkpoint, Course, checkpoint_of, restore
from proco.training.classifier import Classifier
from proco.training.device import determinism, find_device, set_precision
from proco.training.divergence import require_finite, require_finite_weights
from proco.training.ema import MovingAverage
from proco.training.evaluate import features_of
from proco.training.first_run import FirstRun
from proco.training.journal import Journal, Listener, Silent
from proco.training.lanes import lanes_now, wait_for
from proco.training.learner import Learner, Step, require_parts
from proco.training.loader import Batch, EpochLoader, fitting_batch
from proco.training.made_with import made_with
from proco.training.networks import build_network, draw_anew
from proco.training.pixels import image_size, normalisation
from proco.training.records import best_of, means_of, scalars_of
from proco.training.renewal import Renewal
from proco.training.run_folder import RunError, RunFolder
from proco.training.seeds import seed_for
from proco.training.settings import AUTO_RATE_BATCH, TrainConfig
from proco.training.shortage import shortage_explained
from proco.training.teacher import Teacher, is_taught, require_teachable, taught_stages


class Trainer:
    """Data, network and stages of a run, built from its settings.

    dataset: what to train on instead of what the settings say. data: where runs that share their data take it from.
    progress hears of image files as they are checked.

    >>> Trainer(TrainConfig(epochs=1)).fit(RunFolder(path))  # doctest: +SKIP
    """

    def __init__(
        self,
        config: TrainConfig,
        dataset: Dataset | None = None,
        *,
        data: SharedData | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.config = config
        set_decode_threads(config.engine.workers)
        self.device = find_device(config.engine.device)
        # On the device once: there the views are made. Files stay where they are.
        self.dataset = (dataset or (data or SharedData()).prepare(config.data, progress)).to(self.device)
        self.dataset.require_trainable()
        if set(self.dataset.splits) == {"train"}:
            raise ConfigError(
                f"{self.dataset.name} has neither a validation nor a test split, and data.validation is 0: there is "
                "nothing to evaluate on."
            )
        self.class_counts = self.dataset.class_counts
        train = self.dataset.splits["train"]
        self.size = image_size(config.data, train.images)
        with torch.random.fork_rng(devices=[]):  # the caller's random numbers are not used up
            torch.manual_seed(seed_for(config.seed, "weights"))
            normalise = normalisation(config.data, train.images)
            self.network = build_network(config, self.dataset.num_classes, normalise)
            self.network.require_size(self.size)
            self.stages = self._make_stages()
        # Here and not in the stage: what does not fit is said before a folder is begun.
        for stage in self.stages:
            require_parts(self.network, stage)
        self.optims = [replace(config.optim, **stage.optim) for stage in self.stages]
        self.loaders = [self._make_loader(stage) for stage in self.stages]
        self.batch_size = self.loaders[0].batch_size
        self.network.require_batch_size(min(loader.batch_size for loader in self.loaders))
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
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.average = None if config.ema is None else MovingAverage(self.network, config.ema)
        self.first_run = self._find_first_run()
        self.teacher = self._make_teacher()
        self.autocast = set_precision(config.engine, self.device)  # last: what a teacher sets for itself is over
        self.graph = config.engine.graph and self.device.type == "cuda" and world_size() == 1
        self.has_begun = False
        self.renewal = None
        if self.average is not None and config.renew_statistics:
            self.renewal = Renewal(self.average.network, self.autocast, graph=self.graph)

    def _make_teacher(self) -> "Trainer | Teacher | None":
        """Return a trainer for the run that is to teach, or what one has left; what does not fit is said now."""
        config = self.config.teacher
        if config is None:
            return None
        if config.path is not None:
            folder = RunFolder(config.path)
        elif self.first_run is not None:
            folder = self.first_run.folder.teacher  # trained as this run's would be
        else:
            return Trainer(self.config.teaching_run(), self.dataset)
        return Teacher.of(folder, self.dataset, self.size, self.device)

    def _find_first_run(self) -> FirstRun | None:
        """Return the finished run that this one goes on from, where the settings name one."""
        path = self.config.engine.first_run
        return None if path is None else FirstRun.of(RunFolder(path), self.config, self.dataset.hash)

    def _make_stages(self) -> tuple[Stage, ...]:
        """Return the stages of the method for the network, with what a teacher adds."""
        config, backbone = self.config, self.network.backbone
        num_features = backbone.num_features // backbone.num_experts
        task = Task(self.class_counts, num_features, config.network.hidden, config.network.dim)
        if backbone.num_experts == 1:
            stages = config.method.stages(task, config.epochs)
        else:
            stages = side_by_side([config.method.stages(task, config.epochs) for _ in range(backbone.num_experts)])
        if config.teacher is None:
            return stages
        require_teachable(self.network, config.method)
        return taught_stages(stages, config.teacher, config.method, self.class_counts)

    def _make_loader(self, stage: Stage) -> EpochLoader:
        train, wanted = self.dataset.splits["train"], stage.batch_size or self.config.batch_size
        return EpochLoader(
            train,
            stage.views,
            batch_size=fitting_batch(len(train)) if wanted == "auto" else wanted,
            size=self.size,
            seed=self.config.seed,
            device=self.device,
            sampler=stage.sampler,
            blend=stage.blend,
        )

    @property
    def epochs(self) -> int:
        """Epochs of all stages together."""
        return sum(stage.epochs for stage in self.stages)

    def outline(self) -> str:
        """Return what is trained, and for how long, in a sentence."""
        first, *later = self.stages
        taught = ", after its teacher" if isinstance(self.teacher, Trainer) else ""
        then = "".join(f", then {stage.epochs} of {' and '.join(stage.learning)} alone" for stage in later)
        return f"{self.config.method.name}{taught}: {first.epochs} epoch{'' if first.epochs == 1 else 's'}{then}."

    def caution(self) -> str:
        """Return what to know of the method before it is trained so; mostly nothing."""
        return self.config.method.caution(self.dataset.num_classes, is_taught=self.teacher is not None)

    @property
    def evaluated_network(self) -> Network:
        """The network that is evaluated and kept: the average where there is one."""
        if self.average is None:
            return self.network
        assert isinstance(self.average.network, Network)
        return self.average.network

    @property
    def curve_split(self) -> str:
        """The split that is looked at after each epoch: validation, or test where there is no validation."""
        return "val" if "val" in self.dataset.splits else "test"

    def evaluate(self, split: str) -> Metrics:
        """Return the metrics of the network, or of its average, on a split."""
        classifier = Classifier(
            config=self.config,
            network=self.evaluated_network,
            class_names=self.dataset.class_names,
            class_counts=self.class_counts,
            size=self.size,
            device=self.device,
            autocast=self.autocast,
        )
        return classifier.evaluate(self.dataset.splits[split])

    def fit(
        self, folder: RunFolder, listener: Listener | None = None, *, resume: bool = False, name: str = ""
    ) -> dict[str, Any]:
        """Train to the end, leaving everything in the folder; return the summary, on other ranks than the first {}.

        resume: go on from the folder's last checkpoint. On a CPU the weights then end as the same bits as without the
        interruption. name: what the listener hears this run called, where it is part of another.
        """
        remedy = (
            f"Less is needed with a batch_size below {self.batch_size} (optim.lr in proportion) or a data.size below "
        )
        remedy += f"{min(self.size)}, and by fewer --lanes." if lanes_now() > 1 else f"{min(self.size)}."
        with folder.held() if is_main_process() else nullcontext(), shortage_explained(self.device, remedy):
            return self._fit(folder, listener or Silent(), resume, name)

    def _fit(self, folder: RunFolder, listener: Listener, resume: bool, name: str) -> dict[str, Any]:
        checkpoint = folder.load_checkpoint() if resume else None
        if resume and checkpoint is None:
            folder.require_no_weights()
        if self.has_begun and checkpoint is None:
            raise RunError("this trainer has trained already: its weights are not those of its seed. Make another one.")
        is_begun = resume and folder.is_begun
        if is_begun:
            folder.require_settings(self.config)
            folder.require_data(self.dataset.hash)
        if checkpoint is None and is_main_process():
            facts = {"lanes": str(lanes_now()), "data": self.dataset.hash}
            folder.begin(replace(self.config, made_with=made_with(self.device) | facts), again=is_begun)
        course = restore(checkpoint, self._learnt()) if checkpoint else self._begin(folder)
        self.first_run = None  # what it has handed over is as large as all that this run keeps
        self.has_begun = True
        teacher = None if self.teacher is None else self._taught_by(self.teacher, folder.teacher, listener)
        if isinstance(self.teacher, Trainer) and checkpoint is None and is_main_process():
            course.seconds = folder.teacher.summary()["seconds"]
        listener.on_start(course.epoch, self.epochs, name)
        own_random_numbers = torch.random.fork_rng([self.device] if self.device.type == "cuda" else [])
        with own_random_numbers, determinism(self.config.engine), Journal(folder, listener, course.epoch) as journal:
            first_epoch = 0  # of the stage
            for number, stage in enumerate(self.stages):
                if course.epoch < first_epoch + stage.epochs:
                    interrupted = checkpoint if course.stage == number else None
                    self._train_stage(number, first_epoch, course, journal, teacher, interrupted)
                    checkpoint = None
                first_epoch += stage.epochs
        return self._finish(folder, course, teacher)

    def _begin(self, folder: RunFolder) -> Course:
        """Return how far the run has come as it begins: where a first run was taken over, to that one's end."""
        if self.first_run is None:
            return Course()
        course, records = self.first_run.hand_over(self.network, self.average), self.first_run.records()
        if course.epoch == self.epochs:  # nothing is left to train
            records[-1] |= self._evaluations(course.epoch - 1)
        if is_main_process():
            folder.replace_records(records)
        return course

    def _taught_by(self, teacher: "Trainer | Teacher", folder: RunFolder, listener: Listener) -> Teacher:
        """Return the teacher; one that is not finished is trained in the folder, or goes on there."""
        if isinstance(teacher, Teacher):
            return teacher
        if not folder.is_finished:
            top1 = teacher.fit(folder, listener, resume=folder.is_begun, name="teacher").get("top1")
            # Not what it has left in the folder, which ranks of other machines need not see.
            counts = self.class_counts.to(self.device)
            return Teacher(teacher.evaluated_network, teacher.config.method, counts, top1)
        return Teacher.of(folder, self.dataset, self.size, self.device)

    def _train_stage(
        self,
        number: int,
        first_epoch: int,
        course: Course,
        journal: Journal,
        teacher: Teacher | None,
        interrupted: Checkpoint | None,
    ) -> None:
        """Train a stage, or the rest of it; interrupted: the checkpoint that has the state of its optimiser."""
        config, stage, engine = self.config, self.stages[number], self.config.engine
        started = saved = time.perf_counter()
        self.network.requires_grad_(True)
        learner = Learner(self.network, stage, self.autocast).to(self.device)
        optim = self.optims[number]
        optimizer = SGD(learner.parameters(), optim, learner.without_decay())
        if interrupted is not None:
            restore(interrupted, {"optimizer": optimizer})
        else:
            for part in stage.renewed:
                draw_anew(self.network.get_submodule(part), seed_for(config.seed, "weights", number, part))
            if self.average is not None and number and stage.learning != self.stages[number - 1].learning:
                self.average.restart()  # a classifier that begins to learn is still as it was drawn
        heard = teacher if is_taught(stage) else None
        step = Step(learner, optimizer, self.average, heard, compile=engine.compile, graph=self.graph)
        loader = self.loaders[number]
        is_own_batch = config.batch_size == "auto" and stage.batch_size is None
        scale = loader.batch_size / AUTO_RATE_BATCH if is_own_batch else 1.0
        end = first_epoch + stage.epochs
        batches = loader.begin(course.epoch)
        for epoch in range(course.epoch, end):
            step.go_uphill(goes_uphill(optim, epoch - first_epoch, stage.epochs))
            rates = [
                scale * learning_rate(optim, epoch - first_epoch, stage.epochs, done / len(loader))
                for done in range(1, len(loader) + 1)
            ]
            epoch_started = time.perf_counter()
            learner.start_epoch((epoch - first_epoch) / stage.epochs)
            means = self._train_epoch(step, batches, epoch, rates, journal)
            if epoch + 1 < end:
                batches = loader.begin(epoch + 1)  # while a GPU is still at work on this one
            wait_for(self.device)
            values = means.cpu()
            require_finite(values, learner.names, epoch, journal.folder)
            course.train_seconds += time.perf_counter() - epoch_started
            course.images += len(values) * loader.batch_size
            record = {
                "epoch": epoch,
                "stage": number,
                "lr": rates[-1],
                **means_of(values, learner.names, learner.weights),
            }
            is_milestone = epoch + 1 in (1, end)  # the first, so that there is something to go on from, and of a stage
            if epoch + engine.evaluate_last >= self.epochs or (epoch + 1) % engine.evaluate_every == 0:
                self._renew_statistics(number, epoch)
                record |= self._evaluations(epoch)
            now = time.perf_counter()
            course.epoch, course.stage, course.seconds = epoch + 1, number, course.seconds + now - started
            started = now
            record["seconds"] = course.seconds
            # The record first: one without a checkpoint is made again, a checkpoint without its record would lack it.
            journal.record(record)
            if is_main_process() and (is_milestone or now - saved >= engine.checkpoint_seconds):
                require_finite_weights(self.network, epoch)
                journal.folder.save_checkpoint(checkpoint_of(course, self._learnt() | {"optimizer": optimizer}))
                saved = now
            journal.listener.on_epoch(record)

    def _train_epoch(
        self,
        step: Step,
        batches: Iterator[Batch],
        epoch: int,
        rates: Sequence[float],
        journal: Journal,
    ) -> Tensor:
        """Return the values of the terms and the accuracy of every step, (steps, T + 1); a GPU is not waited for.

        rates: the learning rate of each step.
        """
        torch.manual_seed(seed_for(self.config.seed, epoch, "network", rank()))  # dropout, of each rank its own
        history = []
        for number, (batch, rate) in enumerate(zip(batches, rates, strict=True)):
            if number == 0 or rate != rates[number - 1]:
                step.optimizer.rate.fill_(rate)
            history.append(step(batch).clone())  # the recorded step writes its values to one place
            journal.listener.on_step(epoch, number + 1, len(rates))
        return all_reduce_sum(torch.stack(history)) / world_size()

    def _evaluations(self, epoch: int) -> dict[str, dict[str, float | None]]:
        """Return the metrics after an epoch, on the split of the curve and, of the last, on the test split."""
        self._fit_classifier()
        names = {self.curve_split} | ({self.dataset.test_split} if epoch + 1 == self.epochs else set())
        return {name: scalars_of(self.evaluate(name)) for name in sorted(names)}

    def _renew_statistics(self, number: int, epoch: int) -> None:
        """Let the average of the weights see the views of the epoch, as they passed the batch norms in training.

        number: of the stage. Where the backbone does not learn, it is its own average, and its statistics are right.
        """
        if self.renewal is not None and self.stages[number].trains("backbone"):
            self.renewal(batch.views.flatten(0, 1) for batch in self.loaders[number].batches(epoch))

    def _fit_classifier(self) -> None:
        """Show the features of the training images to a classifier that is fitted to them."""
        network = self.evaluated_network
        if network.is_fitted:
            train, device = self.dataset.splits["train"], self.device
            centre, autocast = self.config.data.centre, self.autocast
            seen = features_of(network, train, size=self.size, centre=centre, device=device, autocast=autocast)
            network.fit_classifier(*seen)

    def _learnt(self) -> dict[str, nn.Module]:
        """Return what has a state beyond a stage, by the names that checkpoints have for it."""
        parts: dict[str, nn.Module] = {"network": self.network, "terms": self.terms}
        return parts if self.average is None else {**parts, "average": self.average}

    def _warnings(self) -> list[str]:
        """Return what went wrong with images meanwhile, on all ranks."""
        return gather_texts([warning for split in self.dataset.splits.values() for warning in split.images.warnings])

    def _finish(self, folder: RunFolder, course: Course, teacher: Teacher | None) -> dict[str, Any]:
        """Write weights and summary."""
        metrics = self.evaluate(self.dataset.test_split)
        warnings = self._warnings()
        if not is_main_process():
            return {}
        summary = asdict(metrics) | {
            "split": self.dataset.test_split,
            "seconds": course.seconds,
            "images_per_second": course.images / max(course.train_seconds, 1e-9),
            "last_epoch": self.epochs - 1,
            **best_of(folder.records(), self.curve_split),
            "image_size": self.size,
            "data_hash": self.dataset.hash,
            "class_names": self.dataset.class_names,
            "class_counts": self.class_counts.tolist(),
            "notes": [*self.dataset.notes, *warnings],
        }
        if teacher is not None:
            summary["teacher_top1"] = teacher.top1
        folder.save_weights(self.evaluated_network.state_dict())
        folder.save_summary(summary)
        return summary
