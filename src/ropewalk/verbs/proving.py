"""`prove`: what a model finds at every length and depth, from its options to a finished proof."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from ropewalk.errors import UsageError
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
    tokens,
)

if TYPE_CHECKING:
    from ropewalk.proof.endpoint.window import ServedWindow
    from ropewalk.proof.prove import Proof

DeviceMap = str | Mapping[str, str | int]


def prove(
    model: Named | LiveModel, *, lengths: Several | None = None, depths: Several = "5",
    trials: int | None = None, threshold: str | float = "0.85", until_certain: bool = False,
    most_trials: int | None = None, task: Several | None = None,
    suite: Literal["quick", "standard", "full"] | None = None, documents: Named | None = None,
    questions: Named | None = None, rope: str | None = None, haystack: Named | None = None,
    distractors: int = 0, chat: bool = False, answer_tokens: Tokens = "24", seed: int = 0,
    controls: int = 1, minutes: float | None = None, device: str = "auto",
    device_map: DeviceMap | None = None, dtype: Literal["auto", "bf16", "fp16", "fp32"] = "auto",
    sharing: Literal["none", "prefix", "branches"] | None = None,
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
    from ropewalk.proof.cells import Calibrate, Sharing
    from ropewalk.proof.endpoint.subject import endpoint_settings
    from ropewalk.proof.settings import ProofSettings, choice_of, parse_device_map

    with _on_disk(model, tokenizer) as (name, counts):
        settings = ProofSettings(
            model=name, lengths=_lengths(lengths), depths=depths_of(depths), trials=trials,
            threshold=_threshold(threshold), until_certain=until_certain, most_trials=most_trials,
            tasks=_tasks(task), suite=suite, documents=path(documents), questions=path(questions),
            rope=rope, haystack=path(haystack), distractors=distractors, chat=chat,
            answer_tokens=tokens(answer_tokens, "--answer-tokens"), seed=seed, controls=controls,
            minutes=minutes, device=device, dtype=dtype,
            device_map=None if device_map is None else parse_device_map(device_map),
            sharing=None if sharing is None else choice_of(Sharing, sharing, "--sharing"),
            calibrate=None if calibrate is None else choice_of(Calibrate, calibrate, "--calibrate"),
            price=price, dry_run=dry_run, out=path(out), command=command,
            endpoint=endpoint_settings(
                name, [base_url] if isinstance(base_url, str) else base_url, api=api,
                tokenizer=counts, concurrency=concurrency,
                requests_per_minute=requests_per_minute, tokens_per_minute=tokens_per_minute,
                timeout=timeout, salt=salt,
            ),
        )  # fmt: skip
        return room.prove(settings, listener)


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


def _lengths(given: Several | None) -> tuple[int, ...]:
    from ropewalk.proof.plan import parse_lengths

    words = listed(given)
    return () if words is None else parse_lengths(words)


def _threshold(given: str | float) -> Any:
    from ropewalk.proof.statistics.verdicts import parse_threshold

    return parse_threshold(str(given))


def _tasks(task: Several | None) -> tuple[str, ...]:
    from ropewalk.proof.tasks import parse_tasks

    words = listed(task)
    return () if words is None else parse_tasks(words)


def window(
    url: str,
    *,
    model: str = "",
    most: Tokens = "128k",
    api: str = "auto",
    tokenizer: str | None = None,
    timeout: float = 600.0,
) -> ServedWindow:
    """How much of a prompt the server at `url` really reads, found with 12 prompts at most.

    `model`: which of its models, where it has several. `most`: tokens of the longest prompt that is
    sent. `tokenizer`: the model or folder whose tokenizer counts its tokens exactly. `timeout` in
    seconds, of one request.

    Returns a `ServedWindow`: the longest prompt that was read whole, what is lost of longer ones,
    whether the server says so, and what its counts count.

    Raises UsageError for an address that is none, EndpointError for a server that cannot be asked.

    >>> ropewalk.window("http://127.0.0.1:8080/v1").sentence  # doctest: +SKIP
    """
    from ropewalk.proof.endpoint.subject import EndpointSettings
    from ropewalk.proof.endpoint.window import find_window

    where = EndpointSettings((url,), api=api, tokenizer=tokenizer, timeout=timeout)
    return find_window(model, where, most=tokens(most, "--most"))
