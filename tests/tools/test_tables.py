"""Cells with and without a run, and what is said of differences."""

from typing import Any

import pytest
from tests.tools.made_up import entry, recipe
from tools.results.differences import difference_sentences, difference_table, distance_sentence
from tools.results.experiments import LONG, MAIN, METHODS, SHORT, Aim
from tools.results.listings import departure_list, run_table, time_table
from tools.results.runs import Runs
from tools.results.tables import aim_table, grid_table, group_table, loss_weight_table, probe_table

RECIPES: dict[str, Any] = {
    SHORT.recipe("proco"): recipe(published={"top1": 52.8, "many": 69.0}),
    SHORT.recipe("bcl"): recipe(published={"top1": 51.9}),
    SHORT.recipe("logit_adjustment"): recipe(),
}


def cells(table: str, row: str) -> list[str]:
    """Return the cells of the row that begins so."""
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {row} ")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_cell_with_runs_and_cell_without() -> None:
    runs = Runs([entry(SHORT.recipe("proco"), seed, top1) for seed, top1 in enumerate((51.0, 52.0, 53.0))], RECIPES)
    table = grid_table(runs, MAIN["CIFAR-100-LT"])
    assert cells(table, "ProCo")[:3] == ["52.8", "52.00 ± 1.00 (3)", "52.50"]
    assert cells(table, "BCL")[:3] == ["51.9", "no run yet", "-"]
    assert cells(table, "ProCo")[3:6] == ["-", "no run yet", "-"]


def test_method_appears_with_its_recipe_or_its_runs() -> None:
    grid = MAIN["CIFAR-100-LT"]
    assert METHODS["proco_plus"] not in grid_table(Runs([], RECIPES), grid)
    new = {SHORT.recipe("proco_plus"): recipe()}
    assert cells(grid_table(Runs([], RECIPES | new), grid), "ProCo+")[:3] == ["-", "no run yet", "-"]
    runs = Runs([entry(SHORT.recipe("proco_plus"), 0, 53.0)], RECIPES)
    assert cells(grid_table(runs, grid), "ProCo+")[:3] == ["-", "53.00 (1)", "53.50"]
    assert cells(group_table(runs, SHORT), "ProCo+") == [
        "-",
        "53.00 (1)",
        "-",
        "63.00 (1)",
        "-",
        "53.00 (1)",
        "-",
        "no run yet",
    ]


def test_distance_from_the_paper_is_over_what_was_run() -> None:
    assert distance_sentence(Runs([], RECIPES), "proco") == ""
    entries = [entry(SHORT.recipe("proco"), seed, top1) for seed, top1 in enumerate((50.0, 52.0))]
    sentence = distance_sentence(Runs([*entries, entry(LONG.recipe("proco"), 0, 54.0)], RECIPES), "proco")
    assert sentence.startswith("Over 1 settings, the best epoch of ProCo is -1.3 to -1.3 points")
    recipes = RECIPES | {LONG.recipe("proco"): recipe(published={"top1": 54.2})}
    sentence = distance_sentence(Runs([*entries, entry(LONG.recipe("proco"), 0, 54.0)], recipes), "proco")
    assert sentence.startswith("Over 2 settings, the best epoch of ProCo is -1.3 to +0.3 points")


def test_aims_are_reached_by_the_mean_or_missed_by_so_much() -> None:
    runs = Runs([entry("a", seed, top1) for seed, top1 in enumerate((52.0, 53.0))], RECIPES)
    aims = [
        Aim("reached", "a", 52.5),
        Aim("missed", "a", SHORT.recipe("proco")),
        Aim("waiting", "b", 50.0),
        Aim("unknown", "a", SHORT.recipe("logit_adjustment")),  # the paper says nothing
    ]
    table = aim_table(runs, aims)
    assert cells(table, "reached") == ["52.5", "52.50 ± 0.71 (2)", "yes"]
    assert cells(table, "missed") == ["52.8", "52.50 ± 0.71 (2)", "no, by 0.30"]
    assert cells(table, "waiting") == ["50.0", "no run yet", "no run yet"]
    assert "unknown" not in table


