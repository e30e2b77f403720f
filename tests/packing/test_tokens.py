"""Long texts in pieces against the tokenizer on the whole text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from ropewalk.errors import DataFileError, UsageError
from ropewalk.packing import tokens
from ropewalk.packing.texts import Text
from ropewalk.packing.tokens import Encoder

KINDS = ("bare", "bos-eos", "metaspace", "wordpiece")


def _prose(size: int, seed: int) -> str:
    """Words, runs of blanks and line ends, digits, accents, emoji, rubbish without blanks."""
    random = Random(seed)
    kinds = ("the ", "whale", " sea", "\n\n", "\n \n", "   ", "\t", "1851", "é", "🜚", "'s ", ". ")
    made = ""
    while len(made) < size:
        made += random.choice(kinds) if random.random() < 0.9 else random.choice("xyz#") * 9
    return made


def _ids(document: Any) -> list[int]:
    parts = document if isinstance(document, Iterator) else [document]
    return [int(i) for part in parts for i in part]


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows so small that a short text has many joins."""
    for name, size in {"LONG": 900, "WINDOW": 700, "OVERLAP": 240, "AGREE": 40}.items():
        monkeypatch.setattr(tokens, name, size)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_a_text_in_windows_has_the_tokens_of_the_whole(
    backend: Callable[[str], Any], kind: str, seed: int
) -> None:
    text = _prose(12_000, seed)
    whole = backend(kind).encode(text, add_special_tokens=False).ids
    encoder = Encoder(backend(kind))
    (pieces,) = encoder.documents([Text("a", iter([text[:5000], text[5000:5003], text[5003:]]))])
    assert _ids(pieces) == whole
    assert encoder.count.joined > 10
    assert encoder.count.tokens == len(whole)
    assert encoder.count.characters == len(text)


def test_cutting_where_a_line_ends_would_change_the_tokens() -> None:
    # What the windows are for: "\n\n" is one token for GPT-2's rule only where nothing follows.
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    one = Tokenizer(models.BPE({**letters, "ĊĊ": 256}, [("Ċ", "Ċ")]))
    one.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert one.encode("a\n\n").tokens + one.encode("b").tokens == ["a", "ĊĊ", "b"]
    assert one.encode("a\n\nb").tokens == ["a", "Ċ", "Ċ", "b"]


@pytest.mark.usefixtures("small_windows")
def test_a_text_that_cannot_be_joined_is_refused_with_its_place(
    backend: Callable[[str], Any],
) -> None:
    # Blanks are no tokens for BERT: there is nothing to agree on.
    text = "sea " * 200 + " " * 4000 + "whale " * 200
    encoder = Encoder(backend("wordpiece"))
    with pytest.raises(DataFileError, match=r"a\.txt: the text cannot be .* around character"):
        list(map(_ids, encoder.documents([Text("a.txt", iter([text]))])))


def test_short_and_long_documents_come_in_order(
    backend: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "LONG", 900)
    texts = [_prose(size, size) for size in (20, 3000, 0, 40, 5000, 7)]
    found = Encoder(backend("bare")).documents(Text("t", iter([t])) for t in texts)
    whole = [backend("bare").encode(t, add_special_tokens=False).ids for t in texts]
    assert [_ids(document) for document in found] == whole


def test_truncation_and_padding_of_a_tokenizer_file_are_turned_off(
    backend: Callable[[str], Any],
) -> None:
    from tokenizers import Tokenizer

    plain = backend("bare")
    cutting = Tokenizer.from_str(plain.to_str())
    cutting.enable_truncation(8)
    cutting.enable_padding(length=8)
    text = "the whale " * 30
    (ids,) = Encoder(cutting).documents([Text("t", iter([text]))])
    assert _ids(ids) == plain.encode(text, add_special_tokens=False).ids
    # The caller's own tokenizer still cuts, and is the same tokenizer by its fingerprint.
    assert len(cutting.encode(text).ids) == 8
    assert Encoder(cutting).fingerprint == Encoder(plain).fingerprint
    assert Encoder(backend("bos")).fingerprint != Encoder(plain).fingerprint


def test_control_tokens_spelt_out_in_a_text_are_counted(
    tiny_tokenizer: Callable[[str], Any],
) -> None:
    encoder = Encoder(tiny_tokenizer("bos"))
    (ids,) = encoder.documents([Text("t", iter(["one</s>two</s>"]))])
    assert encoder.count.special == np.count_nonzero(np.array(_ids(ids)) == 1) == 2


def test_a_tokenizer_that_is_not_fast_is_refused() -> None:
    with pytest.raises(UsageError, match="object is no fast tokenizer"):
        Encoder(object())


@pytest.mark.parametrize("size", [60_000, 60_001])
def test_a_real_tokenizer_reads_a_long_text_in_windows_as_in_one(
    wordllama: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tokenizers import Tokenizer

    monkeypatch.setattr(tokens, "LONG", 60_000)
    monkeypatch.setattr(tokens, "WINDOW", 16_000)
    backend = Tokenizer.from_file(str(wordllama / "tokenizer.json"))
    text = _prose(size, 5)[:size]
    encoder = Encoder(backend)
    (document,) = encoder.documents([Text("t", iter([text]))])
    backend.no_truncation()
    assert _ids(document) == backend.encode(text, add_special_tokens=False).ids
    assert encoder.count.joined == (2 if size > 60_000 else 0)
