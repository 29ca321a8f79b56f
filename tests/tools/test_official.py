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
    assert "gave 51.78 % in its last epoch, ours 51.50 ± 0.71 (2)" in sentence
    assert sentence.endswith("best epoch is 0.6 below the paper, ours 0.8.")  # 52.8 - (51.5 + 0.5)
    assert official_sentence(Runs([], {})).endswith("gave 51.78 % in its last epoch and 52.19 % in its best.")


def test_speed_is_of_whole_runs_and_of_steps() -> None:
    sentence = speed_sentence()
    assert "takes 59 s there on one GPU, 1,207 s with the official code" in sentence
    assert "takes 13.9 times as long for a step" in sentence
