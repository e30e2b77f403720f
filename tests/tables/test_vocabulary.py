from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import ConfigError, ModelFileError
from ropewalk.tables.vocabulary import (
    Shape,
    Token,
    TokenKind,
    Vocabulary,
    display,
    from_pairs,
    parse,
    shape_of,
)
from ropewalk.tables.vocabulary_files import byte_alphabet, find_vocabulary


@given(
    st.binary(max_size=12) | st.text(max_size=8).map(lambda t: t.encode("utf-8", "surrogatepass"))
)
def test_every_key_has_a_form_of_its_own_that_prints_and_turns_back(key: bytes) -> None:
    shown = display(key)
    assert parse(shown) == key
    assert shown.isprintable()
    assert "\ufffd" not in shown
    assert " " not in shown


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (b" the", "␣the"),
        (b"\n\t", "<0x0A><0x09>"),
        (b"\x80", "<0x80>"),
        (b"\xc3", "<0xC3>"),
        ("é".encode(), "é"),
        (b"\xe4\xbd", "<0xE4><0xBD>"),
        ("\u202e\x1b[31m".encode(), "<0xE2><0x80><0xAE><0x1B>[31m"),
        (b"<0x41>", "<0x3C>0x41>"),
        ("\ufffd".encode(), "<0xEF><0xBF><0xBD>"),
        ("␣".encode(), "<0xE2><0x90><0xA3>"),
        ("\u0301a".encode(), "<0xCC><0x81>a"),
        (b"<|end|>", "<|end|>"),
    ],
)
def test_forms_of_keys_that_would_otherwise_look_alike(key: bytes, shown: str) -> None:
    assert display(key) == shown


def rows_of(vocabulary: Vocabulary, kind: TokenKind) -> tuple[int, ...]:
    return tuple(r for r, token in enumerate(vocabulary.tokens) if token and token.kind is kind)


def of(*tokens: tuple[bytes, TokenKind] | None) -> Vocabulary:
    return Vocabulary(
        [None if t is None else Token(t[0], t[1], "") for t in tokens], "test", "plain"
    )


@given(
    st.lists(
        st.none()
        | st.tuples(
            st.sampled_from([b"", b"A", b"<0x41>", b"<id 0>", b"<id 1>", b" ", b"\xff"])
            | st.binary(max_size=2),
            st.sampled_from([TokenKind.TEXT, TokenKind.BYTE, TokenKind.SPECIAL]),
        ),
        max_size=12,
    )
)
def test_labels_of_a_vocabulary_are_one_to_one(
    tokens: list[tuple[bytes, TokenKind] | None],
) -> None:
    vocabulary = of(*tokens)
    labels = [vocabulary.label(row) for row in range(len(tokens) + 3)]
    assert len(set(labels)) == len(labels)
    for row, token in enumerate(tokens):
        assert vocabulary.row_of(labels[row]) == (None if token is None else row)
        if token is not None:
            assert row in vocabulary.ids(token[0])


def test_rows_that_share_a_key_are_told_apart() -> None:
    vocabulary = of(
        (b"A", TokenKind.TEXT),
        (b"A", TokenKind.BYTE),
        (b"A", TokenKind.SPECIAL),
        (b"", TokenKind.TEXT),
    )
    assert vocabulary.ids(b"A") == (0, 1, 2)
    assert [vocabulary.label(i) for i in range(5)] == [
        "A<id 0>", "<0x41>", "A<id 2>", "<id 3>", "<row 4: no token>",
    ]  # fmt: skip


def test_spellings_of_a_word_say_how_they_differ() -> None:
    vocabulary = of(*((k, TokenKind.TEXT) for k in (b"Med", b" Med", b" med", b"MED", b"x")))
    found = [(s.form, s.key, s.ids) for s in vocabulary.spellings("Med")]
    assert found == [
        ("as written", b"Med", (0,)),
        ("space before", b" Med", (1,)),
        ("lower case, space before", b" med", (2,)),
        ("upper case", b"MED", (3,)),
    ]
    assert [s.key for s in vocabulary.spellings(" Med")][:2] == [b" Med", b"Med"]
    assert vocabulary.spellings("") == ()
    assert vocabulary.spellings("nothing") == ()


@pytest.mark.parametrize(("word", "key"), [("Straße", b"strasse"), ("Izmir", b"izmir")])
def test_case_is_folded_without_a_locale(word: str, key: bytes) -> None:
    assert [s.ids for s in of((key, TokenKind.TEXT)).spellings(word)] == [(0,)]


def test_the_alphabet_of_bytes_is_that_of_the_tokenizers_library() -> None:
    from tokenizers import pre_tokenizers

    alphabet = byte_alphabet()
    assert set(alphabet) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(alphabet.values()) == list(range(256))


