"""Tokens decoded and encoded again, by tokenizers planted with what cannot come back."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from ropewalk.errors import ConfigError
from ropewalk.tables.health.scan import scan
from ropewalk.tables.health.unused import RoundTrip, known_unused, round_trip
from ropewalk.tables.open import open_table


def _trip(path: Path, top: int = 50) -> RoundTrip:
    found = scan(open_table(path))
    trip = round_trip(found, known_unused(found).mask, top)
    assert trip is not None
    return trip


def _folder(tmp_path: Path, vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Path:
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    rows = torch.randn(len(vocabulary), 4)
    save_file({"model.embed_tokens.weight": rows}, tmp_path / "model.safetensors")
    return tmp_path


def test_a_token_that_no_merge_makes_is_unreachable(tmp_path: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: at for at, piece in enumerate([*alphabet, "ab", "abc", "xyz"])}
    trip = _trip(_folder(tmp_path, vocabulary, [("a", "b"), ("ab", "c")]))
    assert [one.label for one in trip.unreachable.shown] == ["xyz"]
    # Bytes from 0x80 on are no text by themselves; 13 of them no part of one, and known unused.
    assert trip.undecodable.count == 128 - 13
    assert trip.checked == 128 + 3


def test_berts_tokens_come_back_but_for_continuations_that_are_split_off(minilm: Path) -> None:
    trip = _trip(minilm, top=500)
    assert trip.source is not None
    assert trip.checked > 29_000
    # But for those that its pre-tokenizer splits: punctuation and Chinese characters stand alone.
    missed = [one.label for one in trip.unreachable.shown]
    assert missed[0] == "..."
    assert all(label.startswith("##") and len(label) == 3 for label in missed[1:])
    kinds = {unicodedata.category(label[2])[0] for label in missed[1:]}
    assert kinds == {"P", "S", "L"}
    assert {"##!", "##東"} <= set(missed)
    assert trip.unreachable.count == len(missed) == 337
    assert trip.undecodable.count == 0


def test_llamas_byte_tokens_of_printable_ascii_are_never_made(wordllama: Path) -> None:
    trip = _trip(wordllama, top=500)
    missed = {one.label for one in trip.unreachable.shown}
    # sentencepiece falls back to bytes only for characters it has no piece for.
    assert {"<0x41>", "<0x7A>"} <= missed
    assert "<0x0A>" not in missed
    assert trip.undecodable.count == 128 - 13


def test_a_vocabulary_inside_a_gguf_has_no_tokenizer_to_ask(smollm2_gguf: Path) -> None:
    trip = _trip(smollm2_gguf)
    assert (trip.source, trip.checked) == (None, 0)
    assert "holds no tokenizer that can be asked" in trip.why_not
    assert trip.undecodable.count > 100


def test_without_a_vocabulary_there_is_nothing_to_ask(tmp_path: Path) -> None:
    save_file({"model.embed_tokens.weight": torch.ones(2, 2)}, tmp_path / "model.safetensors")
    found = scan(open_table(tmp_path))
    assert round_trip(found, torch.zeros(2, dtype=torch.bool), 3) is None


def test_a_tokenizer_that_cannot_be_brought_up_is_a_located_error(tmp_path: Path) -> None:
    save_file({"model.embed_tokens.weight": torch.ones(2, 2)}, tmp_path / "model.safetensors")
    held = '{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}}, "decoder": {"type": "Nothing"}}'
    (tmp_path / "tokenizer.json").write_text(held)
    with pytest.raises(ConfigError, match=r"tokenizer\.json cannot be brought up"):
        _trip(tmp_path)
