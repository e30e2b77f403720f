"""What a server is: asked once before a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from ropewalk.errors import EndpointError, UsageError
from ropewalk.proof.endpoint.client import Client, ServerGoneError
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself; None and "" where it does not.

    `window` is the most tokens of prompt and answer, said under the name `window_name`;
    `slots` are llama.cpp's: how many requests it answers at once, each with a cache of its own.
    """

    kind: str = ""
    models: tuple[str, ...] = ()
    window: int | None = None
    window_name: str = ""
    trained: int | None = None
    slots: int | None = None


def look(client: Client, model: str) -> ServerFacts:
    """Ask a server what it is. Raises EndpointError when nothing answers at its address."""
    try:
        listed = client.get("models")
        props = client.get("/props")
    except ServerGoneError as error:
        raise EndpointError(
            f"{error}; start the server, or give its address as --base-url"
        ) from error
    data = listed.get("data") if isinstance(listed, dict) else None
    entries = [each for each in data or [] if isinstance(each, dict)]
    models = tuple(str(each["id"]) for each in entries if each.get("id"))
    mine = next((each for each in entries if each.get("id") == model), {})
    if not mine and len(entries) == 1:
        mine = entries[0]
    props = props if isinstance(props, dict) else {}
    settings, meta = props.get("default_generation_settings"), mine.get("meta")
    slots = _whole(props.get("total_slots"))
    window, name = stated_window(mine)
    if isinstance(settings, dict) and _whole(settings.get("n_ctx")):
        window, name = _whole(settings.get("n_ctx")), "n_ctx"
    return ServerFacts(
        kind="llama.cpp" if slots else str(mine.get("owned_by") or ""),
        models=models,
        window=window,
        window_name=name,
        trained=_whole(meta.get("n_ctx_train")) if isinstance(meta, dict) else None,
        slots=slots,
    )


_SHORTEST = 16
"""Tokens: a number below is no window."""


def stated_window(entry: Mapping[str, Any]) -> tuple[int | None, str]:
    """The window that a model's entry states, and under which name; (None, "") for none.

    Servers have a name each (max_model_len, context_length, context_window, max_context_length,
    loaded_context_length, max_input_tokens), some of them deeper in. Of several the smallest holds.
    """
    found: dict[str, int] = {}
    for name, value in entry.items():
        if isinstance(value, Mapping):
            deeper, under = stated_window(value)
            found |= {} if deeper is None else {under: deeper}
        # inputTokenLimit and input_token_limit alike.
        words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", str(name))}
        length = _whole(value)
        if length is not None and length >= _SHORTEST and _is_window(words):
            found[name] = length
    if not found:
        return None, ""
    least = min(found.values())
    return least, next(name for name, length in found.items() if length == least)


def _is_window(words: Set[str]) -> bool:
    """Whether the words of a name stand for a window; not for what was trained or is answered."""
    if words & {"train", "trained", "output", "completion", "completions", "batch", "image"}:
        return False
    if words & {"context", "ctx"}:
        return bool(words & {"length", "len", "window", "size", "tokens", "limit", "max", "n"})
    return bool(
        (words & {"model", "sequence", "seq", "position"} and words & {"len", "length"})
        or (words & {"input", "prompt"} and words & {"tokens", "token", "length", "len", "limit"})
    )


def choose_model(asked: str, facts: ServerFacts, url: str) -> str:
    """The model's name; where none was asked for, the only one there is."""
    if asked:
        return asked
    if len(facts.models) == 1:
        return facts.models[0]
    known = ", ".join(facts.models[:8]) or "no model"
    raise UsageError(f"say which model of {url}, like openai:NAME; it lists {known}")


def _whole(value: object) -> int | None:
    right = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if right and isinstance(value, int) else None
