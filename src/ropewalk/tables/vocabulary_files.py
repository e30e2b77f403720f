"""Vocabularies read from what lies beside a table: tokenizer.json, vocab.txt, GGUF and others.

The tokenizer itself is not brought up: ids and pieces are in the file, and a few of its settings
say how the pieces are written. `NewTokens` adds entries to the files' own JSON, so that everything
else in them stays as it was written; the package tokenizers reads them before and after.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from ropewalk.dialects.gguf.strings import read_vocabulary
from ropewalk.dialects.hf import load_json
from ropewalk.errors import ConfigError, MissingPartError, ModelFileError, UsageError
from ropewalk.tables.vocabulary import Token, TokenKind, Vocabulary, from_pairs
from ropewalk.tables.words import package

MAX_ID = 2**24
"""Sixteen million; the largest vocabularies have a quarter of one."""

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_UNUSED = re.compile(r"\[unused\d+\]|<unused\d+>|<\|?reserved_special_token_\d+\|?>|<extra_id_\d+>")
_BERTS_OWN = frozenset({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
_GGUF_SCHEMES = {"gpt2": "byte-level", "llama": "sentencepiece", "t5": "sentencepiece",
                 "gemma4": "sentencepiece", "bert": "wordpiece"}  # fmt: skip

_Key = Callable[[str], tuple[bytes, TokenKind]]
_TOKENIZER, _SETTINGS = "tokenizer.json", "tokenizer_config.json"


def find_vocabulary(folder: Path) -> Vocabulary | None:
    """The vocabulary in a folder, from the first of its files that is known; None for none.

    Raises ModelFileError (ConfigError) for a file that cannot be understood, MissingPartError
    where only a sentencepiece model is there and the package is not.
    """
    for name, read in _READERS.items():
        path = folder / name
        if path.is_file():
            with _uncollected():
                return read(path)
    return None


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector of cycles, for the time that a hundred thousand tokens are made.

    All of them stay, none is in a cycle, and the collector would walk over them again and again:
    it takes twice the time of reading them.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def from_tokenizer_json(path: Path) -> Vocabulary:
    """tokenizer.json of Hugging Face. Raises ConfigError."""
    held = load_json(path)
    model = held.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list):
        raise ConfigError(f"{path} has no model.vocab; it is not a tokenizer.json")
    scheme = _scheme(held, model)
    key = _keys(scheme)
    # Unigram lists pieces with their scores, the others map pieces to ids.
    vocab = model["vocab"]
    listed = (
        ((piece, row) for piece, row in vocab.items())
        if isinstance(vocab, dict)
        else ((item[0] if isinstance(item, list) and item else None, row)
              for row, item in enumerate(vocab))
    )  # fmt: skip
    pairs = [_pair(path, piece, row, key) for piece, row in listed]
    for added in held.get("added_tokens") or []:  # type: ignore[attr-defined]
        if not isinstance(added, dict):
            raise ConfigError(f"{path}: added_tokens holds {added!r:.60}, which is no token")
        piece = added.get("content")
        # Some files list the bytes of sentencepiece here, too; they stay bytes.
        byte = scheme == "sentencepiece" and isinstance(piece, str) and _BYTE.fullmatch(piece)
        way = key if byte else _added(special=added.get("special") is True)
        pairs.append(_pair(path, piece, added.get("id"), way))
    return from_pairs(pairs, str(path), scheme)


def from_vocab_json(path: Path) -> Vocabulary:
    """vocab.json of GPT-2's kin: byte-level pieces to ids. Raises ConfigError."""
    key = _keys("byte-level")
    pairs = (_pair(path, piece, row, key) for piece, row in load_json(path).items())
    return from_pairs(pairs, str(path), "byte-level")


def from_vocab_txt(path: Path) -> Vocabulary:
    """vocab.txt of BERT's kin: a piece a line, its id the line's number. Raises ConfigError."""
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as UTF-8 text: {error}") from error
    if lines[-1] == "":
        lines.pop()
    pieces = [line.removesuffix("\r") for line in lines]
    plain, special = _keys("wordpiece"), _added(special=True)
    pairs = (
        _pair(path, piece, row, special if piece in _BERTS_OWN else plain)
        for row, piece in enumerate(pieces)
    )
    return from_pairs(pairs, str(path), "wordpiece")


