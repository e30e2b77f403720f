from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from ropewalk.errors import GgufError, ModelFileError, UsageError
from ropewalk.tables.open import open_table, open_tables
from ropewalk.tables.vocabulary import TokenKind

ROWS, WIDTH = 12, 512
Kinds: Any = gguf.GGMLQuantizationType
PLAIN = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
PACKED = [
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
    "IQ4_NL", "IQ4_XS", "IQ2_XXS", "IQ3_S", "TQ1_0", "TQ2_0", "MXFP4",
]  # fmt: skip
TOKENS = ["<unk>", "<s>", "<0x0A>", "▁the", "the", "ab", "c<", "[unused]"]
TYPES = [2, 3, 6, 1, 1, 1, 4, 5]


def write(
    path: Path,
    raw: Any,
    kind: Any,
    *,
    tokens: list[str] | None = None,
    types: list[int] | None = None,
    model: str = "llama",
    arch: str = "llama",
    width: int = WIDTH,
) -> Path:
    writer = gguf.GGUFWriter(path, arch)
    writer.add_embedding_length(width)
    if tokens is not None:
        writer.add_tokenizer_model(model)
        writer.add_token_list(tokens)
    if types is not None:
        writer.add_token_types(types)
    writer.add_tensor("first.bias", np.ones(3, np.float32))
    writer.add_tensor("token_embd.weight", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def packed_rows(kind: Any, rows: int = ROWS) -> Any:
    """Random blocks with scales that are numbers: any bits are quants, not any are floats."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = np.random.default_rng(3).integers(0, 255, (rows, WIDTH // block * size), dtype=np.uint8)
    return np.where(raw % 128 >= 120, raw - 16, raw).astype(np.uint8)


@pytest.mark.parametrize("name", PACKED)
def test_any_row_of_any_quantised_type_is_what_the_gguf_package_makes_of_it(
    tmp_path: Path, name: str
) -> None:
    kind = Kinds[name]
    raw = packed_rows(kind)
    path = write(tmp_path / "a.gguf", raw, kind)
    expected = torch.from_numpy(gguf.dequantize(raw, kind))
    table = open_table(path)
    ids = [11, 0, 5, 6]
    assert (table.storage, table.dtype, table.shape) == (name, torch.float32, (ROWS, WIDTH))
    torch.testing.assert_close(table[ids], expected[ids], rtol=0, atol=0, equal_nan=True)
    assert table.bytes_read == 4 * raw.shape[1]
    torch.testing.assert_close(table.whole(), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_types_keep_their_dtype(tmp_path: Path, name: str) -> None:
    rows = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1)).to(PLAIN[name])
    raw = rows.view(torch.uint8).numpy() if name == "BF16" else rows.numpy()
    table = open_table(write(tmp_path / "a.gguf", raw, Kinds[name]))
    assert table.dtype == PLAIN[name]
    assert torch.equal(table.whole("stream"), rows)
    assert torch.equal(table[[7, 2]], rows[[7, 2]])


def test_a_type_that_cannot_be_dequantised_is_named_with_those_that_can(tmp_path: Path) -> None:
    kind = Kinds.Q8_K
    path = write(tmp_path / "a.gguf", packed_rows(kind), kind)
    with pytest.raises(UsageError, match=r"'token_embd\.weight' is stored as Q8_K.*Q4_0.*Q6_K"):
        open_table(path)


def test_tokens_are_bytes_with_their_types(tmp_path: Path) -> None:
    rows = np.ones((ROWS, WIDTH), np.float32)
    path = write(tmp_path / "a.gguf", rows, Kinds.F32, tokens=TOKENS, types=TYPES)
    table = open_table(path)
    vocabulary = table.vocabulary
    assert vocabulary is not None
    assert [t.key for t in vocabulary.tokens if t] == [
        b"<unk>", b"<s>", b"\n", b" the", b"the", b"ab", b"c<", b"[unused]",
    ]  # fmt: skip
    kinds = [token.kind for token in vocabulary.tokens if token is not None]
    special, byte, text = TokenKind.SPECIAL, TokenKind.BYTE, TokenKind.TEXT
    assert kinds == [special, special, byte, text, text, text, text, TokenKind.UNUSED]
    assert [table.label(i) for i in (2, 3, 8)] == ["<0x0A>", "␣the", "<row 8: no token>"]
    assert table.coverage() == "12 rows, 8 tokens, 4 rows without a token"


def test_berts_pieces_come_back_as_its_own_file_has_them(tmp_path: Path) -> None:
    rows = np.ones((3, WIDTH), np.float32)
    tokens = ["[CLS]", "▁play", "ing"]
    path = write(tmp_path / "a.gguf", rows, Kinds.F32, tokens=tokens, types=[3, 1, 1], model="bert")
    table = open_table(path)
    assert [table.label(i) for i in range(3)] == ["[CLS]", "play", "##ing"]


def test_types_that_are_not_as_many_as_tokens_are_an_error(tmp_path: Path) -> None:
    rows = np.ones((3, WIDTH), np.float32)
    path = write(tmp_path / "a.gguf", rows, Kinds.F32, tokens=["a", "b", "c"], types=[1, 1])
    with pytest.raises(GgufError, match="3 tokens and 2 token types"):
        _ = open_table(path).vocabulary


def test_a_file_without_a_vocabulary_has_none(tmp_path: Path) -> None:
    table = open_table(write(tmp_path / "a.gguf", np.ones((3, WIDTH), np.float32), Kinds.F32))
    assert table.vocabulary is None


def test_a_truncated_file_is_a_gguf_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", np.ones((3, WIDTH), np.float32), Kinds.F32, tokens=["a"])
    whole = path.read_bytes()
    for end in (3, 30, 200, len(whole) - 100):
        path.write_bytes(whole[:end])
        with pytest.raises(GgufError):
            open_table(path)


def test_gemma_in_llama_cpp_is_scaled_without_rounding(tmp_path: Path) -> None:
    rows = np.ones((3, WIDTH), np.float32)
    path = write(tmp_path / "a.gguf", rows, Kinds.F32, arch="gemma3")
    used = open_table(path, view="as_used")
    assert used[0][0].item() == pytest.approx(WIDTH**0.5, rel=1e-6)
    assert "as used: times 22.6274;" in used.line()


def test_the_candidates_of_a_real_file_are_its_one_table(smollm2_gguf: Path) -> None:
    tables = open_tables(smollm2_gguf)
    assert [str(c) for c in tables.candidates()] == ["token_embd.weight (49152 x 576)"]
    assert tables.tie.head is None


def write_part(path: Path, number: int, parts: int, name: str) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint16("split.no", number)
    writer.add_uint16("split.count", parts)
    writer.add_tensor(name, np.full((4, 4), number, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_split_file_is_one_model_whichever_part_is_given(tmp_path: Path) -> None:
    names = ["token_embd.weight", "blk.0.ffn_up.weight", "output.weight"]
    paths = [tmp_path / f"a-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    for number, (path, name) in enumerate(zip(paths, names, strict=True)):
        write_part(path, number, 3, name)
    for path in paths:
        tables = open_tables(path)
        # In the first part alone it would seem tied.
        assert tables.tie.head == "output.weight"
        assert [tables.table(role)[0][0].item() for role in ("input", "output")] == [0, 2]
    paths[1].unlink()
    with pytest.raises(ModelFileError, match=r"3 parts, and a-00002-of-00003\.gguf is not there"):
        open_table(paths[0])
    paths[0].rename(tmp_path / "b.gguf")
    with pytest.raises(ModelFileError, match="one of 3 parts and is not named so"):
        open_table(tmp_path / "b.gguf")
