"""The cache of dequantised weights: whole entries or none, whatever happens meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ropewalk.errors import ModelFileError, StoreError
from ropewalk.models.cache import cache_folder, cached_folder, entries, file_hash, folder_size

WHOLE = {"config.json": b"{}", "model.safetensors": bytes(5000)}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.Q4.gguf"
    path.write_bytes(b"GGUF and so on")
    return path


def make(folder: Path) -> None:
    for name, data in WHOLE.items():
        (folder / name).write_bytes(data)


def held(cache: Path) -> list[str]:
    return sorted(p.name for p in (cache / "weights").glob("*")) if cache.is_dir() else []


def never(folder: Path) -> None:
    pytest.fail(f"made again in {folder}")


def test_an_entry_is_named_by_content_and_made_once(source: Path, own_cache: Path) -> None:
    folder = cached_folder(source, make)
    digest = hashlib.sha256(b"GGUF and so on").hexdigest()
    assert folder == own_cache / "weights" / f"{digest[:16]}-tiny.Q4"
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == WHOLE
    assert cached_folder(source, never) == folder


def test_a_copy_elsewhere_is_the_same_entry(source: Path, tmp_path: Path) -> None:
    folder = cached_folder(source, make)
    (tmp_path / "copy").mkdir()
    copy = tmp_path / "copy" / source.name
    copy.write_bytes(source.read_bytes())
    assert cached_folder(copy, never) == folder


def test_a_changed_file_is_another_entry(source: Path, own_cache: Path) -> None:
    first = cached_folder(source, make)
    source.write_bytes(b"GGUF AND SO ON")
    os.utime(source, ns=(1, 1))
    assert cached_folder(source, make) != first
    assert len(held(own_cache)) == 2


def test_sizes_are_those_of_the_files(source: Path) -> None:
    folder = cached_folder(source, make)
    (folder / "below").mkdir()
    (folder / "below" / "more").write_bytes(bytes(7))
    assert folder_size(folder) == 5009
    (entry,) = entries()
    assert (entry.path, entry.size) == (folder, 5009)


def test_without_a_cache_there_are_no_entries() -> None:
    assert entries() == []


def test_a_long_name_is_cut_to_what_file_systems_take(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 240 + ".gguf")
    path.write_bytes(b"x")
    assert cached_folder(path, make).is_dir()


def test_the_cache_lies_where_the_system_keeps_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ROPEWALK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert cache_folder() == tmp_path / "ropewalk"
    monkeypatch.setenv("ROPEWALK_CACHE", "~/elsewhere")
    assert cache_folder() == Path.home() / "elsewhere"


# The remembered hashes


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "7", '{"a": 5}', "\x00\xff", "[" * 100_000, "null"]
)
def test_a_spoiled_index_costs_only_time(source: Path, own_cache: Path, text: str) -> None:
    own_cache.mkdir()
    (own_cache / "hashes.json").write_text(text, encoding="latin-1")
    assert file_hash(source) == hashlib.sha256(source.read_bytes()).hexdigest()
    assert file_hash(source) == hashlib.sha256(source.read_bytes()).hexdigest()


def test_a_remembered_value_that_is_no_hash_is_not_believed(source: Path, own_cache: Path) -> None:
    right = file_hash(source)
    index = own_cache / "hashes.json"
    (key,) = json.loads(index.read_text())
    index.write_text(json.dumps({key: "../../elsewhere"}))
    assert file_hash(source) == right


def test_a_large_file_is_hashed_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = file_hash(source)
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("hashed again"))
    assert file_hash(source) == right


def test_a_file_that_has_gone_is_an_error_of_the_model(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"gone\.gguf cannot be read: No such file"):
        cached_folder(tmp_path / "gone.gguf", make)


# Failures in the middle


def test_a_maker_that_fails_leaves_nothing(source: Path, own_cache: Path) -> None:
    def fail(folder: Path) -> None:
        make(folder)
        raise ModelFileError("no such architecture")

    with pytest.raises(ModelFileError, match="no such architecture"):
        cached_folder(source, fail)
    assert held(own_cache) == []


@pytest.mark.parametrize("below", ["", "below"])
def test_a_cache_that_is_a_file_is_a_sentence(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    (tmp_path / "a-file").write_text("text")
    monkeypatch.setenv("ROPEWALK_CACHE", str(tmp_path / "a-file" / below))
    with pytest.raises(StoreError, match=r"cannot be written \(.*\); .*set ROPEWALK_CACHE"):
        cached_folder(source, make)
    assert len(file_hash(source)) == 64
    assert entries() == []


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="needs a folder nobody can write")
def test_a_cache_that_cannot_be_written_is_a_sentence(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROPEWALK_CACHE", "/proc/ropewalk")
    with pytest.raises(StoreError, match="the cache /proc/ropewalk/weights cannot be written"):
        cached_folder(source, make)


PROCESS = """
import sys, time, resource
from pathlib import Path
from ropewalk.errors import RopewalkError
from ropewalk.models.cache import cached_folder

