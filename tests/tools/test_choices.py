"""The table of runs that settings are chosen by."""

from tests.tools.made_up import entry, recipe
from tools.results.choices import choice_folders, choice_table
from tools.results.runs import Runs


def cells(runs: Runs, folder: str) -> list[list[str]]:
    lines = choice_table(runs, folder).splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_base_comes_first_and_the_others_by_what_they_gain() -> None:
    tops = {"a/worse": [40.0], "a/base": [41.0, 43.0, 45.0], "a/better": [42.5, 45.5]}
    entries = [entry(name, seed, top1, split="val") for name, row in tops.items() for seed, top1 in enumerate(row)]
    recipes = {name: recipe() | {"about": f"{name[2:].title()}."} for name in tops}
    assert cells(Runs(entries, recipes), "a") == [
        ["a/base", "Base.", "42.00 ± 2.00 (3)", "0, 1, 2", "-", "53.00", "43.00", "-"],
        ["a/better", "Better.", "43.00 ± 2.12 (2)", "0, 1", "+2.00 (2)", "54.00", "44.00", "-"],
        ["a/worse", "Worse.", "39.00 (1)", "0", "-1.00 (1)", "50.00", "40.00", "-"],
    ]


def test_changed_settings_make_a_row_of_their_own() -> None:
    entries = [
        entry("a", 0, 40.0, split="val", weight=0.5),
        entry("a", 1, 42.0, split="val", weight=0.5),
        entry("a", 0, 30.0, split="val"),
    ]
    assert cells(Runs(entries, {"a": recipe() | {"about": "It."}}), "") == [
        ["a", "It. With method.weight=0.5.", "40.00 ± 1.41 (2)", "0, 1", "-", "51.00", "41.00", "-"],
        ["a", "It.", "29.00 (1)", "0", "-", "40.00", "30.00", "-"],
    ]


def test_recipes_that_wait_for_a_run_come_last() -> None:
    recipes = {"a/waiting": recipe() | {"about": "Later."}, "a/base": recipe() | {"about": "Base."}, "tested": recipe()}
    for name in ("a/waiting", "a/base"):
        recipes[name]["data"]["left_out"] = 200
    assert cells(Runs([entry("a/base", split="val")], recipes), "a") == [
        ["a/base", "Base.", "49.00 (1)", "0", "-", "60.00", "50.00", "-"],
        ["a/waiting", "Later.", "no run yet", "-", "-", "-", "-", "-"],
    ]


def test_a_recipe_that_is_gone_is_not_offered_to_be_run() -> None:
    gone = entry("a/gone", split="val")
    gone["config"]["about"] = "Until then."
    assert cells(Runs([gone], {}), "a")[0][:2] == ["gone (0123456)", "Until then."]


def test_without_runs_it_says_so() -> None:
    assert choice_table(Runs([entry("a")], {}), "") == "No run yet."


def test_what_has_another_base_is_in_another_table() -> None:
    tops = {"a/base": 40.0, "a/x": 41.0, "a/b/base": 20.0, "a/b/x": 22.0}
    runs = Runs([entry(name, 0, top1, split="val") for name, top1 in tops.items()] + [entry("c/tested")], {})
    assert choice_folders(runs) == ["a", "a/b"]
    for folder, gain in {"a": "+1.00 (1)", "a/b": "+2.00 (1)"}.items():
        assert [row[4] for row in cells(runs, folder)] == ["-", gain]
