"""A copy says what was asked of it, keeps every other bit, and is whole or not there."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ropewalk.dialects.gguf import read_gguf
from ropewalk.dialects.gguf.write import write_gguf
from ropewalk.errors import GgufError, ScheduleError, StoreError, UsageError
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.override import override
from ropewalk.rope.scaling import (
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
    Unscaled,
    Yarn,
)
from ropewalk.rope.spec import Length, PositionSpec, RotarySpec

Maker = Callable[..., Path]


@pytest.fixture
def original(make_gguf: Maker, gguf_base: dict[str, Any]) -> Path:
    """A file with weights, a schedule of its own, and keys of every kind."""
    keys = {
        **gguf_base,
        "rope.scaling.type": "linear",
        "rope.scaling.factor": 4.0,
        "rope.scale_linear": 2.0,
        "general.name": "Ωrope",
        "tokenizer.ggml.tokens": ["<s>", "ü", "\x00"],
        "tokenizer.ggml.scores": [0.5, -1.25, 3.0],
        "tokenizer.ggml.add_bos_token": True,
    }
    rng = np.random.default_rng(0)
    tensors = {
        "rope_freqs.weight": np.linspace(1, 8, 64).astype(np.float32),
        "token_embd.weight": rng.integers(0, 256, (7, 34), dtype=np.uint8).view(np.int8),
        "output_norm.weight": rng.standard_normal(33).astype(np.float32),
        "blk.0.attn_q.weight": rng.standard_normal((8, 16)).astype(np.float16),
    }
    return make_gguf("llama", keys, tensors, name="original.gguf")


def scaled(spec: PositionSpec, scaling: Scaling, **changes: Any) -> PositionSpec:
    groups = tuple(
        replace(g, encoding=replace(g.encoding, scaling=scaling, **changes))
        if isinstance(g.encoding, RotarySpec)
        else g
        for g in spec.groups
    )
    return replace(spec, groups=groups, trained=Length.unknown())


def digests(path: Path) -> dict[str, tuple[Any, ...]]:
    """Shape, type and hash of the data of every tensor that is no schedule."""
    return {
        t.name: (tuple(t.shape), t.tensor_type, hashlib.sha256(t.data.tobytes()).hexdigest())
        for t in gguf.GGUFReader(path).tensors
        if "rope" not in t.name
    }


def metadata(path: Path) -> dict[str, tuple[Any, ...]]:
    """Every key that says nothing of position, with its types."""
    return {
        f.name: (f.types, f.contents())
        for f in gguf.GGUFReader(path).fields.values()
        if "rope" not in f.name and not f.name.startswith("GGUF") and "context" not in f.name
    }


def test_everything_but_the_schedule_is_kept_bit_for_bit(original: Path, tmp_path: Path) -> None:
    before = hashlib.sha256(original.read_bytes()).hexdigest()
    target = tmp_path / "copy.gguf"
    spec = override(read_gguf(original), "none")
    written = write_gguf(spec, original, target)
    assert digests(target) == digests(original)
    assert metadata(target) == metadata(original)
    assert hashlib.sha256(original.read_bytes()).hexdigest() == before
    names = {t.name for t in gguf.GGUFReader(target).tensors}
    assert "rope_freqs.weight" not in names
    (_, rotary) = next(written.rotary_groups())
    assert rotary.scaling == Unscaled()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.gguf", "original.gguf"]


def test_an_alignment_of_its_own_is_kept(tmp_path: Path) -> None:
    source = tmp_path / "aligned.gguf"
    writer = gguf.GGUFWriter(source, "llama")
    writer.add_custom_alignment(128)
    writer.add_context_length(4096)
    writer.add_head_count(2)
    writer.add_embedding_length(128)
    for name in ("a.weight", "b.weight"):
        writer.add_tensor(name, np.arange(5, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    target = tmp_path / "copy.gguf"
    write_gguf(override(read_gguf(source), "linear:2"), source, target)
    assert digests(target) == digests(source)
    assert all(t.data_offset % 128 == 0 for t in gguf.GGUFReader(target).tensors)


LISTS = st.lists(st.floats(1.0, 64.0), min_size=64, max_size=64).map(tuple)
FACTORS = st.floats(1.0, 64.0)
SCALINGS: st.SearchStrategy[Scaling] = st.one_of(
    st.just(Unscaled()),
    st.builds(Linear, FACTORS),
    st.builds(Ntk, FACTORS),
    st.builds(LargerBase, st.floats(1e4, 1e9)),
    st.builds(
        Yarn,
        FACTORS,
        st.sampled_from([4096, 8192]),
        attention_factor=st.none() | st.floats(0.5, 2.0),
        mscale=st.none() | st.floats(0.1, 2.0),
        mscale_all_dim=st.none() | st.floats(0.1, 2.0),
    ),
    st.builds(Llama3, FACTORS, st.just(1.0), st.floats(2.0, 8.0), st.just(8192)),
    st.builds(NtkByParts, FACTORS, st.just(4096)),
    st.builds(LongRope, LISTS, LISTS, st.just(4096), FACTORS, st.none() | st.floats(0.5, 2.0)),
    st.builds(PairDivisors, LISTS),
    st.builds(Proportional, st.floats(0.1, 1.0), FACTORS),
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(scaling=SCALINGS, base=st.floats(100.0, 1e8), claimed=st.integers(8193, 10**6))
def test_a_copy_turns_as_asked_to_single_precision(
    original: Path, tmp_path: Path, scaling: Scaling, base: float, claimed: int
) -> None:
    wanted = scaled(read_gguf(original), scaling, rope_theta=base)
    wanted = replace(wanted, claimed=Length(claimed, "test"))
    target = tmp_path / "copy.gguf"
    write_gguf(wanted, original, target, overwrite=True)
    found = read_gguf(target)
    assert found.claimed.tokens == claimed
    (_, ours), (_, theirs) = next(wanted.rotary_groups()), next(found.rotary_groups())
    for length in (None, 4096, 4097, claimed):
        a, b = schedule(ours, length), schedule(theirs, length)
        assert b.inv_freq == pytest.approx(a.inv_freq, rel=2.5e-7, abs=1e-20)
        assert b.attention_factor == pytest.approx(a.attention_factor, rel=2.5e-7)


@pytest.mark.parametrize("scaling", [Linear(4.0), Yarn(8.0, 4096), Ntk(1.0), LargerBase(1e6)])
def test_numbers_that_single_precision_holds_keep_the_fingerprint(
    original: Path, tmp_path: Path, scaling: Scaling
) -> None:
    wanted = scaled(read_gguf(original), scaling)
    found = write_gguf(wanted, original, tmp_path / "copy.gguf")
    (_, ours), (_, theirs) = next(wanted.rotary_groups()), next(found.rotary_groups())
    assert schedule(ours).fingerprint() == schedule(theirs).fingerprint()


def test_gemma_3_keeps_its_windowed_layers(make_gguf: Maker, gguf_base: dict[str, Any]) -> None:
    keys = {**gguf_base, "block_count": 12, "attention.sliding_window": 512}
    source = make_gguf("gemma3", keys)
    spec = read_gguf(source)
    wanted = override(spec, "linear:8")
    found = write_gguf(wanted, source, source.with_name("copy.gguf"))
    by_name = {g.name: g.encoding for g in found.groups}
    assert by_name["sliding window"] == {g.name: g.encoding for g in spec.groups}["sliding window"]
    full = by_name["full attention"]
    assert isinstance(full, RotarySpec)
    assert full.scaling == Linear(8.0)


def test_deepseek_keeps_the_amplitude_in_its_softmax(
    make_gguf: Maker, gguf_base: dict[str, Any]
) -> None:
    keys = {
        **gguf_base,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 40.0,
        "rope.scaling.original_context_length": 4096,
        "rope.scaling.yarn_log_multiplier": 0.0707,
    }
    source = make_gguf("deepseek2", keys)
    spec = read_gguf(source)
    found = write_gguf(spec, source, source.with_name("copy.gguf"))
    assert found.groups[0].softmax.factor == pytest.approx(1.58963, abs=1e-5)
    assert found.groups == spec.groups


@pytest.mark.parametrize(
    ("scaling", "said"),
    [
        (Yarn(4.0, 4096, truncate=False), "truncate false: llama.cpp always rounds"),
        (Yarn(4.0, 4096, beta_fast=16.0), "beta_fast 16: llama.cpp reads none for llama"),
        (DynamicNtk(2.0, 8192), "scaling 'dynamic': llama.cpp has no such type"),
    ],
)
def test_what_a_file_cannot_hold_is_named(
    original: Path, tmp_path: Path, scaling: Scaling, said: str
) -> None:
    wanted = scaled(read_gguf(original), scaling)
    with pytest.raises(ScheduleError, match=f"a GGUF file cannot hold {said}"):
        write_gguf(wanted, original, tmp_path / "copy.gguf")
    assert [p.name for p in tmp_path.iterdir()] == ["original.gguf"]


def test_divisors_go_only_where_the_loader_asks_for_them(
    make_gguf: Maker, gguf_base: dict[str, Any]
) -> None:
    source = make_gguf("qwen2", gguf_base)
    wanted = scaled(read_gguf(source), Llama3(8.0, 1.0, 4.0, 8192))
    with pytest.raises(ScheduleError, match=r"rope_freqs\.weight: llama\.cpp's qwen2"):
        write_gguf(wanted, source, source.with_name("copy.gguf"))


def test_another_head_size_is_no_setting(original: Path, tmp_path: Path) -> None:
    wanted = scaled(read_gguf(original), Unscaled(), rotary_dim=64)
    with pytest.raises(ScheduleError, match="cannot hold rotary_dim of all layers 64"):
        write_gguf(wanted, original, tmp_path / "copy.gguf")
    assert [p.name for p in tmp_path.iterdir()] == ["original.gguf"]


def test_the_original_and_existing_files_are_safe(original: Path, tmp_path: Path) -> None:
    spec, target = read_gguf(original), tmp_path / "copy.gguf"
    target.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        write_gguf(spec, original, target)
    assert target.read_text() == "mine"
    link = tmp_path / "link.gguf"
    link.symlink_to(original)
    for same in (original, link):
        with pytest.raises(UsageError, match="is the file to be copied"):
            write_gguf(spec, original, same, overwrite=True)
    write_gguf(spec, original, target, overwrite=True)
    assert read_gguf(target).groups == spec.groups


def test_a_folder_that_is_not_there_is_told(original: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file or directory"):
        write_gguf(read_gguf(original), original, tmp_path / "none" / "copy.gguf")


def test_a_split_model_is_merged_first(make_gguf: Maker, gguf_base: dict[str, Any]) -> None:
    source = make_gguf("llama", {**gguf_base, "split.count": 2, "split.no": 0})
    with pytest.raises(GgufError, match="merge them"):
        write_gguf(read_gguf(source), source, source.with_name("copy.gguf"))


FULL = """
import sys
from pathlib import Path
from ropewalk.dialects.gguf import read_gguf
from ropewalk.dialects.gguf.write import write_gguf
source, target = map(Path, sys.argv[1:])
write_gguf(read_gguf(source), source, target)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits on file sizes are POSIX")
def test_a_disk_that_fills_up_leaves_nothing(original: Path, tmp_path: Path) -> None:
    def limit() -> None:
        # Writing past the limit is an OSError, as on a full disk.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))

    done = subprocess.run(
        [sys.executable, "-c", FULL, str(original), str(tmp_path / "copy.gguf")],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )
    assert "StoreError" in done.stderr.splitlines()[-1]
    assert "nothing is left of it" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["original.gguf"]


