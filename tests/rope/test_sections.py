"""Which axis rotates which pair: the dealings of Qwen2-VL and Qwen3-VL, and what none can be."""

from __future__ import annotations

import re

import pytest

from ropewalk.errors import ScheduleError
from ropewalk.rope.sections import SectionLayout, pair_axes, used_sections
from ropewalk.rope.spec import RotarySpec


@pytest.mark.parametrize(
    ("sections", "layout", "axes"),
    [
        ((16, 24, 24), "chunked", (0,) * 16 + (1,) * 24 + (2,) * 24),
        ((24, 20, 20), "interleaved", (0, 1, 2) * 20 + (0,) * 4),
        ((11, 11, 10), "interleaved", (0, 1, 2) * 10 + (0, 1)),
        ((2, 1, 1, 0), "interleaved", (0, 1, 2, 0)),
    ],
)
def test_pairs_are_dealt_out_as_published(
    sections: tuple[int, ...], layout: SectionLayout, axes: tuple[int, ...]
) -> None:
    assert pair_axes(sections, layout) == axes


def test_a_section_without_pairs_at_the_end_is_no_axis() -> None:
    assert used_sections((16, 24, 24, 0)) == (16, 24, 24)
    assert used_sections((0, 0)) == ()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"section_layout": "shuffled"}, "section_layout is 'shuffled'; it must be 'chunked' or"),
        ({"placement": "middle"}, "placement is 'middle'; it must be 'first' or 'last'"),
        ({"section_layout": "interleaved"}, "there are no sections to deal out"),
        (
            {"section_layout": "interleaved", "sections": (1, 1, 2)},
            "sections [1, 1, 2] cannot be dealt out in turns over 4 pairs",
        ),
    ],
)
def test_what_no_model_can_have_is_refused(changes: dict[str, object], named: str) -> None:
    with pytest.raises(ScheduleError, match=re.escape(named)):
        RotarySpec(8, 8, 1e4, **changes)  # type: ignore[arg-type]
