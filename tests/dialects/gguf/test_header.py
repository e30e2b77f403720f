from __future__ import annotations

import math
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ropewalk.dialects.gguf import spec_of_header
from ropewalk.dialects.gguf.header import SkippedArray, read_floats, read_header
from ropewalk.dialects.gguf.types import TENSOR_TYPES
from ropewalk.errors import GgufError

GgufMaker = Callable[..., Path]

KEYS: dict[str, Any] = {
    "context_length": 4096,
    "block_count": 2,
    "embedding_length": 64,
    "attention.head_count": 4,
    "rope.freq_base": 500000.0,
    "rope.scaling.finetuned": True,
    "attention.head_count_kv": [4, 4],
    "tokenizer.ggml.tokens": [f"token {i}" for i in range(2000)],
    "tokenizer.chat_template": "{{ héllo }}",
}
TENSORS: dict[str, Any] = {
    "rope_freqs.weight": np.linspace(1, 8, 8, dtype=np.float32),
    "half": np.linspace(-1, 1, 6, dtype=np.float16).reshape(2, 3),
}


def string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def head(tensors: int = 0, keys: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


def key(name: bytes, kind: int, raw: bytes) -> bytes:
    return string(name) + struct.pack("<I", kind) + raw


def tensor(name: bytes, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    dims = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return string(name) + dims + struct.pack("<IQ", kind, offset)


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[bytes], str]:
    """The message of the GgufError that these bytes as a file end in."""

    def check(raw: bytes) -> str:
        path = tmp_path / "bad.gguf"
        path.write_bytes(raw)
        with pytest.raises(GgufError) as caught:
            read_header(path)
        message = str(caught.value)
        assert message.startswith(str(path))
        assert "\n" not in message
        return message

    return check


def agree_with_gguf(path: Path) -> None:
    """Every key and tensor as the gguf package's own reader has it."""
    header, reader = read_header(path), gguf.GGUFReader(path)
    stated = {k: f for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    assert set(header.metadata) == set(stated)
    for name, field in stated.items():
        ours = header.metadata[name]
        if isinstance(ours, SkippedArray):
            assert ours.count == len(field.data)
            assert ours.type_name == field.types[-1].name
        else:
            theirs = field.contents()
            assert (list(ours) if isinstance(ours, tuple) else ours) == theirs
    assert list(header.tensors) == [t.name for t in reader.tensors]
    for info, theirs in zip(header.tensors.values(), reader.tensors, strict=True):
        assert info.shape == tuple(theirs.shape)
        assert info.type_name == theirs.tensor_type.name
        assert info.n_bytes == theirs.n_bytes
        assert header.data_start + info.offset == theirs.data_offset


def test_a_small_file_reads_as_the_gguf_package_reads_it(make_gguf: GgufMaker) -> None:
    agree_with_gguf(make_gguf("llama", KEYS, TENSORS))


def test_a_real_model_reads_as_the_gguf_package_reads_it(smollm2_gguf: Path) -> None:
    agree_with_gguf(smollm2_gguf)


def test_a_real_header_is_read_in_well_under_a_tenth_of_a_second(smollm2_gguf: Path) -> None:
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        read_header(smollm2_gguf)
        best = min(best, time.perf_counter() - start)
    assert best < 0.1


def test_tensor_types_are_those_of_the_gguf_package() -> None:
    theirs = {t.value: (t.name, *gguf.GGML_QUANT_SIZES[t]) for t in gguf.GGMLQuantizationType}
    assert theirs == {k: (t.name, t.block, t.size) for k, t in TENSOR_TYPES.items()}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_small_float_tensors_are_read_exactly(make_gguf: GgufMaker, dtype: type) -> None:
    values: Any = np.array([1.0, -2.5, 0.333251953125, 65504.0], dtype=dtype)
    header = read_header(make_gguf("llama", {}, {"a": values, "b": values[::-1].copy()}))
    assert read_floats(header, "a") == tuple(values.tolist())
    assert read_floats(header, "b") == tuple(values[::-1].tolist())


def test_bfloat16_tensors_are_read_exactly(tmp_path: Path) -> None:
    # 0x3F80 is 1, 0xC020 is -2.5, 0x3EAB is 0.333984375 (IEEE binary32, upper half).
    raw = head(1) + tensor(b"t", (3,), 30)
    raw += b"\0" * (-len(raw) % 32) + struct.pack("<3H", 0x3F80, 0xC020, 0x3EAB)
    path = tmp_path / "bf16.gguf"
    path.write_bytes(raw)
    assert read_floats(read_header(path), "t") == (1.0, -2.5, 0.333984375)


def test_reading_a_tensor_that_is_no_schedule_is_refused(make_gguf: GgufMaker) -> None:
    big = np.zeros(65537, dtype=np.float32)
    header = read_header(make_gguf("llama", {}, {"big": big, "ints": np.zeros(4, dtype=np.int32)}))
    for name, said in (("big", "65537"), ("ints", "I32"), ("absent", "no tensor 'absent'")):
        with pytest.raises(GgufError, match=said):
            read_floats(header, name)


def test_a_file_cut_after_its_header_was_read_is_an_error(make_gguf: GgufMaker) -> None:
    path = make_gguf("llama", {}, TENSORS)
    header = read_header(path)
    path.write_bytes(path.read_bytes()[: header.data_start + 8])
    with pytest.raises(GgufError, match="8 of 32 bytes"):
        read_floats(header, "rope_freqs.weight")


def test_version_2_reads_like_version_3(make_gguf: GgufMaker) -> None:
    path = make_gguf("llama", KEYS, TENSORS)
    three = read_header(path)
    raw = bytearray(path.read_bytes())
    raw[4] = 2
    path.write_bytes(raw)
    two = read_header(path)
    assert two.version == 2
    assert dict(two.metadata) == dict(three.metadata)
    assert dict(two.tensors) == dict(three.tensors)


def test_an_empty_file_says_so(refused: Callable[[bytes], str]) -> None:
    assert "is empty" in refused(b"")


def test_a_missing_file_and_a_folder_are_errors_of_ours(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.gguf", tmp_path):
        with pytest.raises(GgufError, match="cannot be read"):
            read_header(path)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"PK\x03\x04 and so on", "starts with b'PK"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"GGUF", "byte 4: the version needs 4 bytes and the file has 0 left"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (head(version=1), "version 1"),
        (head(version=9), "version 9 is not known"),
        (head(version=0), "version 0 is not known"),
        (head(tensors=1 << 60), "1152921504606846976 tensors are stated"),
        (head(keys=1 << 60), "1152921504606846976 metadata keys are stated"),
    ],
)
def test_what_is_no_readable_gguf_file_is_told_apart(
    refused: Callable[[bytes], str], raw: bytes, said: str
) -> None:
    assert said in refused(raw)


PAD = b"\0" * 64


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (struct.pack("<Q", 1 << 60) + PAD, "of 1152921504606846976 bytes"),
        (struct.pack("<Q", 60000) + PAD, "needs 60000 bytes and the file has 64 left"),
        (key(b"\xff\xfe", 4, PAD), "not valid UTF-8"),
        (key(b"k", 13, PAD), "'k' has value type 13"),
        (key(b"k", 7, b"\2" + PAD), "BOOL and holds 2"),
        (key(b"k", 8, struct.pack("<Q", 1 << 60) + PAD), "needs 1152921504606846976 bytes"),
        (key(b"k", 9, struct.pack("<IQ", 4, 1 << 60) + PAD), "states 1152921504606846976"),
        (key(b"k", 9, struct.pack("<IQ", 8, 1 << 60) + PAD), "states 1152921504606846976"),
        (key(b"k", 9, struct.pack("<IQ", 99, 1) + PAD), "elements of type 99"),
        (key(b"k", 9, struct.pack("<IQ", 9, 1) * 9 + PAD), "deeper than 4"),
        (key(b"general.alignment", 4, struct.pack("<I", 24)), "alignment is 24"),
        (key(b"general.alignment", 4, struct.pack("<I", 0)), "alignment is 0"),
        (key(b"general.alignment", 6, struct.pack("<f", 32)), "not an integer"),
    ],
)
def test_a_bad_metadata_entry_is_a_located_error(
    refused: Callable[[bytes], str], entry: bytes, said: str
) -> None:
    message = refused(head(keys=1) + entry)
    assert said in message
    assert ", byte " in message


