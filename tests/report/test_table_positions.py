"""What is said of a learned position table, and its page in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from ropewalk.report import html, terminal
from ropewalk.report import table_positions as words
from ropewalk.tables.positions_table import PositionTable, measured

Dom = Callable[..., str]


@pytest.fixture
def found() -> PositionTable:
    """1,200 positions that turn evenly, of which the last 200 were never trained."""
    angles = torch.arange(1200.0)[:, None] * torch.logspace(0, -3, 64)[None]
    rows = torch.cat([angles.sin(), angles.cos()], 1)
    rows[1000:] = 0.1 * torch.randn(200, 128, generator=torch.Generator().manual_seed(0))
    return measured(rows)


def test_every_line_fits_a_terminal_and_the_definition_is_among_them(found: PositionTable) -> None:
    lines = terminal(words.document(found, "toy", "read it")).splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "1,000 of 1,200; the 200 rows from position 1,000 on fall away" in text
    assert "a row falls away when its cosine with the row before" in text
    assert "18 of 1,200" in text


def test_the_profile_counts_its_pairs(found: PositionTable) -> None:
    rows = list(words.profile_rows(found))
    assert [(distance, pairs) for distance, pairs, _, _ in rows][:3] == [
        (1, 1199),
        (2, 1198),
        (4, 1196),
    ]


@pytest.mark.parametrize(
    ("positions", "said"),
    [((), ""), ((3,), "3"), ((0, 1, 2, 5, 7, 8), "0-2, 5, 7-8")],
)
def test_positions_are_said_as_stretches(positions: tuple[int, ...], said: str) -> None:
    assert words.ranges(positions) == said


def test_many_stretches_are_counted_and_not_dropped() -> None:
    assert words.ranges(range(0, 40, 2)) == "0, 2, 4, 6, (12 more stretches), 32, 34, 36, 38"


def test_the_page_paints_every_cosine_and_says_one_under_the_cursor(
    found: PositionTable, dom: Dom
) -> None:
    evil = "toy </title><script>document.title='ran'</script>"
    page = html(words.document(found, evil, "read it"))
    press = """
      const map = document.getElementById("map");
      const key = (name) => map.dispatchEvent(new KeyboardEvent("keydown", { key: name }));
      key("ArrowDown"); key("ArrowRight"); key("ArrowUp");
      const seen = map.getContext("2d").getImageData(200, 200, 1, 1).data;
      map.setAttribute("data-pixel", Array.from(seen).join());
    """
    document = dom(page, script=press)
    assert "<title>ran" not in document
    assert "<script>document.title" not in page
    second = words.spaced(1200, 512)[1]
    cosine = float(found.similarity([0, second])[0, 1])
    assert f"positions 0 and {second}: {cosine:.2f}" in document
    # On the diagonal every cosine is 1, the scale's last colour.
    assert re.search(r'data-pixel="31,98,163,255"', document)
    assert document.count('<path class="curve') == 2 * 4
    assert "effective 1,000" in document