def from_sentencepiece(path: Path) -> Vocabulary:
    """A sentencepiece model. Raises MissingPartError without the package, ModelFileError."""
    try:
        import sentencepiece
    except ImportError as error:
        raise MissingPartError(
            f"reading {path} needs sentencepiece, which is not installed: "
            'pip install "ropewalk[prove]"'
        ) from error
    try:
        reader = sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError) as error:
        raise ModelFileError(f"{path} is no sentencepiece model ({str(error)[:200]})") from error
    key = _keys("sentencepiece")

    def pairs() -> Iterator[tuple[int, Token]]:
        for row in range(reader.get_piece_size()):
            piece = reader.id_to_piece(row)
            special = reader.is_control(row) or reader.is_unknown(row)
            made, kind = _added(special=True)(piece) if special else key(piece)
            yield row, Token(made, TokenKind.UNUSED if reader.is_unused(row) else kind, piece)

    return from_pairs(pairs(), str(path), "sentencepiece")


def from_gguf(path: Path) -> Vocabulary | None:
    """The vocabulary inside a GGUF file, None where it has none. Raises GgufError."""
    metadata, tokens, types = read_vocabulary(path)
    if not tokens:
        return None
    scheme = _GGUF_SCHEMES.get(str(metadata.get("tokenizer.ggml.model")), "plain")
    key = _keys(scheme)
    # ggml's llama_token_type: 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    as_is, special = _added(special=False), _added(special=True)
    ways = {2: special, 3: special, 4: as_is, 5: special}
    made = []
    for row, raw in enumerate(tokens):
        piece = raw.decode("utf-8", errors="surrogateescape")
        kind = types[row] if types else 1
        if scheme == "wordpiece" and kind == 1:
            # llama.cpp's converter marks the beginning of a word, BERT's file its continuation.
            piece = piece[1:] if piece.startswith("▁") else f"##{piece}"
        found, sort = ways.get(kind, key)(piece)
        made.append((row, Token(found, TokenKind.UNUSED if kind == 5 else sort, piece)))
    return from_pairs(made, str(path), scheme)


_READERS: dict[str, Callable[[Path], Vocabulary]] = {
    "tokenizer.json": from_tokenizer_json,
    "vocab.json": from_vocab_json,
    "vocab.txt": from_vocab_txt,
    "tokenizer.model": from_sentencepiece,
    "spiece.model": from_sentencepiece,
    "sentencepiece.bpe.model": from_sentencepiece,
}


def _pair(path: Path, piece: object, row: object, key: _Key) -> tuple[int, Token]:
    if not isinstance(piece, str) or type(row) is not int or not 0 <= row < MAX_ID:
        raise ConfigError(
            f"{path} gives the token {piece!r:.60} the id {row!r:.60}; ids are integers from 0 to "
            f"{MAX_ID - 1}"
        )
    made, kind = key(piece)
    return row, Token(made, TokenKind.UNUSED if _UNUSED.fullmatch(piece) else kind, piece)


def _scheme(held: dict[str, object], model: dict[str, object]) -> str:
    if model.get("type") == "WordPiece":
        return "wordpiece"
    parts = {p.get("type") for key in ("pre_tokenizer", "decoder") for p in _parts(held.get(key))}
    if "ByteLevel" in parts:
        return "byte-level"
    replaces = any(
        part.get("type") == "Replace" and part.get("content") == " "
        for part in _parts(held.get("decoder"))
    )
    if "Metaspace" in parts or "ByteFallback" in parts or replaces:
        return "sentencepiece"
    return "wordpiece" if "WordPiece" in parts else "plain"


def _parts(part: object) -> Iterator[dict[str, object]]:
    """A pre-tokenizer or decoder, and those that a Sequence is made of."""
    if isinstance(part, dict):
        yield part
        for key in ("pretokenizers", "decoders"):
            inner = part.get(key)
            for one in inner if isinstance(inner, list) else []:
                yield from _parts(one)


def _added(special: bool) -> _Key:
    """Tokens that stand for their own text, whatever the scheme."""
    kind = TokenKind.SPECIAL if special else TokenKind.TEXT
    return lambda piece: (piece.encode("utf-8", errors="surrogateescape"), kind)


