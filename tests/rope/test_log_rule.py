"""Factors that grow with a logarithm, against the numbers of the models' own formulas."""

from __future__ import annotations

import math

import pytest

from ropewalk.rope.log_rule import LogRule

LLAMA_4 = LogRule("in steps", start=8192.0, scale=0.1, first=1)
MINISTRAL = LogRule("in steps", start=16_384.0, scale=0.1)


@pytest.mark.parametrize(
    ("rule", "at", "factor"),
    [
        (LLAMA_4, 0, 1.0),
        (LLAMA_4, 8190, 1.0),
        (LLAMA_4, 8191, 1.0 + 0.1 * math.log(2.0)),
        (LLAMA_4, 10_485_759, 1.0 + 0.1 * math.log(1281.0)),
        (MINISTRAL, 16_383, 1.0),
        (MINISTRAL, 16_384, 1.0 + 0.1 * math.log(2.0)),
        (LogRule("by base", start=2048.0, first=1), 2047, 1.0),
        (LogRule("by base", start=2048.0, first=1), 8191, 13 / 11),
        (LogRule("by ratio", "keys", "length", 262_144.0, 0.1), 524_288, 1.0 + 0.1 * math.log(2)),
        (LogRule("by ratio", "keys", "length", 262_144.0, 0.1), 1000, 1.0),
        (LogRule("learned", first=1), 1000, None),
    ],
)
def test_the_factor_of_a_position_or_a_length(rule: LogRule, at: int, factor: float | None) -> None:
    found = rule.factor(at)
    assert found is factor or found == pytest.approx(factor)


def test_a_formula_says_its_numbers() -> None:
    assert LLAMA_4.formula == "1 + 0.1 ln(1 + floor((position + 1) / 8192))"
    assert MINISTRAL.formula == "1 + 0.1 ln(1 + floor(position / 16384))"
    assert LogRule("learned").formula == "s ln(position), s trained for each head"


@pytest.mark.parametrize("positions", [[0, 16_383, 16_384, 100_000, 262_143]])
def test_mistral_s_factor_is_that_of_its_own_code(positions: list[int]) -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("transformers.models.ministral3.modeling_ministral3")
    scale = theirs.get_llama_4_attn_scale(torch.tensor([positions]), 0.1, 16_384).flatten()
    ours = [MINISTRAL.factor(position) for position in positions]
    assert ours == pytest.approx(scale.tolist(), rel=1e-6)
