"""Texts to token ids: many short ones in a batch, a long one piece by piece.

Cutting a text anywhere changes its tokens: "\\n\\nThe" is three tokens for GPT-2, and two where
the text ends after the line ends. So a long text is read in windows that overlap, and two windows
are joined only at a place around which both have the very same tokens: left of it the first window
has seen enough of what follows, right of it the second has seen enough of what came before.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ropewalk.errors import DataFileError, UsageError
from ropewalk.packing.table_rows import check_rows, has_rowless
from ropewalk.packing.texts import Text
from ropewalk.short import short

Ids = npt.NDArray[np.int32]

LONG = 1 << 20
"""Characters from which on a document is read in windows."""
WINDOW = 1 << 18
"""Characters of a window, the overlap left out."""
OVERLAP = 1 << 12
"""Characters that two windows share; doubled where they do not agree."""
AGREE = 256
"""Characters on either side of a join on which both windows must have the same tokens."""

_BATCH_CHARACTERS, _BATCH_TEXTS = 1 << 21, 1024


@short
@dataclass(slots=True)
class Encoded:
    """What has been tokenised so far: characters, tokens, and tokens that are special ones.

    `special` counts control tokens that a text spells out itself ("<|im_end|>"), `joined` the
    windows that were joined, `seconds` the time in the tokenizer.
    """

    characters: int = 0
    tokens: int = 0
    special: int = 0
    joined: int = 0
    seconds: float = 0.0


class Encoder:
    """A fast tokenizer of transformers, or a `tokenizers.Tokenizer`, as a stream of documents.

    Adds no tokens of its own: what stands around documents is `Boundary`'s. Truncation and
    padding that tokenizer files may ask for are turned off, for they would cut documents short
    in silence. `count` counts as documents come. `rows` are those of the table that the rows are
    for, None where it is not known: an id without a row is refused. Raises UsageError for a
    tokenizer that is neither.
    """

    def __init__(self, tokenizer: Any, rows: int | None = None) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not hasattr(backend, "encode_batch_fast"):
            raise UsageError(
                f"{type(tokenizer).__name__} is no fast tokenizer; give a model with a "
                "tokenizer.json"
            )
        if backend.truncation is not None or backend.padding is not None:
            backend = type(backend).from_str(backend.to_str())
            backend.no_truncation()
            backend.no_padding()
        self._backend = backend
        self.vocabulary = int(backend.get_vocab_size())
        # Most tokenizers fit their model, and then no text has to be looked at.
        self._rows = rows if rows is not None and has_rowless(backend, rows) else None
        added = backend.get_added_tokens_decoder()
        self._special = np.array(sorted(i for i, t in added.items() if t.special), dtype=np.int32)
        self.count = Encoded()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides about tokens; the same for the same tokenizer."""
        words = json.loads(self._backend.to_str())
        del words["truncation"], words["padding"]
        text = json.dumps(words, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def documents(self, texts: Iterable[Text]) -> Iterator[Ids | Iterator[Ids]]:
        """The ids (n,) int32 of every text, in order; of a long one an iterator of pieces.

        An iterator must be taken to its end before the next document. Raises DataFileError for
        a long text with no place at which it can be joined, with its file and character, and
        RowError for an id without a row, with its place.
        """
        waiting: list[tuple[str, str]] = []
        size = 0
        for text in texts:
            begun, done = _begin(text.parts)
            if not done:
                yield from self._batch(waiting)
                waiting, size = [], 0
                yield self._windows(Text(text.where, chain(begun, text.parts)))
                continue
            waiting.append((text.where, "".join(begun)))
            size += len(waiting[-1][1])
            if size >= _BATCH_CHARACTERS or len(waiting) >= _BATCH_TEXTS:
                yield from self._batch(waiting)
                waiting, size = [], 0
        yield from self._batch(waiting)

    def _batch(self, waiting: list[tuple[str, str]]) -> list[Ids]:
        if not waiting:
            return []
        texts = [text for _, text in waiting]
        start = time.perf_counter()
        found = self._backend.encode_batch_fast(texts, add_special_tokens=False)
        documents = [np.array(one.ids, dtype=np.int32) for one in found]
        self.count.seconds += time.perf_counter() - start
        self.count.characters += sum(map(len, texts))
        for (where, _), ids in zip(waiting, documents, strict=True):
            self._note(ids, where)
        return documents

    def _note(self, ids: Ids, where: str) -> None:
        if self._rows is not None:
            check_rows(ids, self._rows, self._backend.id_to_token, where)
        self.count.tokens += len(ids)
        if len(self._special):
            low, high = self._special[0], self._special[-1]
            near = ids[(ids >= low) & (ids <= high)]
            self.count.special += int(np.isin(near, self._special).sum())

    def _windows(self, text: Text) -> Iterator[Ids]:
        """A long text's ids, in pieces."""
        before, base = "", 0
        held: _Window | None = None
        for part in _resized(text.parts, WINDOW):
            self.count.characters += len(part)
            if held is None:
                held = self._window(part, 0)
            else:
                done, held = self._join(text.where, held, before, part, base)
                self._note(done, f"a piece of {text.where}")
                yield done
            base += len(part)
            before = part
        if held is not None:
            self._note(held.ids, f"a piece of {text.where}")
            yield held.ids

    def _join(
        self, where: str, held: _Window, before: str, part: str, base: int
    ) -> tuple[Ids, _Window]:
        """What is settled of the held window, and a window that goes on from there.

        `part` begins at character `base` of the text, `before` ends there.
        """
        overlap = OVERLAP
        while True:
            overlap = min(overlap, len(before))
            window = self._window(before[len(before) - overlap :] + part, base - overlap)
            seam = _seam(held, window, base - overlap // 2)
            if seam is not None:
                self.count.joined += 1
                return held.ids[: seam[0]], window.after(seam[1])
            if overlap == len(before):
                raise DataFileError(
                    f"{where}: the text cannot be tokenised in pieces around character {base:,}: "
                    f"two readings that overlap by {overlap:,} characters have no tokens in "
                    "common; cut the document there, or break up what has no words in it"
                )
            overlap *= 4

    def _window(self, text: str, base: int) -> _Window:
        start = time.perf_counter()
        found = self._backend.encode(text, add_special_tokens=False)
        places = np.array(found.offsets, dtype=np.int64).reshape(-1, 2) + base
        window = _Window(np.array(found.ids, dtype=np.int32), places)
        self.count.seconds += time.perf_counter() - start
        return window


@dataclass(frozen=True, slots=True)
class _Window:
    """Tokens (n,) and the characters (n, 2) of the text that each covers, from and to."""

    ids: Ids
    places: npt.NDArray[np.int64]

    def after(self, first: int) -> _Window:
        """From token `first` on."""
        return _Window(self.ids[first:], self.places[first:])

    def around(self, middle: int) -> slice:
        """The tokens that begin within AGREE characters of `middle`."""
        first, last = np.searchsorted(self.places[:, 0], [middle - AGREE, middle + AGREE])
        return slice(int(first), int(last))


def _seam(one: _Window, two: _Window, middle: int) -> tuple[int, int] | None:
    """Where to go from window `one` to `two`: a token of each; None where they do not agree."""
    a, b = one.around(middle), two.around(middle)
    places = one.places[a]
    if (
        not (np.array_equal(one.ids[a], two.ids[b]) and np.array_equal(places, two.places[b]))
        or len(places) < 2
    ):
        return None
    # Not between tokens that are bytes of one character.
    clean = np.flatnonzero(places[1:, 0] >= places[:-1, 1]) + 1
    if not len(clean):
        return None
    at = int(clean[np.abs(places[clean, 0] - middle).argmin()])
    return a.start + at, b.start + at


def _begin(parts: Iterator[str]) -> tuple[list[str], bool]:
    """Parts of a text until it is LONG, and whether that was all of it."""
    begun, size = [], 0
    for part in parts:
        begun.append(part)
        size += len(part)
        if size > LONG:
            return begun, False
    return begun, True


def _resized(parts: Iterator[str], size: int) -> Iterator[str]:
    """The same text in parts of `size` characters and a last one of up to twice as many."""
    held = ""
    for part in parts:
        held += part
        done = 0
        while len(held) - done >= 2 * size:
            yield held[done : done + size]
            done += size
        held = held[done:]
    if held:
        yield held