def test_no_runs_and_no_recipes_give_a_sentence() -> None:
    assert grid_table(Runs([], {}), MAIN["CIFAR-100-LT"]) == "No run yet."
    assert probe_table(Runs([], {})) == run_table(Runs([], {})) == time_table(Runs([], {})) == "No run yet."


@pytest.mark.parametrize(
    ("lead", "interval", "sentence"),
    [
        (
            (1.0, 1.1, 0.9),
            "excludes 0, includes the paper's",
            "The interval excludes 0 and ProCo is better: CIFAR-100-LT",
        ),
        (
            (-1.0, -1.1, -0.9),
            "excludes 0, excludes the paper's",
            "The interval excludes 0 and ProCo is worse: CIFAR-100-LT",
        ),
        ((1.0, -1.0, 0.0), "includes 0, includes the paper's", "The interval includes 0: CIFAR-100-LT"),
        ((1.0,), "needs a second seed", "no setting has two seeds of both yet"),
        ((), "-", "no setting has two seeds of both yet"),
    ],
)
def test_differences_are_read_from_the_interval(lead: tuple[float, ...], interval: str, sentence: str) -> None:
    entries = [entry(SHORT.recipe("bcl"), seed, 50.0 + seed) for seed in range(3)]
    entries += [entry(SHORT.recipe("proco"), seed, 50.0 + seed + points) for seed, points in enumerate(lead)]
    runs = Runs(entries, RECIPES)
    row = next(line for line in difference_table(runs, "proco", "bcl").splitlines() if "CIFAR-100-LT | 100" in line)
    assert "+0.9" in row
    assert row.split("|")[-2].strip() == interval
    assert sentence in difference_sentences(runs, "proco", "bcl")


def test_loss_weights_are_read_from_the_settings() -> None:
    entries = [
        entry("cifar100_lt/ablations/alpha_small", 0, 50.0, weight=0.3),
        entry(SHORT.recipe("proco"), 0, 51.0),
        entry(SHORT.recipe("logit_adjustment"), 0, 49.0),
    ]
    table = loss_weight_table(Runs(entries, RECIPES | {"cifar100_lt/ablations/alpha_5": recipe(weight=5)}))
    assert cells(table, "0 (logit adjustment)") == ["49.00 (1)", "49.50"]
    assert cells(table, "0.3") == ["50.00 (1)", "50.50"]
    assert cells(table, "1") == ["51.00 (1)", "51.50"]
    assert cells(table, "5") == ["no run yet", "-"]


def test_probes_by_method_and_batch_size() -> None:
    entries = [
        entry("cifar100_lt/ablations/probe_a", 0, 40.0, method="proco", batch_size=64),
        entry("cifar100_lt/ablations/probe_b", 0, 30.0, method="supcon", batch_size=32),
    ]
    table = probe_table(Runs(entries, RECIPES))
    assert [name.strip() for name in table.splitlines()[0].strip("|").split("|")] == ["batch size", "SupCon", "ProCo"]
    assert cells(table, "32") == ["30.00 (1)", "no run yet"]
    assert cells(table, "64") == ["no run yet", "40.00 (1)"]


def test_seconds_alone_and_side_by_side() -> None:
    entries = [
        entry("a", 0, seconds=80.0),
        entry("a", 1, seconds=120.0, lanes=3),
        entry("a", 2, seconds=126.0, lanes=3),
    ]
    assert cells(time_table(Runs(entries, {})), "a") == ["3", "2", "80 (1)", "41 (2)", "3", "A GPU"]


def test_runs_are_listed_with_what_differs() -> None:
    runs = Runs([entry("a", 0, weight=2.0), entry("a", 1, weight=2.0)], {"a": recipe()})
    assert run_table(runs).splitlines()[2].split("|")[1:] == [
        *(f" {cell} " for cell in ["a     ", "0   ", "50.00", "60.00", "50.00 ", "-  ", "50.50", "49.50  ", "0123456"]),
        "",
    ]
    assert departure_list(runs).endswith("- a, seed 0, 1: method.weight=2.0")
    assert "Every run" in departure_list(Runs([entry("a")], {"a": recipe()}))
