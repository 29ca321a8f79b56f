"""Files are as they were, or whole."""

import os
from pathlib import Path

import pytest

from proco.training.whole_files import is_partial, moved_into_place, write_whole


def write_a_part(path: Path, end: BaseException) -> None:
    with moved_into_place(path) as beside:
        beside.write_bytes(b"sec")
        assert is_partial(beside)
        raise end


def test_a_write_that_fails_leaves_the_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"first")
    with pytest.raises(OSError, match="full"):
        write_a_part(path, OSError("the disk is full"))
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_process_that_ends_meanwhile_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"first")
    with pytest.raises(KeyboardInterrupt):
        write_a_part(path, KeyboardInterrupt())
    assert path.read_bytes() == b"first"
    write_whole(path, b"third")  # over what was left
    assert path.read_bytes() == b"third"


def test_what_is_moved_is_on_the_disk_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power cut could leave the new name with nothing in it."""
    done: list[str] = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda number: (done.append("sync"), sync(number))[1])
    monkeypatch.setattr(Path, "replace", lambda one, other: (done.append("move"), replace(one, other))[1])
    write_whole(tmp_path / "file", b"content")
    assert done == ["sync", "move"]
