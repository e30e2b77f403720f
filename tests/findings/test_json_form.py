"""The JSON form: complete, pure, and equal to the audit it was made from."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ropewalk.findings import audit, to_json
from ropewalk.rope.schedules import (
    DynamicNtk,
    LargerBase,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    NtkByParts,
    PairDivisors,
    Proportional,
    Scaling,
    UnknownScaling,
    Unscaled,
    Yarn,
)
from ropewalk.rope.spec import AlibiSpec, Length, PositionSpec

MakeSpec = Callable[..., PositionSpec]

SCALINGS: list[Scaling] = [
    Unscaled(), Linear(4.0), Ntk(4.0), NtkByParts(4.0, 1024), LargerBase(5e5),
    Proportional(0.25), DynamicNtk(2.0, 4096), Yarn(4.0, 1024),
    Llama3(8.0, 1.0, 4.0, 8192), LongRope((1.0,) * 64, (2.0,) * 64, 2048, 2.0),
    PairDivisors((2.0,) * 64), UnknownScaling("telescope", (("factor", "4"),)),
]  # fmt: skip


@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda s: type(s).__name__)
def test_every_scaling_survives_a_strict_round_trip(make_spec: MakeSpec, scaling: Scaling) -> None:
    document = to_json(audit(make_spec(scaling=scaling), name="m"))
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_the_top_level_is_the_documented_schema(make_spec: MakeSpec) -> None:
    document = to_json(audit(make_spec(others=(Length(9, "x"),)), name="m"))
    assert list(document) == [
        "schema", "name", "model_type", "format", "claimed", "trained", "stated_trained",
        "other_lengths", "origin", "groups", "second", "dual_chunk", "axes", "findings",
    ]  # fmt: skip
    assert document["schema"] == "ropewalk.audit/1"
    assert document["claimed"] == {"tokens": 4096, "source": "max length", "stated": True}


def test_all_pairs_are_there_with_the_numbers_of_the_audit(make_spec: MakeSpec) -> None:
    result = audit(make_spec(scaling=Yarn(4.0, 1024), trained=1024))
    document = json.loads(json.dumps(to_json(result)))
    rotary = document["groups"][0]["rotary"]
    assert [row["index"] for row in rotary["pairs"]] == list(range(64))
    assert rotary["pairs"][63]["inv_freq"] == result.rotary[0].claim.inv_freq[63]
    assert rotary["attention_factor"] == pytest.approx(1.1386294361)  # 0.1 ln 4 + 1
    assert document["groups"][0]["encoding"]["scaling"]["type"] == "yarn"


def test_a_group_without_angles_has_a_null_in_their_place(make_spec: MakeSpec) -> None:
    document = json.loads(json.dumps(to_json(audit(make_spec(AlibiSpec(8))))))
    assert document["groups"][0]["rotary"] is None
    assert document["groups"][0]["encoding"] == {"type": "Alibi", "heads": 8, "max_bias": 8.0}


def test_infinite_numbers_become_null(make_spec: MakeSpec) -> None:
    result = audit(make_spec(AlibiSpec(8, max_bias=float("inf"))))
    document = json.loads(json.dumps(to_json(result), allow_nan=False))
    assert document["groups"][0]["encoding"]["max_bias"] is None
