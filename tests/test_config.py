"""Settings: layers, types, and what is said of a wrong one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from proco.config import RECIPES, Choice, as_settings, merge, read_assignments, read_recipe
from proco.errors import ConfigError
from proco.registry import Registry
from proco.training.settings import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Optim:
    lr: float = 0.3
    nesterov: bool = False
    schedule: Literal["step", "cosine"] = "step"
    milestones: tuple[int, ...] = (160, 180)


@dataclass(frozen=True, kw_only=True)
class Config:
    name: str
    epochs: int = 200
    size: int | Literal["auto"] = "auto"
    folder: Path | None = None
    optim: Optim = field(default_factory=Optim)
    extra: dict[str, float] = field(default_factory=dict)
    maybe: Optim | None = None


def test_later_layers_win_and_leave_the_rest() -> None:
    recipe = {"name": "a", "optim": {"lr": 0.1, "schedule": "cosine"}}
    config = merge(Config, recipe, read_assignments(["optim.lr=0.2", "epochs=3"]))
    assert config == Config(name="a", epochs=3, optim=Optim(lr=0.2, schedule="cosine"))


def test_values_take_the_type_of_the_field() -> None:
    words = [
        "name=x",
        "optim.lr=1e-3",
        "optim.milestones=[1, 2]",
        "folder=runs/a",
        "extra={a: 1}",
        "optim.nesterov=true",
    ]
    config = merge(Config, read_assignments(words))
    assert config.optim == Optim(lr=0.001, milestones=(1, 2), nesterov=True)
    assert config.folder == Path("runs/a")
    assert config.extra == {"a": 1.0}
    assert merge(Config, {"name": "x", "folder": None}).folder is None
    assert isinstance(merge(Config, {"name": "x", "optim": {"lr": 1}}).optim.lr, float)


def test_settings_round_trip() -> None:
    config = Config(name="a", folder=Path("b"), optim=Optim(milestones=(1,)), extra={"c": 2.0})
    assert merge(Config, as_settings(config)) == config


def test_layers_are_not_changed_by_merging() -> None:
    recipe = {"name": "a", "optim": {"lr": 0.1}}
    merge(Config, recipe, {"optim": {"lr": 0.2}})
    assert recipe == {"name": "a", "optim": {"lr": 0.1}}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("optim.nestrov=true", r"unknown setting 'optim\.nestrov'; did you mean 'optim\.nesterov'\?"),
        ("lr=0.1", r"unknown setting 'lr'; did you mean 'optim\.lr'\?"),
        ("zzz=1", "unknown setting 'zzz'; choose from epochs, extra, folder, maybe, name, optim"),
        ("epochs=ten", "epochs: expected a whole number, got 'ten'"),
        ("epochs=1.5", "epochs: expected a whole number, got 1.5"),
        ("size=big", "size: expected a whole number or 'auto', got 'big'"),
        ("epochs=true", "epochs: expected a whole number, got True"),
        ("optim.lr=fast", r"optim\.lr: expected a number, got 'fast'"),
        ("optim.nesterov=1", r"optim\.nesterov: expected true or false, got 1"),
        ("optim.schedule=linear", r"optim\.schedule: expected 'step' or 'cosine', got 'linear'"),
        ("optim.milestones=5", r"optim\.milestones: expected a list, got 5"),
        ("optim.milestones=[1, a]", r"optim\.milestones\[1\]: expected a whole number, got 'a'"),
        ("optim=3", "optim: expected settings of its own, got 3"),
        ("optim=sgd", "optim: expected settings of its own, got 'sgd'"),
        ("maybe.lr=fast", r"maybe\.lr: expected a number, got 'fast'"),
        ("extra.a=b", r"extra\.a: expected a number, got 'b'"),
        ("name=3", "name: expected text, got 3"),
        ("size=null", "size: expected a whole number or 'auto', got None"),
        ("epochs", "a setting is written name=value; got 'epochs'"),
        ("epochs=[1", "epochs: cannot read the value"),
    ],
)
def test_wrong_settings_are_explained(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        merge(Config, {"name": "x"}, read_assignments([assignment]))


def test_missing_setting_is_named() -> None:
    with pytest.raises(ConfigError, match="the setting 'name' is missing"):
        merge(Config)


def test_recipes_are_read_and_wrong_ones_explained(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("name: a\noptim: {lr: 0.1}\n")
    assert merge(Config, read_recipe(Config, path)).optim.lr == 0.1
    path.write_text("- a\n")
    with pytest.raises(ConfigError, match="must hold settings, name: value; got list"):
        read_recipe(Config, path)
    path.write_text("a: [")
    with pytest.raises(ConfigError, match="is not valid YAML"):
        read_recipe(Config, path)
    with pytest.raises(ConfigError, match=r"cannot read the recipe .*: No such file"):
        read_recipe(Config, tmp_path / "none.yaml")


@dataclass(frozen=True, kw_only=True)
class Shape(Choice):
    registry = Registry[type]("shape")


@Shape.registry.register("circle")
@dataclass(frozen=True, kw_only=True)
class Circle(Shape):
    radius: float = 1.0


@Shape.registry.register("square")
@dataclass(frozen=True, kw_only=True)
class Square(Shape):
    side: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Drawing:
    shape: Shape = field(default_factory=Circle)
    others: tuple[Shape, ...] = ()


def test_a_choice_is_a_name_or_a_name_with_settings() -> None:
    assert merge(Drawing, {"shape": "square"}).shape == Square()
    assert merge(Drawing, {"shape": {"name": "square", "side": 2}}).shape == Square(side=2.0)
    assert merge(Drawing, {"shape": {"radius": 2}}).shape == Circle(radius=2.0)  # without a name, the default's
    assert merge(Drawing, {"others": ["circle", {"name": "square", "side": 3}]}).others == (Circle(), Square(side=3.0))


def test_settings_over_a_choice_keep_its_kind_and_another_kind_replaces_it() -> None:
    assert merge(Drawing, {"shape": "square"}, {"shape": {"side": 2}}).shape == Square(side=2.0)
    assert merge(Drawing, {"shape": {"name": "square", "side": 2}}, {"shape": "circle"}).shape == Circle()
    changed = merge(Drawing, {"shape": {"name": "square", "side": 2}}, {"shape": {"name": "circle", "radius": 3}})
    assert changed.shape == Circle(radius=3.0)
    same = merge(Drawing, {"shape": {"name": "square", "side": 2}}, {"shape": {"name": "square"}})
    assert same.shape == Square(side=2.0)


@Shape.registry.register("ring")
@dataclass(frozen=True, kw_only=True)
class Ring(Shape):
    radius: float = 1.0
    inside: Shape = field(default_factory=Circle)


@pytest.mark.parametrize("named", ["{}", "{{name: {}}}"], ids=["text", "mapping"])
def test_settings_without_a_name_are_of_the_kind_in_force_at_their_layer(named: str) -> None:
    def shape(*layers: Mapping[str, Any], then: str) -> Shape:
        return merge(Drawing, *layers, read_assignments([f"shape={named.format(then)}"])).shape

    radius = {"shape": {"radius": 2}}
    assert shape(radius, then="circle") == Circle(radius=2.0)
    assert shape(radius, then="ring") == Ring()  # it has a radius too, which was not meant
    assert shape(radius, then="square") == Square()
    assert shape({"shape": "ring"}, radius, then="ring") == Ring(radius=2.0)
    assert shape({"shape": "ring"}, radius, then="circle") == Circle()


@pytest.mark.parametrize("outside", [{}, {"shape": "ring"}], ids=["default", "named"])
def test_so_are_those_of_a_choice_within_another(outside: Mapping[str, Any]) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Nested:
        shape: Shape = field(default_factory=Circle if outside else Ring)

    layers = outside, {"shape": {"inside": {"radius": 2}}}
    assert merge(Nested, *layers, read_assignments(["shape.inside=circle"])).shape == Ring(inside=Circle(radius=2.0))
    assert merge(Nested, *layers, read_assignments(["shape.inside=ring"])).shape == Ring(inside=Ring())


def test_recipes_that_are_extended_are_layers_with_kinds_in_force(tmp_path: Path) -> None:
    (tmp_path / "radius.yaml").write_text("shape: {radius: 2}\n")
    (tmp_path / "ring.yaml").write_text("shape: ring\n")
    (tmp_path / "over.yaml").write_text("extends: radius.yaml\nothers: []\n")
    found = {}
    for bases in ("radius, ring", "ring, radius", "ring, over", "over, ring"):
        words = [f"{base}.yaml" for base in bases.split(", ")]
        (tmp_path / "mine.yaml").write_text(f"extends: [{', '.join(words)}]\n")
        found[bases] = merge(Drawing, read_recipe(Drawing, tmp_path / "mine.yaml")).shape
    assert found == {
        "radius, ring": Ring(),
        "ring, radius": Ring(radius=2.0),
        "ring, over": Ring(radius=2.0),  # that a recipe of its own would be a circle counts for nothing
        "over, ring": Ring(),
    }


def test_choices_round_trip() -> None:
    drawing = Drawing(shape=Square(side=2.0), others=(Circle(),))
    assert merge(Drawing, as_settings(drawing)) == drawing


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("shape=sqare", "unknown shape 'sqare'; did you mean 'square'"),
        ("others=[{radius: 2}]", r"others\[0\]: expected the name of a shape or settings that begin with it"),
        ("shape={name: circle, side: 2}", r"unknown setting 'shape\.side'"),
        ("shape=3", "expected the name of a shape"),
    ],
)
def test_wrong_choices_are_explained(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        merge(Drawing, read_assignments([assignment]))


@pytest.mark.parametrize(
    ("name", "message"), [("sqare", "unknown shape 'sqare'"), (["square"], "shape: expected the name of a shape")]
)
def test_wrong_names_are_explained_under_settings_too(name: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        merge(Drawing, {"shape": {"name": name, "side": 2}}, {"shape": {"side": 3}})


@dataclass(frozen=True, kw_only=True)
class Round(Shape):
    """Circles and the like."""


@Shape.registry.register("ellipse")
@dataclass(frozen=True, kw_only=True)
class Ellipse(Round):
    flatness: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Wheel:
    shape: Round = field(default_factory=Ellipse)


def test_a_choice_among_some_kinds_refuses_the_others() -> None:
    assert merge(Wheel, {"shape": "ellipse"}).shape == Ellipse()
    with pytest.raises(ConfigError, match=r"shape: 'square' cannot stand there; choose from ellipse\."):
        merge(Wheel, {"shape": "square"})


def test_recipes_extend_others(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "a.yaml").write_text("name: a\noptim: {lr: 0.1, nesterov: true}\n")
    (tmp_path / "b.yaml").write_text("extends: base/a.yaml\noptim: {lr: 0.2}\n")
    config = merge(Config, read_recipe(Config, tmp_path / "b.yaml"))
    assert (config.name, config.optim.lr, config.optim.nesterov) == ("a", 0.2, True)


@pytest.mark.parametrize("pair", [("shape=circle", "shape.radius=3"), ("shape.radius=3", "shape=circle")], ids=str)
def test_a_name_and_its_settings_come_in_either_order(pair: tuple[str, str]) -> None:
    assert merge(Drawing, read_assignments(pair)).shape == Circle(radius=3.0)
    other = [word.replace("circle", "ring") for word in pair]  # also where the name is not the default's
    assert merge(Drawing, {"shape": {"radius": 2}}, read_assignments(other)).shape == Ring(radius=3.0)
    recipe = {"shape": {"name": "circle", "radius": 2.0}}
    assert merge(Drawing, recipe, read_assignments(["shape=circle"])).shape == Circle(radius=2.0)  # as it was
    assert merge(Drawing, recipe, read_assignments(["shape=square"])).shape == Square()  # of another kind: anew


def test_recipes_extend_those_of_the_package_by_name(tmp_path: Path) -> None:
    for name in ("quickstart/proco", "quickstart/proco.yaml"):
        (tmp_path / "mine.yaml").write_text(f"extends: {name}\nepochs: 3\n")
        shipped = read_recipe(Config, RECIPES / "quickstart" / "proco.yaml")
        assert read_recipe(Config, tmp_path / "mine.yaml") == shipped | {"epochs": 3}
    (tmp_path / "mine.yaml").write_text("extends: quickstart/prcoo\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml extends quickstart/prcoo, but there is no file .*prcoo, and no"):
        read_recipe(Config, tmp_path / "mine.yaml")


def test_what_is_no_recipe_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    with pytest.raises(ConfigError, match=r"empty\.yaml is empty; a recipe holds settings"):
        read_recipe(Config, tmp_path / "empty.yaml")
    (tmp_path / "broken.yaml").write_text("a: [1\nb: 2\n")
    with pytest.raises(ConfigError, match=r"is not valid YAML: .* line 1, column 4") as raised:
        read_recipe(Config, tmp_path / "broken.yaml")
    assert "unicode string" not in str(raised.value)


def test_recipes_extend_several(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: a\noptim: {lr: 0.1, nesterov: true}\n")
    (tmp_path / "b.yaml").write_text("name: b\noptim: {lr: 0.2}\n")
    (tmp_path / "c.yaml").write_text("extends: [a.yaml, b.yaml]\noptim: {lr: 0.3}\n")
    (tmp_path / "d.yaml").write_text("extends: [b.yaml, a.yaml]\n")
    (tmp_path / "e.yaml").write_text("extends: [c.yaml, d.yaml]\n")  # both extend a, which is no circle
    found = {name: merge(Config, read_recipe(Config, tmp_path / f"{name}.yaml")) for name in "cde"}
    assert {name: (config.name, config.optim.lr) for name, config in found.items()} == {
        "c": ("b", 0.3),
        "d": ("a", 0.1),
        "e": ("a", 0.1),
    }
    assert all(config.optim.nesterov for config in found.values())


def test_recipes_that_extend_themselves_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: b.yaml\n")
    (tmp_path / "b.yaml").write_text("extends: a.yaml\n")
    with pytest.raises(ConfigError, match="extends itself"):
        read_recipe(Config, tmp_path / "a.yaml")
    (tmp_path / "c.yaml").write_text("extends: 3\n")
    with pytest.raises(ConfigError, match="extends: expected the path of a recipe, or several in a list, got 3"):
        read_recipe(Config, tmp_path / "c.yaml")


@dataclass(frozen=True, kw_only=True)
class Odd:
    rate: float = 0.1
    level: Literal[1, 2] = 1
    extra: dict[str, float] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)


def test_true_is_no_number() -> None:
    with pytest.raises(ConfigError, match="rate: expected a number, got True"):
        merge(Odd, {"rate": True})
    with pytest.raises(ConfigError, match="level: expected 1 or 2, got True"):
        merge(Odd, {"level": True})


def test_mappings_have_texts_for_keys_and_plain_values() -> None:
    assert merge(Odd, {"extra": {1: 2}}).extra == {"1": 2.0}
    assert as_settings(Odd(paths={"a": Path("b")}))["paths"] == {"a": "b"}


def test_a_setting_has_a_name() -> None:
    with pytest.raises(ConfigError, match="a setting is written name=value; got '=3'"):
        read_assignments(["=3"])


def test_a_file_beside_the_recipe_goes_before_one_of_the_package(tmp_path: Path) -> None:
    (tmp_path / "quickstart").mkdir()
    (tmp_path / "quickstart" / "proco.yaml").write_text("epochs: 3\n")
    (tmp_path / "mine.yaml").write_text("extends: quickstart/proco.yaml\n")
    assert read_recipe(Config, tmp_path / "mine.yaml") == {"epochs": 3}


def test_a_setting_that_stands_twice_in_a_file_is_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "twice.yaml"
    for text in ("epochs: 5\nepochs: 6\n", "optim:\n  lr: 0.1\n  momentum: 0.5\n  lr: 0.2\n"):
        recipe.write_text(text)
        with pytest.raises(ConfigError, match=r"(epochs|lr) stands there twice, line \d and after"):
            read_recipe(TrainConfig, recipe)


def test_a_name_with_a_dot_is_shown_as_it_is_nested() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'data\.imbalance'; .* nested, data: \{imbalance: \.\.\.\}"):
        merge(TrainConfig, {"data.imbalance": 500})
