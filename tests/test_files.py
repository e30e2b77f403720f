"""Files written whole, and what is left where they cannot be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from ropewalk import files
from ropewalk.errors import StoreError
from ropewalk.files import folder_beside, write_whole, written_beside


def test_a_file_is_replaced_whole_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    write_whole(path, "new\r\né")
    assert path.read_bytes() == "new\r\né".encode()
    assert list(tmp_path.iterdir()) == [path]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot be written.*choose a file in a folder"):
        write_whole(tmp_path / "nowhere" / "report.html", "text")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        write_whole(tmp_path / "folder", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def _break_off(writing: AbstractContextManager[Path]) -> None:
    with writing as beside:
        target = beside / "part" if beside.is_dir() else beside
        target.write_text("half of the n")
        raise KeyError


def test_what_stood_there_stays_when_writing_breaks_off(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    path.write_text("old")
    with pytest.raises(KeyError):
        _break_off(written_beside(path))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "projector"
    with pytest.raises(KeyError):
        _break_off(folder_beside(path))
    assert list(tmp_path.iterdir()) == []
    path.mkdir()
    with folder_beside(path) as beside:
        (beside / "tensors.bytes").write_text("all of it")
        assert list(path.iterdir()) == []
    assert [p.name for p in tmp_path.iterdir()] == ["projector"]
    assert (path / "tensors.bytes").read_text() == "all of it"


def test_a_folder_with_something_in_it_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match="cannot be written"), folder_beside(tmp_path / "full"):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["full"]
    assert (tmp_path / "full" / "mine.txt").read_text() == "mine"


KILLED = """
import os, signal, sys
from pathlib import Path
from ropewalk import files

writing = getattr(files, sys.argv[1])(Path(sys.argv[2]))
with writing as beside:
    (beside / "part" if beside.is_dir() else beside).write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["written_beside", "folder_beside"])
def test_what_a_killed_process_left_goes_with_the_next_writing(tmp_path: Path, how: str) -> None:
    path = tmp_path / "out[1]"
    killed = subprocess.run([sys.executable, "-c", KILLED, how, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    writing = getattr(files, how)
    with writing(path) as beside:
        assert list(tmp_path.iterdir()) == [beside]
        assert beside != left
        # One that is being filled stays, whoever else begins.
        with writing(path):
            assert beside.exists()
    assert list(tmp_path.iterdir()) == [path]
