"""All settings of a run in one tree of dataclasses; a recipe is a YAML file of some of them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from proco.config import as_settings, merge
from proco.data.prepare import DataConfig
from proco.errors import ConfigError
from proco.methods import Method
from proco.methods.proco import ProCo
from proco.models.network import NetworkConfig
from proco.optim import OptimConfig
from proco.ranges import require_not_negative, require_positive

AUTO_RATE_BATCH = 256  # that learning rates count for where the run looks for its own batch size


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """How the work is done; none of it changes what is learnt but for rounding."""

    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`; `auto` takes a GPU where there is one."""
    precision: Literal["auto", "bfloat16", "tf32", "float32", "float64"] = "auto"
    """Of the network's products; `auto` is bfloat16 on a GPU that has it (compute capability 8 or more) and float32
    elsewhere. CPUs that have it (AVX512_BF16, AMX) train most networks faster with it too, but not those of depthwise
    convolutions. Losses are float32 at least.
    float64 is for comparing machines or numbers of ranks: rounding errors then do not grow into differences."""
    compile: bool = False
    """Compile the step with torch.compile: half a minute once, a quarter off each step on a GPU. Not for the small
    networks of CIFAR, which have kernels of their own that are faster and that it does without."""
    graph: bool = True
    """Record the step once and replay it (CUDA graph), on one GPU."""
    deterministic: bool = False
    """Take only algorithms that give the same bits each time; slower on a GPU. A CPU run is so anyway."""
    first_run: Path | None = None
    """The folder of a finished run whose training is the first stage of this one, or all of it, such as one of
    cross_entropy for crt or tau_norm: it is taken over and not trained again. What learning depends on, data and seed
    too, must be the same in both."""
    workers: int = 0
    """Threads that decode image files; 0 takes one per core."""
    evaluate_every: int = 1
    """Epochs between evaluations."""
    evaluate_last: int = 1
    """Epochs at the end that are all evaluated, whatever `evaluate_every`; 1 at least."""
    checkpoint_seconds: float = 30.0
    """Least time between checkpoints; 0 writes one after every epoch."""

    automatic: ClassVar[tuple[str, ...]] = ("bfloat16", "float32")
    """The precisions of which `auto` takes one, by the machine."""
    rounding: ClassVar[tuple[str, ...]] = ("precision", "deterministic")
    """The settings on which the rounding of results depends."""
    looks: ClassVar[tuple[str, ...]] = ("evaluate_every", "evaluate_last")
    """Those on which depends how often a run is looked at, and so which epoch looks best."""

    def __post_init__(self) -> None:
        """Refuse what cannot be counted."""
        for name in ("evaluate_every", "evaluate_last"):
            if getattr(self, name) < 1:
                raise ConfigError(f"engine.{name} must be at least 1; got {getattr(self, name)}.")
        require_not_negative(**{"engine.checkpoint_seconds": self.checkpoint_seconds})


@dataclass(frozen=True, kw_only=True)
class TeacherConfig:
    """A run on the same images that comes first, and whose network then teaches.

    So what a larger network knows, or several experts together, ends in one that costs what this one costs.
    """

    run: dict[str, Any] = field(default_factory=dict)
    """What is other in it than in this run, such as {network: {options: {experts: 3}}}; nothing makes a second
    generation."""
    path: Path | None = None
    """The folder of a finished run, of the same classes and image size, that teaches instead: none is trained then,
    whatever `run` says."""
    weight: float = 1.0
    """Of the divergence from what it says."""
    temperature: float = 3.0
    """What logits are divided by in this divergence: above 1, classes that are unlikely are taught too."""

    def __post_init__(self) -> None:
        """Refuse what cannot teach."""
        for name in ("weight", "temperature"):
            require_positive(**{f"teacher.{name}": getattr(self, name)})


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """A run."""

    about: str = ""
    """What the recipe stands for, in a sentence."""
    published: dict[str, float] = field(default_factory=dict)
    """What the paper reports for it, in percent: top1, many, medium, few."""
    data: DataConfig = field(default_factory=DataConfig)
    method: Method = field(default_factory=ProCo)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    epochs: int = 200
    """Times that the training images are gone through; of methods with several stages, of the first or of all."""
    batch_size: int | Literal["auto"] = 256
    """Images of a step, over all ranks; what does not fill a batch is left for the next epoch's shuffle. `auto` is a
    power of two near a sixteenth of the training images, from 16 to 256; the learning rate, which then counts for a
    batch of 256, is scaled with it."""
    seed: int = 0
    """Of the weights, the order and the views; the subset of a long-tailed profile has its own."""
    ema: float | None = None
    """Decay of an average of the weights, which is then what is evaluated and kept; 0.999 is usual. After t steps it
    is (1 + t)/(10 + t) at most: however few they are, the average looks back a tenth of them in the mean, or less."""
    renew_statistics: bool = False
    """Take the batch statistics of the average anew, over the views of an epoch, whenever it is evaluated: the average
    of those that the weights had on their way need not be those of the average of the weights."""
    teacher: TeacherConfig | None = None
    """A run that comes first, or is finished, and teaches this one."""
    made_with: dict[str, str] = field(default_factory=dict)
    """Versions, commit, machine and the hash of the data, filled in by the run that saves its settings."""

    def __post_init__(self) -> None:
        """Refuse numbers no run can have."""
        for name, value in (("epochs", self.epochs), ("batch_size", self.batch_size)):
            if value != "auto" and value < 1:
                raise ConfigError(f"{name} must be at least 1; got {value}.")
        if self.seed < 0:
            raise ConfigError(f"seed must not be negative; got {self.seed}.")
        if self.renew_statistics and self.ema is None:
            raise ConfigError("renew_statistics is of the average of the weights; set ema too.")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ConfigError(f"ema is a decay between 0 and 1; got {self.ema:g}.")
        if self.teacher is not None and self.teacher.path is None:
            self.teaching_run()

    def teaching_run(self) -> "TrainConfig":
        """Return the settings of the run that is trained to teach this one."""
        assert self.teacher is not None
        for name in ("data", "engine", "teacher"):
            if name in self.teacher.run:
                raise ConfigError(f"teacher.run cannot have {name} of its own: both runs share it.")
        own = ("about", "published", "teacher", "made_with")
        settings = {name: value for name, value in as_settings(self).items() if name not in own}
        try:
            return merge(TrainConfig, settings, self.teacher.run)
        except ConfigError as error:
            raise ConfigError(f"teacher.run: {error}") from error
