"""Which entries of the ledger count, and for what."""

import pytest
from tests.tools.made_up import entry, recipe
from tools.results.runs import Runs


def test_runs_of_a_recipe_by_seed() -> None:
    runs = Runs([entry("a", 10, 3.0), entry("a", 2, 1.0), entry("b", 0, 9.0)], {})
    assert runs.values("a") == {2: 1.0, 10: 3.0}
    assert list(runs.values("a")) == [2, 10]
    assert runs.spread("c") is None


def test_group_without_classes_has_no_figure() -> None:
    assert Runs([entry("a")], {}).spread("a", "few") is None


def test_runs_with_held_out_images_are_choices() -> None:
    entries = [entry("a", 0), entry("a", 1, split="val"), entry("a", 2, validation=0.1)]
    runs = Runs(entries, {})
    assert list(runs.values("a")) == [0]
    assert [found["seed"] for found in runs.choosing] == [1, 2]


def test_the_same_seed_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="two entries for a, seed 0"):
        Runs([entry("a", 0, 1.0), entry("a", 0, 2.0)], {})
    choices = [entry("a", 0, 1.0, split="val"), entry("a", 0, 2.0, split="val", weight=0.5)]
    assert len(Runs(choices, {"a": recipe()}).choosing) == 2  # of other settings
    with pytest.raises(ValueError, match="two entries for a, seed 0"):
        Runs([*choices, entry("a", 0, 3.0, split="val")], {"a": recipe()})


def test_paper_is_the_recipes() -> None:
    runs = Runs([], {"a": recipe(published={"top1": 52.8})})
    assert runs.paper("a") == 52.8
    assert runs.paper("a", "few") is None
    assert runs.paper("b") is None


def test_names_are_ordered_by_number() -> None:
    runs = Runs([entry("x_1.5")], {"x_10": recipe(), "x_0.3": recipe(), "y_1": recipe()})
    assert runs.known("x_") == ["x_0.3", "x_1.5", "x_10"]


def test_settings_that_differ_from_the_recipe_are_named() -> None:
    now = recipe() | {
        "method": {"name": "proco", "weight": 1.0, "new": 3, "views": [{"name": "auto"}, {"name": "sim"}]}
    }
    runs = Runs([entry("a", weight=0.5)], {"a": now})
    assert runs.departures(runs.tested[0]) == ["method.weight=0.5"]
    runs.tested[0]["config"]["method"] |= {"weight": 1.0, "views": [{"name": "auto"}]}
    assert runs.departures(runs.tested[0]) == ["method.views.length=1"]
    runs.tested[0]["config"]["method"]["views"] = [{"name": "auto", "old": 1}, {"name": "sim"}]
    assert runs.departures(runs.tested[0]) == []


def test_what_is_not_set_differs_from_what_is() -> None:
    """A teacher or an option that only one of the two has did not come into being since: the setting was there."""
    now = recipe() | {"network": {"options": {"experts": 3}}, "teacher": {"run": {}, "weight": 1.0}}
    run = entry("a")
    run["config"] |= {"network": {"options": {}}, "teacher": None}
    assert sorted(Runs([run], {"a": now}).departures(run)) == ["network.options={}", "teacher=None"]


def test_seed_engine_and_path_are_a_runs_own() -> None:
    now = recipe() | {"seed": 0, "engine": {"device": "auto"}}
    run = entry("a", 5)
    run["config"] |= {"engine": {"device": "cuda"}}
    assert Runs([run], {"a": now}).departures(run) == []
