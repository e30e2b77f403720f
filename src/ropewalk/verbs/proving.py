"""`prove`: what a model finds at every length and depth, from its options to a finished proof."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ropewalk.errors import UsageError
from ropewalk.files import check_can_hold
from ropewalk.listener import Listener
from ropewalk.verbs.taken import (
    LiveModel,
    Named,
    Several,
    Tokens,
    depths_of,
    listed,
    named,
    path,
    seconds,
    tokens,
)

if TYPE_CHECKING:
    from ropewalk.proof.endpoint.subject import EndpointSettings
    from ropewalk.proof.proof import Proof
    from ropewalk.proof.settings import UntilCertain

DeviceMap = str | Mapping[str, str | int]
_Choice = TypeVar("_Choice", bound=StrEnum)

DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""What accelerate calls its own ways to spread a model."""


def prove(
    model: Named | LiveModel, *, lengths: Several | None = None, depths: Several = "5",
    trials: int | None = None, threshold: str | float = "0.85", until_certain: bool = False,
    most_trials: int | None = None, task: Several | None = None,
    suite: Literal["quick", "standard", "full"] | None = None, documents: Named | None = None,
    questions: Named | None = None, rope: str | None = None, haystack: Named | None = None,
    distractors: int = 0, chat: bool = False, answer_tokens: Tokens = "24", seed: int = 0,
    controls: int = 1, minutes: float | None = None, device: str = "auto",
    device_map: DeviceMap | None = None, dtype: Literal["auto", "bf16", "fp16", "fp32"] = "auto",
    sharing: Literal["none", "prefix", "nested"] | None = None,
    calibrate: Literal["off", "short", "full"] | None = None, price: float | None = None,
    dry_run: bool = False, base_url: str | Iterable[str] | None = None, api: str = "auto",
    tokenizer: Any = None, concurrency: int | None = None,
    requests_per_minute: float | None = None, tokens_per_minute: float | None = None,
    timeout: float = 600.0, salt: bool = False, out: Named | None = None,
    listener: Listener | None = None, command: str = "",
) -> Proof:  # fmt: skip
    """Needle in a haystack with intervals: hide facts at every length and depth, ask, and count.

    `model`: a folder, a .gguf file, a hub id, a known name, or "openai:NAME" for a model at a
    server; or a loaded model of transformers with its `tokenizer`, which is saved into a temporary
    folder and proved from there. `lengths` in tokens, like [512, 1024] or "1k,8k"; `depths` in
    percent, like [0, 50, 100], or how many. Every option is that of `ropewalk prove -h`, where it
    is explained. The same call goes on with what is kept in its run folder, `out`.

    Returns a `Proof`: hits with intervals by length and depth, the effective length, every answer.

    Raises LengthError and UsageError for what cannot be asked, StoreError for a run folder that
    cannot be used, EndpointError for a server, and DryRun where no more was asked for.

    >>> ropewalk.prove("tiny", lengths=[128, 256], trials=2).summary.effective
    """
    from ropewalk.proof import prove as room
    from ropewalk.proof.calibration import Calibrate
    from ropewalk.proof.cells import Sharing

    with _on_disk(model, tokenizer) as (name, counts):
        settings = room.ProofSettings(
            name, _lengths(lengths), depths_of(depths), trials, _threshold(threshold), rope,
            path(haystack), seed, device, dtype, chat, tokens(answer_tokens, "--answer-tokens"),
            distractors, controls, path(out), seconds(minutes), command,
            _endpoint(name, base_url, api, counts, concurrency, requests_per_minute,
                      tokens_per_minute, timeout, salt),
            _one_of(Sharing, sharing, "--sharing"), _one_of(Calibrate, calibrate, "--calibrate"),
            price, dry_run, _tasks(task, suite, documents), path(documents), path(questions),
            _until(until_certain, most_trials), _device_map(device_map),
        )  # fmt: skip
        check_can_hold(settings.out or room.RUNS, "--out")
        return room.prove(settings, _told(listener))


@contextmanager
def _on_disk(model: Named | LiveModel, tokenizer: Any) -> Iterator[tuple[str, str | None]]:
    """The model's name or path, and the tokenizer that counts for a server.

    A loaded model is saved for as long as it is proved.
    """
    if isinstance(model, str | os.PathLike):
        if tokenizer is not None and not isinstance(tokenizer, str | os.PathLike):
            raise UsageError(
                f"tokenizer is a {type(tokenizer).__name__}, and {os.fspath(model)} has its own: "
                "give one with a loaded model alone, or the name of one for a model at a server"
            )
        yield os.fspath(model), None if tokenizer is None else os.fspath(tokenizer)
        return
    if not (hasattr(model, "save_pretrained") and hasattr(tokenizer, "save_pretrained")):
        named(model, "prove, without a loaded model of transformers and its tokenizer=,")
    title = Path(str(getattr(model.config, "_name_or_path", "") or type(model).__name__)).name
    with TemporaryDirectory(prefix="ropewalk-") as folder:
        place = Path(folder) / (title or "model")
        for part in (model, tokenizer):
            saved: Any = part
            saved.save_pretrained(place)
        yield str(place), None


