"""What is read of a folder that `ropewalk.decoder` has saved: the encoding that it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

import ropewalk
from ropewalk.decoder import Decoder, DecoderConfig, Position
from ropewalk.dialects.hf import read_config
from ropewalk.rope.spec import (
    AlibiSpec,
    LearnedPositions,
    NoPositionSpec,
    PositionSpec,
    RelativeBuckets,
    RotarySpec,
    SinusoidalSpec,
)

KINDS: dict[str, Any] = {
    "rope": RotarySpec(head_dim=16, rotary_dim=16, rope_theta=5000.0),
    "alibi": AlibiSpec(heads=2),
    "learned": LearnedPositions(rows=128),
    "sinusoidal": SinusoidalSpec(rows=128),
    "t5": RelativeBuckets(buckets=32, max_distance=128),
    "none": NoPositionSpec(),
}


def _read(position: Position, folder: Path) -> PositionSpec:
    # The trained length is the class's default: the file has to state it all the same.
    config = DecoderConfig(
        vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        position=position, rope_theta=5000.0,
    )  # fmt: skip
    Decoder(config).save_pretrained(folder)
    return read_config(json.loads((folder / "config.json").read_text()))


@pytest.mark.parametrize("position", KINDS)
def test_a_saved_decoder_says_which_encoding_it_has(position: Position, tmp_path: Path) -> None:
    spec = _read(position, tmp_path)
    (group,) = spec.groups
    assert group.encoding == KINDS[position]
    assert group.softmax.factor == 1.0
    assert (spec.claimed.tokens, spec.claimed.stated) == (128, True)
    assert ropewalk.audit(spec) is not None


def test_the_raw_index_is_said_to_have_no_row(tmp_path: Path) -> None:
    spec = _read("raw_index", tmp_path)
    assert spec.groups == ()
    assert "trained projection" in " ".join(remark.text for remark in spec.findings)
    assert {*KINDS, "raw_index"} == set(get_args(Position))
