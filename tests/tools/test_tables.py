"""Cells with and without a run, and what is said of differences."""

from typing import Any

import pytest
from tests.tools.made_up import entry, recipe
from tools.results.differences import difference_table, distance_sentence, few_seeds_sentence, verdict_sentence
from tools.results.experiments import LONG, MAIN, METHODS, SHORT, Aim, Grid, Setting
from tools.results.listings import cost_sentence, departure_list, error_sentence, run_table, time_table, waiting_list
from tools.results.runs import Runs
from tools.results.tables import aim_sentence, aim_table, grid_table, group_table, loss_weight_table, probe_table

RECIPES: dict[str, Any] = {
    SHORT.recipe("proco"): recipe(published={"top1": 52.8, "many": 69.0}),
    SHORT.recipe("bcl"): recipe(published={"top1": 51.9}),
    SHORT.recipe("logit_adjustment"): recipe(),
}
PAPER_AT_50 = {"proco": 57.1, "bcl": 55.2}


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
    assert distance_sentence(Runs([], RECIPES), "proco") == "ProCo has no run yet where the paper has one."
    entries = [entry(SHORT.recipe("proco"), seed, top1) for seed, top1 in enumerate((50.0, 52.0))]
    sentence = distance_sentence(Runs([*entries, entry(LONG.recipe("proco"), 0, 54.0)], RECIPES), "proco")
    assert sentence == "In its best epoch ProCo is 1.3 points below what the paper reports (1 settings)."
    recipes = RECIPES | {LONG.recipe("proco"): recipe(published={"top1": 54.2})}
    sentence = distance_sentence(Runs([*entries, entry(LONG.recipe("proco"), 0, 54.0)], recipes), "proco")
    assert sentence == "In its best epoch ProCo is -0.3 to 1.3 points below what the paper reports (2 settings)."


def test_settings_with_enough_seeds_of_both_are_counted() -> None:
    other = Setting("cifar100_lt", 50, 200)
    seeds = {(SHORT, "proco"): 5, (SHORT, "bcl"): 5, (other, "proco"): 5, (other, "bcl"): 4}
    entries = [entry(setting.recipe(name), seed) for (setting, name), n in seeds.items() for seed in range(n)]
    assert "asks for 5 seeds: 1 of 7 settings have them" in few_seeds_sentence(Runs(entries, RECIPES))


def test_aims_are_reached_by_the_mean_or_missed_by_so_much() -> None:
    runs = Runs([entry("a", seed, top1) for seed, top1 in enumerate((52.0, 53.0))], RECIPES)
    aims = [
        Aim("reached", "a", 52.5, "why"),
        Aim("missed", "a", SHORT.recipe("proco"), "why"),
        Aim("waiting", "b", 50.0, "why"),
        Aim("unknown", "a", SHORT.recipe("logit_adjustment"), "why"),  # the paper says nothing
    ]
    table = aim_table(runs, aims)
    assert cells(table, "reached") == ["52.5", "why", "52.50 ± 0.71 (2)", "yes"]
    assert cells(table, "missed") == ["52.8", "why", "52.50 ± 0.71 (2)", "no, by 0.30"]
    assert cells(table, "waiting") == ["50.0", "why", "no run yet", "no run yet"]
    assert "unknown" not in table
    assert aim_sentence(runs, aims) == "1 of 3 aims were reached, 1 missed, 1 not tried yet."


def test_no_runs_and_no_recipes_give_a_sentence() -> None:
    assert grid_table(Runs([], {}), MAIN["CIFAR-100-LT"]) == "No run yet."
    assert probe_table(Runs([], {})) == run_table(Runs([], {})) == time_table(Runs([], {})) == "No run yet."


