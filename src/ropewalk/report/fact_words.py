"""The facts of a run as a reader wants them: few, named plainly, in a fixed order.

The store and the JSON document keep every fact as it is. Here hashes stand beside the names they
belong to, what the result shows already is left out, and facts that are not known here pass.
"""

from __future__ import annotations

from collections.abc import Mapping

_SHOWN_ELSEWHERE = frozenset(
    "lengths depths trials controls tasks grown document threshold claimed claimed_source trained "
    "trained_source tokenizer predicted left_out".split()
)
_MERGED = frozenset("name model rope schedule chat recipe device dtype".split())
_LAST = ("haystack", "seed", "asked", "versions", "date", "command")


def readable_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """Return what to print of `facts`, in order.

    The model with its weights' hash, the schedule with its fingerprint, the kind of prompts with
    the version of their layout, and where it ran; then other facts; then haystack, seed, totals,
    versions, date and the command that repeats it.
    """
    merged = {
        "model": _with(facts.get("name"), "weights", facts.get("model")),
        "schedule": _with(facts.get("rope"), "fingerprint", facts.get("schedule")),
        "prompts": _joined(facts.get("chat"), _layout(facts.get("recipe"))),
        "ran on": _joined(facts.get("device"), facts.get("dtype")),
    }
    known = _SHOWN_ELSEWHERE | _MERGED | set(_LAST)
    other = {name: text for name, text in facts.items() if name not in known}
    last = {name: facts[name] for name in _LAST if name in facts}
    return {name: text for name, text in merged.items() if text} | other | last


def _with(name: str | None, kind: str, digest: str | None) -> str:
    """A name with its digest in brackets, or whichever of them there is."""
    return f"{name} ({kind} {digest})" if name and digest else name or digest or ""


def _joined(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)


def _layout(recipe: str | None) -> str | None:
    return recipe and f"layout {recipe}"