def _keys(scheme: str) -> _Key:
    if scheme == "byte-level":
        alphabet = byte_alphabet()
        # Characters below 256 that stand for no byte are sent to one that Latin-1 lacks.
        to_bytes = dict.fromkeys(range(256), 0x100) | {ord(c): b for c, b in alphabet.items()}

        def byte_level(piece: str) -> tuple[bytes, TokenKind]:
            try:
                return piece.translate(to_bytes).encode("latin-1"), TokenKind.TEXT
            except UnicodeEncodeError:
                # A token added without being marked as such stands for itself.
                return _added(special=False)(piece)

        return byte_level
    if scheme == "sentencepiece":

        def sentencepiece(piece: str) -> tuple[bytes, TokenKind]:
            if mark := _BYTE.fullmatch(piece):
                return bytes([int(mark[1], 16)]), TokenKind.BYTE
            return piece.replace("▁", " ").encode("utf-8", errors="surrogateescape"), TokenKind.TEXT

        return sentencepiece
    return _added(special=False)


@cache
def byte_alphabet() -> dict[str, int]:
    """GPT-2's characters for bytes: printable Latin-1 for itself, the rest from U+0100 on."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in own]
    return {chr(b): b for b in own} | {chr(0x100 + n): b for n, b in enumerate(rest)}


class NewTokens:
    """The tokenizer's files before and after; `added` are the new tokens by id.

    Raises UsageError for tokens that cannot be added.
    """

    def __init__(
        self, folder: Path, vocabulary: Vocabulary | None, add: Sequence[str], *, special: bool
    ) -> None:
        self._folder, self._special = folder, special
        self.tokens = None if vocabulary is None else len(vocabulary)
        self.added: tuple[tuple[int, str], ...] = ()
        if not add:
            return
        if self.tokens is None or not (folder / _TOKENIZER).is_file():
            raise UsageError(
                f"{folder} has no tokenizer.json to add tokens to; save the tokenizer there with "
                "save_pretrained, or give the number of rows alone with --rows"
            )
        held = package("tokenizers").Tokenizer.from_file(str(folder / _TOKENIZER))
        for token in add:
            known = held.token_to_id(token)
            if known is not None:
                raise UsageError(f"{token!r} is token {known} of this tokenizer already")
        self.added = tuple(enumerate(add, self.tokens))

    def files(self) -> dict[str, dict[str, Any]]:
        """The files that say which tokens there are, by name, as they are to be."""
        if not self.added:
            return {}
        held: dict[str, Any] = dict(load_json(self._folder / _TOKENIZER))
        entries = {
            row: {
                "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": self._special,
            }
            for row, token in self.added
        }  # fmt: skip
        listed = [{"id": row, **entry} for row, entry in entries.items()]
        held["added_tokens"] = [*(held.get("added_tokens") or []), *listed]
        files = {_TOKENIZER: held}
        settings = self._folder / _SETTINGS
        if settings.is_file():
            said: dict[str, Any] = dict(load_json(settings))
            known = said.get("added_tokens_decoder")
            if isinstance(known, dict):
                both = sorted({str(row) for row, _ in self.added} & set(known))
                if both:
                    raise UsageError(
                        f"{settings} has a token {both[0]} that tokenizer.json lacks; save the "
                        "tokenizer again with save_pretrained, so that its files agree"
                    )
                said["added_tokens_decoder"] = known | {str(r): e for r, e in entries.items()}
                files[_SETTINGS] = said
        return files

    def pieces(self, rows: int) -> dict[int, list[int]]:
        """For each token without a row among `rows`, the ids of the pieces that it was before."""
        path = self._folder / _TOKENIZER
        if not path.is_file():
            raise UsageError(
                f"{self._folder} has no tokenizer.json that could cut new tokens into pieces; "
                "choose mean or covariance"
            )
        held: dict[str, Any] = dict(load_json(path))
        listed = held.get("added_tokens") or []
        held["added_tokens"] = [each for each in listed if each["id"] < rows]
        before = package("tokenizers").Tokenizer.from_str(json.dumps(held))
        late = [(each["id"], each["content"]) for each in listed if each["id"] >= rows]
        return {
            row: before.encode(text, add_special_tokens=False).ids
            for row, text in (*late, *self.added)
        }
