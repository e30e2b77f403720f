"""How lengths are written, on every option that takes one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import LengthError
from ropewalk.extension.tune.training_settings import parse_mix
from ropewalk.lengths import MOST_TOKENS, parse_length, read_length
from ropewalk.proof.plan import parse_lengths


@given(st.integers(1, 2047), st.sampled_from(["", "k", "K", "m", "M"]))
def test_a_length_is_its_number_times_its_unit_in_every_reader(number: int, unit: str) -> None:
    tokens = number * 1024 ** ["", "k", "m"].index(unit.lower())
    text = f"{number}{unit}"
    assert read_length(text) == parse_length(f" {text} ") == tokens
    assert parse_lengths(text) == (tokens,)
    if tokens > 1:
        assert parse_mix(text).lengths == (tokens,)


@given(st.integers(1000, MOST_TOKENS))
def test_thousands_may_be_parted_by_underscores(tokens: int) -> None:
    assert parse_length(f"{tokens:_}") == parse_length(str(tokens)) == tokens


@given(st.text(alphabet="0123456789kKmMgGe.,-+_ \t٣", max_size=8))
def test_what_is_read_is_a_number_and_a_unit_and_nothing_else(text: str) -> None:
    found = read_length(text)
    plain = re.fullmatch(r"([0-9]+)([km]?)", text.strip().lower().replace("_", ""))
    if found is None:
        return
    assert plain is not None
    assert found == int(plain[1]) * {"": 1, "k": 1024, "m": 1048576}[plain[2]]


@pytest.mark.parametrize("text", ["", "k", "1e3", "2.5k", "-5", "4g", "1__000", "10_00", "1,000"])
def test_what_is_no_length_says_how_to_write_one(text: str) -> None:
    with pytest.raises(LengthError, match=r"--to '.*' is not understood: .* 4096, 4k or 1M"):
        parse_length(text, "--to")


@pytest.mark.parametrize("text", ["0", "0k", "2048M", "9999999999M"])
def test_an_impossible_length_says_which_are_possible(text: str) -> None:
    with pytest.raises(LengthError, match=rf"--to of \d+ tokens is impossible: 1 to {MOST_TOKENS}"):
        parse_length(text, "--to")
