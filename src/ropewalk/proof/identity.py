"""What makes a run this run, and where its answers go: facts, hashes, the run folder's name."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path
from tempfile import TemporaryDirectory

from ropewalk.errors import StoreError
from ropewalk.proof.cells import Prompt, Sharing
from ropewalk.proof.lock import FolderLock
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.store import IDENTITY
from ropewalk.proof.tasks.own import OwnDocuments

RECIPE = 5
"""Raised when the layout of prompts changes: answers to older prompts are then another run's."""


def settings_facts(
    settings: ProofSettings,
    sentences: tuple[str, ...] | None,
    own: OwnDocuments | None,
    *,
    chat: bool,
    salted: bool = False,
) -> dict[str, str]:
    """What the store keeps of the settings beside the answers, whoever is asked.

    Texts of the user's are known by content: the same by another path are the same.
    """
    recipe = f"{RECIPE}, distractors {settings.distractors}"
    if chat:
        recipe += f", answer tokens {settings.answer_tokens}"
    if salted:
        recipe += ", salted"
    if settings.all_tasks != ("single",):
        recipe += f", tasks {' + '.join(settings.all_tasks)}"
    if own is not None:
        # Field by field: a repr is for readers, and leaves out what is long.
        asked = [astuple(question) for question in own.questions]
        recipe += f", own questions {_digest(repr((sorted(own.documents.items()), asked)))}"
    until = settings.until_certain
    return {
        "seed": str(settings.seed),
        "haystack": (
            "generated" if sentences is None else f"own text {_digest(chr(10).join(sentences))}"
        ),
        "recipe": recipe,
        "command": settings.command,
        "date": time.strftime("%Y-%m-%d"),
        **({} if until is None else {"until_certain": str(until.most_trials)}),
    }


def sharing_facts(
    sharing: Sharing, lengths: Sequence[int], depths: Sequence[float]
) -> dict[str, str]:
    """What prompts share, and what the document that they share is laid out over.

    A nested document holds a fact for every depth (a share) of every length (tokens), so that all
    of them decide each of its prompts. Other prompts depend on their own cell alone.
    """
    document = "none"
    if sharing is Sharing.NESTED:
        tokens, percents = ", ".join(map(str, lengths)), ", ".join(map(_percent, depths))
        document = f"{tokens} tokens at {percents} %"
    return {"sharing": sharing.value, "document": document}


def identity(facts: dict[str, str]) -> str:
    """What makes a run this run, as one text."""
    return "|".join(facts[name] for name in IDENTITY)


def hash_by(facts: dict[str, str]) -> Callable[[Prompt], str]:
    """Hashes model, schedule, tokenizer and everything else of IDENTITY with the prompt."""
    start = identity(facts)

    def hash_of(prompt: Prompt) -> str:
        ids = ",".join(map(str, (*prompt.token_ids, -1, *prompt.value_ids)))
        return hashlib.sha256(f"{start}|{ids}".encode()).hexdigest()

    return hash_of


def folder_name(title: str, facts: dict[str, str]) -> str:
    """The same settings lead to the same folder, so that the same command goes on."""
    digest = hashlib.sha256(identity(facts).encode()).hexdigest()
    words = re.sub(r"[^A-Za-z0-9.]+", "-", title).strip("-")
    return f"{words or 'served'}-{digest[:8]}"


def try_folder(folder: Path) -> None:
    """Refuse, while it is cheap, a folder that cannot be written or that another run holds.

    Nothing is held or left here: the store takes the folder for good once it knows which run
    this is.
    """
    try:
        if folder.is_dir():
            FolderLock.take(folder).release()
            return
        above = next(parent for parent in folder.absolute().parents if parent.exists())
        with TemporaryDirectory(prefix=".ropewalk-", dir=above):
            pass
    except OSError as error:
        raise StoreError(
            f"cannot make the run folder {folder} ({error.strerror}); choose another --out folder"
        ) from error
    if folder.exists():
        raise StoreError(f"the run folder {folder} is a file; choose another --out folder")


def _percent(depth: float) -> str:
    """A share as a percentage: short where that is exact."""
    short = f"{100 * depth:g}"
    return short if float(short) / 100 == depth else repr(100 * depth)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
