"""`ropewalk pack` as a user runs it: what it writes and prints, and every way to ask wrongly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.files import written_beside

Run = Callable[..., subprocess.CompletedProcess[str]]


def _write(folder: Path) -> None:
    folder.mkdir()
    with (folder / "a.jsonl").open("w") as file:
        for number in range(60):
            text = "The harbour lay still. " * (number % 7) + ("" if number % 9 else "End.")
            file.write(json.dumps({"text": text}) + "\n")
    (folder / "b.txt").write_text("A longer text of the sea. " * 60)
    (folder / "c.png").write_bytes(b"\x89PNG")


def test_pack_writes_rows_and_says_how_often_each_distance_is_trained(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    from ropewalk.packing.read import PackedFile

    _write(tmp_path / "texts")
    options = ["--tokenizer", tiny_model, "--length", "128", "--out", "rows.parquet"]
    done = run("pack", "texts", *options)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if str(tiny_model) not in line]
    assert all(len(line) <= 80 for line in lines)
    for words in (
        "fill",
        "61 from 2 files",
        "empty and left out",
        "1 of the documents lie",
        "c.png",
    ):
        assert words in done.stdout
    file = PackedFile.open(tmp_path / "rows.parquet")

    again = run("pack", "texts", *options)
    assert again.returncode == 2
    assert "rows.parquet is there already; give --force" in again.stderr

    told = json.loads(run("pack", "texts", *options, "--force", "--json").stdout)
    rows = [row for _, row in file.rows()]
    assert told["rows"] == len(rows)
    # f(i) counted pair by pair from the rows themselves.
    for entry in told["distances"]:
        distance = entry["distance"]
        pieces = [size for row in rows for size in row.layout.seq_lens]
        assert entry["masked"] == sum(max(size - distance, 0) for size in pieces)
        used = [sum(row.layout.seq_lens) for row in rows]
        assert entry["unmasked"] == sum(max(size - distance, 0) for size in used)
    assert told["fill"] == pytest.approx(sum(used) / (128 * len(rows)))
    assert [entry["distance"] for entry in told["distances"]] == [1, 2, 4, 8, 16, 32, 64, 127]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["none.txt"], 2, "there is no file none.txt"),
        (["bad.txt"], 1, "bad.txt is not utf-8 at byte 4 (0xff)"),
        (["bad.jsonl"], 1, "bad.jsonl, line 2, column 1: not JSON"),
        (["empty.txt"], 2, "1 files hold 1 documents and no token"),
        (["good.txt", "--length", "0"], 2, "--length of 0 tokens is impossible"),
        (["good.txt", "--multiple", "7"], 2, "do not divide by multiple=7"),
        (["good.txt", "--boundary", "comma"], 2, "the boundary 'comma' is not known"),
        (["good.txt", "--boundary", "5000"], 2, "5000 is no token of this tokenizer"),
        (["good.txt", "--encoding", "no-such"], 2, "encoding 'no-such' is not known"),
        (["good.txt", "--tokenizer", "nobody"], 2, "there is no model 'nobody'"),
        (["good.txt", "--out", "no/folder.parquet"], 2, "there is no folder no"),
        (["good.txt", "--out", "good.txt", "--force"], 2, "good.txt is also read"),
        (["good.txt", "good.txt"], 2, "good.txt is named twice"),
    ],
)
def test_what_cannot_be_packed_is_one_sentence_and_leaves_nothing(
    run: Run, tiny_model: Path, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    (tmp_path / "good.txt").write_text("The sea.")
    (tmp_path / "bad.txt").write_bytes(b"The \xff sea")
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\nnot json\n')
    (tmp_path / "empty.txt").write_text("")
    before = sorted(p.name for p in tmp_path.iterdir())
    defaults = ["--tokenizer", str(tiny_model), "--length", "64", "--out", "rows.parquet"]
    done = run("pack", *defaults, *arguments)
    assert done.returncode == code
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert sorted({p.name for p in tmp_path.iterdir()} - {"cache"}) == before


def test_a_kill_while_rows_are_written_leaves_the_old_file(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rows.parquet"
    out.write_text("the old rows")
    pipe = tmp_path / "texts.jsonl"
    line = json.dumps({"text": "The harbour lay still. " * 400}) + "\n"
    pipe.write_text(line * 4000)
    child = subprocess.Popen(
        [
            sys.executable, "-m", "ropewalk", "pack", str(pipe), "--tokenizer", str(tiny_model),
            "--length", "256", "--out", str(out), "--force",
        ],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not any(p.stat().st_size for p in tmp_path.glob(".rows.parquet.*")):
            assert time.monotonic() < deadline
            assert child.poll() is None
            time.sleep(0.05)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert out.read_text() == "the old rows"
    # The next run clears away what the dead process left, and nothing else of that kind.
    (left,) = tmp_path.glob(".rows.parquet.*")
    others = [tmp_path / ".rows.parquet.mine", tmp_path / ".rows.parquet.bak.ropewalk-0"]
    for other in others:
        other.write_text("kept")
    pipe.write_text(line)
    with written_beside(out) as living:
        done = run(
            "pack", pipe, "--tokenizer", tiny_model, "--length", "256", "--out", out, "--force"
        )
        assert done.returncode == 0, done.stderr
        assert not left.exists()
        assert {living, *others} <= set(tmp_path.iterdir())
        living.write_text("by another run")
    assert sorted(tmp_path.glob(".rows.parquet.*")) == sorted(others)


def test_a_full_disk_leaves_nothing(run: Run, tiny_model: Path, tmp_path: Path) -> None:
    import resource

    (tmp_path / "texts.txt").write_text("The harbour lay still. " * 20_000)

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    options: list[Any] = ["--tokenizer", tiny_model, "--length", "64", "--out", "rows.parquet"]
    done = run("pack", "texts.txt", *options, before=no_room)
    assert done.returncode == 1
    assert "rows.parquet cannot be written" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*rows.parquet*")) + list(tmp_path.glob(".rows*"))