def _told(listener: Listener | None) -> Any:
    """The listener as a proof has it."""
    from ropewalk.proof.proof import ProofListener

    tell = listener or Listener()
    return ProofListener(tell.say, tell.share, tell.planned, tell.note, tell.event)


def _lengths(given: Several | None) -> tuple[int, ...]:
    from ropewalk.proof.plan import parse_lengths

    words = listed(given)
    return () if words is None else parse_lengths(words)


def _threshold(given: str | float) -> Any:
    from ropewalk.proof.statistics import parse_threshold

    return parse_threshold(str(given))


def _until(until_certain: bool, most_trials: int | None) -> UntilCertain | None:
    from ropewalk.proof.settings import MOST_TRIALS, UntilCertain

    if until_certain:
        return UntilCertain(MOST_TRIALS if most_trials is None else most_trials)
    if most_trials is not None:
        raise UsageError("--most-trials goes with --until-certain")
    return None


def _tasks(task: Several | None, suite: str | None, documents: Named | None) -> tuple[str, ...]:
    from ropewalk.proof.tasks.suite import parse_tasks
    from ropewalk.proof.tasks.suite import suite as suite_of

    words = listed(task)
    if words is not None and suite is not None:
        raise UsageError("--task and --suite both say what to ask: give one of them")
    if words is not None:
        return parse_tasks(words)
    if suite is not None:
        return suite_of(suite)
    # Own documents alone, where nothing else was asked for; else what the model's files name.
    return () if documents is None else ("documents",)


def _one_of(kind: type[_Choice], text: str | None, option: str) -> _Choice | None:
    """The member of an enumeration that a user names. Raises UsageError for any other name."""
    try:
        return None if text is None else kind(text)
    except ValueError:
        known = ", ".join(kind)
        raise UsageError(f"{option} {text!r} is not known; choose one of {known}") from None


def _device_map(given: DeviceMap | None) -> str | dict[str, str | int] | None:
    """What accelerate takes: one of its words, or modules with their devices. Raises UsageError."""
    if given is None or (isinstance(given, str) and given in DEVICE_MAPS):
        return given
    spread: object = given
    if isinstance(given, str):
        try:
            spread = json.loads(given)
        except ValueError:
            spread = None
    if not isinstance(spread, Mapping) or not spread:
        raise UsageError(
            f"--device-map {given!r} is not understood: write one of {', '.join(DEVICE_MAPS)}, or "
            'a JSON object of modules and devices, like {"": "cpu"}'
        )
    for module, device in spread.items():
        if isinstance(device, bool) or not isinstance(device, str | int):
            raise UsageError(
                f"--device-map puts {module!r} on {device!r}: a device is a number or a name"
            )
    return dict(spread)


def _endpoint(
    model: str, base_url: str | Iterable[str] | None, api: str, tokenizer: str | None,
    concurrency: int | None, requests: float | None, tokens_per_minute: float | None,
    timeout: float, salt: bool,
) -> EndpointSettings | None:  # fmt: skip
    """How servers are to be asked; None for a model that is run here.

    Without --base-url the address is OPENAI_BASE_URL's, as for every program with OpenAI's
    client. Raises UsageError for what cannot be, and for manners where there is no server.
    """
    from ropewalk.proof.endpoint.subject import PREFIX, EndpointSettings

    manners: dict[str, Any] = {
        "api": api, "tokenizer": tokenizer, "concurrency": concurrency,
        "requests_per_minute": requests, "tokens_per_minute": tokens_per_minute,
        "timeout": timeout, "salt": salt,
    }  # fmt: skip
    urls = [base_url] if isinstance(base_url, str) else list(map(str, base_url or ()))
    if model.startswith(PREFIX):
        given = tuple(urls or filter(None, [os.environ.get("OPENAI_BASE_URL")]))
        return EndpointSettings(given, **manners)
    usual = EndpointSettings(("http://localhost/v1",))
    changed = [name for name, value in manners.items() if value != getattr(usual, name)]
    for name in ["base_url"] * bool(urls) + changed:
        option = name.replace("_", "-")
        raise UsageError(f"--{option} goes with a model at a server, like {PREFIX}NAME")
    return None