@pytest.mark.parametrize(
    ("lead", "reading"),
    [
        ((1.0, 1.1, 0.9), "excludes 0, includes the paper's"),
        ((-1.0, -1.1, -0.9), "excludes 0, excludes the paper's"),
        ((1.0, -1.0, 0.0), "includes 0, includes the paper's"),
        ((1.0,), "needs a second seed"),
        ((), "-"),
    ],
)
def test_differences_are_read_from_the_interval(lead: tuple[float, ...], reading: str) -> None:
    entries = [entry(SHORT.recipe("bcl"), seed, 50.0 + seed) for seed in range(3)]
    entries += [entry(SHORT.recipe("proco"), seed, 50.0 + seed + points) for seed, points in enumerate(lead)]
    row = difference_rows(Runs(entries, RECIPES))["CIFAR-100-LT", "100", "200"]
    assert row["paper"] == "+0.9"
    assert row["the intervals"] == reading


def difference_rows(runs: Runs) -> dict[tuple[str, ...], dict[str, str]]:
    head, _, *lines = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in difference_table(runs, "proco", "bcl").splitlines()
    )
    return {tuple(line[:3]): dict(zip(head, line, strict=True)) for line in lines}


def test_zero_is_looked_for_in_the_last_epoch_and_the_paper_in_the_best() -> None:
    entries = [entry(SHORT.recipe("bcl"), seed, 50.0, best_top1=50.0) for seed in range(3)]
    for seed, points in enumerate((-0.1, 0.0, 0.1)):
        entries.append(entry(SHORT.recipe("proco"), seed, 50.0 + points, best_top1=50.9 + points))
    row = difference_rows(Runs(entries, RECIPES))["CIFAR-100-LT", "100", "200"]
    assert (row["last epoch"], row["best epoch"]) == ("+0.00 (3)", "+0.90")
    assert row["the intervals"] == "includes 0, includes the paper's"


def test_settings_are_taken_together_each_alike() -> None:
    other = Setting("cifar100_lt", 50, 200)
    recipes = RECIPES | {other.recipe(name): recipe(published={"top1": top1}) for name, top1 in PAPER_AT_50.items()}
    entries = [entry(setting.recipe("bcl"), seed, 50.0) for setting in (SHORT, other) for seed in range(3)]
    entries += [entry(SHORT.recipe("proco"), seed, 50.0 + points) for seed, points in enumerate((0.9, 1.0, 1.1))]
    entries += [entry(other.recipe("proco"), 0, 52.0)]
    rows = difference_rows(Runs(entries, recipes))
    assert rows["mean of all", "", ""]["last epoch"] == "+1.50 (4)"
    assert rows["mean of all", "", ""]["paper"] == "+1.4"  # of 0.9 and 1.9
    # One seed has an interval, by the scatter of the others: t(0.975, 2) = 4.3027, the deviation is 0.1.
    assert rows["CIFAR-100-LT", "50", "200"]["95 % interval"] == "+1.57 to +2.43"
    verdict = verdict_sentence(Runs(entries, recipes), "proco", "bcl")
    # 4.3027 * 0.1 * sqrt(1/3 + 1) / 2 = 0.248.
    assert verdict == (
        "+1.0 to +2.0 points by setting, +1.50 in their mean (95 % interval +1.25 to +1.75); "
        "the paper has +1.4 in the mean."
    )
    # Beside single runs, 4.3027 * 0.1 * sqrt(1/3 + 1 + 1 + 1) / 2 = 0.393, and for the first 4.3027 * 0.1 * sqrt(4/3).
    assert rows["mean of all", "", ""]["for single runs"] == "+1.11 to +1.89"
    assert rows["CIFAR-100-LT", "100", "200"]["for single runs"] == "+0.50 to +1.50"
    once = [run for run in entries if run["seed"] == 0]
    assert verdict_sentence(Runs(once, recipes), "proco", "bcl").startswith(
        "+0.9 to +2.0 points by setting, +1.45 in their mean;"
    )
    assert "mean of all" not in str(difference_rows(Runs(entries[:3] + entries[6:9], recipes)))
    assert verdict_sentence(Runs([], recipes), "proco", "bcl") == "Fewer than two settings have runs of both."


def test_methods_the_paper_does_not_compare_have_our_columns_only() -> None:
    table = difference_table(Runs([entry(SHORT.recipe("proco"))], RECIPES), "proco", "logit_adjustment")
    assert "paper" not in table
    assert "best epoch" not in table


