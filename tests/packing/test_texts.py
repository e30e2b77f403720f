"""Files to documents, and every file that cannot be one, with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ropewalk.errors import DataFileError, UsageError
from ropewalk.packing import texts
from ropewalk.packing.texts import PART, Reading, read_texts, sources


def _all(*files: Path, reading: Reading | None = None) -> list[str]:
    return ["".join(text.parts) for text in read_texts(files, reading)]


def test_a_text_file_is_one_document_and_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    # Characters of two to four bytes lie across the ends of parts.
    text = "line\r\n\r\nnaïve 蛇 🜚\t\n" * (PART // 8)
    file.write_bytes(text.encode())
    (document,) = read_texts([file])
    parts = list(document.parts)
    assert len(parts) > 2
    assert "".join(parts) == text


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    file, lines = tmp_path / "a.txt", tmp_path / "b.jsonl"
    file.write_bytes("\ufeffhello".encode())
    lines.write_bytes('\ufeff{"text": "one"}\n{"text": "two"}'.encode())
    assert _all(file, lines) == ["hello", "one", "two"]


def test_json_lines_and_parquet_give_a_document_a_record(tmp_path: Path) -> None:
    lines, table = tmp_path / "a.jsonl", tmp_path / "b.parquet"
    lines.write_text('{"body": "x\\n", "id": 3}\n\n{"body": null}\n{"body": "\\u00e9"}\n')
    pq.write_table(pa.table({"body": ["p", None, "", "q"], "n": [1, 2, 3, 4]}), table)
    reading = Reading(field="body", column="body")
    assert _all(lines, table, reading=reading) == ["x\n", "", "é", "p", "", "", "q"]


def test_folders_are_read_by_name_and_say_what_they_leave_out(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.md", "a/picture.png", ".git/x.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = sources([tmp_path])
    assert [str(p.relative_to(tmp_path)) for p in found.files] == ["a/z.md", "b.txt"]
    assert [p.name for p in found.left_out] == ["picture.png"]
    with pytest.raises(UsageError, match=r"b.txt is named twice"):
        sources([tmp_path, tmp_path / "b.txt"])


@pytest.mark.parametrize("before", [0, 1, PART - 1, PART, 3 * PART + 7])
def test_a_byte_that_is_no_utf8_is_located(tmp_path: Path, before: int) -> None:
    file = tmp_path / "old.txt"
    file.write_bytes(b"a" * before + b"\xe9t\xe9")
    with pytest.raises(DataFileError, match=rf"old\.txt is not utf-8 at byte {before:,} \(0xe9\)"):
        _all(file)
    assert _all(file, reading=Reading(encoding="latin-1")) == ["a" * before + "été"]


def test_a_text_that_ends_within_a_character_is_located(tmp_path: Path) -> None:
    file = tmp_path / "cut.txt"
    file.write_bytes("ab蛇".encode()[:-1])
    with pytest.raises(DataFileError, match="at byte 2"):
        _all(file)


def test_a_bad_byte_among_json_lines_has_line_and_place(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"text": "fine"}\n{"text": "caf\xe9"}\n')
    with pytest.raises(DataFileError, match=r"line 2, byte 30 of the file \(0xe9\)"):
        _all(file)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"text": "a"', r"line 2, column 13: not JSON"),
        ("[1]", "line 2: a JSON list"),
        ('{"body": 1}', r"line 2: no field 'text'; the record has body; name one with --field"),
        ('{"text": 5}', "line 2: the text is a int"),
        ('{"text": "\\ud83d"}', "line 2: half of a surrogate pair at character 0"),
        ('{"text": ' + "[" * 200_000, "line 2: JSON that is nested too deeply"),
        ('{"text": ' + "9" * 5000 + "}", "line 2: JSON that cannot be read"),
    ],
)
def test_a_line_that_is_no_record_is_located(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"text": "good"}) + "\n" + line + "\n")
    with pytest.raises(DataFileError, match=said):
        _all(file)


def test_a_record_that_would_fill_memory_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "LONGEST_LINE", 64)
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"text": "x" * 100}))
    with pytest.raises(DataFileError, match=r"line 1: a record of more than 64 bytes.*text file"):
        _all(file)


def test_parquet_without_the_column_or_without_text_is_refused(tmp_path: Path) -> None:
    file, broken = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"n": [1], "body": ["x"]}), file)
    broken.write_bytes(b"PAR1 and nothing more")
    with pytest.raises(DataFileError, match=r"no column 'text'; its columns are n, body"):
        _all(file)
    with pytest.raises(DataFileError, match="column 'n' holds int64, and no text"):
        _all(file, reading=Reading(column="n"))
    with pytest.raises(DataFileError, match=r"b\.parquet is no Parquet file"):
        _all(broken)


def test_what_is_named_and_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(b"")
    (tmp_path / "a.json").write_bytes(b"[]")
    for name, said in (
        ("nothing.txt", "there is no file"),
        ("a.jsonl.gz", "compressed; unpack it"),
        ("a.json", "only JSON lines are read"),
        (".", "has no file that is read"),
    ):
        with pytest.raises(UsageError, match=said):
            sources([tmp_path / name])
    with pytest.raises(UsageError, match="'klingon' is not known"):
        Reading(encoding="klingon")
    with pytest.raises(UsageError, match="no encoding of text"):
        Reading(encoding="base64")
    (tmp_path / "b.jsonl").write_text('{"text": ""}', encoding="utf-16")
    with pytest.raises(UsageError, match="JSON lines in utf-16 cannot be told apart"):
        _all(tmp_path / "b.jsonl", reading=Reading(encoding="utf-16"))
