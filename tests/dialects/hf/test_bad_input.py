"""Configurations with missing, null, mistyped or impossible values: located errors, no guess."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.dialects.hf import load_json, read_config
from ropewalk.errors import ConfigError, ScheduleError
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.spec import RotarySpec

GOOD: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "max_position_embeddings": 16384,
    "rope_theta": 10000.0,
}
YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 4096,
}


def scaled(**rope: object) -> dict[str, Any]:
    """The good configuration with yarn, some of whose keys are changed."""
    return {**GOOD, "rope_scaling": {**YARN, **rope}}


BAD_NUMBERS = [-1, 0, "4", True, [], {}, float("nan"), float("inf"), 10**400, -2.5]


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=lambda v: str(v)[:12])
@pytest.mark.parametrize(
    "key",
    "hidden_size num_attention_heads num_hidden_layers max_position_embeddings rope_theta "
    "head_dim original_max_position_embeddings".split(),
)
def test_a_number_that_cannot_be_is_named_with_file_and_key(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"model/config\.json: {key} is .* is allowed"):
        read_config({**GOOD, key: value}, where="model/config.json")


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=lambda v: str(v)[:12])
@pytest.mark.parametrize(
    "key", ["factor", "original_max_position_embeddings", "attention_factor", "rope_theta"]
)
def test_a_scaling_parameter_that_cannot_be_is_named_with_its_place(
    key: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=rf"config\.json: rope_scaling\.{key} is "):
        read_config(scaled(**{key: value}))


def test_a_quoted_number_has_the_quotes_as_its_remedy() -> None:
    with pytest.raises(ConfigError, match=r'factor is "4.0"; .*; remove the quotes around it'):
        read_config(scaled(factor="4.0"))


def test_a_fractional_length_is_refused_and_a_whole_one_taken() -> None:
    with pytest.raises(ConfigError, match=r"max_position_embeddings is 4096\.5"):
        read_config({**GOOD, "max_position_embeddings": 4096.5})
    assert read_config({**GOOD, "max_position_embeddings": 4096.0}).claimed.tokens == 4096


@pytest.mark.parametrize("value", [7, "yarn", ["yarn"], True])
def test_a_rope_dictionary_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="a JSON object, or null is allowed"):
        read_config({**GOOD, "rope_scaling": value})


@pytest.mark.parametrize("rope_type", ["linear", "dynamic", "llama3"])
def test_a_missing_factor_is_an_error_where_nothing_can_stand_in(rope_type: str) -> None:
    rope = {"rope_type": rope_type, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    with pytest.raises(ConfigError, match=r"rope_scaling\.factor is missing; .* needs it"):
        read_config({**GOOD, "rope_scaling": rope})


def test_dynamic_without_a_length_is_an_error() -> None:
    with pytest.raises(ConfigError, match="needs max_position_embeddings"):
        read_config({"rope_scaling": {"type": "dynamic", "factor": 2.0}})


def test_yarn_without_any_length_is_an_error() -> None:
    with pytest.raises(ConfigError, match="needs original_max_position_embeddings"):
        read_config({"rope_scaling": {"type": "yarn", "factor": 2.0}})


@pytest.mark.parametrize("values", [[1.0] * 31, [1.0] * 33, [], None, "1.0", [0.0] * 32])
def test_longrope_lists_must_hold_a_divisor_for_each_pair(values: object) -> None:
    rope = {"type": "longrope", "short_factor": [1.0] * 32, "long_factor": values}
    with pytest.raises(ConfigError, match=r"rope_scaling\.long_factor"):
        read_config({**GOOD, "rope_scaling": rope})


def test_a_bad_divisor_is_named_by_its_index() -> None:
    short = [1.0] * 31 + [None]
    rope = {"type": "longrope", "short_factor": short, "long_factor": [1.0] * 32}
    with pytest.raises(ConfigError, match=r"rope_scaling\.short_factor\[31\] is null"):
        read_config({**GOOD, "rope_scaling": rope})


def test_a_base_of_one_or_less_is_refused() -> None:
    with pytest.raises(ConfigError, match="a base above 1 is allowed"):
        read_config({**GOOD, "rope_theta": 0.5})


@pytest.mark.parametrize("share", [0.001, 1.5])
def test_a_share_of_the_head_that_cannot_turn_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="an even count from 2 to head_dim is allowed"):
        read_config({**GOOD, "partial_rotary_factor": share})


def test_a_head_dim_of_null_means_that_it_is_derived() -> None:
    ((_, rotary),) = read_config({**GOOD, "head_dim": None}).rotary_groups()
    assert rotary.head_dim == 64


def test_lists_that_do_not_fit_the_layers_are_refused() -> None:
    with pytest.raises(ConfigError, match="one entry for each of the 4 layers"):
        read_config({**GOOD, "layer_types": ["full_attention"] * 3})
    with pytest.raises(ConfigError, match="a list of 4 entries, each 0 or 1, is allowed"):
        read_config({**GOOD, "no_rope_layers": [1, 1, 1]})
    with pytest.raises(ConfigError, match="each 0 or 1"):
        read_config({**GOOD, "no_rope_layers": [1, 1, 1, 2]})


@pytest.mark.parametrize("config", [{}, {"hello": 1}, {"model_type": "resnet", "depth": 50}])
def test_a_file_without_position_says_which_keys_were_looked_for(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"says nothing about position: none of max_position"):
        read_config(config)


def test_a_tokenizer_length_that_is_no_number_is_located_in_its_own_file() -> None:
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json: model_max_length"):
        read_config(GOOD, {"model_max_length": "2048"})


def test_broken_json_is_located_by_line(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{\n "a": 1,\n "b": \n}', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"config\.json, line 4, column 1: not valid JSON"):
        load_json(path)


def test_infinity_is_read_as_python_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"time_step_limit": [0.0, Infinity], "x": NaN}', encoding="utf-8")
    assert load_json(path)["time_step_limit"] == [0.0, float("inf")]


def test_infinity_is_told_since_strict_parsers_stop_at_it() -> None:
    endless = {**GOOD, "vision_config": {"time_step_limit": [0.0, float("inf")]}}
    (remark,) = (r for r in read_config(endless).findings if r.code == "not-strict-json")
    assert remark.text.startswith("time_step_limit holds Infinity")
    assert "not-strict-json" not in {r.code for r in read_config(GOOD).findings}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[1, 2]", "holds a JSON list"),
        (b'"text"', "holds a JSON string"),
        (b"null", "a configuration is a JSON object"),
        (b"", "line 1, column 1"),
        (b'{"a": "\xff"}', "is not UTF-8 text"),
        (b"GGUF\x03\x00\x00\x00\xff", "is not UTF-8 text"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too large to read"),
        (b'{"a": ' + b"[" * 200_000 + b"}", "too large to read"),
    ],
    ids=["list", "string", "null", "empty", "latin", "gguf", "digits", "nesting"],
)
def test_a_file_that_is_no_json_object_is_a_located_error(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        load_json(path)


def test_paths_that_are_no_file_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="is a folder; name the config"):
        load_json(tmp_path)
    with pytest.raises(ConfigError, match="No such file"):
        load_json(tmp_path / "absent.json")

    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "config.json"
    path.write_text("{}", encoding="utf-8")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        load_json(path)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.truncate(65 * 2**20)
    with pytest.raises(ConfigError, match="is this the weights file"):
        load_json(path)


WORDS = """
    yarn linear dynamic longrope llama3 su mrope default
    full_attention sliding_attention mamba alibi rope M*-
