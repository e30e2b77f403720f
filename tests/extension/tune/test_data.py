"""Rows for every step: the same again, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk.errors import DataFileError, LengthError, UsageError
from ropewalk.extension.tune.data import Documents, StepRows, open_source
from ropewalk.extension.tune.training_settings import parse_mix
from ropewalk.packing.pack import Boundary
from ropewalk.packing.texts import Reading, Sources

LENGTHS = (5, 40, 17, 64, 9, 130, 33)


def source() -> Documents:
    return Documents(lambda: ([n] * size for n, size in enumerate(LENGTHS)))


def taken(rows: StepRows, steps: int) -> list[list[list[int]]]:
    return [[row.token_ids.tolist() for row in rows.next()] for _ in range(steps)]


def test_going_to_a_step_gives_the_rows_that_a_run_would_have_had_there() -> None:
    mix = parse_mix("64:2,32:1")
    whole = taken(StepRows(source(), mix, 2, 100, seed=5), 12)
    later = StepRows(source(), mix, 2, 100, seed=5)
    later.go_to(7)
    assert taken(later, 5) == whole[7:]
    assert taken(StepRows(source(), mix, 2, 100, seed=6), 12) != whole


def test_every_reading_holds_every_token_once() -> None:
    rows = StepRows(source(), parse_mix("64"), 1, 100, seed=0)
    per_reading = sum(1 for _ in source().rows(64))
    found = np.concatenate([row for step in taken(rows, per_reading) for row in step])
    # Padding is 0 too, so document 0 is not counted.
    counts = np.bincount(found, minlength=len(LENGTHS))[1:]
    assert counts.tolist() == list(LENGTHS[1:])
    assert rows.streams[64].readings == 1
    taken(rows, 1)
    assert rows.streams[64].readings == 2


def test_data_that_does_not_fill_a_row_is_refused() -> None:
    one = Documents(lambda: iter([[1] * 20]))
    with pytest.raises(LengthError, match="has 20 tokens in 1 documents, less than one row of 64"):
        StepRows(one, parse_mix("64"), 1, 100, 0).next()
    none = Documents(lambda: iter([]))
    with pytest.raises(UsageError, match="0 documents, and none with a token"):
        StepRows(none, parse_mix("64"), 1, 100, 0).next()
    empty = Documents(lambda: iter([[], []]))
    with pytest.raises(UsageError, match="2 documents, and none with a token"):
        StepRows(empty, parse_mix("64"), 1, 100, 0).next()


def test_an_id_that_the_model_has_no_row_for_is_refused_with_its_document() -> None:
    rows = StepRows(source(), parse_mix("64"), 8, 3, 0)
    with pytest.raises(DataFileError, match="another tokenizer"):
        rows.next()


def test_packed_rows_are_taken_as_they_are_and_only_at_their_length(
    tmp_path: Path, documents: Path, tiny_tokenizer: Any
) -> None:
    from ropewalk.packing.files import PackSettings, pack_files
    from ropewalk.packing.policies import BestFit

    tokenizer = tiny_tokenizer("bos-eos")
    path = tmp_path / "rows.parquet"
    made = PackSettings(64, BestFit(), boundary=Boundary(after=1))
    pack_files(Sources((documents,)), tokenizer, made, path)

    def opened(paths: tuple[Path, ...], length: str) -> Any:
        return open_source(
            Sources(paths),
            tokenizer,
            parse_mix(length),
            cutting="kept",
            boundary=Boundary(after=1),
            padding_id=0,
            reading=Reading(),
        )

    packed = [row.token_ids.tolist() for row in opened((path,), "64").rows(64)]
    on_the_way = [row.token_ids.tolist() for row in opened((documents,), "64").rows(64)]
    assert packed == on_the_way
    with pytest.raises(LengthError, match="has rows of 64 tokens, and --length asks for 32"):
        next(opened((path,), "32").rows(32))
    with pytest.raises(UsageError, match="give one kind of data"):
        opened((path, documents), "64")
    with pytest.raises(UsageError, match="which have one length"):
        opened((path,), "64:1,32:1")
