"""Tables of every method: which recipe stands in which column, and how far own recipes are from published figures."""

from tests.tools.made_up import entry, recipe
from tests.tools.test_tables import cells
from tools.results.experiments import ABLATIONS, SHORT
from tools.results.methods import (
    COMBINED,
    OWN,
    combination_table,
    corrected_sentence,
    method_table,
    own_sentence,
    quickstart_table,
)
from tools.results.runs import Runs

from proco.methods import Method


def test_a_method_has_its_common_recipe_and_its_own() -> None:
    recipes = {
        SHORT.recipe("tde"): recipe(),
        f"{OWN}tde_100": recipe(published={"top1": 44.1}),
        f"{ABLATIONS}/ema_prototype": recipe(published={"top1": 51.6}),
    }
    entries = [entry(SHORT.recipe("tde"), 0, 46.5), entry(f"{OWN}tde_100", 0, 43.0), entry(f"{OWN}tde_100", 1, 44.0)]
    table = method_table(Runs(entries, recipes))
    assert len(table.splitlines()) == 2 + len(Method.registry)
    assert cells(table, "tde") == ["classifier", "-", "46.50 (1)", "44.1", "43.50 ± 0.71 (2)"]
    assert cells(table, "ema_prototype") == ["ablation", "51.6", "no run yet", "-", "-"]


def test_what_is_further_than_a_point_from_its_published_figure_is_named() -> None:
    published = {"tde": 44.1, "ldam_drw": 42.0, "cb_focal": 39.6, "logit_adjustment": 44.1}
    recipes = {f"{OWN}{name}_100": recipe(published={"top1": top1}) for name, top1 in published.items()}
    recipes[f"{OWN}focal_100"] = recipe()
    tops = {"tde": [43.2], "ldam_drw": [43.5], "cb_focal": [38.0, 39.0], "focal": [38.0]}
    entries = [entry(f"{OWN}{name}_100", seed, top1) for name, row in tops.items() for seed, top1 in enumerate(row)]
    assert own_sentence(Runs(entries, recipes)) == (
        "By their own recipes 1 of 3 methods with a published figure are within a point of it; farther from theirs: "
        "cb_focal (-1.10) and ldam_drw (+1.50)."
    )
    near = own_sentence(Runs(entries[:1], recipes))
    assert near == "By their own recipes 1 of 1 methods with a published figure are within a point of it."
    assert own_sentence(Runs([], recipes)).startswith("No run")


def test_own_runs_from_before_a_correction_are_named() -> None:
    name = f"{OWN}tde_100"
    runs = Runs([entry(name, 0, 43.0, batch_size=128)], {name: recipe()})
    said = corrected_sentence(runs)
    assert said == "Made before the recipe was corrected, which has no run since: tde with batch_size=128."
    assert corrected_sentence(Runs([entry(name, 0, 43.0)], {name: recipe()})) == ""


def test_combinations_and_bundled_images_are_listed_by_recipe() -> None:
    names = [f"{COMBINED}proco_isda_100", "quickstart/slow", "quickstart/fast", "quickstart/waiting"]
    entries = [entry(names[0], 0, 40.0), entry(names[1], 0, 60.0, seconds=20.4), entry(names[2], 0, 70.0)]
    runs = Runs(entries, {name: recipe() for name in names})
    assert cells(combination_table(runs), "proco_isda_100") == ["40.00 (1)"]
    table = quickstart_table(runs)
    assert [line.split()[1] for line in table.splitlines()[2:]] == ["fast", "slow", "waiting"]
    assert cells(table, "slow") == ["60.00 (1)", "70.00 (1)", "60.00 (1)", "no run yet", "20"]
    assert cells(table, "waiting")[-1] == "no run yet"
