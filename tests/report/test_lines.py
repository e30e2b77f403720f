"""Every report is broken into lines here: none is wider than the terminal, and nothing is lost."""

from __future__ import annotations

import textwrap
from operator import itemgetter
from random import Random
from typing import Any

import pytest
from rich.cells import cell_len

from ropewalk.report.document import Block, Column, Drawn, Prose, Table, ToCopy
from ropewalk.report.lines import text_lines
from ropewalk.report.text import fit, wrapped

WORDS = (
    "a bb ccc dddd log-probability McNemar's (p = 2) 95 % re-read well-known-thing 1,024".split()
)
WIDE = [
    *WORDS, "模型", "日本語のとても長い言葉がここにある", "e\u0301te\u0301", "x" * 70,
    "/a/path/" * 12,
]  # fmt: skip


@pytest.mark.parametrize("hyphens", [True, False])
def test_plain_text_is_broken_where_the_standard_library_breaks_it(hyphens: bool) -> None:
    random = Random(0)
    for _ in range(500):
        text = " ".join(random.choices(WORDS, k=random.randint(1, 30)))
        width = random.randint(30, 70)
        theirs = textwrap.wrap(
            text, width, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=hyphens
        )
        assert wrapped(text, width, "  - ", hyphens=hyphens) == theirs


def test_no_line_of_any_text_is_wider_and_no_character_is_lost() -> None:
    random = Random(1)
    for _ in range(500):
        text = " ".join(random.choices(WIDE, k=random.randint(1, 20)))
        width = random.randint(20, 120)
        found = wrapped(text, width, "label: ", "   ")
        assert max(map(cell_len, found)) <= width
        assert "".join("".join(found).split()) == "label:" + "".join(text.split())


def test_a_blank_that_must_not_be_broken_at_is_kept() -> None:
    assert wrapped("aaaa bbbb\u00a0cccc", 10) == ["aaaa", "bbbb\u00a0cccc"]


def table(rows: list[tuple[str, ...]], heads: list[tuple[str, int]], **options: Any) -> Table:
    columns = [Column(name, wide, itemgetter(at)) for at, (name, wide) in enumerate(heads)]
    return Table(columns, rows, **options)


def test_tables_too_wide_go_on_in_blocks_with_every_cell_in_its_row() -> None:
    random = Random(2)
    for _ in range(300):
        sizes = [random.randint(6, 30) for _ in range(random.randint(2, 12))]
        rows = [tuple(f"{row}.{at}" for at in range(len(sizes))) for row in range(4)]
        width = random.randint(40, 200)
        found = text_lines(
            [table(rows, [(f"h{at}", size) for at, size in enumerate(sizes)])], width
        )
        assert max(map(len, found)) <= width
        shown = " ".join(found).split()
        assert all(cell in shown for row in rows for cell in row)


def test_a_table_that_fits_has_its_heads_above_their_columns() -> None:
    made = table([("a", "1", "2")], [("name", 10), ("one", 6), ("two", 6)])
    assert text_lines([made], 40) == ["name         one   two", "a              1     2"]


def test_a_narrow_terminal_does_without_columns_that_may_go() -> None:
    heads = [("name", 10), ("one", 20), ("two", 20)]
    made = table([("a", "1", "2")], heads, less=("one",))
    assert text_lines([made], 50)[0].split() == ["name", "one", "two"]
    assert text_lines([made], 40)[0].split() == ["name", "two"]


def test_a_column_of_words_takes_what_room_is_left() -> None:
    columns = (
        Column("", 3, itemgetter(0), align=">"),
        Column("rows", 6, itemgetter(1)),
        Column("tokens", 0, itemgetter(2), align="<"),
    )
    made = Table(columns, [("0", "40", "word " * 30)], words=True)
    found = text_lines([made], 60)
    assert max(map(len, found)) <= 60
    assert found[1].startswith("  0    40  word word")
    assert found[2].startswith(" " * 11 + "word")
    assert " ".join(found).count("word") == 30


def test_a_label_that_leaves_no_room_stands_above_its_row() -> None:
    long = "a very long label of forty characters.."
    found = text_lines([table([(long, "1"), ("b", "2")], [("", 0), ("", 10)])], 40)
    assert found == [long, "           1", "b", "           2"]


def test_what_a_text_holds_is_shown_and_never_obeyed() -> None:
    evil = "\x1b[31mred\u202e"
    blocks: list[Block] = [
        evil,
        Prose(evil),
        table([(evil, evil)], [(evil, 0), ("", 0)]),
        ToCopy(evil),
    ]
    assert not {"\x1b", "\u202e"} & set("".join(text_lines(blocks, 80)))


def test_a_line_that_is_too_long_goes_on_deeper_and_a_command_is_never_broken() -> None:
    command = "ropewalk prove smollm2 --lengths 2048,12000 --rope yarn:2"
    blocks: list[Block] = ["  " + "ab " * 20, ToCopy(command), Drawn(lambda width: ["x" * width])]
    found = text_lines(blocks, 40)
    assert found[0].startswith("  ab")
    assert found[1].startswith("    ab")
    assert f"  {command}" in found
    assert found[-1] == "x" * 40


def test_narrower_than_forty_columns_is_written_as_forty() -> None:
    assert text_lines([Prose("word " * 20)], 10) == text_lines([Prose("word " * 20)], 40)


def test_a_column_counts_cells_and_cuts_with_dots() -> None:
    for text in ("short", "模型" * 20, "日本語" + "x" * 30):
        assert cell_len(fit(text, 14)) == 14
    assert fit("模型" * 20, 14).rstrip().endswith("...")
