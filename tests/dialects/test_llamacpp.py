"""llama.cpp's options: read back as the same schedule, or refused with the number that is lost."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.dialects.gguf.archs import ARCHITECTURE_OF
from ropewalk.dialects.llamacpp import read_flags, write_flags
from ropewalk.errors import RopewalkError, ScheduleError
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.schedules import (
    DynamicNtk,
    LargerBase,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    PairDivisors,
    Scaling,
    Unscaled,
    Yarn,
    yarn_mscale,
)
from ropewalk.rope.spec import LayerGroup, Length, PositionSpec, RotarySpec, Window


def model(scaling: Scaling, base: float = 1e4, **changes: Any) -> PositionSpec:
    group = LayerGroup("all layers", (0, 1), RotarySpec(64, 64, base, scaling=scaling))
    spec = PositionSpec("llama", "GGUF version 3", (group,), Length.unknown(), Length(8192, "key"))
    return replace(spec, **changes)


PLAIN = model(Unscaled())


def test_yarn_is_written_with_every_number() -> None:
    assert write_flags(model(Yarn(4.0, 8192), 5e5), PLAIN, 32768) == (
        "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 8192 --rope-freq-base 500000 "
        "--ctx-size 32768 --override-kv llama.context_length=int:32768"
    )


def test_a_server_serves_no_more_than_the_file_claims_unless_that_is_restated() -> None:
    assert read_flags("--ctx-size 32768", PLAIN).claimed.tokens == 8192
    found = read_flags("-c 16384 --override-kv llama.context_length=int:32768", PLAIN)
    assert found.claimed.tokens == 16384
    folder = replace(PLAIN, model_type="qwen3_moe", format="Hugging Face config, version 5")
    line = write_flags(replace(folder, claimed=Length(16384, "--rope")), folder)
    assert line == "--ctx-size 16384 --override-kv qwen3moe.context_length=int:16384"
    with pytest.raises(ScheduleError, match=r"name for nobodys.*not known here.*GGUF"):
        write_flags(folder, replace(folder, model_type="nobodys"), 16384)


@pytest.mark.parametrize("scaling", [Yarn(2.0, 8192), LongRope((2.0,) * 32, (2.0,) * 32, 8192, 2)])
def test_the_length_of_a_files_own_formula_stays_when_its_context_is_restated(
    scaling: Scaling,
) -> None:
    # It states no original length, so that llama.cpp takes the context's for it.
    file = model(scaling)
    line = write_flags(model(scaling, claimed=Length(16384, "--to")), file)
    assert line.startswith("--yarn-orig-ctx 8192 --ctx-size 16384 --override-kv")
    assert read_flags(line, file).groups == file.groups
    alone = read_flags(line.partition(" ")[2].partition(" ")[2], file)
    (_, rotary), *_ = alone.rotary_groups()
    longer = (
        replace(scaling, original_max_position_embeddings=16384)
        if isinstance(scaling, Yarn)
        else scaling
    )
    assert rotary.scaling == longer


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "llama.rope.freq_base=int:3",
        "qwen2.context_length=int:9",
        "llama.context_length=int:0",
        "llama.context_length=9",
    ],
)
def test_an_override_of_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError, match="--override-kv"):
        read_flags(f"--override-kv {text}", PLAIN)


NEWER = frozenset(
    "cohere2moe deepseek32 deepseek4 dots3note gemma4-assistant glm5-next granite_swa hrm_text "
    "hy_v3 hy_v4 laguna mellum minimax-m3 muse-glimmer qwen4exp".split()
)
"""What llama.cpp loads, and the released gguf package has no name for yet."""


def test_every_name_is_an_architecture_of_llama_cpp() -> None:
    assert set(ARCHITECTURE_OF.values()) - set(gguf.MODEL_ARCH_NAMES.values()) <= NEWER
    library = find_spec("xllamacpp")
    if library is None or library.origin is None:
        pytest.skip("the package xllamacpp is not there")
    code = b"".join(each.read_bytes() for each in Path(library.origin).parent.glob("xllamacpp*.so"))
    for name in ARCHITECTURE_OF.values():
        assert f"{name}\0".encode() in code, name


def test_a_file_that_says_it_already_needs_no_option() -> None:
    spec = model(PairDivisors((2.0,) * 32))
    assert write_flags(spec, spec) == "--ctx-size 8192"


FACTORS = st.floats(1.0, 64.0)
LISTS = st.lists(st.floats(1.0, 64.0), min_size=32, max_size=32).map(tuple)
SCALINGS: st.SearchStrategy[Scaling] = st.one_of(
    st.just(Unscaled()),
    st.builds(Linear, FACTORS),
    st.builds(Ntk, FACTORS),
    st.builds(LargerBase, st.floats(1e4, 1e9)),
    st.builds(DynamicNtk, FACTORS, st.just(4096)),
    st.builds(
        Yarn,
        FACTORS,
        st.just(4096),
        beta_fast=st.floats(16.0, 40.0),
        truncate=st.booleans(),
        attention_factor=st.none() | st.floats(0.5, 2.0),
    ),
    st.builds(Llama3, FACTORS, st.just(1.0), st.floats(2.0, 8.0), st.just(8192)),
    st.builds(LongRope, LISTS, LISTS, st.just(4096), FACTORS),
    st.builds(PairDivisors, LISTS),
)


@settings(max_examples=200, deadline=None)
@given(scaling=SCALINGS, present=SCALINGS, base=st.floats(100.0, 1e8))
def test_options_are_read_back_as_the_same_schedule_or_refused(
    scaling: Scaling, present: Scaling, base: float
) -> None:
    wanted, file = model(scaling, base), model(present)
    try:
        line = write_flags(wanted, file)
    except ScheduleError:
        return
    found = read_flags(line, file)
    (_, ours), (_, theirs) = next(wanted.rotary_groups()), next(found.rotary_groups())
    for length in (1, 4096, 4097, 8192):
        assert schedule(ours, length).fingerprint() == schedule(theirs, length).fingerprint()


@pytest.mark.parametrize("scaling", [Unscaled(), Linear(3.3), Ntk(7.0), Yarn(1.5, 4096)])
@pytest.mark.parametrize("present", [Unscaled(), Linear(2.0), Yarn(8.0, 2048)])
def test_what_options_know_is_never_refused(scaling: Scaling, present: Scaling) -> None:
    wanted, file = model(scaling, 2e4), model(present)
    found = read_flags(write_flags(wanted, file), file)
    (_, ours), (_, theirs) = next(wanted.rotary_groups()), next(found.rotary_groups())
    assert schedule(ours).fingerprint() == schedule(theirs).fingerprint()


@pytest.mark.parametrize(
    ("scaling", "said"),
    [
        (LongRope((1.0,) * 32, (2.0,) * 32, 4096, 2.0), "longrope of two lists: .*4096 tokens"),
        (LongRope((2.0,) * 32, (2.0,) * 32, 4096, 2.0), "scaling 'longrope'.*--to gguf"),
        (Llama3(8.0, 1.0, 4.0, 8192), "scaling 'llama3'.*--to gguf"),
        (Yarn(4.0, 4096, truncate=False), "truncate false"),
        (Yarn(4.0, 4096, attention_factor=1.0), "attention_factor 1: .*overwritten"),
        (DynamicNtk(2.0, 4096), "scaling 'dynamic'"),
    ],
)
def test_what_would_be_lost_is_named(scaling: Scaling, said: str) -> None:
    with pytest.raises(ScheduleError, match=f"llama.cpp's options cannot hold {said}"):
        write_flags(model(scaling), PLAIN)


def test_an_amplitude_that_is_the_computed_one_is_no_loss() -> None:
    same = Yarn(4.0, 4096, attention_factor=yarn_mscale(4.0))
    assert "yarn" in write_flags(model(same), PLAIN)


def test_divisors_in_the_file_cannot_be_switched_off() -> None:
    file = model(PairDivisors((2.0,) * 32))
    with pytest.raises(ScheduleError, match="lies in a tensor, which no option switches off"):
        write_flags(PLAIN, file)


def test_layers_with_a_window_keep_what_the_file_says() -> None:
    local = LayerGroup("sliding", (0,), RotarySpec(64, 64, 1e4), Window(512))
    full = LayerGroup("full", (1,), RotarySpec(64, 64, 1e6))
    file = replace(PLAIN, groups=(local, full))
    scaled = replace(full, encoding=RotarySpec(64, 64, 1e6, scaling=Linear(8.0)))
    line = write_flags(replace(file, groups=(local, scaled)), file)
    assert read_flags(line, file).groups == (local, scaled)
    other = replace(local, encoding=RotarySpec(64, 64, 2e4))
    with pytest.raises(ScheduleError, match="the schedule of sliding"):
        write_flags(replace(file, groups=(other, full)), file)
    yarn = replace(full, encoding=RotarySpec(64, 64, 1e6, scaling=Yarn(8.0, 4096)))
    with pytest.raises(ScheduleError, match="amplitude of layers with a window"):
        write_flags(replace(file, groups=(local, yarn)), file)


@pytest.mark.parametrize(
    "text",
    ["--rope-scaling spiral", "--rope-scale", "--rope-scale nan", "--ctx-size 0", "--what 3", "'"],
)
def test_options_that_are_none_are_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(RopewalkError):
        read_flags(text, PLAIN)


def test_the_reciprocal_spelling_is_read() -> None:
    (_, rotary) = next(read_flags("--rope-freq-scale 0.25 -c 100", PLAIN).rotary_groups())
    assert rotary.scaling == Linear(4.0)