def test_a_key_that_is_there_twice_is_refused(refused: Callable[[bytes], str]) -> None:
    entry = key(b"k", 4, b"\1\0\0\0")
    assert "'k' is there twice" in refused(head(keys=2) + entry * 2)


def test_a_vocabulary_that_ends_early_says_where(refused: Callable[[bytes], str]) -> None:
    strings = struct.pack("<IQ", 8, 1100) + string(b"x" * 9000) + string(b"y" * 500)
    assert "ends after 2 of 1100 strings" in refused(head(keys=1) + key(b"k", 9, strings))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (tensor(b"t", ()), "has 0 dimensions"),
        (tensor(b"t", (1, 1, 1, 1, 1)), "has 5 dimensions"),
        (tensor(b"t", (4, 0)), "shape (4, 0)"),
        (tensor(b"t", (33,), 2), "impossible for Q4_0 in blocks of 32"),
        (tensor(b"t", (1 << 63, 1 << 63, 2)), "the whole file has"),
        (tensor(b"t", (4,), 5), "type 5, not known here"),
        (tensor(b"t", (4,), 0, 1 << 62), "ends at byte 4611686018427387"),
        (tensor(b"t", (4,), 0, 4), "not a multiple of 32"),
        (tensor(b"\xc3", (4,)), "not valid UTF-8"),
    ],
)
def test_a_bad_tensor_entry_is_a_located_error(
    refused: Callable[[bytes], str], entry: bytes, said: str
) -> None:
    assert said in refused(head(tensors=1) + entry + PAD)


