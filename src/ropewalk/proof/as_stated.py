"""How a model's own files ask for it to be proved, where the user does not say.

A model that was trained on one kind of question says little when it is asked another. So a
`config.json` may hold an object `ropewalk_prove` with any of

    tasks    what the model was trained to find: names of `ropewalk.proof.tasks.suite`
    sharing  what its prompts were like: "none", "prefix" (a needle of its own for each prompt) or
             "nested" (many facts in a document)
    lengths  the lengths to ask, tokens

No engine reads it, and transformers keeps it. What a user names always goes before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ropewalk.errors import UsageError
from ropewalk.models.resolve import ModelFiles
from ropewalk.proof.calibration import Calibrate
from ropewalk.proof.cells import Sharing
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.tasks.suite import parse_tasks
from ropewalk.short import short

KEY = "ropewalk_prove"
_SHARED = {
    Sharing.NONE: "one pass key per prompt",
    Sharing.PREFIX: "one pass key per prompt",
    Sharing.NESTED: "many facts in one document",
}


@short
@dataclass(frozen=True, slots=True)
class Stated:
    """What the files say; empty or None for what they do not."""

    tasks: tuple[str, ...] = ()
    sharing: Sharing | None = None
    lengths: tuple[int, ...] = ()


def stated(files: ModelFiles) -> Stated | None:
    """What a model's configuration says of its proof; None where it says nothing.

    Raises UsageError for what cannot be meant, ConfigError for a file that cannot be read.
    """
    if files.kind == "gguf" or not files.config_path.is_file():
        return None
    found = files.config.get(KEY)
    if found is None:
        return None
    wrong = UsageError(
        f"{files.config_path} holds {KEY}, which says how to prove the model, and it cannot be "
        'read: it is an object like {"tasks": ["single"], "sharing": "prefix", "lengths": [256]}; '
        "correct it or take it out"
    )
    if not isinstance(found, Mapping):
        raise wrong
    tasks, lengths = found.get("tasks", []), found.get("lengths", [])
    if not _all(tasks, str) or not _all(lengths, int) or any(each < 1 for each in lengths):
        raise wrong
    try:
        sharing = None if found.get("sharing") is None else Sharing(found["sharing"])
        names = parse_tasks(",".join(tasks)) if tasks else ()
    except (ValueError, UsageError):
        raise wrong from None
    return Stated(names, sharing, tuple(lengths))


def as_stated(settings: ProofSettings, files: ModelFiles) -> tuple[ProofSettings, tuple[str, ...]]:
    """The settings with what the user left open filled in from the files, and what to say of it.

    Raises as `stated`.
    """
    found = stated(files)
    if found is None:
        return settings, ()
    filled, taken = settings, []
    if found.tasks and not settings.tasks and settings.documents is None:
        filled = replace(filled, tasks=found.tasks)
        taken.append(_named(found.tasks))
    known = not found.tasks or set(filled.all_tasks) <= set(found.tasks)
    calibrated = settings.calibrate not in (None, Calibrate.OFF)
    if found.sharing is not None and settings.sharing is None and known and not calibrated:
        nested = found.sharing is Sharing.NESTED
        if not (nested and filled.not_nested()):
            filled = replace(filled, sharing=found.sharing)
            taken.append(_SHARED[found.sharing])
    if found.lengths and not settings.lengths:
        filled = replace(filled, lengths=found.lengths)
    said = []
    # What would have been asked anyway is nothing to tell.
    if taken and (filled.all_tasks, filled.sharing) != (settings.all_tasks, settings.sharing):
        said.append(
            f"asked what its files ({KEY}) say that it was trained on: {', '.join(taken)}; --task "
            "and --sharing ask otherwise"
        )
    if filled.lengths != settings.lengths:
        lengths = _listed([f"{each:,}" for each in found.lengths])
        said.append(f"asked at the lengths that its files name: {lengths}; --lengths names others")
    if unknown := _unknown(filled, found):
        said.append(f"by its files ({KEY}) the model was not trained on {unknown}")
    return filled, tuple(said)


def _unknown(settings: ProofSettings, found: Stated) -> str:
    """What is asked that the files do not name as trained."""
    parts = []
    others = [name for name in settings.all_tasks if name not in found.tasks]
    if found.tasks and others:
        parts.append(_named(others))
    if found.sharing in (Sharing.NONE, Sharing.PREFIX) and settings.sharing is Sharing.NESTED:
        parts.append("documents with many facts, as --sharing nested asks them")
    return " and ".join(parts)


def _named(tasks: Sequence[str]) -> str:
    return f"the task{'s' * (len(tasks) > 1)} {_listed(tasks)}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), words[-1]])


def _all(values: object, kind: type) -> bool:
    return isinstance(values, list) and all(
        isinstance(each, kind) and not isinstance(each, bool) for each in values
    )
