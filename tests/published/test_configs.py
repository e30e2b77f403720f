"""What published configurations say of position, against figures checked by hand.

`configs.json` beside this file holds, for each published model, the telling keys of its file and
what transformers 5.24 makes of them: lengths, bases in falling order, scaling, what multiplies
cos and sin (`amplitude`) and what multiplies the softmax scale. Figures of the first full-
attention group, to five digits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.findings import audit
from ropewalk.rope.schedules import LongRope

FURTHER: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "further.json").read_text(encoding="utf-8")
)
"""Files with or without rotation, with the lengths and bases that are right for them."""

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "configs.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["model"])
def test_a_published_file_is_read_to_its_true_description(case: dict[str, Any]) -> None:
    spec = read_config(case["config"])
    rotated = [(group, rotary) for group, rotary in spec.rotary_groups()]
    group, first = max(rotated, key=lambda pair: pair[1].rope_theta)
    read = {
        "claimed": spec.claimed.tokens,
        "trained": spec.trained.tokens,
        "bases": sorted({rotary.rope_theta for _, rotary in rotated}, reverse=True),
        "rotary_dim": first.rotary_dim,
        "scaling": first.scaling.name,
        "factor": getattr(first.scaling, "factor", None),
        "amplitude": round(first.scaling.amplitude()[0], 5),
        "softmax": round(group.softmax.factor, 5),
        "layout": first.layout,
        "claim_stated": spec.claimed.stated,
    }
    true = dict(case["true"])
    remarks = set(true.pop("remarks"))
    assert read == true
    assert remarks <= {remark.code for remark in spec.findings}
    assert {rotary.rotary_dim for _, rotary in rotated} == {true["rotary_dim"]}


def test_a_share_of_the_layers_may_be_scaled_and_the_rest_not() -> None:
    spec = read_config(_config("Gemma-3-27B-it"))
    names = {group.name: rotary.scaling.name for group, rotary in spec.rotary_groups()}
    assert names == {"sliding attention": "default", "full attention": "linear"}


@pytest.mark.parametrize("case", FURTHER, ids=lambda case: case["model"])
def test_a_further_published_file_is_read_to_its_lengths_and_bases(case: dict[str, Any]) -> None:
    spec = read_config(case["config"])
    rotated = [rotary for _, rotary in spec.rotary_groups()]
    assert {
        "claimed": spec.claimed.tokens,
        "trained": spec.trained.tokens,
        "bases": sorted({rotary.rope_theta for rotary in rotated}, reverse=True),
        "rotary_dim": max((rotary.rotary_dim for rotary in rotated), default=None),
    } == case["true"]


@pytest.mark.parametrize("model", ["Phi-3-mini-128k-instruct", "Phi-3.5-vision-instruct"])
def test_searched_factors_grow_from_pair_to_pair_and_reach_the_claim(model: str) -> None:
    spec = read_config(_config(model))
    ((_, rotary),) = spec.rotary_groups()
    assert isinstance(rotary.scaling, LongRope)
    for factors in (rotary.scaling.short_factor, rotary.scaling.long_factor):
        assert list(factors) == sorted(factors)
        assert len(set(factors)) > 10
    # 64.76 and 64.84 times, where 131,072 is 32 times 4,096.
    assert rotary.scaling.long_factor[-1] == pytest.approx(64.8, abs=0.05)
    assert "long-factors-short" not in {each.code for each in audit(spec).findings}


def test_mrope_splits_the_pairs_and_scales_nothing() -> None:
    (pair,) = read_config(_config("Qwen2-VL-2B-Instruct")).rotary_groups()
    assert pair[1].sections == (16, 24, 24)


def test_where_each_number_comes_from_is_told() -> None:
    (pair,) = read_config(_config("Llama-2-7B")).rotary_groups()
    assert pair[1].rope_theta_source == "transformers' default for llama: 10000"
    assert pair[1].rotary_dim_source == "hidden_size / num_attention_heads"
    short = read_config(_config("Gemma-3-27B-it, short form"))
    assert short.claimed.source == "transformers' default for gemma3_text: 131072"
    scout = read_config(_config("Llama-4-Scout-17B-16E-Instruct"))
    assert scout.claimed.source == "text_config.max_position_embeddings"
    assert "reference length of the llama3 formula" in scout.trained.source


def test_lengths_beside_the_claim_are_kept_and_not_merged() -> None:
    command_r = read_config(_config("Command-R v01"))
    nomic = read_config(_config("nomic-embed-text-v1.5"))
    assert [(x.tokens, x.source) for x in command_r.other_lengths] == [(131072, "model_max_length")]
    assert [(x.tokens, x.source) for x in nomic.other_lengths] == [(8192, "n_positions")]


def _config(model: str) -> dict[str, Any]:
    """The keys of one published file."""
    found: dict[str, Any] = next(c["config"] for c in CASES if c["model"] == model)
    return found
