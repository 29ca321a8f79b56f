"""What a run was made with: the commit of the source, where it is known."""

import subprocess
from pathlib import Path

import pytest

import proco
from proco.training.made_with import source_commit, version_of


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of which the package is a part, without a commit in the environment."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    monkeypatch.delenv("PROCO_COMMIT", raising=False)
    monkeypatch.setattr(proco, "__file__", str(tmp_path / "package" / "__init__.py"))
    git(tmp_path, "init", "-q")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    done = subprocess.run(["git", "-C", str(folder), *who, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_commit_is_that_of_the_source_and_changes_are_marked(checkout: Path) -> None:
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "first")
    head = git(checkout, "rev-parse", "HEAD")
    (checkout / "notes.txt").touch()  # beside the package
    assert source_commit() == head
    (checkout / "package" / "__init__.py").write_text("changed = True\n")
    assert source_commit() == f"{head}+"


def test_a_copy_in_the_checkout_of_another_project_has_no_commit(checkout: Path) -> None:
    git(checkout, "commit", "-q", "--allow-empty", "-m", "of another project")
    assert source_commit() == ""


def test_the_environment_names_the_commit_of_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROCO_COMMIT", "abc")
    assert source_commit() == "abc"


def test_a_package_that_is_not_there_has_no_version() -> None:
    assert version_of("no-such-package") == ""
    assert version_of("torch")
