"""From what a user types to rows of a table: a word, a row's number, or a text of several tokens.

Which row is a word? Most vocabularies have " cat", as it stands within a sentence, and "cat", as
it stands at its beginning or inside a longer word. The rule: the word with a space before it,
where that is a token; else as it was written; never in another case. All spellings that are
tokens are reported, the one that was used among them. Texts are cut by the model's own tokenizer.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ropewalk.errors import MissingPartError, ModelFileError, RowError, UsageError
from ropewalk.kernels.arrays import Array, doubles
from ropewalk.short import short
from ropewalk.tables.search import unit_rows
from ropewalk.tables.stored import check_rows
from ropewalk.tables.vocabulary import Spelling, Vocabulary, display, parse

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable

_SHOWN = 8
"""Tokens of a word that is none, or rows of a key, that a message names."""


@short
@dataclass(frozen=True, slots=True)
class WordRows:
    """What was asked for, and the rows that stand for it: one, or those of a text's tokens.

    `used` is the spelling that was taken, None for rows and texts; `others` are further spellings
    of the word that are tokens.
    """

    text: str
    ids: tuple[int, ...]
    used: Spelling | None = None
    others: tuple[Spelling, ...] = ()

    def vector(self, table: EmbeddingTable, pages: Array | None = None) -> Array:
        """Its direction (width,) in float64: of its row, or the mean of its rows at length 1.

        Rows are taken from `pages`, all rows of the table, where the caller has them. Raises
        UsageError for rows without direction, or that cancel out.
        """
        rows = table.take(self.ids) if pages is None else pages[list(self.ids)]
        for row, values in zip(self.ids, doubles(rows), strict=True):
            peak = float(np.abs(values).max())
            if not 0.0 < peak < float("inf"):
                holds = "is all zeros" if peak == 0.0 else "holds NaN or infinity"
                raise UsageError(
                    f"row {row}, {table.label(row)}, {holds}: it has no direction, and nothing is "
                    "near it"
                )
        return mean_direction(unit_rows(rows), [1.0] * len(self.ids))


def mean_direction(units: Array, weights: Sequence[float]) -> Array:
    """The weighted mean (width,) of unit rows (n, width). Raises UsageError where it vanishes."""
    mean: Array = (np.array(weights, np.float64)[:, None] * units).mean(axis=0)
    if float(np.linalg.norm(mean)) < 1e-12:
        raise UsageError("these rows cancel one another out: what is left has no direction")
    return mean


def of_row(table: EmbeddingTable, row: int) -> WordRows:
    """A row by its number. Raises RowError for one that the table does not have."""
    check_rows([row], table.rows, f"the {table.role} table {table.name!r}")
    return WordRows(table.label(row), (row,))


def of_word(table: EmbeddingTable, word: str, *, exact: bool = False) -> WordRows:
    """The row of a word by the rule above; with `exact`, of the very bytes that `word` displays.

    Where several rows have these bytes, the lowest is used. Raises UsageError for an empty word,
    one that is no single token (its tokens and its other spellings are named), and a table
    without a vocabulary, RowError for a token without a row.
    """
    vocabulary = _vocabulary(table, word)
    if not word.strip() and not exact:
        raise UsageError(
            f"the word is {'empty' if not word else 'nothing but space'}; give a word, or with "
            "--exact the very bytes of a token: ␣ is a space, <0x0A> a line feed"
        )
    found = _exactly(vocabulary, word) if exact else vocabulary.spellings(word)
    used = next((s for s in _preferred(word, found)), None) if not exact else (found or (None,))[0]
    if used is None:
        raise UsageError(_no_token(table, vocabulary, word, found, exact=exact))
    row = used.ids[0]
    if row >= table.rows:
        raise RowError(
            f"{display(used.key)} is token {row}, and the {table.role} table {table.name!r} has "
            f"{table.rows} rows, 0 to {table.rows - 1}: this token has none"
        )
    return WordRows(word, (row,), used, tuple(s for s in found if s is not used))


def of_text(table: EmbeddingTable, text: str) -> WordRows:
    """The rows of a text's tokens, by the model's own tokenizer, no special tokens added.

    Raises UsageError for an empty text and a table without a tokenizer, MissingPartError and
    ModelFileError where the tokenizer cannot be brought up, RowError for a token without a row.
    """
    vocabulary = _vocabulary(table, text)
    if not text:
        raise UsageError("the text is empty; give one of at least one token")
    ids = tokeniser(vocabulary)(text)
    if not ids:
        raise UsageError(f"{text!r:.80} is no token to this tokenizer, and there is nothing to ask")
    return WordRows(
        text, tuple(check_rows(ids, table.rows, f"the {table.role} table {table.name!r}"))
    )


def _vocabulary(table: EmbeddingTable, text: str) -> Vocabulary:
    if table.vocabulary is None:
        why = (
            "a table of positions has no words"
            if table.role == "positions"
            else "no tokenizer lies beside the table"
        )
        raise UsageError(f"{why}, so {text!r:.80} is no row of it; give the row's number with --id")
    return table.vocabulary


def _exactly(vocabulary: Vocabulary, word: str) -> tuple[Spelling, ...]:
    """The token with this display form, or these bytes."""
    row = vocabulary.row_of(word)
    token = None if row is None else vocabulary.token(row)
    if row is not None and token is not None:
        return (Spelling("exact", token.key, (row,)),)
    key = parse(word)
    ids = vocabulary.ids(key)
    return (Spelling("exact", key, ids),) if ids else ()


def _preferred(word: str, found: Sequence[Spelling]) -> list[Spelling]:
    """Those in the case that was written, the one with a space before it first."""
    bare = word.removeprefix(" ").encode("utf-8", errors="surrogatepass")
    return [s for key in (b" " + bare, bare) for s in found if s.key == key]


def _no_token(
    table: EmbeddingTable,
    vocabulary: Vocabulary,
    word: str,
    found: Sequence[Spelling],
    *,
    exact: bool,
) -> str:
    """The message for a word that is no single token."""
    if exact:
        return (
            f"no token is exactly {word!r:.80}; ␣ stands for a space and <0x0A> for a byte, as in "
            "what is printed"
        )
    ids = tokeniser(vocabulary)(word)
    pieces = " ".join(table.label(i) if i < table.rows else f"<id {i}>" for i in ids[:_SHOWN])
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    others = ", ".join(display(s.key) for s in found)
    other = f"; spellings that are one: {others}" if others else ""
    return (
        f"{word!r:.80} is no single token; it is cut into {pieces}{more}{other}. "
        "Ask for the mean of its tokens with --text"
    )


_LOADING_ERRORS = (OSError, ValueError, LookupError, RuntimeError, TypeError, AttributeError)


def tokeniser(vocabulary: Vocabulary) -> Callable[[str], list[int]]:
    """Text to ids, no special tokens added.

    Raises MissingPartError for a package that is missing, ModelFileError for a tokenizer that
    cannot be brought up.
    """
    path = Path(vocabulary.source)
    if path.name == "tokenizer.json":
        tokenizers: Any = package("tokenizers")
        try:
            backend = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except Exception as error:  # the library raises a bare Exception
            raise _unusable(path, error) from error
        return lambda text: list(backend.encode(text, add_special_tokens=False).ids)
    transformers: Any = package("transformers")
    place: dict[str, object] = {"local_files_only": True, "trust_remote_code": False}
    if path.suffix.lower() == ".gguf":
        place["gguf_file"] = path.name
    try:
        made = transformers.AutoTokenizer.from_pretrained(path.parent, **place)
    except _LOADING_ERRORS as error:
        raise _unusable(path, error) from error
    return lambda text: list(made.encode(text, add_special_tokens=False))


def _unusable(path: Path, error: Exception) -> ModelFileError:
    said = " ".join(str(error).split())[:200] or type(error).__name__
    return ModelFileError(f"the tokenizer in {path} cannot be brought up: {said}")


def package(name: str) -> Any:
    """A package of tokenizers, imported. Raises MissingPartError."""
    if importlib.util.find_spec(name) is None:
        raise MissingPartError(
            f"cutting a text into tokens needs {name}, which is not installed: "
            'pip install "ropewalk[prove]"'
        )
    return importlib.import_module(name)
