"""The command line as a user meets it: as a process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image

import proco

ROOT = Path(__file__).parents[2]


def run(*arguments: str, source: Path = ROOT / "src") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-m", "proco", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)


def test_help_lists_the_commands_without_torch() -> None:
    code = (
        "import sys\nfrom proco.cli.main import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "info" in done.stdout
    assert done.stdout.strip().endswith("False")


def test_version() -> None:
    assert run("--version").stdout.strip() == f"proco {proco.__version__}"


def test_letters_that_a_terminal_lacks_do_not_end_a_command(tmp_path: Path) -> None:
    for name in ("\U0001f98b", "b"):
        (tmp_path / name).mkdir()
        for number in range(10):  # so that one can be held out
            Image.new("RGB", (8, 8)).save(tmp_path / name / f"{number}.png")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "cp1252"}
    command = [sys.executable, "-m", "proco", "data", "describe", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert b"?" in done.stdout


def test_info_names_the_versions_of_a_bug_report() -> None:
    output = run("info").stdout
    for word in ("proco", "python", "torch", "numpy", "device"):
        assert any(line.startswith(word) for line in output.splitlines())


def test_a_copy_of_the_source_runs_without_being_installed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src" / "proco", tmp_path / "proco")
    init = tmp_path / "proco" / "__init__.py"
    init.write_text(init.read_text().replace(f'"{proco.__version__}"', '"copy"'))
    assert run("--version", source=tmp_path).stdout.strip() == "proco copy"


def test_unknown_command_ends_with_a_message_and_no_traceback() -> None:
    done = run("trian")
    assert done.returncode != 0
    assert "No such command" in done.stderr
    assert "Traceback" not in done.stderr
