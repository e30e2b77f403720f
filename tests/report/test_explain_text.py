"""Explanations as text: 80 columns of ASCII."""

from __future__ import annotations

from ropewalk.explain.order import explain_order
from ropewalk.explain.scale import explain_scale
from ropewalk.report.explain_text import order_lines, scale_lines


def test_explanations_fit_80_columns_in_ascii() -> None:
    lines = [*order_lines(explain_order()), *scale_lines(explain_scale(widths=(64, 4096)))]
    assert max(map(len, lines)) <= 80
    assert all(line.isascii() for line in lines)
