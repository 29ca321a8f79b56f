"""What a run consists of, built from its settings: data, network, stages with their terms and views, average."""

from dataclasses import replace

import torch
from torch import nn

from proco.data.dataset import Dataset
from proco.data.decode import Progress, set_decode_threads
from proco.data.prepare import SharedData
from proco.distributed import world_size
from proco.errors import ConfigError
from proco.methods.experts import side_by_side
from proco.methods.method import Stage, Task
from proco.models.batch_norm import synchronise_batch_norm
from proco.models.network import Network
from proco.training.device import find_device, set_precision
from proco.training.ema import MovingAverage
from proco.training.learner import require_parts
from proco.training.loader import EpochLoader, fitting_batch
from proco.training.networks import build_network
from proco.training.pixels import image_size, normalisation
from proco.training.seeds import seed_for
from proco.training.settings import TrainConfig
from proco.training.teacher import require_teachable, taught_stages


class Setup:
    """Data, network and stages, on the device of the run; what does not fit is said here, before a folder is begun.

    dataset: what to train on instead of what the settings say. data: where runs that share their data take it from.
    progress hears of image files as they are checked.
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
        for stage in self.stages:
            require_parts(self.network, stage)
        self.optims = [replace(config.optim, **stage.optim) for stage in self.stages]
        self.loaders = [self._make_loader(stage) for stage in self.stages]
        self.batch_size = self.loaders[0].batch_size
        self.network.require_batch_size(min(loader.batch_size for loader in self.loaders))
        self.terms = nn.ModuleList(
            nn.ModuleDict({name: weighted.term for name, weighted in stage.terms.items()}) for stage in self.stages
        )
        self._settle()
        self.average = None if config.ema is None else MovingAverage(self.network, config.ema)
        self.autocast = set_precision(config.engine, self.device)

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

    def _settle(self) -> None:
        """Bring network and terms to where, and into what numbers, they compute in."""
        self.network.to(self.device)
        self.terms.to(self.device)
        if world_size() > 1:
            synchronise_batch_norm(self.network)
        if self.config.engine.precision == "float64":
            self.network.double()
            self.terms.double()
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @property
    def epochs(self) -> int:
        """Epochs of all stages together."""
        return self.first_epoch(len(self.stages))

    def first_epoch(self, number: int) -> int:
        """Return the first epoch of a stage, counted over all stages."""
        return sum(stage.epochs for stage in self.stages[:number])

    @property
    def records_steps(self) -> bool:
        """Whether steps are recorded as CUDA graphs."""
        return self.config.engine.graph and self.device.type == "cuda" and world_size() == 1

    @property
    def learnt(self) -> dict[str, nn.Module]:
        """What has a state beyond a stage, by the names that checkpoints have for it."""
        parts: dict[str, nn.Module] = {"network": self.network, "terms": self.terms}
        return parts if self.average is None else {**parts, "average": self.average}

    @property
    def evaluated_network(self) -> Network:
        """The network that is evaluated and kept: the average where there is one."""
        if self.average is None:
            return self.network
        assert isinstance(self.average.network, Network)
        return self.average.network

    def caution(self) -> str:
        """Return what to know of the method before it is trained so; mostly nothing."""
        return self.config.method.caution(self.dataset.num_classes, is_taught=self.config.teacher is not None)
