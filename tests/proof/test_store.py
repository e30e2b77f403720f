import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.errors import StoreError
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Row, Sharing
from ropewalk.proof.facts import IDENTITY, RunFacts, with_sharing
from ropewalk.proof.store import DATABASE, SCHEMA_VERSION, Store

FACTS = RunFacts(
    model="aa", schedule="bb", tokenizer="cc", lengths=(64,), depths=(0.1,), claimed=None
)


def a_row(number: int = 0, outcome: Outcome = Outcome.HIT) -> Row:
    cell = Cell(64, 0.1, number, Control.END)
    answer = Answer(outcome, -0.1 - number, f"é\n{number}", 1.5)
    return Row(cell, 63, 0.1 + 1e-17, "key", "value", answer, f"hash{number}")


def test_what_was_kept_is_read_back_exactly(tmp_path: Path) -> None:
    rows = [a_row(0), a_row(1, Outcome.OVERFLOW)]
    rows.append(
        Row(
            Cell(64, 0.0, 2, task="join"),
            64,
            0.0,
            "k",
            "v",
            Answer(Outcome.MISS, None, "", 0.0),
            "hash2",
        )
    )
    with Store.open(tmp_path / "new" / "folder", FACTS) as store:
        for row in rows:
            store.add(row, f"text of {row.prompt_hash}")
    with Store.read(tmp_path / "new" / "folder") as store:
        assert sorted(store.rows(), key=lambda row: row.prompt_hash) == rows
        assert store.prompt_text("hash1") == "text of hash1"
        assert store.facts() == FACTS


def test_an_answer_keeps_what_was_shared_and_how_much_was_read_for_it(tmp_path: Path) -> None:
    kept = replace(a_row(), sharing=Sharing.BRANCHES, tokens_read=27)
    with Store.open(tmp_path, FACTS) as store:
        store.add(replace(a_row(0, Outcome.ERROR), sharing=Sharing.BRANCHES), "text")
        store.add(kept, "text")
        assert store.rows() == [kept]


def test_an_error_is_not_done_and_is_replaced(tmp_path: Path) -> None:
    with Store.open(tmp_path, FACTS) as store:
        store.add(a_row(0, Outcome.ERROR), "text")
        assert not store.done("hash0")
        store.add(a_row(0, Outcome.MISS), "text")
        assert store.done("hash0")
        assert [row.answer.outcome for row in store.rows()] == [Outcome.MISS]


def test_an_answer_is_never_replaced(tmp_path: Path) -> None:
    with Store.open(tmp_path, FACTS) as store:
        store.add(a_row(0, Outcome.MISS), "text")
        with pytest.raises(StoreError, match="has an answer"):
            store.add(a_row(0, Outcome.HIT), "text")
        assert [row.answer.outcome for row in store.rows()] == [Outcome.MISS]


def test_the_same_run_may_grow(tmp_path: Path) -> None:
    with Store.open(tmp_path, FACTS) as store:
        store.add(a_row(), "text")
    with Store.open(tmp_path, replace(FACTS, lengths=(64, 128))) as store:
        assert store.done("hash0")
        assert store.facts().lengths == (64, 128)


def test_what_an_earlier_command_found_out_is_not_said_of_the_next(tmp_path: Path) -> None:
    with Store.open(tmp_path, replace(FACTS, not_shared="recurrent")) as store:
        found = replace(store.facts(), fallback=Sharing.PREFIX, calibration="a real difference")
        store.note(found.with_further([Cell(64, 0.1, 8)]))
        assert store.facts() == replace(found, grown={64: 9})
    with Store.open(tmp_path, FACTS) as store:
        assert store.facts() == FACTS


def test_a_cell_has_one_answer_for_each_way_of_sharing_that_to_its_latest_prompt(
    tmp_path: Path,
) -> None:
    other = replace(a_row(), prompt_hash="laid out otherwise")
    shared = replace(other, prompt_hash="in a document", sharing=Sharing.BRANCHES)
    with Store.open(tmp_path, FACTS) as store:
        for row in (a_row(), a_row(1), shared, other):
            store.add(row, f"text of {row.prompt_hash}")
        assert store.rows() == [shared, other, a_row(1)]
        assert not store.done("hash0")


