"""Schedules asked for by name, against transformers configured for the same ones."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.errors import ScheduleError
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.lengths import trained_length
from ropewalk.rope.override import override
from ropewalk.rope.schedules import UNSCALED, DynamicNtk, Linear, Ntk, Yarn
from ropewalk.rope.spec import Length, PositionSpec, RotarySpec

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}
GEMMA3: dict[str, Any] = {
    "model_type": "gemma3_text",
    "head_dim": 64,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 12,
    "sliding_window": 512,
    "max_position_embeddings": 32768,
}


def only(spec: PositionSpec) -> RotarySpec:
    (pair,) = spec.rotary_groups()
    return pair[1]


def transformers_table(rope: dict[str, Any]) -> tuple[list[float], float]:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    keys = {k: v for k, v in LLAMA.items() if k not in ("model_type", "rope_theta")}
    config = LlamaConfig(**keys, rope_parameters={"rope_theta": 10000.0, **rope})
    table, factor = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu")
    return table.double().tolist(), float(factor)


@pytest.mark.parametrize(
    ("text", "rope"),
    [
        (
            "yarn:2",
            {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096},
        ),
        (
            " YaRN:4.5 ",
            {"rope_type": "yarn", "factor": 4.5, "original_max_position_embeddings": 4096},
        ),
        ("linear:4", {"rope_type": "linear", "factor": 4.0}),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_named_schedule_is_the_one_transformers_builds(text: str, rope: dict[str, Any]) -> None:
    table, factor = transformers_table(rope)
    ours = schedule(only(override(read_config(LLAMA), text)))
    assert ours.inv_freq == pytest.approx(table, rel=2e-6)
    assert ours.attention_factor == pytest.approx(factor, rel=1e-12)


def test_ntk_divides_the_slowest_pair_by_the_factor_and_keeps_the_fastest() -> None:
    before = schedule(only(read_config(LLAMA))).inv_freq
    after = schedule(only(override(read_config(LLAMA), "ntk:2"))).inv_freq
    assert after[0] == before[0] == 1.0
    assert before[-1] / after[-1] == pytest.approx(2.0, rel=1e-12)


def test_a_base_is_replaced_and_nothing_else() -> None:
    before = only(read_config(LLAMA))
    after = only(override(read_config(LLAMA), "base:5e5"))
    assert (after.rope_theta, after.scaling) == (5e5, UNSCALED)
    assert (after.head_dim, after.rotary_dim, after.layout) == (
        before.head_dim,
        before.rotary_dim,
        before.layout,
    )
    assert after.rope_theta_source == "--rope base:5e5"


@pytest.mark.parametrize(
    ("text", "scaling"),
    [("yarn:2", Yarn(2.0, 4096)), ("linear:2", Linear(2.0)), ("ntk:1.5", Ntk(1.5))],
)
def test_layers_and_lengths_stay(text: str, scaling: object) -> None:
    spec = read_config(LLAMA)
    changed = override(spec, text)
    assert only(changed).scaling == scaling
    assert [g.layers for g in changed.groups] == [g.layers for g in spec.groups]
    assert (changed.trained, changed.claimed) == (trained_length(spec), spec.claimed)


def test_yarn_takes_the_trained_length_before_the_claimed_one() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    plain = override(read_config({**LLAMA, "rope_scaling": yarn}), "none")
    assert only(override(plain, "yarn:2")).scaling == Yarn(2.0, 1024)


def test_only_layers_that_see_everything_are_rescaled() -> None:
    spec = read_config(GEMMA3)
    changed = override(spec, "linear:8")
    for before, after in zip(spec.groups, changed.groups, strict=True):
        assert isinstance(after.encoding, RotarySpec)
        if before.window is None:
            assert after.encoding.scaling == Linear(8.0)
        else:
            assert after == before
    assert {g.window is None for g in spec.groups} == {True, False}


def test_where_every_layer_has_a_window_all_are_rescaled() -> None:
    mistral = {**LLAMA, "model_type": "mistral", "sliding_window": 1024}
    changed = override(read_config(mistral), "linear:2")
    assert only(changed).scaling == Linear(2.0)


def test_layers_without_position_stay_without() -> None:
    spec = read_config({**LLAMA, "model_type": "smollm3", "num_hidden_layers": 8})
    changed = override(spec, "yarn:2")
    kept = [g for g in spec.groups if not isinstance(g.encoding, RotarySpec)]
    assert kept
    assert [g for g in changed.groups if not isinstance(g.encoding, RotarySpec)] == kept


def test_none_removes_a_scaling() -> None:
    scaled = read_config({**LLAMA, "rope_scaling": {"type": "linear", "factor": 4.0}})
    plain = only(override(scaled, "none"))
    assert plain.scaling == UNSCALED
    assert schedule(plain).inv_freq == schedule(only(read_config(LLAMA))).inv_freq


@pytest.mark.parametrize("text", ["yarn:2", "linear:2", "ntk:2", "base:500000"])
def test_a_scaled_model_is_refused_with_the_way_out(text: str) -> None:
    scaled = read_config({**LLAMA, "rope_scaling": {"type": "linear", "factor": 4.0}})
    with pytest.raises(ScheduleError, match=r"on top of linear scaling.*--rope none"):
        override(scaled, text)


@pytest.mark.parametrize(
    "text",
    ["", "yarn", "yarn:", "yarn:two", "2", ":2", "yarn:2:3", "longrope:2", "none:2", "yarn 2",
     "yarn:1_0", "yarn:0x2", "yarn:٢", "linear: 2", "\x00", "y" * 10000],
)  # fmt: skip
def test_text_that_names_no_schedule_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(
        ScheduleError, match=r"names no schedule; known: none, linear:FACTOR"
    ) as told:
        override(read_config(LLAMA), text)
    assert len(str(told.value)) < 200


@pytest.mark.parametrize("method", ["yarn", "linear", "ntk", "base"])
@pytest.mark.parametrize("value", ["1", "0", "-2", "nan", "inf", "-inf", "1e400", "1e308", "0.5"])
def test_impossible_numbers_are_refused(method: str, value: str) -> None:
    with pytest.raises(ScheduleError, match=r"must be above 1 and at most"):
        override(read_config(LLAMA), f"{method}:{value}")


@pytest.mark.parametrize("text", ["yarn:1e6", "linear:1e6", "ntk:1e6", "base:1e15", "ntk:1.0001"])
def test_the_largest_numbers_still_give_angles(text: str) -> None:
    ours = schedule(only(override(read_config(LLAMA), text)))
    assert all(math.isfinite(f) and f > 0 for f in ours.inv_freq)


def test_a_formula_that_cannot_be_is_refused_before_a_model_is_loaded() -> None:
    one_pair = read_config({**LLAMA, "head_dim": 2})
    with pytest.raises(ScheduleError, match="needs a rotary dimension above 2"):
        override(one_pair, "ntk:2")


def test_yarn_without_any_length_says_what_can_be_used() -> None:
    lengthless = replace(read_config(LLAMA), trained=Length.unknown(), claimed=Length.unknown())
    with pytest.raises(ScheduleError, match=r"needs the trained length.*use linear, ntk or base"):
        override(lengthless, "yarn:2")
    assert only(override(lengthless, "linear:2")).scaling == Linear(2.0)


@pytest.mark.parametrize("model_type", ["gpt2", "bloom"])
def test_a_model_that_does_not_rotate_is_refused(model_type: str) -> None:
    spec = read_config({"model_type": model_type, "n_head": 4, "n_layer": 2, "hidden_size": 64})
    with pytest.raises(ScheduleError, match=f"this {model_type} model has none"):
        override(spec, "yarn:2")


def test_dynamic_starts_at_the_claimed_length_as_transformers_has_it() -> None:
    spec = read_config(LLAMA)
    (group,) = override(spec, "dynamic:4").groups
    assert isinstance(group.encoding, RotarySpec)
    assert group.encoding.scaling == DynamicNtk(4.0, spec.claimed.tokens or 0)
