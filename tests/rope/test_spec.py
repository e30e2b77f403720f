"""A rotary encoding exists only when every angle follows; anything else is our own error."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.errors import RopewalkError, ScheduleError
from ropewalk.rope.diagnostics import local_resolution, pair_rows
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.scaling import (
    DynamicNtk,
    LargerBase,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    NtkByParts,
    PairDivisors,
    Proportional,
    UnknownScaling,
    Unscaled,
    Yarn,
)
from ropewalk.rope.spec import LayerGroup, RotarySpec, SoftmaxRule

ONES = (1.0,) * 31


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"rotary_dim": 63}, "rotary_dim is 63 with head_dim 64; it must be even"),
        ({"rotary_dim": 128}, "at most head_dim: check head_dim and partial_rotary_factor"),
        ({"rotary_dim": 0}, "at least 2"),
        ({"rotary_dim": 64.0}, "rotary_dim is 64.0"),
        ({"rope_theta": 1.0}, "rope_theta is 1.0; it must be a number above 1"),
        ({"rope_theta": -1e4}, "rope_theta is -10000.0"),
        ({"rope_theta": math.nan}, "rope_theta is nan"),
        ({"rope_theta": math.inf}, "rope_theta is inf"),
        ({"rope_theta": None}, "rope_theta is None"),
        ({"rope_theta": 10**400}, "rope_theta is an integer of more than 30 digits"),
        ({"layout": "spiral"}, "layout is 'spiral'; it must be 'half' or 'interleaved'"),
        ({"sections": (8, 12, 11)}, "which sum to 31; they must be .* the 32 rotary pairs"),
        ({"sections": (40, -8)}, r"sections are \(40, -8\)"),
        ({"sections": 32.0}, "sections are 32.0"),
        ({"scaling": PairDivisors(ONES)}, "rope_freqs holds 31 divisors for 32 rotary pairs"),
        ({"scaling": LongRope(ONES, ONES, 4096, 2.0)}, "short_factor holds 31 divisors for 32"),
        ({"rotary_dim": 32, "scaling": Proportional(0.5)}, "defined on whole heads"),
    ],
)
def test_an_encoding_without_angles_is_refused_when_it_is_made(
    keys: dict[str, Any], message: str
) -> None:
    values: dict[str, Any] = {"head_dim": 64, "rotary_dim": 64, "rope_theta": 1e4}
    with pytest.raises(ScheduleError, match=message) as told:
        RotarySpec(**{**values, **keys})
    assert len(str(told.value)) < 250


def test_sections_that_fit_are_accepted() -> None:
    assert RotarySpec(128, 128, 1e6, sections=(16, 24, 24)).sections == (16, 24, 24)


# Anything at all: plausible numbers, edges, and what is no number.

WEIRD: st.SearchStrategy[Any] = st.sampled_from(
    [0, -1, 1, 2, True, None, "4", math.nan, math.inf, -math.inf, 5e-324, 1e308, 10**400, (), [1.0]]
)
NUMBER: st.SearchStrategy[Any] = st.one_of(
    st.floats(0.5, 64.0), st.floats(1.0, 1e15), st.floats(), st.integers(), WEIRD
)
LENGTH: st.SearchStrategy[Any] = st.one_of(
    st.integers(1, 1 << 20), st.integers(1, 1 << 53), st.integers(), WEIRD
)
DIM: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([2, 4, 32, 64, 128]), st.integers(-2, 512), WEIRD
)
LISTS: st.SearchStrategy[Any] = st.one_of(
    st.tuples(st.sampled_from([1, 2, 16, 32, 64]), st.floats(0.5, 1e3)).map(
        lambda pair: (pair[1],) * pair[0]
    ),
    st.lists(NUMBER, max_size=4).map(tuple),
    WEIRD,
)
OPTIONAL = st.none() | NUMBER
SECTIONS = st.sampled_from([(16, 24, 24), (24, 20, 20), (11, 11, 10), (1, 0, 0), (0, 0, 1)])
SCALINGS: dict[type, tuple[st.SearchStrategy[Any], ...]] = {
    Unscaled: (),
    Linear: (NUMBER,),
    LargerBase: (NUMBER,),
    Ntk: (NUMBER,),
    DynamicNtk: (NUMBER, LENGTH),
    NtkByParts: (NUMBER, LENGTH, NUMBER, NUMBER),
    Yarn: (NUMBER, LENGTH, NUMBER, NUMBER, st.booleans(), OPTIONAL, OPTIONAL, OPTIONAL),
    Llama3: (NUMBER, NUMBER, NUMBER, LENGTH),
    LongRope: (LISTS, LISTS, LENGTH, NUMBER, OPTIONAL),
    PairDivisors: (LISTS,),
    Proportional: (NUMBER, NUMBER),
    UnknownScaling: (st.text(),),
}


@st.composite
def makings(draw: st.DrawFn) -> tuple[type, list[Any], dict[str, Any]]:
    """The type and the arguments of a scaling, and the arguments of its encoding."""
    kind = draw(st.sampled_from(list(SCALINGS)))
    head = draw(DIM)
    encoding = {
        "head_dim": head,
        "rotary_dim": draw(st.just(head) | DIM),
        "rope_theta": draw(NUMBER),
        "sections": draw(st.just(()) | LISTS | SECTIONS),
        "section_layout": draw(st.sampled_from(["chunked", "interleaved"]) | WEIRD),
        "placement": draw(st.sampled_from(["first", "last"]) | WEIRD),
    }
    return kind, [draw(each) for each in SCALINGS[kind]], encoding


@settings(max_examples=600, deadline=None)
@given(makings(), st.none() | LENGTH, NUMBER)
def test_any_values_give_finite_angles_or_our_own_error(
    making: tuple[type, list[Any], dict[str, Any]], length: Any, softmax: Any
) -> None:
    kind, arguments, encoding = making
    try:
        rotary = RotarySpec(**encoding, scaling=kind(*arguments))
        group = LayerGroup("all layers", (0,), rotary, softmax=SoftmaxRule(softmax))
        built = frequencies(group, length)
    except RopewalkError as error:
        assert str(error)  # noqa: PT017 - either outcome is right
        return
    assert len(built.inv_freq) == rotary.pairs
    still_allowed = kind is Proportional
    assert all(math.isfinite(f) and (f > 0.0 or still_allowed) for f in built.inv_freq)
    assert all(math.isfinite(x) for x in (built.attention_factor, built.softmax_factor))
    assert built.attention_factor > 0.0
    assert built.softmax_factor > 0.0
    assert math.isfinite(local_resolution(built))
    assert len(built.fingerprint()) == 16
    assert len(pair_rows(rotary, 4096, 8192)) == rotary.pairs
