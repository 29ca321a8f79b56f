"""The commands as a user types them: what they print, leave behind and refuse."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from proco.augment import Weak
from proco.cli import main as cli
from proco.cli.train import split_words
from proco.errors import ProCoError
from proco.losses.focal import FocalLoss
from proco.methods import Method
from proco.training.ledger import read_entries
from proco.training.run_folder import RunFolder
from proco.training.step import Step

SMALL = ["epochs=2", "batch_size=16", "network.backbone=resnet8", "network.hidden=16", "network.dim=16"]


@pytest.fixture
def squares(tmp_path: Path) -> Path:
    """An npz of 8 x 8 images whose brightness tells the class."""
    generator = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {"class_names": np.array(["dark", "grey", "bright"])}
    for split, counts in (("train", [30, 12, 5]), ("test", [4, 4, 4])):
        labels = np.repeat(np.arange(3), counts)
        noise = generator.integers(-20, 20, (len(labels), 8, 8, 3))
        arrays[f"{split}_images"] = (40 + 90 * labels[:, None, None, None] + noise).clip(0, 255).astype(np.uint8)
        arrays[f"{split}_labels"] = labels
    np.savez(tmp_path / "squares.npz", **arrays)  # type: ignore[arg-type]
    return tmp_path / "squares.npz"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> str:
    """Run a command that must succeed; return what it printed."""
    result = CliRunner().invoke(cli.app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_train_evaluate_and_resume_of_a_finished_run(squares: Path) -> None:
    printed = run("train", "--data", str(squares), "--out", "run", *SMALL)
    assert "47 training images of 3 classes" in " ".join(printed.split())
    assert "epoch 2/2" in printed
    assert "proco: 2 epochs." in " ".join(printed.split())
    scarce = "few images were evaluated (medium: 4, few: 8)"
    assert scarce in " ".join(printed.split())
    summary = RunFolder(Path("run")).summary()
    printed = run("evaluate", "run")
    assert scarce in " ".join(printed.split())
    assert f"{summary['top1']:.1f}" in printed
    assert "least accurate classes" in printed
    metrics = json.loads(run("evaluate", "run", "--json", "--split", "train"))
    assert metrics["split"] == "train"
    assert (metrics["class_names"], metrics["class_counts"]) == (summary["class_names"], summary["class_counts"])
    with pytest.raises(ProCoError, match="is finished"):
        run("train", "--resume", "run")


def test_train_finds_a_new_folder_each_time(squares: Path) -> None:
    for _ in range(2):
        run("train", "--data", str(squares), *SMALL)
    assert RunFolder(Path("runs/squares/seed0")).is_finished
    assert RunFolder(Path("runs/squares/seed0-2")).is_finished
    run("train", "--data", str(squares), "--seed", "3", *SMALL)
    assert RunFolder(Path("runs/squares/seed3")).config().seed == 3


def test_a_run_that_waits_to_be_finished_is_named(squares: Path) -> None:
    folder = RunFolder(Path("runs/squares/seed0"))
    process = start("train", "--data", str(squares), *SMALL, "epochs=2000")
    wait_for_records(folder, 2, process)
    while_it_trains = run("train", "--data", str(squares), *SMALL)
    process.kill()
    process.wait()
    after = run("train", "--data", str(squares), *SMALL)
    said = "the run in runs/squares/seed0 is not finished; proco train --resume runs/squares/seed0 goes on with it."
    assert said in after
    assert "is not finished" not in while_it_trains
    assert RunFolder(Path("runs/squares/seed0-3")).is_finished


def test_what_was_trained_on_is_known_again(squares: Path) -> None:
    """Else one could evaluate on it without noticing."""
    for part, numbers in (("own", range(20)), ("more", range(10, 40))):
        for number in numbers:
            for label, name in enumerate(("cat", "dog")):
                path = Path(part) / name / f"{number}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                generator = np.random.default_rng(1000 * label + number)
                Image.fromarray(generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(path)
    run("train", "--data", "own", "--out", "run", *SMALL, "data.size=8")
    trained = len(RunFolder(Path("run")).training_images())
    assert trained == 36  # a tenth is held out
    said = " ".join(run("evaluate", "run", "--data", "own").split())
    assert "36 of these 40 images were trained on" in said
    assert json.loads(run("evaluate", "run", "--split", "train", "--json"))["trained_on"] == 36
    facts = json.loads(run("evaluate", "run", "--data", "more", "--json"))
    assert 16 <= facts["trained_on"] <= 20
    unseen = run("evaluate", "run", "--data", "more", "--unseen")
    assert "were trained on" not in unseen
    assert json.loads(run("evaluate", "run", "--data", "more", "--unseen", "--json"))["trained_on"] == 0
    assert "were trained on" not in run("evaluate", "run")
    with pytest.raises(ProCoError, match="--unseen is for other data than the run's own"):
        run("evaluate", "run", "--unseen")
    RunFolder(Path("run")).training_images_file.unlink()
    assert "were trained on" not in run("evaluate", "run", "--data", "own")
    with pytest.raises(ProCoError, match="which images were trained on is not known"):
        run("evaluate", "run", "--data", "own", "--unseen")


def test_where_data_is_looked_for_is_said_when_it_has_moved(squares: Path) -> None:
    run("train", "--data", str(squares), "--out", "run", *SMALL)
    squares.rename("elsewhere.npz")
    with pytest.raises(ProCoError, match=r"Where the data has moved, change its place in run/config\.yaml"):
        run("evaluate", "run")
    Path("run/summary.json").unlink()
    with pytest.raises(ProCoError, match=r"Where the data has moved, change its place in run/config\.yaml"):
        run("train", "--resume", "run")
    config = Path("run/config.yaml")
    config.write_text(config.read_text().replace(str(squares), str(Path("elsewhere.npz").absolute())))
    run("train", "--resume", "run")
    run("evaluate", "run")


def test_a_recipe_without_data_says_what_it_is_trained_on(squares: Path) -> None:
    Path("bare.yaml").write_text("method: logit_adjustment\n")
    note = "the recipe names no data"
    assert note in run("train", "bare.yaml", *SMALL, "epochs=1", "engine.device=cpu")
    assert note not in run("train", "bare.yaml", "--data", str(squares), *SMALL)
    source = f"data.source={{name: arrays, path: {squares}}}"
    assert note not in run("train", "bare.yaml", source, *SMALL)


def test_a_folder_that_cannot_be_one_is_refused_before_the_data_is_read(tmp_path: Path) -> None:
    Path("file").write_text("")
    with pytest.raises(ProCoError, match="file is a file, and is left as it is"):
        run("train", "quickstart/proco", "--out", "file/run")
    Path("full").mkdir()
    Path("full/note.txt").write_text("")
    with pytest.raises(ProCoError, match=r"full is not empty and is left as it is\. Choose another folder"):
        run("train", "quickstart/proco", "--out", "full")


def test_compare_trains_every_recipe_with_every_seed_once(squares: Path) -> None:
    Path("a.yaml").write_text(f"data: {{source: {{name: arrays, path: {squares}}}}}\nmethod: logit_adjustment\n")
    Path("b.yaml").write_text("extends: a.yaml\nmethod: proco\n")
    words = ["compare", "a.yaml", "b.yaml", "--seeds", "0", "1", "--out", "both", *SMALL]
    printed = run(*words)
    assert "±" in printed
    assert "run 4 of 4" in printed
    assert "both/b/seed1" in printed
    result = json.loads(Path("both/comparison.json").read_text())
    top1 = {name: [RunFolder(Path(f"both/{name}/seed{seed}")).summary()["top1"] for seed in (0, 1)] for name in "ab"}
    assert result["top1"] == {"a.yaml": top1["a"], "b.yaml": top1["b"]}
    assert result["seeds"] == [0, 1]
    # It is of the last epoch, whatever the best was.
    RunFolder(Path("both/b/seed1")).save_summary({**RunFolder(Path("both/b/seed1")).summary(), "best_top1": 99.0})
    written = Path("both/b/seed1/summary.json").stat().st_mtime_ns
    run(*words)
    assert json.loads(Path("both/comparison.json").read_text())["top1"] == result["top1"]
    assert Path("both/b/seed1/summary.json").stat().st_mtime_ns == written  # what is finished is not trained again


def test_compare_trains_stages_that_runs_share_once(squares: Path) -> None:
    for name in ("cross_entropy", "crt", "tau_norm", "focal"):
        Path(f"{name}.yaml").write_text(f"method: {name}\n")
    recipes = ["tau_norm.yaml", "cross_entropy.yaml", "crt.yaml", "focal.yaml"]
    settings = ["--data", str(squares), "--seeds", "0", "1", "--out", "all", *SMALL]
    printed = " ".join(run("compare", *recipes, *settings).split())
    assert printed.count("with which it shares its first stage") == 4  # tau_norm, named first, waits for it
    for seed in (0, 1):
        begun = Path(f"all/cross_entropy/seed{seed}").absolute()
        expected = {"tau_norm": begun, "crt": begun, "cross_entropy": None, "focal": None}
        for name, path in expected.items():
            assert RunFolder(Path(f"all/{name}/seed{seed}")).config().engine.first_run == path
    alone = run("compare", "crt.yaml", *["alone" if word == "all" else word for word in settings])
    assert "shares its first stage" not in alone
    shared, own = (json.loads(Path(f"{out}/comparison.json").read_text()) for out in ("all", "alone"))
    assert shared["top1"]["crt.yaml"] == own["top1"]["crt.yaml"]
    Path("all/cross_entropy/seed0/checkpoints/last.pt").unlink()  # nothing to go on from: it is trained as a whole
    shutil.rmtree("all/crt/seed0")
    printed = run("compare", *recipes, "--data", str(squares), "--seeds", "0", "--out", "all", *SMALL)
    assert "shares its first stage" not in printed


def test_compare_shows_notes_of_data_and_rate_and_keeps_balanced_accuracies(squares: Path) -> None:
    arrays = dict(np.load(squares))
    uneven = {name: arrays[name] for name in ("class_names", "train_images", "train_labels")}
    np.savez("uneven.npz", **uneven)  # type: ignore[arg-type]
    for name, method in (("a", "cross_entropy"), ("b", "logit_adjustment")):
        Path(f"{name}.yaml").write_text(f"method: {method}\n")
    printed = " ".join(run("compare", "a.yaml", "b.yaml", "--data", "uneven.npz", "--out", "both", *SMALL).split())
    assert "note: a.yaml: optim.lr=0.3 is the rate for batches of 256" in printed
    assert "held out" in printed
    summaries = {name: RunFolder(Path(f"both/{name}/seed0")).summary() for name in "ab"}
    result = json.loads(Path("both/comparison.json").read_text())
    assert result["balanced_accuracy"] == {f"{name}.yaml": [summaries[name]["balanced_accuracy"]] for name in "ab"}


def test_a_run_knows_its_data_from_anywhere(squares: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.yaml").write_text(f"data: {{source: {{name: arrays, path: {squares.name}}}}}\nmethod: logit_adjustment\n")
    run("train", "a.yaml", "--out", "run", *SMALL)
    folder = Path("run").absolute()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert "accuracy on test" in run("evaluate", str(folder))


def test_own_data_under_a_recipe_has_what_suits_it(squares: Path) -> None:
    """A recipe that says little does not turn off what suits data that nothing is known of."""
    Path("mine.yaml").write_text("epochs: 1\n")
    run("train", "mine.yaml", "--data", str(squares), "--out", "run", "network={backbone: resnet8}", "data.size=8")
    config = RunFolder(Path("run")).config()
    assert (config.epochs, config.batch_size, config.data.size) == (1, "auto", 8)
    assert config.method.views[0] == Weak()
    assert (config.ema, config.optim.nesterov, config.renew_statistics) == (0.9995, True, False)
    words = ["compare", "mine.yaml", "--data", str(squares), "--out", "both", "network={backbone: resnet8}"]
    run(*words, "data.size=8")
    assert RunFolder(Path("both/mine/seed0")).config() == replace(
        config, made_with=RunFolder(Path("both/mine/seed0")).config().made_with
    )
    with pytest.raises(ProCoError, match="--data changes that"):
        run(*words, "--results", "ledger")


def test_compare_ends_with_the_first_run_that_was_evaluated_on_another_split(squares: Path) -> None:
    arrays = dict(np.load(squares))
    np.savez("untested.npz", **{name: arrays[name] for name in arrays if "test" not in name})  # type: ignore[arg-type]
    for name in ("squares", "untested"):
        Path(f"{name}.yaml").write_text(
            f"data: {{source: {{name: arrays, path: {name}.npz}}}}\nmethod: cross_entropy\n"
        )
    with pytest.raises(ProCoError, match="evaluated on different splits"):
        run("compare", "squares.yaml", "untested.yaml", "--seeds", "0", "1", "--out", "both", *SMALL)
    assert RunFolder(Path("both/untested/seed0")).is_finished
    assert not Path("both/untested/seed1").exists()


def test_compare_looks_at_all_folders_before_it_trains_and_notes_other_data(squares: Path) -> None:
    for name in "ab":
        Path(f"{name}.npz").write_bytes(squares.read_bytes())
        Path(f"{name}.yaml").write_text(
            f"data: {{source: {{name: arrays, path: {name}.npz}}}}\nmethod: cross_entropy\n"
        )
    arrays = dict(np.load(squares))
    np.savez("b.npz", **arrays | {"train_images": 255 - arrays["train_images"]})
    run("compare", "b.yaml", "--out", "both", *SMALL)
    with pytest.raises(ProCoError, match=r"both/b/seed0 holds a run with other settings \(optim\."):
        run("compare", "a.yaml", "b.yaml", "--out", "both", *SMALL, "optim.lr=0.01")
    assert not Path("both/a").exists()
    assert "not all of these runs have the same data" in run("compare", "a.yaml", "b.yaml", "--out", "both", *SMALL)


def test_compare_notices_that_the_data_has_changed(squares: Path) -> None:
    Path("a.yaml").write_text(f"data: {{source: {{name: arrays, path: {squares}}}}}\nmethod: logit_adjustment\n")
    Path("b.yaml").write_text("extends: a.yaml\n")
    run("compare", "a.yaml", "--out", "both", *SMALL)
    arrays = dict(np.load(squares))
    arrays["train_images"] = 255 - arrays["train_images"]
    np.savez(squares, **arrays)
    with pytest.raises(ProCoError, match=r"b\.yaml, seed 0: the data has changed since both/a/seed0; train anew"):
        run("compare", "a.yaml", "b.yaml", "--out", "both", *SMALL)
    assert not Path("both/b/seed0").exists()  # before it is trained


@pytest.mark.parametrize("name", ["quickstart/proco.yaml", "recipes/quickstart/proco.yaml", "recipes/quickstart/proco"])
def test_a_recipe_may_be_given_by_its_path_in_the_package(name: str) -> None:
    assert split_words([name, "epochs=3"]) == ("quickstart/proco", ["epochs=3"])


def test_a_file_at_such_a_path_is_meant_itself() -> None:
    Path("recipes").mkdir()
    Path("recipes/mine.yaml").write_text("epochs: 3\n")
    Path("recipes/quickstart").mkdir()
    Path("recipes/quickstart/proco.yaml").write_text("epochs: 3\n")
    for name in ("recipes/mine.yaml", "recipes/quickstart/proco.yaml", "recipes/quickstart/proco"):
        assert split_words([name]) == (name, [])


@pytest.mark.parametrize("name", ["quickstart/_base.yaml", "../recipes/quickstart/proco.yaml", "nothing.yaml"])
def test_what_is_no_recipe_is_left_as_it_is_given(name: str) -> None:
    assert split_words([name]) == (name, [])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("photos",), "photos is a folder, not a recipe. Is it data"),
        (("nope.yaml",), r"there is no file nope\.yaml"),
        (("quickstart/proco", "epochs", "=", "3"), "without spaces around the ="),
        (("quickstart/proco", "network.options={experts: two}"), r"network\.options\.experts is a whole number"),
    ],
)
def test_common_mistakes_are_named(words: tuple[str, ...], sentence: str) -> None:
    Path("photos").mkdir()
    with pytest.raises(ProCoError, match=sentence):
        run("train", *words)
    assert not Path("runs").exists()


def test_compare_side_by_side_fills_the_ledger(squares: Path) -> None:
    Path("a.yaml").write_text(f"data: {{source: {{name: arrays, path: {squares}}}}}\nmethod: logit_adjustment\n")
    Path("small.yaml").write_text(
        "extends: a.yaml\nepochs: 2\nbatch_size: 16\nnetwork: {backbone: resnet8, hidden: 16, dim: 16}\n"
    )
    words = ["compare", "small.yaml", "--seeds", "0", "1", "2", "--lanes", "2", "--out", "both", "--results", "ledger"]
    printed = run(*words, "engine.device=cpu")
    assert "small.yaml, seed 2: epoch" in printed
    entries = {entry["seed"]: entry for entry in read_entries(Path("ledger"))}
    assert set(entries) == {0, 1, 2}
    for seed, entry in entries.items():
        assert (entry["recipe"], entry["lanes"]) == ("small", 2)
        assert entry["top1"] == pytest.approx(RunFolder(Path(f"both/small/seed{seed}")).summary()["top1"], abs=1e-4)
    run(*words[:6], "--out", "both", "--results", "ledger", "engine.device=cpu")  # nothing is trained again
    assert {entry["lanes"] for entry in read_entries(Path("ledger"))} == {2}


def test_compare_refuses_what_would_mix_up_the_ledger_or_the_lanes(squares: Path) -> None:
    Path("a.yaml").write_text(f"data: {{source: {{name: arrays, path: {squares}}}}}\nmethod: logit_adjustment\n")
    Path("b.yaml").write_text("extends: a.yaml\nengine: {precision: float64}\n")
    for wrong in ("epochs=1", "engine.precision=float64", "data.profile=step"):
        with pytest.raises(ProCoError, match="--results keeps what recipes give as they stand"):
            run("compare", "a.yaml", "--results", "ledger", wrong)
    with pytest.raises(ProCoError, match=r"share engine\.precision"):
        run("compare", "a.yaml", "b.yaml", "--lanes", "2", "--out", "both", *SMALL)


def test_runs_of_recipes_anywhere_stay_in_the_folder_asked_for(squares: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "elsewhere" / "mine.yaml"
    recipe.parent.mkdir()
    recipe.write_text(f"data: {{source: {{name: arrays, path: {squares}}}}}\nmethod: logit_adjustment\n")
    run("compare", str(recipe), "--out", "here", *SMALL)
    run("train", str(recipe), *SMALL)
    assert [path.name for path in recipe.parent.iterdir()] == ["mine.yaml"]
    assert RunFolder(Path("here/mine/seed0")).is_finished
    assert RunFolder(Path("runs/mine/seed0")).is_finished


def test_failed_run_is_named_after_the_others_are_done(squares: Path) -> None:
    Path("good.yaml").write_text(f"data: {{source: {{name: arrays, path: {squares}}}}}\nmethod: logit_adjustment\n")
    Path("bad.yaml").write_text("extends: good.yaml\noptim: {lr: 1.0e+30}\n")
    with pytest.raises(ProCoError, match=r"1 of 2 runs failed: bad\.yaml, seed 0: the loss"):
        run("compare", "bad.yaml", "good.yaml", "--out", "both", *SMALL)
    assert RunFolder(Path("both/good/seed0")).is_finished
    assert set(json.loads(Path("both/comparison.json").read_text())["top1"]) == {"good.yaml"}  # what is there is shown


@pytest.mark.parametrize("lanes", ["1", "2"])
def test_a_fault_in_one_run_is_shown_and_the_others_go_on(
    squares: Path, monkeypatch: pytest.MonkeyPatch, lanes: str
) -> None:
    forward = FocalLoss.forward

    def faulty(self: FocalLoss, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self.gamma == 2:
            raise RuntimeError("nobody thought of this")
        return forward(self, logits, labels)

    monkeypatch.setattr(FocalLoss, "forward", faulty)
    for name, gamma in (("bad", 2), ("good", 1)):
        source = f"data: {{source: {{name: arrays, path: {squares}}}}}"
        Path(f"{name}.yaml").write_text(f"{source}\nmethod: {{name: focal, gamma: {gamma}}}\n")
    words = ["compare", "bad.yaml", "good.yaml", "--out", "both", "--lanes", lanes, *SMALL]
    result = CliRunner().invoke(cli.app, words)
    assert isinstance(result.exception, ProCoError)
    assert str(result.exception) == "1 of 2 runs failed: bad.yaml, seed 0: RuntimeError: nobody thought of this"
    assert RunFolder(Path("both/good/seed0")).is_finished
    assert not RunFolder(Path("both/bad/seed0")).is_finished
    assert "in faulty" in result.output  # the place is shown
    assert "compared without bad.yaml" in " ".join(result.output.split())


def test_changed_data_is_noticed_and_other_data_evaluated_whole(squares: Path) -> None:
    run("train", "--data", str(squares), "--out", "run", *SMALL)
    with np.load(squares) as arrays:
        np.savez("other.npz", images=arrays["train_images"][::2], labels=arrays["train_labels"][::2],
                 class_names=arrays["class_names"])  # fmt: skip
        np.savez(squares, **(dict(arrays) | {"test_labels": arrays["test_labels"][::-1]}))
    with pytest.raises(ProCoError, match="has changed since"):
        run("evaluate", "run")
    metrics = json.loads(run("evaluate", "run", "--json", "--data", "other.npz"))
    assert metrics["split"] == "all"  # its own are for training
    for words in ((), ("--split", "test")):
        assert "accuracy on all images of other, %" in run("evaluate", "run", "--data", "other.npz", *words)
    assert "accuracy on train, %" in run("evaluate", "run", "--data", "other.npz", "--split", "train")
    with pytest.raises(ProCoError, match=r"settings of its own; got data\.centre"):
        run("evaluate", "run", "--data", "other.npz", "data.centre=0.5")
    assert sum(accuracy is not None for accuracy in metrics["per_class_accuracy"]) == 3


def test_data_to_evaluate_on_needs_no_training_images_and_not_all_classes(squares: Path) -> None:
    run("train", "--data", str(squares), "--out", "run", *SMALL)
    with np.load(squares) as arrays:
        bright = arrays["test_labels"] == 2
        np.savez("bright.npz", test_images=arrays["test_images"][bright], test_labels=arrays["test_labels"][bright],
                 class_names=arrays["class_names"])  # fmt: skip
        for number, image in enumerate(arrays["test_images"][bright]):
            place = Path("photos/test/bright")
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(place / f"{number}.png")
    for data in ("bright.npz", "photos"):
        metrics = json.loads(run("evaluate", "run", "--json", "--data", data))
        assert metrics["split"] == "test"
        assert [accuracy is None for accuracy in metrics["per_class_accuracy"]] == [True, True, False]


def test_names_are_not_taken_for_markup(squares: Path) -> None:
    with np.load(squares) as arrays:
        np.savez("odd.npz", **(dict(arrays) | {"class_names": np.array(["[red]", "b[/b]c", "[/]"])}))
    printed = run("data", "describe", "odd.npz")
    for name in ("[red]", "b[/b]c", "[/]"):
        assert name in printed
    run("train", "--data", "odd.npz", "--out", "[bold]run", *SMALL)
    assert "b[/b]c" in run("evaluate", "[bold]run")


def test_describe_counts_and_draws(squares: Path) -> None:
    printed = run("data", "describe", str(squares))
    assert "3 classes" in printed
    assert "imbalance factor 6.0" in printed
    bars = {line.split()[0]: line.count("█") for line in printed.splitlines() if "█" in line}
    assert list(bars) == ["dark", "grey", "bright"]
    assert bars["dark"] > bars["grey"] > bars["bright"] > 0


def test_methods_are_listed_for_programs() -> None:
    cards = json.loads(run("methods", "--json"))
    assert {card["name"] for card in cards} == set(Method.registry)
    for card in cards:
        assert set(card) == {"name", "family", "summary", "source", "cost"}
        assert all(card.values())


def test_catalogues_list_what_can_be_chosen() -> None:
    printed = run("methods")
    for name in ("cross_entropy", "logit_adjustment", "supcon", "bcl", "proco"):
        assert name in printed
    printed = run("recipes")
    assert "cifar100_lt/proco_100" in printed
    assert "52.8" in printed
    assert "choices/base" not in printed
    assert "choices/base" in run("recipes", "choices")
    assert "no recipe has 'nonsense' in its name" in run("recipes", "nonsense")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train"], "what should be trained"),
        (["train", "quickstart/prco"], "did you mean 'quickstart/proco'"),
        (["train", "quickstart/proco", "method.tau=1"], "did you mean 'method.classification.tau'?"),
        (["train", "quickstart/proco", "optim.lrr=1"], "unknown setting 'optim.lrr'; did you mean 'optim.lr'"),
        (["train", "quickstart/proco", "method=prco"], "unknown method 'prco'; did you mean 'proco'"),
        (["train", "--data", "nowhere"], "nowhere does not exist"),
        (["train", "--resume", "nowhere"], "is not a run folder"),
        (["train", "quickstart/proco", "--resume", "nowhere"], "give nothing else but --device"),
        (["train", "--resume", "nowhere", "--seed", "1"], "give nothing else but --device"),
        (["train", "quickstart/proco", "--seed", "1", "seed=2"], "give the seed once"),
        (["train", "quickstart/proco", "seed=-1"], "seed must not be negative; got -1"),
        (["train", "--data", "photos", "data.source.path=others"], "both say where the data lies"),
        (["compare", "quickstart/proco", "--device", "warp"], "'warp' is not usable here"),
        (["evaluate", "nowhere"], "is not a run folder"),
        (["compare", "epochs=1"], "give at least one recipe"),
        (["compare", "quickstart/proco", "data=5"], "data: expected settings of its own, got 5"),
        (["compare", "quickstart/proco", "engine=5", "--results", "r"], "engine: expected settings of its own, got 5"),
        (["train", "quickstart/proco", "data=photos"], "data: expected settings of its own, got 'photos'"),
        (["train", "quickstart/proco", "teacher.weight=much"], "teacher.weight: expected a number, got 'much'"),
        (["train", "--data", "squares.npz", "teacher.run={epochs: x}"], "teacher.run: epochs: expected a whole number"),
        (["data", "describe", "nowhere"], "nowhere does not exist"),
        (["data", "describe", "squares.npz", "epochs=3"], "only settings of the data have a meaning here"),
        (["data", "describe", "squares.npz", "data.source.nope=1"], "unknown setting 'data.source.nope'"),
        (["compare", "quickstart/proco", "seed=1"], "give the seeds with --seeds"),
        (["train", "quickstart/proco", "quickstart/logit_adjustment"], "one recipe is trained at a time"),
        (["train", "epochs=0", "quickstart/proco"], "epochs must be at least 1; got 0"),
        (["train", "squares.npz"], "no text, and so no recipe. Is it data? Then give it with --data"),
        (["train", "quickstart/proco", "--out", "squares.npz"], "is a file, and is left as it is"),
        (["train", "quickstart/proco", "method.views=[weak]"], "the method proco needs 2 views or more; got 1"),
        (
            ["train", "quickstart/proco", "method.temperature=0"],
            "method.temperature must be positive",
        ),
        (["train", "quickstart/proco", "method.sampler=balanced"], "unknown sampler 'balanced'"),
        (["train", "quickstart/proco", "engine.evaluate_every=0"], "engine.evaluate_every must be at least 1; got 0"),
        (["train", "quickstart/proco", "engine.device=abacus"], "'abacus' is not usable here"),
        (["train", "quickstart/proco", "engine.device=meta"], "'meta' is not usable here"),
        (["train", "quickstart/proco", "data.size=0"], "data.size must be at least 1; got 0"),
        (["train", "quickstart/proco", "data.subset_seed=-3"], "data.subset_seed must not be negative; got -3"),
        (["train", "quickstart/proco", "network.options.in_channels=3"], "network.options cannot have 'in_channels'"),
        (["train", "quickstart/proco", "network.scale=-1"], "network.scale must be positive and finite; got -1"),
        (
            ["train", "quickstart/proco", "network.backbone=torchvision/alexnet"],
            "the backbone cannot take images of 28 x 28 pixels",
        ),
        (["train", "quickstart/proco", "data.std=[0]", "data.mean=[0]"], "data.std must be positive"),
        (["train", "quickstart/proco", "network.dim=1"], "network.dim at least 2; got 128 and 1"),
        (["train", "quickstart/proco", "network.hidden=10000000000000"], "out of memory ("),
        (["train", "quickstart/proco", "optim.lr=-1"], "must be finite and not negative"),
        (["train", "quickstart/proco", "optim.milestones=[160]"], "optim.milestones is a share of the epochs"),
    ],
)
@pytest.mark.usefixtures("squares")
def test_mistakes_are_answered_with_a_sentence(words: list[str], message: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["proco", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("proco: ")
    assert message in said


def test_data_without_a_validation_split_gets_one_and_says_so(squares: Path) -> None:
    with np.load(squares) as arrays:
        np.savez("train_only.npz", images=arrays["train_images"], labels=arrays["train_labels"])
    printed = " ".join(run("train", "--data", "train_only.npz", "--out", "run", *SMALL).split())
    assert "no validation split: 10 % of each class (5 images) held out" in printed
    assert RunFolder(Path("run")).summary()["split"] == "val"


def test_a_folder_of_photographs_is_trained_on_and_a_bad_one_named(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for name, level, count in (("night", 40, 12), ("bright day", 200, 6)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(count):
            size = generator.integers(20, 40, 2)
            pixels = (level + generator.integers(-30, 30, (*size, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.jpg")
    printed = run("train", "--data", "photos", "--out", "run", *SMALL, "data.size=16")
    assert "epoch 2/2" in printed
    assert "least accurate classes" in run("evaluate", "run")
    (tmp_path / "photos" / "night" / "broken.jpg").write_bytes(b"no image")
    with pytest.raises(ProCoError, match=r"1 of 19 image files cannot be read: .*broken\.jpg"):
        run("train", "--data", "photos", *SMALL)
    skip = "data.source.on_bad_image=skip"
    for words in (
        ("train", "--data", "photos", *SMALL, "data.size=16", skip),
        ("data", "describe", "photos", skip),
        ("evaluate", "run", "--data", "photos", skip),
    ):
        assert "1 of 19 image files cannot be read and are left out" in " ".join(run(*words).split())
    with pytest.raises(ProCoError, match=r"is for other data than the run's own; name it with --data"):
        run("evaluate", "run", skip)


def start(*words: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", "proco", *words], stdout=subprocess.DEVNULL, env=environment)


def wait_for_records(folder: RunFolder, number: int, process: subprocess.Popen[bytes]) -> None:
    """Return when the run has written that many epochs."""
    while process.poll() is None:
        if folder.metrics_file.exists() and folder.metrics_file.read_text().count("\n") >= number:
            return
        time.sleep(0.005)


def test_a_run_killed_again_and_again_ends_at_the_same_weights(squares: Path) -> None:
    settings = ["--data", str(squares), *SMALL, "epochs=12", "engine.checkpoint_seconds=0", "method=proco"]
    assert start("train", *settings, "--out", "whole").wait(timeout=120) == 0
    folder = RunFolder(Path("killed"))
    process = start("train", *settings, "--out", "killed")
    for epochs, delay in ((1, 0.0), (4, 0.02), (8, 0.05)):
        wait_for_records(folder, epochs, process)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not folder.is_finished
        process = start("train", "--resume", "killed")
    assert process.wait(timeout=120) == 0
    assert folder.weights_file.read_bytes() == RunFolder(Path("whole")).weights_file.read_bytes()
    assert [record["epoch"] for record in folder.records()] == list(range(12))
    assert [r["loss"] for r in folder.records()] == [r["loss"] for r in RunFolder(Path("whole")).records()]


def test_interrupted_run_says_how_to_go_on(squares: Path) -> None:
    settings = [*SMALL, "epochs=2000", "engine.checkpoint_seconds=1000"]
    command = [sys.executable, "-m", "proco", "train", "--data", str(squares), *settings, "--out", "run"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for_records(RunFolder(Path("run")), 2, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Continue with: proco train --resume run (it goes on from the last checkpoint; checkpoints are made" in said
    assert RunFolder(Path("run")).load_checkpoint()["epoch"] == 1
    assert "Traceback" not in said


def test_a_run_goes_on_without_the_run_that_it_took_its_first_stage_from(squares: Path) -> None:
    settings = ["--data", str(squares), *SMALL, "engine.checkpoint_seconds=0"]
    run("train", *settings, "method=cross_entropy", "--out", "first")
    crt, folder = ["method=crt", "method.classifier_epochs=500", "engine.first_run=first"], RunFolder(Path("run"))
    process = start("train", *settings, *crt, "--out", "run")
    wait_for_records(folder, 4, process)
    process.kill()
    process.wait()
    shutil.rmtree("first")
    before = len(folder.metrics_file.read_text().splitlines())
    process = start("train", "--resume", "run")
    wait_for_records(folder, before + 3, process)
    process.kill()
    process.wait()


@pytest.mark.parametrize("command", [["train", "--out", "run"], ["compare", "squares", "--out", "run"]])
def test_an_interrupt_that_is_lost_ends_the_run_at_its_next_step(
    squares: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    steps = []
    take = Step.__call__

    def step(self: Step, *arguments: Any) -> Any:
        steps.append(self)
        if len(steps) == 2:
            with suppress(KeyboardInterrupt):  # as a destructor does
                signal.raise_signal(signal.SIGINT)
        return take(self, *arguments)

    monkeypatch.setattr(Step, "__call__", step)
    Path("squares.yaml").write_text(f"data: {{source: {{name: arrays, path: {squares}}}}}\n")
    words = [word.replace("squares", "squares.yaml") for word in command]
    words += ["squares.yaml"] if command[0] == "train" else []
    result = CliRunner().invoke(cli.app, [*words, *SMALL, "epochs=50"])
    assert result.exit_code == 130
    assert len(steps) == 2
    assert "proco: stopped." in result.output
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_torchrun_trains_as_one_process(squares: Path) -> None:
    settings = ["--data", str(squares), *SMALL, "engine.precision=float64", "engine.device=cpu"]
    assert start("train", *settings, "--out", "alone").wait(timeout=120) == 0
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [*torchrun, "-m", "proco", "train", *settings, "--out", "together"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("training images of") == 1  # one of them speaks
    alone, together = (RunFolder(Path(name)) for name in ("alone", "together"))
    assert together.summary()["per_class_accuracy"] == alone.summary()["per_class_accuracy"]
    for name, value in alone.load_weights().items():
        torch.testing.assert_close(together.load_weights()[name], value, rtol=1e-6, atol=1e-6)
    states = [folder.load_checkpoint() for folder in (alone, together)]
    for name, value in states[0]["terms"].items():
        torch.testing.assert_close(states[1]["terms"][name], value, rtol=1e-6, atol=1e-6)
