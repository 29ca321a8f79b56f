"""The list of settings: complete, true, and every one with a sentence."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from proco.cli.setting_list import Setting, settings_of
from proco.config import Choice, merge, read_assignments
from proco.data.samplers import SAMPLERS
from proco.registry import Registry
from proco.training.settings import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Shape(Choice):
    registry = Registry[type]("shape")
    colour: str = "red"
    """Of the line."""


@Shape.registry.register("circle")
@dataclass(frozen=True, kw_only=True)
class Circle(Shape):
    radius: float
    """Half of the width,
    in pixels."""


@Shape.registry.register("square")
@dataclass(frozen=True, kw_only=True)
class Square(Shape):
    colour: str = "blue"
    is_filled: bool = False


@dataclass(frozen=True, kw_only=True)
class Paper:
    size: tuple[int, ...] = (210, 297)
    """In millimetres."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    paper: Paper = field(default_factory=Paper)
    shapes: tuple[Shape, ...] = (Circle(radius=1.0), Square())
    title: str | None = None


def test_settings_are_those_of_the_whole_tree() -> None:
    assert settings_of(Drawing) == [
        Setting("paper.size", "[210, 297]", "In millimetres."),
        Setting("shapes", "[{name: circle, radius: 1.0}, square]", "One of circle, square."),
        Setting("shapes[].colour", "red", "Of the line.", ("circle",)),
        Setting("shapes[].radius", "-", "Half of the width, in pixels.", ("circle",)),
        Setting("shapes[].colour", "blue", "Of the line.", ("square",)),
        Setting("shapes[].is_filled", "false", "", ("square",)),
        Setting("title", "null", ""),
    ]


def test_every_setting_of_a_run_has_a_sentence() -> None:
    silent = [setting.name for setting in settings_of(TrainConfig) if not setting.sentence]
    assert silent == []


def test_samplers_are_named_where_they_are_chosen() -> None:
    (sentence,) = {setting.sentence for setting in settings_of(TrainConfig) if setting.name == "method.sampler"}
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
    for name in SAMPLERS:
        assert re.search(rf"\b{name}\b", sentence), name
        assert f"`{name}`" in page, name


def test_what_is_listed_can_be_set() -> None:
    """By the name and with the default that the list gives."""
    listed = [setting for setting in settings_of(TrainConfig) if not setting.kinds and "[]" not in setting.name]
    assert len(listed) > 40
    for setting in listed:
        if setting.default not in ("-", "..."):
            merge(TrainConfig, {"method": "proco"}, read_assignments([f"{setting.name}={setting.default}"]))
