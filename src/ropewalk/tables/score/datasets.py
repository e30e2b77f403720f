"""The benchmarks: read from an installed gensim, which packs them, or from a file.

None of them comes with this package. WordSim-353 (Finkelstein et al., "Placing search in context",
WWW 2001) judges relatedness from 0 to 10, SimLex-999 (Hill, Reichart and Korhonen, Computational
Linguistics 41, 2015) likeness alone; the Google analogies are of Mikolov et al., "Efficient
estimation of word representations in vector space", 2013, section 4.1.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ropewalk.errors import MissingPartError, ModelFileError
from ropewalk.short import short

PACKED = {
    "wordsim353": "wordsim353.tsv",
    "simlex999": "simlex999.txt",
    "analogies": "questions-words.txt",
}
"""The names that are known, and gensim's files of them."""


@short
@dataclass(frozen=True, slots=True)
class JudgedPair:
    """Two words and what people said of them."""

    one: str
    other: str
    judged: float


@short
@dataclass(frozen=True, slots=True)
class PairSet:
    """Judged pairs, in the file's order."""

    name: str
    source: str
    pairs: tuple[JudgedPair, ...]


@short
@dataclass(frozen=True, slots=True)
class AnalogyQuestion:
    """`a` is to `b` as `c` is to `expected`."""

    section: str
    a: str
    b: str
    c: str
    expected: str


@short
@dataclass(frozen=True, slots=True)
class AnalogySet:
    """Questions, in the file's order; those of a section stand together."""

    name: str
    source: str
    questions: tuple[AnalogyQuestion, ...]


def packed_file(name: str) -> Path:
    """The file of a known benchmark inside an installed gensim, which is not imported.

    Raises MissingPartError that says what to install or to give instead.
    """
    option = "--analogies FILE" if name == "analogies" else "--pairs FILE"
    found = importlib.util.find_spec("gensim")
    if found is not None and found.submodule_search_locations:
        path = Path(found.submodule_search_locations[0]) / "test" / "test_data" / PACKED[name]
        if path.is_file():
            return path
    raise MissingPartError(
        f"{name} is read from the package gensim, which is not installed or came without its test "
        f"data: pip install gensim, or give the file itself with {option}"
    )


def read_pairs(path: Path, name: str | None = None) -> PairSet:
    """A file of word, word and a number on each line, apart by tabs, commas or spaces.

    Lines that begin with # and empty ones are skipped. Raises ModelFileError for a file that
    cannot be read or holds no pair, and for a line that is none, with its number.
    """
    pairs = tuple(_pair(path, number, line) for number, line in _lines(path))
    if not pairs:
        raise ModelFileError(f"{path} holds no pair; a line is: word, word, number")
    return PairSet(name or path.stem, str(path), pairs)


def read_analogies(path: Path, name: str | None = None) -> AnalogySet:
    """A file of four words on each line, under lines `: section`.

    Raises ModelFileError for a file that cannot be read or holds no question, for a question
    before the first section, and for a line that is none, with its number.
    """
    questions = []
    section = None
    for number, line in _lines(path):
        if line.startswith(":"):
            section = line.removeprefix(":").strip()
            continue
        words = line.split()
        if len(words) != 4:
            raise ModelFileError(
                f"{path}, line {number}: {line!r:.80} has {len(words)} words; a question has four"
            )
        if section is None:
            raise ModelFileError(
                f"{path}, line {number}: {line!r:.80} stands before the first `: section`"
            )
        questions.append(AnalogyQuestion(section, *words))
    if not questions:
        raise ModelFileError(f"{path} holds no question; a line is four words, under `: section`")
    return AnalogySet(name or path.stem, str(path), tuple(questions))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{path} is not UTF-8 text: {error}") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line.strip("\r")


def _pair(path: Path, number: int, line: str) -> JudgedPair:
    mark = next((m for m in "\t,;" if m in line), None)
    fields = [field.strip() for field in line.split(mark)]
    if len(fields) == 3 and all(fields):
        try:
            judged = float(fields[2])
        except ValueError:
            judged = math.nan
        if math.isfinite(judged):
            return JudgedPair(fields[0], fields[1], judged)
    raise ModelFileError(
        f"{path}, line {number}: {line!r:.80} is no pair; a line is word, word and a number, apart "
        "by tabs, commas or spaces (a comment begins with #)"
    )