def test_tensors_that_overlap_or_repeat_are_refused(refused: Callable[[bytes], str]) -> None:
    first = tensor(b"a", (16,))
    assert "overlaps 'a'" in refused(head(tensors=2) + first + tensor(b"b", (8,), 0, 32) + PAD * 3)
    assert "'a' is there twice" in refused(head(tensors=2) + first * 2 + PAD * 3)


def test_a_download_cut_at_any_byte_is_an_error(make_gguf: GgufMaker) -> None:
    path = make_gguf("llama", {k: v for k, v in KEYS.items() if "tokens" not in k}, TENSORS)
    raw = path.read_bytes()
    # The writer pads the last tensor, which ends 20 bytes before the file does.
    for size in range(len(raw) - 20):
        path.write_bytes(raw[:size])
        with pytest.raises(GgufError):
            read_header(path)


def test_invalid_text_in_a_value_does_not_hide_the_other_values(tmp_path: Path) -> None:
    path = tmp_path / "text.gguf"
    path.write_bytes(head(keys=1) + key(b"k", 8, string(b"a\xffb")))
    assert read_header(path).metadata["k"] == "a�b"


def test_nested_arrays_and_long_texts_are_stepped_over(tmp_path: Path) -> None:
    inner = struct.pack("<IQ", 8, 2) + string(b"a") + string(b"bc")
    nested = struct.pack("<IQ", 9, 3) + inner * 3
    text = string(b"x" * ((1 << 20) + 1))
    path = tmp_path / "nested.gguf"
    entries = key(b"n", 9, nested) + key(b"t", 8, text) + key(b"k", 4, b"\7\0\0\0")
    path.write_bytes(head(keys=3) + entries)
    found = read_header(path).metadata
    assert found["n"] == SkippedArray("ARRAY", 3)
    assert found["t"] == SkippedArray("UINT8", (1 << 20) + 1)
    assert found["k"] == 7


@pytest.mark.parametrize(
    "raw",
    [
        head(tensors=1 << 60) + PAD,
        head(keys=1 << 60) + PAD,
        head(keys=1) + key(b"k", 9, struct.pack("<IQ", 8, 1 << 60) + PAD),
        head(keys=1) + key(b"k", 8, struct.pack("<Q", 1 << 60) + PAD),
    ],
)
def test_a_file_that_claims_exabytes_costs_neither_time_nor_memory(
    refused: Callable[[bytes], str], raw: bytes
) -> None:
    tracemalloc.start()
    start = time.perf_counter()
    refused(raw)
    elapsed, (_, peak) = time.perf_counter() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert elapsed < 1.0
    assert peak < 1 << 20


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damage_of_any_kind_ends_in_a_reading_or_in_our_error(
    make_gguf: GgufMaker, data: st.DataObject
) -> None:
    keys = {k: v for k, v in KEYS.items() if "tokens" not in k}
    raw = bytearray(make_gguf("llama", keys, TENSORS, name="sound.gguf").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(raw) - 1, 0)))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "number"])):
            case "flip" if raw:
                raw[at] ^= data.draw(st.integers(1, 255))
            case "cut":
                del raw[at:]
            case "insert":
                raw[at:at] = data.draw(st.binary(min_size=1, max_size=16))
            case _:
                raw[at : at + 8] = struct.pack("<Q", data.draw(st.integers(0, 2**64 - 1)))
    path = make_gguf("llama", {}, {}, name="damaged.gguf")
    path.write_bytes(raw)
    try:
        spec_of_header(read_header(path))
    except GgufError as error:
        assert len(str(error)) < 1000  # noqa: PT017