""".split()
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 130)
    | st.integers()
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=4)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
ROPE_KEYS = """
    rope_type type factor original_max_position_embeddings rope_theta alpha beta_fast beta_slow
    truncate mscale mscale_all_dim attention_factor short_factor long_factor low_freq_factor
    high_freq_factor mrope_section mrope_interleaved partial_rotary_factor
    full_attention sliding_attention llama_4_scaling_beta
""".split()
ROPE = st.dictionaries(st.sampled_from(ROPE_KEYS), VALUES, max_size=6)
TYPES = """
    llama gemma3 gemma3_text deepseek_v3 mpt t5 roberta jamba nemotron_h llama4 gptj chatglm
    qwen2 cohere2 exaone4 gpt_oss mistral4 olmo3 modernbert granitemoehybrid falcon
    hunyuan_v1_dense qwen2_vl_text qwen3_vl_text ernie4_5_vl_moe_text phi3 gemma4_text apertus x
""".split()
KEYS = """
    hidden_size num_attention_heads num_hidden_layers max_position_embeddings rope_theta
    head_dim sliding_window use_sliding_window layer_types no_rope_layers sliding_window_pattern
    attn_config alibi rotary_dim qk_rope_head_dim qk_nope_head_dim n_positions seq_length
    rope_ratio hybrid_override_pattern attn_layer_period attn_layer_indices text_config
    query_pre_attn_scalar attn_logit_softcapping position_embedding_type partial_rotary_factor
    rotary_pct rotary_emb_base rope_local_base_freq max_window_layers attention_chunk_size
    relative_attention_num_buckets auto_map original_max_position_embeddings
    num_kv_shared_layers kv_channels model_type
""".split()
CONFIGS = st.builds(
    lambda shape, keys, typed, ropes: {**shape, **keys, **typed, **ropes},
    st.sampled_from([{}, GOOD]),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6),
    st.fixed_dictionaries({}, optional={"model_type": st.sampled_from(TYPES)}),
    st.fixed_dictionaries({}, optional={"rope_scaling": ROPE, "rope_parameters": ROPE}),
)


@settings(max_examples=400, deadline=None)
@given(config=CONFIGS, tokenizer=st.none() | st.dictionaries(st.just("model_max_length"), VALUES))
def test_any_json_is_read_or_refused_by_our_own_error(
    config: dict[str, Any], tokenizer: dict[str, Any] | None
) -> None:
    try:
        spec = read_config(config, tokenizer)
    except ConfigError as error:
        assert "config.json" in str(error)  # noqa: PT017 - either outcome is right
        return
    for group in spec.groups:
        if isinstance(group.encoding, RotarySpec):
            _schedule_or_our_error(group.encoding)


def _schedule_or_our_error(rotary: RotarySpec) -> None:
    """What was read either makes a schedule or is refused by the schedules' own error."""
    try:
        schedule(rotary, 8192)
    except ScheduleError as error:
        assert str(error)  # noqa: PT017 - either outcome is right


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_read_or_refused_by_our_own_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    try:
        assert isinstance(load_json(path), dict)
    except ConfigError as error:
        assert str(path) in str(error)  # noqa: PT017 - either outcome is right
