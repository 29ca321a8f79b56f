"""Registries: names once, and a helpful word for a wrong one."""

import pytest

from proco.errors import ConfigError
from proco.registry import Registry


def build() -> Registry[int]:
    registry = Registry[int]("number")
    registry.register("three")(3)
    registry.register("four")(4)
    return registry


def test_registered_things_are_found_in_order_of_their_names() -> None:
    registry = build()
    assert registry["three"] == 3
    assert list(registry) == ["four", "three"]
    assert len(registry) == 2
    assert "three" in registry
    assert "five" not in registry


def test_wrong_names_are_explained() -> None:
    registry = build()
    with pytest.raises(ConfigError, match=r"unknown number 'tree'; did you mean 'three'\?"):
        _ = registry["tree"]
    with pytest.raises(ConfigError, match=r"unknown shape 'xyz'; there are none\."):
        Registry[int]("shape")["xyz"]
    with pytest.raises(ConfigError, match=r"unknown number 'xyz'; choose from four, three\."):
        _ = registry["xyz"]


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="'three' is registered already, as 3"):
        build().register("three")(33)


def test_what_is_defined_anew_takes_its_own_place() -> None:
    registry = Registry[type]("shape")

    def define() -> type:
        @registry.register("circle")
        class Circle: ...

        return Circle

    old, new = define(), define()
    assert registry["circle"] is new
    assert old is not new
    with pytest.raises(ValueError, match="'circle' is registered already"):

        @registry.register("circle")
        class Disc: ...
