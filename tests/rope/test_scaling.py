"""The scaling types: values, comparable, hashable, each with the name configurations use."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from ropewalk.rope.scaling import NAMES, UNSCALED, Scaling, UnknownScaling, Unscaled, Yarn, name_of


def test_every_type_of_the_union_has_a_name() -> None:
    assert set(NAMES) == set(get_args(Scaling))
    assert len(set(NAMES.values())) == len(NAMES)


def test_the_names_are_those_of_transformers_registry() -> None:
    rope_utils = pytest.importorskip("transformers.modeling_rope_utils")
    theirs = set(rope_utils.ROPE_INIT_FUNCTIONS) & {
        "default", "linear", "dynamic", "yarn", "llama3", "longrope"
    }  # fmt: skip
    assert theirs <= set(NAMES.values())


def test_an_unknown_scaling_keeps_its_own_name() -> None:
    assert name_of(UnknownScaling("telescope")) == "telescope"
    assert name_of(UNSCALED) == "default"


def test_scalings_are_values() -> None:
    assert Unscaled() == UNSCALED
    assert hash(Yarn(4.0, 4096)) == hash(Yarn(4.0, 4096))
    with pytest.raises(dataclasses.FrozenInstanceError):
        Yarn(4.0, 4096).factor = 2.0  # type: ignore[misc]


def test_yarns_defaults_are_those_of_the_paper() -> None:
    yarn = Yarn(4.0, 4096)
    assert (yarn.beta_fast, yarn.beta_slow, yarn.truncate) == (32.0, 1.0, True)
