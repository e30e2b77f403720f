"""The long arrays of a GGUF file that its header steps over: a vocabulary and its token types."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from pathlib import Path

from ropewalk.dialects.gguf.header import GgufValue, _Parser
from ropewalk.dialects.gguf.types import FIXED, STRING
from ropewalk.errors import GgufError

TOKENS = "tokenizer.ggml.tokens"
TOKEN_TYPES = "tokenizer.ggml.token_type"  # noqa: S105 - a key, and no secret


class _Keeping(_Parser):
    """The header's parser, which also keeps where the arrays `wanted` begin: kind, count, byte."""

    def __init__(self, path: Path, data: mmap.mmap, size: int, wanted: tuple[str, ...]) -> None:
        super().__init__(path, data, size)
        self.wanted = wanted
        self.kept: dict[str, tuple[int, int, int]] = {}

    def array(self, key: str) -> GgufValue:  # type: ignore[override]
        """As the header's, the place noted on the way."""
        if key in self.wanted:
            before = self.at
            kind, count = self.array_head(key)
            self.kept[key] = (kind, count, self.at)
            self.at = before
        return super().array(key)


def read_vocabulary(path: Path) -> tuple[Mapping[str, GgufValue], list[bytes], list[int]]:
    """The metadata of a GGUF file, its tokens as bytes, and their types (ggml's llama_token_type).

    Both lists are empty where the file has none. Raises GgufError for a damaged file, for arrays
    of another kind, and for types that are not as many as the tokens.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size == 0:
                raise GgufError(f"{path} is empty")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                parser = _Keeping(path, data, size, (TOKENS, TOKEN_TYPES))
                header = parser.header()
                tokens = _strings(parser, data)
                kinds = _integers(parser, data)
    except OSError as error:
        raise GgufError(f"{path} cannot be read: {error.strerror or error}") from error
    if kinds and len(kinds) != len(tokens):
        raise GgufError(f"{path} has {len(tokens)} tokens and {len(kinds)} token types")
    return header.metadata, tokens, kinds


def _strings(parser: _Keeping, data: mmap.mmap) -> list[bytes]:
    """Lengths were held against the file's size when the parser stepped over the array."""
    if TOKENS not in parser.kept:
        return []
    kind, count, at = parser.kept[TOKENS]
    if kind != STRING:
        parser.fail(f"{TOKENS!r} has elements of type {kind}, and no strings", at=at)
    found = []
    for _ in range(count):
        length = struct.unpack_from("<Q", data, at)[0]
        found.append(data[at + 8 : at + 8 + length])
        at += 8 + length
    return found


def _integers(parser: _Keeping, data: mmap.mmap) -> list[int]:
    if TOKEN_TYPES not in parser.kept:
        return []
    kind, count, at = parser.kept[TOKEN_TYPES]
    fixed = FIXED.get(kind)
    if fixed is None or fixed.code in "fd":
        parser.fail(f"{TOKEN_TYPES!r} has elements of type {kind}, and no integers", at=at)
    return list(struct.unpack_from(f"<{count}{fixed.code}", data, at))
