"""Files written whole, and what is left where they cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ropewalk.errors import StoreError
from ropewalk.files import write_whole


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
