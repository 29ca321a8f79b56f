"""The course of a run: its teacher, its stages, evaluations, records and checkpoints between epochs, its summary."""

import time
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any

import torch

from proco.data.dataset import Dataset
from proco.data.decode import Progress
from proco.data.prepare import SharedData
from proco.distributed import gather_texts, is_main_process
from proco.training.checkpoint import Checkpoint, Course, checkpoint_of, restore
from proco.training.device import determinism, set_precision
from proco.training.divergence import require_finite_weights
from proco.training.first_run import FirstRun
from proco.training.journal import Journal, Listener, Silent
from proco.training.lanes import lanes_now
from proco.training.looks import Looks
from proco.training.made_with import made_with
from proco.training.records import best_of
from proco.training.run_folder import RunError, RunFolder
from proco.training.settings import TrainConfig
from proco.training.setup import Setup
from proco.training.shortage import shortage_explained
from proco.training.stage_training import StageTraining
from proco.training.teacher import Teacher


class Trainer:
    """Trains what the settings say, into a folder; what it consists of is its `setup`.

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
        self.setup = setup = Setup(config, dataset, data=data, progress=progress)
        path = config.engine.first_run
        self.first_run = None if path is None else FirstRun.of(RunFolder(path), config, setup.dataset.hash)
        self.teacher = self._make_teacher()
        self.looks = Looks(setup)
        self.has_begun = False
        set_precision(config.engine, setup.device)  # again: a teacher that was read has set its own

    def _make_teacher(self) -> "Trainer | Teacher | None":
        """Return a trainer for the run that is to teach, or what one has left; what does not fit is said now."""
        setup = self.setup
        config = setup.config.teacher
        if config is None:
            return None
        if config.path is not None:
            folder = RunFolder(config.path)
        elif self.first_run is not None:
            folder = self.first_run.folder.teacher  # trained as this run's would be
        else:
            return Trainer(setup.config.teaching_run(), setup.dataset)
        return Teacher.of(folder, setup.dataset, setup.size, setup.device)

    def outline(self) -> str:
        """Return what is trained, and for how long, in a sentence."""
        first, *later = self.setup.stages
        taught = ", after its teacher" if isinstance(self.teacher, Trainer) else ""
        whole = f"{first.epochs} epoch{'' if first.epochs == 1 else 's'}"
        if self.first_run is not None:
            whole += f" taken over from {self.first_run.folder.path}"
        then = "".join(f", then {stage.epochs} of {' and '.join(stage.learning)} alone" for stage in later)
        return f"{self.setup.config.method.name}{taught}: {whole}{then}."

    def fit(
        self, folder: RunFolder, listener: Listener | None = None, *, resume: bool = False, name: str = ""
    ) -> dict[str, Any]:
        """Train to the end, leaving everything in the folder; return the summary, on other ranks than the first {}.

        resume: go on from the folder's last checkpoint. On a CPU the weights then end as the same bits as without the
        interruption. name: what the listener hears this run called, where it is part of another.
        """
        setup = self.setup
        smaller = f"Less is needed with a batch_size below {setup.batch_size} (optim.lr in proportion) or a data.size"
        remedy = f"{smaller} below {min(setup.size)}{', and by fewer --lanes' if lanes_now() > 1 else ''}."
        own_random_numbers = torch.random.fork_rng([setup.device] if setup.device.type == "cuda" else [])
        as_asked_for = determinism(setup.config.engine)
        held = folder.held() if is_main_process() else nullcontext()
        with held, shortage_explained(setup.device, remedy), own_random_numbers, as_asked_for:
            return self._fit(folder, listener or Silent(), resume, name)

    def _fit(self, folder: RunFolder, listener: Listener, resume: bool, name: str) -> dict[str, Any]:
        setup = self.setup
        checkpoint = folder.load_checkpoint() if resume else None
        if resume and checkpoint is None:
            folder.require_no_weights()
        if self.has_begun and checkpoint is None:
            raise RunError("this trainer has trained already: its weights are not those of its seed. Make another one.")
        is_begun = resume and folder.is_begun
        if is_begun:
            folder.require_settings(setup.config)
            folder.require_data(setup.dataset.hash)
        if checkpoint is None and is_main_process():
            facts = {"lanes": str(lanes_now()), "data": setup.dataset.hash}
            folder.begin(replace(setup.config, made_with=made_with(setup.device) | facts), again=is_begun)
        course = restore(checkpoint, setup.learnt) if checkpoint else self._begin(folder)
        if checkpoint is not None:  # what was restored is there a second time
            checkpoint = {name: state for name, state in checkpoint.items() if name not in setup.learnt}
        self.first_run = None  # what it has handed over is as large as all that this run keeps
        self.has_begun = True
        teacher = None if self.teacher is None else self._taught_by(self.teacher, folder.teacher, listener)
        if isinstance(self.teacher, Trainer) and checkpoint is None and is_main_process():
            course.seconds = folder.teacher.summary()["seconds"]
        self.teacher = teacher  # of a trainer, its network alone is kept
        listener.on_start(course.epoch, setup.epochs, name)
        with Journal(folder, listener, course.epoch) as journal:
            for number in range(len(setup.stages)):
                if course.epoch < setup.first_epoch(number + 1):
                    interrupted = checkpoint if course.stage == number else None
                    self._train_stage(number, course, journal, teacher, interrupted)
                    checkpoint = None
        return self._finish(folder, course, teacher)

    def _begin(self, folder: RunFolder) -> Course:
        """Return how far the run has come as it begins: where a first run was taken over, to that one's end."""
        if self.first_run is None:
            return Course()
        course = self.first_run.hand_over(self.setup.network, self.setup.average)
        records = self.first_run.records()
        if course.epoch == self.setup.epochs:  # nothing is left to train
            records[-1] |= self.looks.measure(course.epoch - 1)
        if is_main_process():
            folder.replace_records(records)
        return course

    def _taught_by(self, teacher: "Trainer | Teacher", folder: RunFolder, listener: Listener) -> Teacher:
        """Return the teacher; one that is not finished is trained in the folder, or goes on there."""
        if isinstance(teacher, Teacher):
            return teacher
        setup = self.setup
        if not folder.is_finished:
            top1 = teacher.fit(folder, listener, resume=folder.is_begun, name="teacher").get("top1")
            # Not what it has left in the folder, which ranks of other machines need not see.
            network, method = teacher.setup.evaluated_network, teacher.setup.config.method
            return Teacher(network, method, setup.class_counts.to(setup.device), top1)
        return Teacher.of(folder, setup.dataset, setup.size, setup.device)

    def _train_stage(
        self, number: int, course: Course, journal: Journal, teacher: Teacher | None, interrupted: Checkpoint | None
    ) -> None:
        """Train a stage, or the rest of it; interrupted: the checkpoint that has the state of its optimiser."""
        setup, engine = self.setup, self.setup.config.engine
        started = saved = time.perf_counter()
        training = StageTraining(setup, number, teacher)
        if interrupted is None:
            training.renew()
        else:
            restore(interrupted, {"optimizer": training.optimizer})
        for epoch in range(course.epoch, training.end):
            epoch_started = time.perf_counter()
            record = training.train(epoch, journal)
            course.train_seconds += time.perf_counter() - epoch_started
            course.images += training.images_per_epoch
            if self.looks.are_due(epoch):
                record |= self.looks.after(epoch, number)
            now = time.perf_counter()
            course.epoch, course.stage, course.seconds = epoch + 1, number, course.seconds + now - started
            started = now
            record["seconds"] = course.seconds
            # The record first: one without a checkpoint is made again, a checkpoint without its record would lack it.
            journal.record(record)
            is_milestone = epoch + 1 in (1, training.end)  # the first, so that there is something to go on from
            if is_main_process() and (is_milestone or now - saved >= engine.checkpoint_seconds):
                require_finite_weights(setup.network, epoch)
                journal.folder.save_checkpoint(checkpoint_of(course, setup.learnt | {"optimizer": training.optimizer}))
                saved = now
            journal.listener.on_epoch(record)

    def _warnings(self) -> list[str]:
        """Return what went wrong with images meanwhile, on all ranks."""
        splits = self.setup.dataset.splits.values()
        return gather_texts([warning for split in splits for warning in split.images.warnings])

    def _finish(self, folder: RunFolder, course: Course, teacher: Teacher | None) -> dict[str, Any]:
        """Write weights and summary."""
        setup, dataset = self.setup, self.setup.dataset
        metrics = self.looks.at_the_end()
        warnings = self._warnings()
        if not is_main_process():
            return {}
        summary = asdict(metrics) | {
            "split": dataset.test_split,
            "seconds": course.seconds,
            "images_per_second": course.images / max(course.train_seconds, 1e-9),
            "last_epoch": setup.epochs - 1,
            **best_of(folder.records(), self.looks.curve_split),
            "image_size": setup.size,
            "data_hash": dataset.hash,
            "class_names": dataset.class_names,
            "class_counts": setup.class_counts.tolist(),
            "notes": [*dataset.notes, *warnings],
        }
        if teacher is not None:
            summary["teacher_top1"] = teacher.top1
        folder.save_training_images(dataset.splits["train"].images.identities)
        folder.save_weights(setup.evaluated_network.state_dict())
        folder.save_summary(summary)
        return summary
