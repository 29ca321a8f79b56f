"""What is said of the official code and of speed."""

from tests.tools.made_up import entry, recipe
from tools.results.experiments import SHORT
from tools.results.official import official_sentence, speed_sentence
from tools.results.runs import Runs

PROCO = SHORT.recipe("proco")


def test_the_official_run_stands_beside_the_paper_and_ours() -> None:
    recipes = {PROCO: recipe(published={"top1": 52.8})}
    runs = Runs([entry(PROCO, seed, 51.0 + seed) for seed in range(2)], recipes)
    sentence = official_sentence(runs)
    assert "gave 51.78 % in its last epoch and 52.19 % in its best" in sentence
    assert sentence.endswith("0.6 below the paper, where ours is 0.8 below.")  # 52.8 - (51.5 + 0.5)
    assert official_sentence(Runs([], {})).endswith("in its best.")


def test_seconds_are_of_runs_that_were_alone() -> None:
    runs = Runs([entry(PROCO, 0, seconds=40.0), entry(PROCO, 1, seconds=60.0), entry(PROCO, 2, lanes=4)], {})
    sentence = speed_sentence(runs)
    assert sentence.startswith("Its training: 50 s, alone on a GPU; the official code's: 1,207 s")
    assert "no run alone" in speed_sentence(Runs([], {}))