def test_gain_over_the_reference_is_of_the_means() -> None:
    grid = Grid("part", ["100", "50"], {"with": ["a", "c"], "without": ["b", "d"]}, reference="with")
    entries = [entry("a", seed, top1) for seed, top1 in enumerate((50.0, 51.0, 40.0))]
    entries += [entry("b", seed, top1) for seed, top1 in enumerate((49.0, 51.5))]
    table = grid_table(Runs(entries, {"c": recipe(), "d": recipe()}), grid)
    assert cells(table, "with")[3::4] == ["-", "-"]
    assert cells(table, "without")[3::4] == ["+3.25", "-"]


def test_cost_is_a_range_over_the_settings() -> None:
    other = Setting("cifar100_lt", 50, 200)
    seconds = {
        (SHORT, "proco"): 80.0,
        (SHORT, "proco_plus"): 400.0,
        (other, "proco"): 100.0,
        (other, "proco_plus"): 420.0,
    }
    entries = [entry(setting.recipe(name), seconds=s, lanes=2) for (setting, name), s in seconds.items()]
    entries += [entry(SHORT.recipe("proco"), 1, seconds=1.0)]  # alone, so of another kind
    entries += [entry(other.recipe("proco_plus"), 1, seconds=1.0, lanes=3)]
    sentence = cost_sentence(Runs(entries, {}), "proco_plus", "proco")
    assert "takes 4.2 to 5.0 times as long as ProCo's, at the 2 settings" in sentence
    assert "elsewhere" not in sentence
    apart = Setting("cifar100_lt", 10, 200)
    entries += [entry(apart.recipe("proco"), seconds=80.0, lanes=4)]
    entries += [entry(apart.recipe("proco_plus"), seconds=360.0, lanes=3)]
    assert ", and 6.0 times elsewhere," in cost_sentence(Runs(entries, {}), "proco_plus", "proco")
    assert cost_sentence(Runs([], {}), "proco_plus", "proco") == ""


def test_scatter_of_seeds_is_that_of_all_recipes() -> None:
    tops = {"a": (50.0, 51.0), "b": (40.0, 42.0), "c": (30.0,)}
    entries = [entry(name, seed, top1) for name, row in tops.items() for seed, top1 in enumerate(row)]
    # sqrt((0.5 + 2) / 2) = 1.118, times sqrt(0.7) = 0.935.
    sentence = error_sentence(Runs(entries, {}))
    assert "scatter by 1.12" in sentence
    assert sentence.endswith("a standard error of 0.9.")
    assert error_sentence(Runs([entry("c")], {})) == ""


def test_recipes_without_a_run_are_named() -> None:
    choosing = recipe() | {"data": {"validation": None, "left_out": 200}}
    recipes = {"x/a": recipe(), "x/b": recipe(), "x/c": recipe(), "x/choices/d": choosing}
    assert waiting_list(Runs([entry("x/b")], recipes)).splitlines()[2:] == ["- x/a, x/c"]
    assert waiting_list(Runs([entry("x/a")], {"x/a": recipe()})) == "Every recipe has a run."


def test_loss_weights_are_read_from_the_settings() -> None:
    entries = [
        entry("cifar100_lt/ablations/alpha_small", 0, 50.0, weight=0.3),
        entry(SHORT.recipe("proco"), 0, 51.0),
        entry(SHORT.recipe("logit_adjustment"), 0, 49.0),
    ]
    table = loss_weight_table(Runs(entries, RECIPES | {"cifar100_lt/ablations/alpha_5": recipe(weight=5)}))
    assert cells(table, "0 (logit adjustment)") == ["49.00 (1)", "49.50", "-2.00"]
    assert cells(table, "0.3") == ["50.00 (1)", "50.50", "-1.00"]
    assert cells(table, "1") == ["51.00 (1)", "51.50", "-"]
    assert cells(table, "5") == ["no run yet", "-", "-"]


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
    assert "Every setting" in departure_list(Runs([entry("a")], {"a": recipe()}))
