"""Questions about the user's own documents: one document holds the answer, the rest are the text.

The questions are a JSONL file: one object a line with "question" and "answer", and "document",
the file's path below the folder, where more than one document or none has the answer in it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ropewalk.errors import UsageError
from ropewalk.proof.classify import gives_away, normalise
from ropewalk.proof.haystack import read_sentences
from ropewalk.proof.needles import Hidden, Problem
from ropewalk.short import short

SUFFIXES = (".txt", ".md")


@short
@dataclass(frozen=True, slots=True)
class OwnQuestion:
    """A question, its answer, and the document that holds it."""

    question: str
    answer: str
    document: str


@short
@dataclass(frozen=True, slots=True)
class OwnDocuments:
    """Asks about `documents`, sentences by path, one of `questions` a prompt.

    The document with the answer is laid at the cell's depth, whole; sentences of the others are
    the haystack, but for those that hold the answer too.
    """

    documents: dict[str, tuple[str, ...]]
    questions: tuple[OwnQuestion, ...]
    name: str = "documents"
    introduction: str = "Some documents follow. A question about one of them will be asked."
    chance: float = 0.0
    """Not known: an answer may be guessed from what the model knows; the control without the
    document tells."""

    def draw(self, random: Random, _depth: float, _length: int, /) -> Problem:
        """A question at random."""
        asked = random.choice(self.questions)
        text = " ".join(self.documents[asked.document])
        others = tuple(
            sentence
            for path, sentences in self.documents.items()
            if path != asked.document
            for sentence in sentences
            if not gives_away(sentence, (asked.answer,))
        )
        return Problem(
            hidden=(Hidden(text),),
            question=asked.question,
            opening="The answer is",
            values=(asked.answer,),
            key=asked.document,
            noun="answer",
            sentences=others,
        )


def read_own(folder: Path, questions: Path) -> OwnDocuments:
    """The task of a folder of .txt and .md files and a JSONL file of questions.

    Raises UsageError, with file and line, for what cannot be read or asked.
    """
    if not folder.is_dir():
        raise UsageError(f"--documents {folder} is no folder; name one with .txt or .md files")
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    if len(files) < 2:
        raise UsageError(
            f"--documents {folder} holds {len(files)} .txt or .md files; one has the answer and "
            "others are the text around it, so at least 2 are needed"
        )
    documents = {file.relative_to(folder).as_posix(): read_sentences(file) for file in files}
    try:
        lines = questions.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"--questions {questions} cannot be read ({error})") from error
    asked = tuple(
        _question(line, f"{questions}, line {number}", documents)
        for number, line in enumerate(lines, 1)
        if line.strip()
    )
    if not asked:
        raise UsageError(f"--questions {questions} holds no question")
    return OwnDocuments(documents, asked)


def _question(line: str, where: str, documents: dict[str, tuple[str, ...]]) -> OwnQuestion:
    try:
        given = json.loads(line)
    except ValueError as error:
        raise UsageError(f"{where} is not JSON ({error})") from error
    if not isinstance(given, dict):
        raise UsageError(f"{where} is no object with question and answer")
    for name in ("question", "answer"):
        if not isinstance(given.get(name), str) or not given[name].strip():
            raise UsageError(f'{where} has no text for "{name}"')
    question, answer = given["question"].strip(), given["answer"].strip()
    if ", " in answer:
        raise UsageError(f'{where}: an answer with ", " would be read as a list; shorten it')
    if not normalise(answer):
        raise UsageError(f"{where}: the answer {answer!r} is only signs that are not compared")
    holding = [
        path for path, sentences in documents.items() if gives_away(" ".join(sentences), (answer,))
    ]
    # "Line 7" would do for an answer of "seven", and is not where the user has it from.
    spelt = [p for p in holding if answer.casefold() in " ".join(documents[p]).casefold()]
    holding = spelt if len(spelt) == 1 else holding
    named = given.get("document")
    if named is None:
        if len(holding) != 1:
            found = f"{len(holding)} documents hold" if holding else "no document holds"
            raise UsageError(f'{where}: {found} the answer {answer!r}; say which by "document"')
        named = holding[0]
    if named not in documents:
        raise UsageError(
            f"{where}: there is no document {named!r}; paths are those below the folder"
        )
    return OwnQuestion(question, answer, str(named))
