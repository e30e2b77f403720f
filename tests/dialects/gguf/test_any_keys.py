"""Whatever a GGUF file states of position: a spec with finite angles, or our own error."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ropewalk.dialects.gguf.archs import ARCHITECTURES
from ropewalk.dialects.gguf.header import GgufHeader, TensorInfo
from ropewalk.dialects.gguf.reader import spec_of_header
from ropewalk.errors import RopewalkError
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.scaling import UnknownScaling
from ropewalk.rope.spec import RotarySpec

NUMBERS = (
    st.sampled_from([0, 1, 2, 8, 32, 64, 128, 4096, 131072, 0.0, 0.1, 0.5, 1.0, 4.0, 1e4, 1e6])
    | st.integers(-4, 2**33)
    | st.floats(width=32)
)
VALUES = NUMBERS | st.booleans() | st.sampled_from(["none", "linear", "yarn", "longrope", ""])
ANY = VALUES | st.lists(NUMBERS, max_size=5).map(tuple)
SCALING = [
    f"rope.scaling.{name}"
    for name in (
        "type", "factor", "alpha", "attn_factor", "original_context_length", "finetuned",
        "yarn_log_multiplier", "yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast",
        "yarn_beta_slow",
    )
]  # fmt: skip
OTHERS = [
    "context_length", "block_count", "embedding_length", "feed_forward_length",
    "full_attention_interval", "attn_logit_softcapping", "rope.freq_base", "rope.freq_base_swa",
    "rope.scale_linear", "rope.dimension_count", "rope.dimension_count_swa",
    "rope.dimension_sections", "attention.head_count", "attention.head_count_kv",
    "attention.key_length", "attention.key_length_mla", "attention.key_length_swa",
    "attention.sliding_window", "attention.sliding_window_pattern", "attention.scale",
    "attention.temperature_scale", "attention.temperature_length", "attention.max_alibi_bias",
    "attention.relative_buckets_count",
]  # fmt: skip
GOOD: dict[str, Any] = {
    "context_length": 131072,
    "block_count": 4,
    "embedding_length": 512,
    "attention.head_count": 4,
    "rope.freq_base": 1e4,
}
SECTIONS = st.sampled_from([(16, 24, 24, 0), (24, 20, 20, 0), (64,), (22, 21, 21)])
KEYS = st.builds(
    lambda good, others, scaling, sections: {**good, **others, **scaling, **sections},
    st.just(GOOD) | st.just({}),
    st.dictionaries(st.sampled_from(OTHERS), ANY, max_size=4),
    st.dictionaries(st.sampled_from(SCALING), VALUES, max_size=5),
    st.fixed_dictionaries({}, optional={"rope.dimension_sections": SECTIONS}),
)
ARCHS = st.sampled_from([*sorted(ARCHITECTURES), "of-tomorrow"])
DIVISORS = st.sampled_from([1.0, 1.5, 8.0, 1e30, 0.0, -1.0, math.nan, math.inf]) | st.floats(
    width=32
)
LISTS = (
    st.tuples(st.sampled_from([64, 32, 3]), DIVISORS).map(lambda pair: [pair[1]] * pair[0])
    | st.integers(0, 64).map(lambda live: [1.0] * live + [1e30] * (64 - live))
    | st.lists(DIVISORS, max_size=4)
)
TENSORS = st.dictionaries(
    st.sampled_from(
        [
            "rope_freqs.weight",
            "blk.1.rope_freqs.weight",
            "rope_factors_long.weight",
            "rope_factors_short.weight",
        ]
    ),
    LISTS,
    max_size=2,
)


def header(path: Path, arch: str, keys: dict[str, Any], lists: dict[str, Any]) -> GgufHeader:
    """A header as the parser would give it, over a file that holds the lists alone."""
    tensors, data = {}, b""
    for name, values in lists.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        tensors[name] = TensorInfo(name, (len(values),), 0, "F32", len(data), len(raw))
        data += raw
    path.write_bytes(data)
    metadata = {f"{arch}.{key}": value for key, value in keys.items()}
    return GgufHeader(path, 3, len(data), {"general.architecture": arch, **metadata}, tensors, 0)


@settings(
    max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(arch=ARCHS, keys=KEYS, lists=st.just({}) | TENSORS)
def test_any_keys_are_read_or_refused_by_our_own_error(
    tmp_path: Path, arch: str, keys: dict[str, Any], lists: dict[str, Any]
) -> None:
    try:
        spec = spec_of_header(header(tmp_path / "any.gguf", arch, keys, lists))
    except RopewalkError as error:
        assert "any.gguf" in str(error)  # noqa: PT017 - either outcome is right
        return
    for group in spec.groups:
        assert math.isfinite(group.softmax.factor)
        if isinstance(group.encoding, RotarySpec):
            _finite(group.encoding, spec, group)


def _finite(rotary: RotarySpec, spec: Any, group: Any) -> None:
    if isinstance(rotary.scaling, UnknownScaling):
        return
    for length in (None, spec.claimed.tokens):
        try:
            built = frequencies(group, length)
        except RopewalkError as error:
            assert str(error)  # noqa: PT017 - a schedule that cannot be is named when asked for
            continue
        assert all(math.isfinite(f) and f >= 0.0 for f in built.inv_freq)
        assert 0.0 < built.attention_factor < math.inf
        assert 0.0 < built.softmax_factor < math.inf


@pytest.mark.parametrize("arch", sorted(ARCHITECTURES))
def test_every_architecture_reads_plain_keys(tmp_path: Path, arch: str) -> None:
    spec = spec_of_header(header(tmp_path / "plain.gguf", arch, GOOD, {}))
    assert spec.model_type == arch
    assert not [remark for remark in spec.findings if remark.code == "architecture-unknown"]
