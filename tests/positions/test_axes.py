"""Which axis rotates which pair: the dealings of published models, and what cannot be dealt."""

from __future__ import annotations

import pytest

from ropewalk.errors import ScheduleError
from ropewalk.positions.axes import Axes, Axial, Chunked, Interleaved, OneAxis, choose, laid_out
from ropewalk.rope.sections import SectionLayout
from ropewalk.rope.spec import RotarySpec


def test_qwen2_vl_has_its_axes_in_chunks() -> None:
    axis = laid_out(RotarySpec(128, 128, 1e6, sections=(16, 24, 24)), Chunked(), None).axis
    assert axis == (0,) * 16 + (1,) * 24 + (2,) * 24


def test_qwen3_vl_deals_its_axes_in_rotates_and_the_slow_end_to_time() -> None:
    rotary = RotarySpec(128, 128, 5e6, sections=(24, 20, 20), section_layout="interleaved")
    axis = laid_out(rotary, Interleaved(), None).axis
    assert axis == (0, 1, 2) * 20 + (0,) * 4


def test_sections_that_would_be_clipped_in_rotates_are_refused() -> None:
    # Dealt over 64 pairs, 16, 24, 24 would become 22, 21, 21 without a word.
    with pytest.raises(ScheduleError, match=r"\[22, 21, 21\]"):
        RotarySpec(128, 128, 1e6, sections=(16, 24, 24), section_layout="interleaved")


def test_a_fourth_section_without_pairs_is_no_axis() -> None:
    rotary = RotarySpec(128, 128, 1e6, sections=(16, 24, 24, 0))
    assert laid_out(rotary, Chunked(), None).axis.count(3) == 0


def test_axial_ladders_are_those_of_qwen2_vl_and_of_pixtral() -> None:
    rotary = RotarySpec(16, 16, 10_000.0)
    own, dealt = (laid_out(rotary, Axial(ladder=name), None) for name in ("own", "dealt"))
    assert own.inv_freq == pytest.approx([10_000 ** (-i / 4) for i in range(4)] * 2)
    ladder = [10_000 ** (-i / 8) for i in range(8)]
    assert dealt.inv_freq == pytest.approx(ladder[0::2] + ladder[1::2])
    assert own.axis == dealt.axis == (0,) * 4 + (1,) * 4


@pytest.mark.parametrize(
    ("layout", "axes"), [("chunked", Chunked()), ("interleaved", Interleaved())]
)
def test_the_spec_alone_says_how_its_sections_are_dealt_out(
    layout: SectionLayout, axes: Axes
) -> None:
    rotary = RotarySpec(8, 8, 1e4, sections=(2, 1, 1), section_layout=layout)
    assert choose(rotary, None) == choose(rotary, axes) == axes


def test_text_has_one_axis_and_nothing_to_say() -> None:
    assert choose(RotarySpec(8, 8, 1e4), None) == OneAxis()


@pytest.mark.parametrize(
    ("sections", "axes", "named"),
    [
        ((2, 1, 1), Interleaved(), "do not go together"),
        ((2, 1, 1), OneAxis(), "do not go together"),
        ((2, 1, 1), Axial(), "do not go together"),
        ((), Chunked(), "do not go together"),
        ((), Interleaved(), "do not go together"),
        ((), Axial(3), "do not split evenly"),
        ((), Axial(0), "do not split evenly"),
        ((), Axial(2, "shared"), "'shared' is not known"),  # type: ignore[arg-type]
    ],
)
def test_axes_that_do_not_fit_are_refused(
    sections: tuple[int, ...], axes: Axes | None, named: str
) -> None:
    with pytest.raises(ScheduleError, match=named):
        choose(RotarySpec(8, 8, 1e4, sections=sections), axes)
