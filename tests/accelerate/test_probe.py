"""What a rotary function does is found by calling it, and never guessed."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ropewalk.accelerate.probe import rule_of
from ropewalk.accelerate.rules import Form, Rule, has_equal_copies

FAMILIES = {
    "llama": Rule("by argument", "half", "doubled", widens=True, folded=True),
    "gpt_neox": Rule("by argument", "half", "doubled", partial=True, widens=True, folded=True),
    "cohere": Rule("by argument", "interleaved", "repeated", folded=True),
    "glm": Rule("by argument", "interleaved", "doubled", partial=True, widens=True),
    "gptj": Rule("heads second", "interleaved", "none", widens=True),
    "gpt_oss": Rule("by argument", "half", "none", widens=True),
    "nanochat": Rule("by argument", "half", "doubled", backwards=True, widens=True, folded=True),
    "deepseek_v4": Rule("by argument", "interleaved", "none", partial=True, from_end=True),
}
"""Read from the modelling files of transformers 5.24."""


def own_function(family: str, name: str = "apply_rotary_pos_emb") -> Any:
    return getattr(import_module(f"transformers.models.{family}.modeling_{family}"), name)


@pytest.mark.parametrize(("family", "rule"), FAMILIES.items(), ids=FAMILIES)
def test_the_rule_is_that_of_the_modelling_file(family: str, rule: Rule) -> None:
    assert rule_of(own_function(family)) == rule


def test_others_go_by_other_names() -> None:
    vision = rule_of(own_function("qwen2_vl", "apply_rotary_pos_emb_vision"))
    assert vision == Rule("heads second", "half", "doubled", unbatched=True, folded=True)
    halves = rule_of(own_function("deepseek_v3", "apply_rotary_pos_emb_interleave"))
    assert halves == Rule("by argument", "interleaved", "doubled", halves_out=True, widens=True)
    assert rule_of(own_function("llama4", "apply_rotary_emb")) == Rule(
        "heads second", "interleaved", "none"
    )


def test_a_function_that_does_something_else_has_no_rule() -> None:
    def scaled(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        q, k = own_function("llama")(q, k, cos, sin)
        return 1.001 * q, k

    def refusing(*, cos: Tensor, sin: Tensor, **given: Tensor) -> Tensor:
        raise ValueError(f"not for {cos} {sin} {given}")

    assert rule_of(scaled) is None
    assert rule_of(refusing) is None
    assert rule_of(own_function("clvp")) is None


def test_a_function_of_another_form_has_none() -> None:
    def three(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return q * k * v * cos * sin

    def offset(q: Tensor, cos: Tensor, sin: Tensor, start: int) -> Tensor:
        return q * cos * sin * start

    assert Form.of(three) is None
    assert Form.of(offset) is None


def test_copies_of_a_pair_are_compared() -> None:
    pairs = torch.randn(3, 4)
    doubled, repeated = torch.cat((pairs, pairs), -1), pairs.repeat_interleave(2, -1)
    assert has_equal_copies([doubled], "doubled")
    assert not has_equal_copies([doubled], "repeated")
    assert has_equal_copies([repeated], "repeated")
    assert not has_equal_copies([doubled, repeated], "doubled")
    assert has_equal_copies([pairs], "none")


@pytest.mark.conformance
def test_nearly_every_rotary_function_of_transformers_has_a_rule() -> None:
    import transformers

    known, unknown = 0, []
    for path in transformers.models.__path__:
        for file in sorted(Path(path).glob("*/modeling_*.py")):
            text = file.read_text(encoding="utf-8")
            if "rotary" not in text:
                continue
            module = import_module(f"transformers.models.{file.parent.name}.{file.stem}")
            for name, value in vars(module).items():
                if name.startswith("apply_") and f"def {name}(" in text and "rotary" in name:
                    rule = rule_of(value)
                    known += rule is not None
                    unknown += [] if rule is not None else [f"{file.stem}.{name}"]
    sys.stdout.write(f"{known} rotary functions have a rule, {len(unknown)} none: {unknown}\n")
    assert known >= 220
    assert len(unknown) <= 14
