"""Explanations as text: 80 columns of ASCII."""

from __future__ import annotations

from ropewalk.explain.encodings import explain_encodings
from ropewalk.explain.order import explain_order
from ropewalk.explain.scale import explain_scale
from ropewalk.report import terminal
from ropewalk.report.explain import encodings_document, order_document, scale_document


def test_explanations_fit_80_columns_in_ascii() -> None:
    made = (order_document(explain_order()), scale_document(explain_scale(widths=(64, 4096))))
    lines = [line for each in made for line in terminal(each).splitlines()]
    assert max(map(len, lines)) <= 80
    assert all(line.isascii() for line in lines)


def test_no_word_of_the_two_tables_is_cut_off() -> None:
    rows = explain_encodings()
    lines = terminal(encodings_document(rows)).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line.isascii() for line in lines)
    printed = set(" ".join(lines).split())
    for row in rows:
        for words in (row.description.encodes, row.description.beyond_trained_length):
            assert printed.issuperset(words.split())
        assert f"{row.figures.farthest:,}" in printed
