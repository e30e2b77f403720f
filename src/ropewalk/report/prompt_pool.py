"""Many long prompts in few bytes: a pool of their pieces, deflated once.

The prompts of one run share most of their haystack: another depth moves only the needle. A
prompt is therefore cut after each sentence or line, each piece is kept once, and the prompt
becomes a list of runs of the pool. Runs are ``[start, length]`` in bytes of the UTF-8 pool;
``[-1, n]`` stands for n characters that are left out.
"""

from __future__ import annotations

import base64
import re
import zlib

_PIECE = re.compile(r".*?(?:[.!?]\s+|\n+|\Z)", re.DOTALL)
_MOST_RUNS = 200
"""A prompt cut into more runs than this costs more in runs than sharing saves."""

_SHORTEST = 32
"""A shorter piece (in bytes) is not worth a run of its own: it is kept again instead."""

_EDGE = 240
_AROUND = 160

_UTF8 = ("utf-8", "backslashreplace")

Runs = list[list[int]]


def deflated(data: bytes) -> str:
    """Return `data` as raw deflate (RFC 1951, no header) in base64."""
    packer = _packer()
    return base64.b64encode(packer.compress(data) + packer.flush()).decode()


def excerpt(text: str, needle: str) -> list[str | int]:
    """Return head, surroundings of the first `needle` and tail; an int counts what lies between.

    A text no longer than these together comes back whole.
    """
    found = text.find(needle) if needle else -1
    windows = [(0, _EDGE), (len(text) - _EDGE, len(text))]
    if found >= 0:
        windows.insert(1, (found - _AROUND, found + len(needle) + _AROUND))
    parts: list[str | int] = []
    done = 0
    for start, end in windows:
        start = max(start, done)
        if start > done:
            parts.append(start - done)
        if end > start:
            parts.append(text[start:end])
            done = end
    return parts


class PromptPool:
    """Pieces of prompts, kept once each, in at most `budget` characters of base64."""

    def __init__(self, budget: int) -> None:
        """Start an empty pool."""
        self._budget = budget
        self._raw = b""
        self._places: dict[bytes, int] = {}
        self._packer = _packer()
        self._packed = b""

    def add(self, parts: list[str | int], *, share: float = 1.0) -> Runs | None:
        """Keep a prompt given as texts and gaps; None, and nothing kept, if it does not fit.

        The pool may fill up to `share` of its budget. Lone surrogates, which UTF-8
        cannot hold, become backslash escapes.
        """
        runs, places, fresh = self._runs(parts)
        if len(runs) > _MOST_RUNS:
            texts = [part if isinstance(part, int) else part.encode(*_UTF8) for part in parts]
            runs, places, fresh = _unshared(texts, len(self._raw))
        packer = self._packer.copy()
        packed = self._packed + packer.compress(fresh)
        if _base64_length(len(packed) + len(packer.copy().flush())) > share * self._budget:
            return None
        self._places = places | self._places
        self._raw += fresh
        self._packer, self._packed = packer, packed
        return runs

    def _runs(self, parts: list[str | int]) -> tuple[Runs, dict[bytes, int], bytes]:
        """Return the runs of a prompt, and the places and bytes that the pool would gain."""
        runs: Runs = []
        places: dict[bytes, int] = {}
        fresh = bytearray()
        for part in parts:
            if isinstance(part, int):
                runs.append([-1, part])
                continue
            for piece in _PIECE.findall(part):
                data = piece.encode(*_UTF8)
                after = sum(runs[-1]) if runs and runs[-1][0] >= 0 else len(self._raw)
                if self._raw[after : after + len(data)] == data:
                    start = after
                else:
                    end = len(self._raw) + len(fresh)
                    start = self._places.get(data, end) if len(data) >= _SHORTEST else end
                    if start == end:
                        places.setdefault(data, end)
                        fresh += data
                _extend(runs, start, len(data))
        return runs, places, bytes(fresh)

    def packed(self) -> str:
        """Return the pool as raw deflate in base64, at most `budget` characters."""
        return base64.b64encode(self._packed + self._packer.copy().flush()).decode()


def _extend(runs: Runs, start: int, size: int) -> None:
    if runs and runs[-1][0] >= 0 and sum(runs[-1]) == start:
        runs[-1][1] += size
    elif size:
        runs.append([start, size])


def _unshared(parts: list[bytes | int], end: int) -> tuple[Runs, dict[bytes, int], bytes]:
    """Return a prompt as new bytes at the `end` of a pool."""
    runs: Runs = []
    fresh = b""
    for part in parts:
        if isinstance(part, int):
            runs.append([-1, part])
        else:
            _extend(runs, end + len(fresh), len(part))
            fresh += part
    return runs, {}, fresh


def _packer() -> zlib._Compress:
    return zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)


def _base64_length(size: int) -> int:
    return 4 * ((size + 2) // 3)
