"""The documents say what was measured, and name files that exist."""

import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import typer
from benchmarks.measure import markdown
from PIL import Image

from proco import losses
from proco.cli.main import app
from proco.methods import Method
from proco.training.classifier import Classifier

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("*.json")), ids=lambda path: path.stem)
def test_performance_page_shows_the_recorded_tables(path: Path) -> None:
    recorded = json.loads(path.read_text())
    page = (ROOT / "docs" / "performance.md").read_text()
    assert markdown(recorded["rows"]) in page
    assert recorded["hardware"] in page
    if "commit" in recorded:  # the official code has none of ours
        assert f"commit {recorded['commit'][:7]}" in page


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert target.startswith("https://") or (path.parent / target).exists(), target


def test_first_code_of_the_readme_runs() -> None:
    import torch
    from torch.nn.functional import normalize

    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code
    names = {
        "class_counts": [30, 10, 2],
        "device": "cpu",
        "embeddings": normalize(torch.randn(6, 128), dim=1),
        "labels": torch.tensor([0, 0, 0, 1, 1, 2]),
    }
    exec(code[1], names)
    assert names["loss"].isfinite()  # type: ignore[attr-defined]


def test_training_loop_of_the_readme_runs(tmp_path: Path) -> None:
    import torch
    from torch import nn
    from torch.nn.functional import normalize

    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = nn.ModuleList([nn.Linear(8, 3), nn.Linear(8, 128)])

        def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
            return [head(images) for head in self.heads]

    labels = torch.tensor([0, 0, 0, 1, 1, 2])
    names = {
        "torch": torch,
        "normalize": normalize,
        "train_labels": labels,
        "epochs": 2,
        "loader": [(torch.randn(3, 6, 8), labels)],
        "network": Network(),
        "path": tmp_path / "model.pt",
    }
    exec(code, names)
    names["loss"].backward()  # type: ignore[attr-defined]
    assert torch.load(tmp_path / "model.pt", weights_only=True)["criterion"]["moments.counts"].sum() == 24


def test_architecture_page_names_every_module_but_methods_and_losses() -> None:
    """Those are found by their names; a new one touches its own file."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    parts = [*Method.registry.values(), *(getattr(losses, name) for name in losses.__all__)]
    own = {part.__module__ for part in parts}
    for path in (ROOT / "src" / "proco").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        if path.name not in ("__init__.py", "__main__.py") and module not in own:
            assert path.name in page, path


def test_training_from_python_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "training.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    monkeypatch.chdir(tmp_path)
    arrays = {"train_labels": np.arange(16) % 2, "test_labels": np.arange(4) % 2}
    for split, labels in (("train", 16), ("test", 4)):
        arrays[f"{split}_images"] = np.random.default_rng(0).integers(0, 256, (labels, 8, 8), dtype=np.uint8)
    np.savez("noise.npz", **arrays)
    Path("small.yaml").write_text("extends: quickstart/proco\ndata: {source: {name: arrays, path: noise.npz}}\n")
    names: dict[str, Any] = {}
    exec("\n".join(blocks[:2]).replace("quickstart/proco", "small.yaml"), names)
    assert json.loads(Path("runs/from_python/summary.json").read_text())["last_epoch"] == 1
    Path("new_photos").mkdir()
    Image.new("RGB", (9, 7)).save("new_photos/one.jpg")
    classify = names["classify"]
    with patch.object(Classifier, "__call__", lambda own, images: torch.tensor([[0.0, float(images.shape[3])]])):
        exec(blocks[2], {**names, "classify": classify})  # which is of grey images
    assert capsys.readouterr().out.splitlines()[-1] == f"one.jpg {classify.class_names[1]}"


def test_commands_of_the_documents_exist() -> None:
    from proco.training.recipes import recipe_names

    commands = {command.name for command in typer.main.get_command(app).commands.values()}  # type: ignore[attr-defined]
    for path in DOCUMENTS:
        for word in re.findall(r"^(?:\.venv/bin/)?proco (\w+)", path.read_text(), re.MULTILINE):
            assert word in commands, (path, word)
        for recipe in re.findall(r"\b(?:quickstart|cifar100_lt)/[\w/.]*\w", path.read_text()):
            is_there = recipe.removesuffix(".yaml") in recipe_names()
            assert is_there or "root_weighted" in recipe, (path, recipe)  # the guide adds it
