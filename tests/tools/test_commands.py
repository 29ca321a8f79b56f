"""The commands below the tables: they are taken by the program, and name all runs."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

from tests.tools.made_up import entry, recipe
from tools.results.commands import commands
from tools.results.runs import Runs

from proco.cli.compare import _changes_the_result, _read, _shared_engine
from proco.training.recipes import load_recipe, recipe_names

PAGE = Path(__file__).parents[2] / "docs" / "results.md"


def of(source: str) -> dict[str, object]:
    return recipe() | {"data": {"validation": None, "source": {"name": source}}}


def test_a_command_for_each_set_of_data_of_seeds_and_each_precision() -> None:
    names = {"a/x": "cifar10", "a/y": "cifar100", "a/z": "cifar10", "a/v": "cifar10", "q": "fashion_mnist_lt"}
    recipes = {name: of(source) for name, source in names.items()}
    recipes["a/f"] = of("cifar10") | {"engine": {"precision": "float32"}}
    entries = [entry("a/x", 0), entry("a/x", 2), entry("a/v", 0, split="val"), entry("a/v", 2), entry("q", 1)]
    runs = Runs([*entries, entry("a/z", 1)], recipes)
    assert commands(runs, ["a/x", "a/y", "a/z", "a/v", "a/x", "a/f", "gone", "q"]).splitlines() == [
        "```sh",
        "proco compare a/x a/v --seeds 0 2 --lanes 4 --results results data.source.path=CIFAR10",
        "proco compare a/y --seeds 0 2 --lanes 4 --results results data.source.path=CIFAR100",
        "proco compare a/z --seeds 1 --lanes 4 --results results data.source.path=CIFAR10",
        "proco compare a/f --seeds 0 2 --lanes 4 --results results data.source.path=CIFAR10",
        "proco compare q --seeds 1 --results results",
        "```",
    ]
    assert commands(runs, ["gone"]) == ""


def test_long_commands_go_over_lines_and_are_one_to_a_shell() -> None:
    names = [f"cifar100_lt/a_recipe_with_a_long_name_{number}" for number in range(9)]
    block = commands(Runs([], dict.fromkeys(names, of("cifar100"))), names).strip("`sh\n")
    assert all(len(line) <= 120 for line in block.splitlines())
    words = shlex.split(block.replace("\\\n", " "))  # as a shell reads it
    assert words[:2] == ["proco", "compare"]
    assert words[2:11] == names


def test_those_on_the_page_are_taken_by_the_program() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    assert len(lines) > 15
    for line in lines:
        words = shlex.split(line)
        assert words[:2] == ["proco", "compare"]
        at = words.index("--seeds")
        results = words.index("--results")
        others = [*words[2:at], *words[at + 2 : results], *words[results + 2 :]]
        recipes, seeds, overrides = _read([word for word in others if word not in ("--lanes", "4")], [words[at + 1]])
        assert set(recipes) <= set(recipe_names())
        assert seeds
        assert not _changes_the_result(overrides, recipes)
        engines = [replace(load_recipe(recipe).engine, device="cpu") for recipe in recipes]
        with _shared_engine(engines, lanes=4 if "--lanes" in words else 1):
            pass