def test_sections_are_written_where_the_file_lacks_them(
    make_gguf: Maker, gguf_base: dict[str, Any], tmp_path: Path
) -> None:
    source = make_gguf("qwen3vl", gguf_base, {"output_norm.weight": np.ones(4, np.float32)})
    changed = scaled(
        read_gguf(source), Unscaled(), sections=(22, 21, 21), section_layout="interleaved"
    )
    found = write_gguf(changed, source, tmp_path / "copy.gguf")
    (_, rotary) = next(found.rotary_groups())
    assert (rotary.sections, rotary.section_layout) == ((22, 21, 21), "interleaved")
    field = gguf.GGUFReader(tmp_path / "copy.gguf").fields["qwen3vl.rope.dimension_sections"]
    assert field.contents() == [22, 21, 21, 0]


def test_a_dealing_that_llama_cpp_does_not_have_is_refused(
    make_gguf: Maker, gguf_base: dict[str, Any], tmp_path: Path
) -> None:
    keys = {**gguf_base, "rope.dimension_sections": [22, 21, 21, 0]}
    source = make_gguf("qwen2vl", keys, {"output_norm.weight": np.ones(4, np.float32)})
    changed = scaled(read_gguf(source), Unscaled(), section_layout="interleaved")
    with pytest.raises(ScheduleError, match=r"section_layout of .* chunked would be read back"):
        write_gguf(changed, source, tmp_path / "copy.gguf")
    assert [p.name for p in tmp_path.iterdir()] == ["model.gguf"]


