"""Which recipes stand where in the tables. The paper's numbers are not here: recipes have their own (`published`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

METHODS = {"logit_adjustment": "logit adjustment", "bcl": "BCL", "proco": "ProCo", "proco_plus": "ProCo+"}
NAMES = {**METHODS, "supcon": "SupCon", "cross_entropy": "cross-entropy"}
DATASETS = {"cifar100_lt": "CIFAR-100-LT", "cifar10_lt": "CIFAR-10-LT"}
IMBALANCES = (100, 50, 10)
ABLATIONS = "cifar100_lt/ablations"
QUICKSTART = "quickstart/"  # small networks on the bundled images
LOSS_WEIGHTS = f"{ABLATIONS}/alpha"
PROBES = f"{ABLATIONS}/probe_"
BCL_WEIGHT_1 = f"{ABLATIONS}/bcl_weight_1"


@dataclass(frozen=True)
class Grid:
    """A table of recipes: rows by name, in each a recipe for every column. One nameless column is a plain list.

    Where there is a reference, the name of a row, each other one says by how much it is above that row.
    """

    corner: str
    columns: Sequence[str]
    rows: dict[str, Sequence[str]]
    reference: str | None = None


class Setting(NamedTuple):
    """Where methods are compared: the recipe of a method is `folder/method` and the ending."""

    dataset: str
    imbalance: int
    epochs: int

    def recipe(self, method: str) -> str:
        """Return the name of a method's recipe."""
        return f"{self.dataset}/{method}_{self.imbalance}" + ("_400epochs" if self.epochs == 400 else "")


SHORT = Setting("cifar100_lt", 100, 200)
LONG = Setting("cifar100_lt", 100, 400)
SETTINGS = (*(Setting(dataset, imbalance, 200) for dataset in DATASETS for imbalance in IMBALANCES), LONG)

MAIN = {
    label: Grid(
        "method",
        [str(imbalance) for imbalance in IMBALANCES],
        {
            name: [Setting(dataset, gamma, 200).recipe(method) for gamma in IMBALANCES]
            for method, name in METHODS.items()
        },
    )
    for dataset, label in DATASETS.items()
}
LONG_MAIN = Grid("method", [""], {name: [LONG.recipe(method)] for method, name in METHODS.items()})

_ADJUSTMENT, _BCL, _PROCO, _PLUS = (SHORT.recipe(method) for method in METHODS)
LARGER = Grid(
    "network",
    [""],
    {
        "ResNet-32, not taught, no boxes": [f"{_PLUS}_untaught"],
        "ResNet-32, taught by three experts (ProCo+)": [_PLUS],
        "the same without the contrastive loss, nor in the teachers": [f"{ABLATIONS}/plus_without_contrast"],
        "three experts that share the first stage": [f"{_PLUS}_experts"],
        "four times as wide, not taught, no boxes": [f"{_PLUS}_wide"],
    },
)


class Aim(NamedTuple):
    """What a recipe was to reach, and why: an accuracy, or what the paper reports for another recipe."""

    name: str
    recipe: str
    wanted: float | str
    why: str


AIMS = (
    *(
        Aim(
            f"ProCo+, {DATASETS[setting.dataset]} at imbalance {setting.imbalance}",
            setting.recipe("proco_plus"),
            54.0 if setting == SHORT else setting.recipe("proco"),
            "ConCutMix 53.16, and a margin" if setting == SHORT else "the paper's ProCo",
        )
        for setting in SETTINGS
        if setting != LONG
    ),
    Aim("the same without its teacher, at ProCo's cost", f"{_PLUS}_untaught", 54.0, "ConCutMix 53.16, and a margin"),
    Aim("its three experts, CIFAR-100-LT at imbalance 100", f"{_PLUS}_experts", 57.0, "BalPoE 57.0"),
    Aim("four times as wide, CIFAR-100-LT at imbalance 100", f"{_PLUS}_wide", 58.5, "GLMC 58.41"),
)