def test_other_lengths_or_depths_of_a_document_are_another_run_and_why_is_said(
    tmp_path: Path,
) -> None:
    def about(lengths: tuple[int, ...], depths: tuple[float, ...]) -> RunFacts:
        return with_sharing(FACTS, Sharing.BRANCHES, lengths, depths)

    Store.open(tmp_path, about((64, 128), (0.0, 0.5))).close()
    for lengths, depths, said in (
        ((64,), (0.0, 0.5), "is 64 tokens at 0, 50 %"),
        ((64, 128), (0.0,), "is 64, 128 tokens at 0 %"),
        ((64, 128), (0.0, 1 / 3), r"is 64, 128 tokens at 0, 33\.33333333333333 %"),
    ):
        sentence = f"document was 64, 128 tokens at 0, 50 % and {said}. A document holds .* Move it"
        with pytest.raises(StoreError, match=sentence):
            Store.open(tmp_path, about(lengths, depths))
    with pytest.raises(StoreError, match=r"sharing was branches and is prefix\. Move it away"):
        Store.open(tmp_path, with_sharing(FACTS, Sharing.PREFIX, (64,), (0.0,)))


@pytest.mark.parametrize("name", IDENTITY)
def test_another_run_is_not_mixed_in(tmp_path: Path, name: str) -> None:
    with Store.open(tmp_path, FACTS) as store:
        store.add(a_row(), "text")
    was = FACTS.identity()[name] or "not stated"
    other: Any = {"seed": 7, "sharing": Sharing.PREFIX}.get(name, "other")
    with pytest.raises(StoreError, match=f"{name} was {was} and is {other}.*another --out folder"):
        Store.open(tmp_path, replace(FACTS, **{name: other}))
    with Store.open(tmp_path, FACTS) as store:  # the refusal left no lock and changed nothing
        assert store.facts() == FACTS


def test_a_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    with (
        Store.open(tmp_path, FACTS),
        pytest.raises(
            StoreError,
            match=rf"another run \(process {os.getpid()}\) is writing to .*: wait for it, or "
            "choose another --out folder",
        ),
    ):
        Store.open(tmp_path, FACTS)
    Store.open(tmp_path, FACTS).close()


def test_a_reader_sees_what_a_running_writer_has_kept(tmp_path: Path) -> None:
    with Store.open(tmp_path, FACTS) as writer:
        writer.add(a_row(0), "text")
        with Store.read(tmp_path) as reader:
            assert len(reader.rows()) == 1
            writer.add(a_row(1), "text")
            assert len(reader.rows()) == 2


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    Store.open(tmp_path, FACTS).close()
    with Store.read(tmp_path) as reader, pytest.raises(StoreError, match="readonly"):
        reader.add(a_row(), "text")


def test_a_folder_without_results_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no results"):
        Store.read(tmp_path / "nowhere")


def test_a_run_that_has_only_begun_has_no_results_yet(tmp_path: Path) -> None:
    # What a reader finds, or a kill leaves, between the making of the file and its first content.
    (tmp_path / DATABASE).touch()
    with pytest.raises(StoreError, match="holds no results yet: its run has only just begun"):
        Store.read(tmp_path)
    with Store.open(tmp_path, FACTS) as store:
        assert store.facts() == FACTS