def test_gemma_4_s_schedule_comes_back_with_its_fingerprint(
    make_gguf: Maker, gguf_base: dict[str, Any], tmp_path: Path
) -> None:
    keys = {**gguf_base, "attention.key_length": 512, "block_count": 6}
    divisors = np.array([1.0] * 64 + [1e30] * 192, dtype=np.float32)
    source = make_gguf("gemma4", keys, {"rope_freqs.weight": divisors})
    spec = read_gguf(source)
    found = write_gguf(spec, source, tmp_path / "copy.gguf")
    ours, theirs = (next(s.rotary_groups())[1] for s in (spec, found))
    assert ours.scaling == theirs.scaling == Proportional(0.25)
    assert schedule(ours).fingerprint() == schedule(theirs).fingerprint()
    of_hf = RotarySpec(512, 512, ours.rope_theta, scaling=Proportional(0.25))
    assert schedule(ours).fingerprint() == schedule(of_hf).fingerprint()


@pytest.mark.parametrize("arch", ["arcee", "llada", "granite", "mistral3"])
def test_a_tensor_is_written_where_the_loader_of_the_architecture_asks_for_it(
    make_gguf: Maker, gguf_base: dict[str, Any], tmp_path: Path, arch: str
) -> None:
    source = make_gguf(arch, gguf_base, {"output_norm.weight": np.ones(4, np.float32)})
    wanted = scaled(read_gguf(source), Llama3(8.0, 1.0, 4.0, 8192))
    found = write_gguf(wanted, source, tmp_path / "copy.gguf")
    (_, rotary) = next(found.rotary_groups())
    assert isinstance(rotary.scaling, PairDivisors)
    if arch in ("granite", "mistral3"):
        lists = LongRope((1.0,) * 64, tuple(1.0 + i for i in range(64)), 8192, 4.0)
        found = write_gguf(scaled(read_gguf(source), lists), source, tmp_path / "long.gguf")
        assert "rope_factors_long.weight" in {
            t.name for t in gguf.GGUFReader(tmp_path / "long.gguf").tensors
        }