COMPLEMENTS = Grid(
    "class complement",
    [""],
    {
        "EMA prototype": [f"{ABLATIONS}/ema_prototype"],
        "centroid prototype": [f"{ABLATIONS}/centroid_prototype"],
        "normal distribution": [f"{ABLATIONS}/normal_distribution"],
        "von Mises-Fisher distribution (ProCo)": [_PROCO],
    },
    reference="von Mises-Fisher distribution (ProCo)",
)
COMBINATIONS = Grid(
    "parts",
    [""],
    {
        "none (logit adjustment)": [_ADJUSTMENT],
        "CC, weight 1": [f"{ABLATIONS}/learnable_prototype"],
        "SC, weight 1": [f"{ABLATIONS}/supcon"],
        "SC, weight 1, its mean inside of the logarithm": [f"{ABLATIONS}/supcon_in"],
        "SC + CC (BCL), weight 0.3": [_BCL],
        "SC + CC (BCL), weight 1": [BCL_WEIGHT_1],
        "SC + CC + CR + MM, weight 1 each": [f"{ABLATIONS}/proco_supcon"],
        "SC + CC + CR + MM, weight 0.5 each": [f"{ABLATIONS}/proco_supcon_half"],
        "CC + CR + MM (ProCo), weight 1": [_PROCO],
    },
    reference="CC + CR + MM (ProCo), weight 1",
)
MIXUP = Grid(
    "GCL",
    ["common", "bundled images"],
    {
        "with mixup, as it is": [SHORT.recipe("gcl"), f"{QUICKSTART}gcl"],
        "without mixup": [f"{ABLATIONS}/gcl_without_mixup", f"{QUICKSTART}gcl_without_mixup"],
    },
)
LOSS_FORMS = Grid(
    "form",
    [str(imbalance) for imbalance in IMBALANCES],
    {
        "out": [f"{ABLATIONS}/proco_out_{gamma}" for gamma in IMBALANCES],
        "in (ProCo)": [Setting("cifar100_lt", gamma, 200).recipe("proco") for gamma in IMBALANCES],
    },
    reference="in (ProCo)",
)
AUGMENTATION = Grid(
    "method",
    ["without", "with"],
    {
        METHODS[method]: [f"{ABLATIONS}/{method}_weak", SHORT.recipe(method)]
        for method in ("logit_adjustment", "bcl", "proco")
    },
)
WITHOUT_AUTO = Grid(
    "the classifier's view",
    [METHODS[method] for method in ("logit_adjustment", "proco")],
    {
        "crop, flip": [f"{ABLATIONS}/{method}_weak" for method in ("logit_adjustment", "proco")],
        "crop, flip, Cutout": [f"{ABLATIONS}/{method}_cutout" for method in ("logit_adjustment", "proco")],
        "SimAugment": [f"{ABLATIONS}/{method}_sim" for method in ("logit_adjustment", "proco")],
    },
)
FAITHFULNESS = Grid(
    "runs",
    [""],
    {
        "ProCo, the recipe: bfloat16 products, weight decay 2e-4": [_PROCO],
        "ProCo, float32 products": [f"{ABLATIONS}/proco_float32"],
        "ProCo, weight decay 4e-4": [f"{ABLATIONS}/proco_weight_decay"],
        "ProCo, AutoAugment's operations as in the official code": [f"{ABLATIONS}/proco_auto_official"],
        "logit adjustment, the recipe: one view": ["cifar100_lt/logit_adjustment_100"],
        "logit adjustment, three views": [f"{ABLATIONS}/logit_adjustment_views"],
    },
)
BALANCED = Grid(
    "method",
    ["CIFAR-100", "CIFAR-10"],
    {
        NAMES["cross_entropy"]: ["cifar100/cross_entropy", "cifar10/cross_entropy"],
        NAMES["proco"]: ["cifar100/proco", "cifar10/proco"],
    },
)
