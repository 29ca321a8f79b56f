"""The benchmarks run and say what they promise; how fast anything is, is not asserted."""

import json
import subprocess
import sys
from pathlib import Path

import torch
from benchmarks.measure import peak_mib
from benchmarks.miller import miller_log_ive

ROOT = Path(__file__).parents[2]


def rows_of(module: str, tmp_path: Path, *arguments: str) -> list[dict[str, float]]:
    path = tmp_path / "rows.json"
    command = [sys.executable, "-m", module, *arguments, "--json", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
    assert "| " in done.stdout
    return json.loads(path.read_text())["rows"]  # type: ignore[no-any-return]


def test_loss(tmp_path: Path) -> None:
    rows = rows_of("benchmarks.loss", tmp_path, "--mode", "eager", "--shapes", "16,10,32")
    assert [row["loss"] for row in rows] == ["cosine", "proco", "supcon"]
    assert all(row["ms"] > 0 and row["peak MiB"] > 0 for row in rows)
    assert rows[0]["time ratio"] == rows[0]["peak ratio"] == 1


def test_augment(tmp_path: Path) -> None:
    sizes = ["--images", "48", "--block", "32", "--reference", "4", "--batch", "2", "--seconds", "0.1"]
    rows = rows_of("benchmarks.augment", tmp_path, "--mode", "eager", *sizes)
    assert [row["view"] for row in rows] == ["weak", "auto", "sim", "rand", "strong"]
    for row in rows:
        assert abs(row["views/s"] * row["ms"] / 1e3 - 48) < 1e-6
        assert abs(row["ratio"] * row["torchvision views/s"] / row["views/s"] - 1) < 1e-6
        assert abs(row["share"] * row["views/s"] / row["network views/s"] - 1) < 1e-6


def test_precision(tmp_path: Path) -> None:
    sizes = ["--backbones", "resnet32", "timm/convnext_atto", "--batch", "4", "--seconds", "0.1"]
    rows = rows_of("benchmarks.precision", tmp_path, *sizes)
    assert [row["backbone"] for row in rows] == ["resnet32", "timm/convnext_atto"]
    for row in rows:
        assert row["batch"] == 4
        assert abs(row["ratio"] * row["bfloat16 ms"] / row["float32 ms"] - 1) < 1e-6


def test_bessel(tmp_path: Path) -> None:
    rows = {row["method"]: row for row in rows_of("benchmarks.bessel", tmp_path, "--size", "500", "--dims", "1024")}
    assert rows["proco float64"]["lost"] == rows["proco float32"]["lost"] == 0
    assert 0.4 < rows["scipy"]["lost"] < 0.7  # underflow for about half of this grid
    assert rows["scipy"]["error"] < 1e-12


def test_peak_memory_counts_what_a_call_holds() -> None:
    def run() -> None:
        kept = torch.zeros(2**20)
        _ = kept + 1
        del kept

    assert abs(peak_mib(run, torch.device("cpu")) - 8) < 0.1


def test_miller_recurrence_at_an_order_it_can_do() -> None:
    x = torch.tensor([0.5, 3.0], dtype=torch.float64)
    exact = torch.special.i1(x).log() - x
    torch.testing.assert_close(miller_log_ive(4, x), exact, rtol=1e-2, atol=1e-2)
