"""From settings to the data a run sees: read a source, keep a long-tailed part of it, hold some of it out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from proco.data.bundled import FashionMnistLt
from proco.data.dataset import Dataset, hold_out, keep_subset, name_some, validate_on_left_out
from proco.data.decode import Progress
from proco.data.long_tail import exponential_counts, keep_counts, pareto_counts, step_counts
from proco.data.source import Source
from proco.errors import ConfigError

_PROFILES = {"exponential": exponential_counts, "step": step_counts, "pareto": pareto_counts}
_DEFAULT_IMBALANCE = 100.0
_DEFAULT_VALIDATION = 0.1


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which images are trained on."""

    source: Source = field(default_factory=FashionMnistLt)
    profile: Literal["exponential", "step", "pareto"] | None = None
    """Make the training split long-tailed: class counts along this curve, in label order."""
    imbalance: float | None = None
    """Largest class over smallest, where a profile is given; 100 by default."""
    subset_seed: int = 0
    """Which images a profile keeps. 0 gives the field's; it has nothing to do with the seed of the run."""
    validation: float | None = None
    """Share of each class held out from training for validation. By default a tenth where the data has neither a
    validation nor a test split, and nothing otherwise."""
    left_out: int = 0
    """Validate on this many images of each class, or on as many as there are, that a profile leaves out of the training
    split; a test split is then put out of sight. For choosing settings without looking at the test."""
    size: int | None = None
    """Side of the square that the network sees; by default the shorter side of the arrays, or 224 for image files."""
    centre: float = 1.0
    """Side of the centred square that is evaluated, as a share of the shorter side: 0.875 is 224 of 256 pixels."""
    mean: tuple[float, ...] | None = None
    """Of each channel, in [0, 1], subtracted; by default that of the training images, or ImageNet's for files."""
    std: tuple[float, ...] | None = None
    """Of each channel, divided by."""

    def __post_init__(self) -> None:
        """Refuse numbers no data can have."""
        if self.imbalance is not None and self.profile is None:
            raise ConfigError(f"data.imbalance={self.imbalance:g} needs a data.profile; exponential is the usual one.")
        if self.left_out < 0 or (self.left_out and (self.profile is None or self.validation is not None)):
            raise ConfigError(
                "data.left_out is a number of images a class, needs a data.profile that leaves images out, and takes "
                f"the place of data.validation; got {self.left_out}."
            )
        if self.subset_seed < 0:
            raise ConfigError(f"data.subset_seed must not be negative; got {self.subset_seed}.")
        if self.size is not None and self.size < 1:
            raise ConfigError(f"data.size must be at least 1; got {self.size}.")
        if not 0 < self.centre <= 1:
            raise ConfigError(f"data.centre is a share of the image, above 0 and up to 1; got {self.centre:g}.")
        if self.validation is not None and not 0 <= self.validation < 1:
            raise ConfigError(f"data.validation is a share of each class, from 0 to below 1; got {self.validation:g}.")
        if self.std is not None and not min(self.std, default=1) > 0:
            raise ConfigError(f"data.std must be positive; got {list(self.std)}.")


def prepare(config: DataConfig, progress: Progress | None = None) -> Dataset:
    """Read the data, with its notes saying what was done to it. progress hears of files as they are checked."""
    dataset = config.source.read(progress)
    dataset.require_trainable()
    if config.profile is not None:
        largest = int(dataset.class_counts.max())
        imbalance = _DEFAULT_IMBALANCE if config.imbalance is None else config.imbalance
        counts = _PROFILES[config.profile](largest, dataset.num_classes, imbalance)
        name = f"{dataset.name}, {config.profile} profile, imbalance {imbalance:g}"
        _require_enough(dataset, counts)
        labels = dataset.splits["train"].labels.numpy()
        kept = keep_counts(labels, counts, name, seed=config.subset_seed)
        if config.left_out:
            dataset = validate_on_left_out(dataset, kept, config.left_out, seed=config.subset_seed)
        dataset = keep_subset(dataset, kept)
    if "val" in dataset.splits and config.validation is not None:
        raise ConfigError(f"{dataset.name} has a validation split; data.validation is for data without one.")
    if "val" not in dataset.splits:
        share = config.validation
        if share is None and "test" not in dataset.splits:
            share = _DEFAULT_VALIDATION
        if share:
            dataset = hold_out(dataset, share, seed=config.subset_seed)
    return dataset


def _require_enough(dataset: Dataset, counts: Sequence[int]) -> None:
    """Refuse a profile that would keep more images of a class than there are."""
    available = zip(dataset.class_names, dataset.class_counts.tolist(), counts, strict=True)
    if short := [name for name, count, wanted in available if count < wanted]:
        raise ConfigError(
            f"data.profile makes evenly filled classes uneven, and {dataset.name} is uneven already: "
            f"{name_some(short)} would have to have more images. Leave it out."
        )


class SharedData:
    """Data that several runs of a process have in common, read, and its files checked, once.

    What goes wrong with files is on record for each run apart.

    >>> data = SharedData()
    >>> data.prepare(config) is data.prepare(config)  # of arrays  # doctest: +SKIP
    True
    """

    _MOST = 2  # kept at a time: while some runs still have the last data, others begin with the next

    def __init__(self) -> None:
        self._kept: list[tuple[DataConfig, Dataset]] = []

    def prepare(self, config: DataConfig, progress: Progress | None = None) -> Dataset:
        """Return what `prepare` returns."""
        known = next((dataset for its_config, dataset in self._kept if its_config == config), None)
        dataset = prepare(config, progress) if known is None else known
        others = [kept for kept in self._kept if kept[0] != config]
        self._kept = [*others, (config, dataset)][-self._MOST :]  # the last used are kept
        return dataset.with_own_record()