@pytest.mark.parametrize("kind", ["bare", "bos", "metaspace"])
def test_keys_of_a_tokenized_text_are_its_bytes(
    tiny_tokenizer: Callable[[str], Any], tmp_path: Path, kind: str
) -> None:
    tokenizer = tiny_tokenizer(kind)
    tokenizer.save_pretrained(tmp_path)
    vocabulary = find_vocabulary(tmp_path)
    assert vocabulary is not None
    assert len(vocabulary) == len(tokenizer)
    assert vocabulary.scheme == ("sentencepiece" if kind == "metaspace" else "byte-level")
    # In the bytes of é and 你 no token has a character of its own.
    text = "the opening é 你 of\na question\x1b"
    keys = []
    for row in tokenizer(text, add_special_tokens=False)["input_ids"]:
        token = vocabulary.token(row)
        assert token is not None
        keys.append(token.key)
    before = " " if kind == "metaspace" else ""
    assert b"".join(keys) == (before + text).encode()
    assert [t.piece for i in (0, 1) if (t := vocabulary.token(i))] == ["<s>", "</s>"]
    assert rows_of(vocabulary, TokenKind.SPECIAL) == (0, 1, 2)
    assert bool(rows_of(vocabulary, TokenKind.BYTE)) is (kind == "metaspace")


def test_berts_pieces_are_keys_and_its_unused_ones_are_marked(minilm: Path) -> None:
    vocabulary = find_vocabulary(minilm)
    assert vocabulary is not None
    assert vocabulary.scheme == "wordpiece"
    assert (vocabulary.ids(b"ing"), vocabulary.ids(b"##ing")) == ((13749,), (2075,))
    assert len(rows_of(vocabulary, TokenKind.UNUSED)) == 994
    assert rows_of(vocabulary, TokenKind.SPECIAL) == (0, 100, 101, 102, 103)
    assert len({vocabulary.label(i) for i in range(30522)}) == 30522


def test_a_sentencepiece_model_is_read(tmp_path: Path) -> None:
    import sentencepiece

    (tmp_path / "text.txt").write_text("the cat sat on the mat\n" * 50)
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text.txt"),
        model_prefix=str(tmp_path / "tokenizer"),
        vocab_size=290,
        model_type="bpe",
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=5,
    )
    vocabulary = find_vocabulary(tmp_path)
    assert vocabulary is not None
    reader = sentencepiece.SentencePieceProcessor(str(tmp_path / "tokenizer.model"))
    ids = reader.encode("the cat é")
    assert b"".join(t.key for i in ids if (t := vocabulary.token(i))) == " the cat é".encode()
    assert rows_of(vocabulary, TokenKind.SPECIAL) == (0, 1, 2)
    assert len(rows_of(vocabulary, TokenKind.BYTE)) == 256
    (tmp_path / "tokenizer.model").write_bytes(b"no model")
    with pytest.raises(ModelFileError, match="no sentencepiece model"):
        find_vocabulary(tmp_path)


def test_a_tokenizer_that_adds_tokens_keeps_holes_between_them(tmp_path: Path) -> None:
    held = {
        "model": {"type": "WordLevel", "vocab": {"a": 0}},
        "added_tokens": [{"id": 3, "content": "<x>", "special": True}],
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(held))
    vocabulary = find_vocabulary(tmp_path)
    assert vocabulary is not None
    assert [vocabulary.label(i) for i in range(4)] == [
        "a", "<row 1: no token>", "<row 2: no token>", "<x>",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", r"no model\.vocab"),
        ('{"model": {"vocab": {"a": -1}}}', "gives the token 'a' the id -1"),
        ('{"model": {"vocab": {"a": 1e300}}}', "the id 1e"),
        ('{"model": {"vocab": {"a": 99999999999}}}', "integers from 0 to"),
        ('{"model": {"vocab": {"a": 0}}, "added_tokens": [7]}', "added_tokens holds 7"),
        ('{"model": {"vocab": [3]}}', "gives the token None"),
    ],
)
def test_a_tokenizer_file_that_is_none_is_located(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ConfigError, match=said):
        find_vocabulary(tmp_path)


def test_a_folder_without_a_tokenizer_has_no_vocabulary(tmp_path: Path) -> None:
    assert find_vocabulary(tmp_path) is None
    assert len(from_pairs([], "nothing", "plain")) == 0


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (" the", Shape.SPACED),
        ("ing", Shape.WORD),
        ("café", Shape.WORD),
        (" 42", Shape.NUMBER),
        ("²", Shape.NUMBER),
        ("...", Shape.SIGN),
        ("##", Shape.SIGN),
        (" мир", Shape.OTHER),
        ("世界", Shape.OTHER),
        ("\n\n", Shape.BLANK),
        ("   ", Shape.BLANK),
        ("\x1b", Shape.BLANK),
    ],
)
def test_text_is_told_by_its_letters(text: str, shape: Shape) -> None:
    assert shape_of(Token(text.encode(), TokenKind.TEXT, text)) is shape


def test_kinds_and_broken_characters_have_groups_of_their_own() -> None:
    assert shape_of(None) is Shape.NONE
    assert shape_of(Token(b"\xe4\xbd", TokenKind.TEXT, "")) is Shape.BROKEN
    assert shape_of(Token(b"A", TokenKind.BYTE, "<0x41>")) is Shape.BYTE
    assert shape_of(Token(b"</s>", TokenKind.SPECIAL, "</s>")) is Shape.SPECIAL
    assert shape_of(Token(b"[unused1]", TokenKind.UNUSED, "[unused1]")) is Shape.UNUSED


def test_wordpiece_marks_what_goes_on_with_a_word() -> None:
    pieces = [Token(b"play", TokenKind.TEXT, "play"), Token(b"##ing", TokenKind.TEXT, "##ing")]
    words = from_pairs(enumerate(pieces), "vocab.txt", "wordpiece")
    assert [shape_of(p, words) for p in pieces] == [Shape.SPACED, Shape.CONTINUED]