def test_a_reader_finds_a_new_file_whole_or_with_nothing_in_it(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from ropewalk.proof.facts import RunFacts
from ropewalk.proof.store import Store
for number in range(100):
    Store.open(Path(sys.argv[1]) / str(number), RunFacts(model="aa")).close()
"""
    writer = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    early = 0
    for number in range(100):
        while True:
            try:
                with Store.read(tmp_path / str(number)) as store:
                    assert store.facts() == RunFacts(model="aa")
                    assert store.rows() == []
                break
            except StoreError as error:
                early += 1
                assert "holds no results" in str(error)  # noqa: PT017 - nor is anything else allowed
                assert writer.poll() in (None, 0)
    assert writer.wait(60) == 0
    assert early > 0


def test_a_file_in_the_place_of_the_folder_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="choose another --out folder"):
        Store.open(tmp_path / "file", FACTS)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder nobody can write")
def test_a_folder_that_cannot_be_made_is_a_clear_error() -> None:
    with pytest.raises(StoreError, match="cannot make the run folder in /proc/ropewalk"):
        Store.open(Path("/proc/ropewalk"), FACTS)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder nobody can write")
def test_a_folder_that_cannot_be_written_is_a_clear_error() -> None:
    with pytest.raises(StoreError, match="cannot write in /proc/self"):
        Store.open(Path("/proc/self"), FACTS)


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreError, match="is damaged: move it away"):
        Store.open(tmp_path, FACTS)
    with pytest.raises(StoreError, match="is damaged: move it away"):
        Store.read(tmp_path)
    assert (tmp_path / DATABASE).read_bytes().startswith(b"not a database")


def test_pages_overwritten_in_the_middle_are_a_clear_error(tmp_path: Path) -> None:
    with Store.open(tmp_path, FACTS) as store:
        for number in range(50):
            store.add(a_row(number), "text" * 500)
    with (tmp_path / DATABASE).open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(StoreError, match="is damaged: move it away"):
        Store.open(tmp_path, FACTS)


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / DATABASE)
    other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(StoreError, match="is not a results file of ropewalk"):
        Store.open(tmp_path, FACTS)


@pytest.mark.parametrize(
    ("by", "way_out"),
    [(1, "update ropewalk, or choose another --out"), (-1, "format 4: choose another --out")],
)
def test_another_format_is_left_alone_and_a_newer_one_asks_for_an_update(
    tmp_path: Path, by: int, way_out: str
) -> None:
    Store.open(tmp_path, FACTS).close()
    other = sqlite3.connect(tmp_path / DATABASE)
    other.execute(f"PRAGMA user_version = {SCHEMA_VERSION + by}")
    other.close()
    with pytest.raises(StoreError, match=way_out):
        Store.open(tmp_path, FACTS)
    with pytest.raises(StoreError, match=way_out):
        Store.read(tmp_path)


def test_a_full_disk_keeps_what_was_kept_and_the_rest_is_not_done(tmp_path: Path) -> None:
    with Store.open(tmp_path, FACTS) as store:
        store.add(a_row(0), "short")
        # SQLite itself refuses to grow the file, with the error of a full disk.
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(
            StoreError,
            match=r"full\); the answers before it are kept; make room on the disk, and the same "
            "command goes on",
        ):
            store.add(a_row(1), "long" * 10_000)
        assert store.done("hash0")
        assert not store.done("hash1")
    with Store.open(tmp_path, FACTS) as store:
        store.add(a_row(1), "long" * 10_000)
        assert len(store.rows()) == 2


FILLS = """
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from ropewalk.proof.cells import Answer, Cell, Outcome, Row
from ropewalk.proof.store import Store
from ropewalk.errors import StoreError
with Store.open(Path(sys.argv[1]), {"model": "m"}) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    for i in range(1000):
        row = Row(Cell(1, 0.0, i), 1, 0.0, "", "", Answer(Outcome.HIT, None, "", 0.0), str(i))
        try:
            store.add(row, "x" * 5000)
        except StoreError as error:
            print(i, error)
            break
"""


@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
def test_writes_refused_by_the_system_lose_nothing(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "src"
    ran = subprocess.run(
        [sys.executable, "-c", FILLS, str(tmp_path), str(source)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    count, _, message = ran.stdout.partition(" ")
    assert int(count) > 5
    assert "the answers before it are kept" in message
    with Store.read(tmp_path) as store:
        assert len(store.rows()) == int(count)


def test_what_a_server_said_is_kept_and_makes_no_other_answer(tmp_path: Path) -> None:
    plain = a_row(0)
    row = replace(plain, answer=replace(plain.answer, details='{"cached_tokens": 3}'))
    with Store.open(tmp_path, FACTS) as store:
        store.add(row, "text")
        (kept,) = store.rows()
    assert kept.answer.details == '{"cached_tokens": 3}'
    assert kept == plain