def make(folder):
    (folder / "config.json").write_bytes(b"{}")
    print("making", flush=True)
    STEP
    (folder / "model.safetensors").write_bytes(bytes(5000))

try:
    print(cached_folder(Path(sys.argv[1]), make))
except RopewalkError as error:
    print(type(error).__name__, error)
"""

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start(source: Path) -> Start:
    """start(step): another process that makes the entry, doing `step` half-way."""

    def run(step: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PROCESS.replace("STEP", step), str(source)],
            stdout=subprocess.PIPE,
            text=True,
        )

    return run


def test_a_killed_process_leaves_no_entry_and_its_rest_is_swept(
    source: Path, own_cache: Path, start: Start
) -> None:
    process = start("time.sleep(60)")
    reads_making(process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [n.startswith(".making-") for n in held(own_cache)] == [True]
    assert entries() == []
    folder = cached_folder(source, make)
    assert held(own_cache) == [folder.name]
    assert folder_size(folder) == 5002


WAIT = "while not Path(sys.argv[1]).with_name('go').exists(): time.sleep(0.01)"
"""A step that ends when there is a file `go` beside the source."""


def reads_making(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "making\n"


def test_two_processes_at_once_both_get_a_whole_entry(
    source: Path, own_cache: Path, start: Start
) -> None:
    both = start(WAIT), start(WAIT)
    for process in both:
        reads_making(process)
    source.with_name("go").touch()
    told = {process.communicate(timeout=30)[0].strip() for process in both}
    (name,) = held(own_cache)
    assert told == {str(own_cache / "weights" / name)}
    assert folder_size(own_cache / "weights" / name) == 5002


def test_what_another_process_is_making_is_not_swept(
    source: Path, own_cache: Path, start: Start
) -> None:
    process = start(WAIT)
    reads_making(process)
    folder = cached_folder(source, make)
    assert len(held(own_cache)) == 2
    source.with_name("go").touch()
    assert process.communicate(timeout=30)[0].strip() == str(folder)
    assert held(own_cache) == [folder.name]


def test_a_disk_that_is_full_in_the_middle_is_a_sentence_and_leaves_nothing(
    own_cache: Path, start: Start
) -> None:
    # Python ignores the signal, so that a write beyond the limit fails with EFBIG.
    process = start("resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))")
    told = process.communicate(timeout=30)[0].splitlines()
    assert told[1].startswith("StoreError the cache ")
    assert "cannot be written (File too large); free some space there" in told[1]
    assert held(own_cache) == []
    assert process.returncode == 0


def test_doctor_tells_sizes(source: Path, own_cache: Path) -> None:
    (own_cache / "weights").mkdir(parents=True)
    (own_cache / "weights" / ".making-x").mkdir()
    (cached_folder(source, make) / "w").write_bytes(bytes(3_000_000))
    command = [sys.executable, "-m", "ropewalk", "doctor"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert str(own_cache) in told
    (line,) = [line for line in told.splitlines() if "tiny.Q4" in line]
    assert "3 MB" in line or "3.0 MB" in line
    assert ".making" not in told
