"""A whole measurement of loss by position, from a model's name to its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ropewalk.errors import LengthError, UsageError
from ropewalk.proof.haystack import GeneratedHaystack
from ropewalk.proof.loss_by_position import (
    ContextGain,
    Copy,
    Evaluation,
    Reader,
    Shift,
    check_stride,
    context_gain,
    copy_probe,
    evaluate,
    most_stride,
    shift_probe,
    whole,
)
from ropewalk.proof.tokens import Tokens
from ropewalk.rope.spec import AlibiSpec, NoPositionSpec, PositionSpec, Recurrent, RotarySpec
from ropewalk.short import short
from ropewalk.shown import Shown

PASSAGE = 64
"""Tokens of the passage that is copied, and of the one that is shifted."""
FIRST_DISTANCE = 128


@short
@dataclass(frozen=True, slots=True)
class LossSettings:
    """What to read and how. `text` names a UTF-8 file, None for generated text.

    `length` tokens are read, `window` and `stride` are those of the sliding evaluation. What the
    tokenizer puts before a text counts among the tokens of both length and window.
    """

    model: str
    text: Path | None = None
    length: int = 2048
    window: int = 512
    stride: int = 256
    seed: int = 0
    device: str = "auto"
    dtype: str = "auto"


@short
@dataclass(frozen=True, slots=True)
class LossReport(Shown):
    """All that was measured. `evaluations`: full, sliding, non-overlapping.

    `tokens` counts the opening, which begins whatever is read: `opening` is the text of each of
    its tokens, none where the tokenizer puts nothing before a text.
    `shifts` is empty where the model cannot be told at which position a text begins, or where
    positions are not relative; `notes` say so.
    """

    name: str
    text: str
    tokens: int
    opening: tuple[str, ...]
    claimed: int | None
    evaluations: tuple[Evaluation, ...]
    gain: ContextGain | None
    copies: tuple[Copy, ...]
    shifts: tuple[Shift, ...]
    notes: tuple[str, ...]


def measure(settings: LossSettings, say: Callable[[str], None] = lambda _: None) -> LossReport:
    """Load a model and measure. Raises an error of `ropewalk.errors`."""
    from ropewalk.models.load import check_device, load
    from ropewalk.models.resolve import read_spec, resolve
    from ropewalk.models.rotary_tables import install

    _check(settings)
    files = resolve(settings.model)
    spec = read_spec(files)
    written = None if settings.text is None else read_text(settings.text)
    say("loading torch and transformers")
    device, dtype = check_device(settings.device, settings.dtype, files)
    loaded = load(files, device=device, dtype=dtype, say=say)
    tokens = Tokens(loaded.tokenizer, loaded.rows)
    opening = tokens.opening
    check_stride(settings.window, settings.stride, len(opening))
    ids = _ids(tokens, settings, written)
    reader = Reader(
        loaded.model, lambda length: install(loaded.model, spec, length), opening=opening
    )
    say(f"reading {settings.length:,} tokens at once")
    full = whole(reader, ids)
    say(f"reading windows of {settings.window:,} tokens")
    sliding = evaluate(reader, ids, "sliding", settings.window, settings.stride)
    apart = settings.window, most_stride(settings.window, len(opening))
    cut = evaluate(reader, ids, "non-overlapping", *apart)
    say("reading a passage again at growing distance")
    passage = generated(tokens, PASSAGE, f"{settings.seed}/passage")
    copies = copy_probe(reader, passage, ids, _doubling(FIRST_DISTANCE, settings.length))
    shifts, notes = _shifts(reader, passage, settings.length, relative=_relative(spec))
    return LossReport(
        name=files.title,
        text="generated" if settings.text is None else str(settings.text),
        tokens=settings.length,
        opening=tuple(tokens.pieces(opening)),
        claimed=spec.claimed.tokens,
        evaluations=(full, sliding, cut),
        gain=context_gain(full, sliding),
        copies=copies,
        shifts=shifts,
        notes=notes,
    )


def read_text(path: Path) -> str:
    """The user's file. Raises UsageError when it cannot be read as UTF-8 text."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; name a text file") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8, or name another"
        ) from error


def generated(tokens: Tokens, count: int, seed: str) -> list[int]:
    """`count` ids of text from the haystack's grammar, the same for the same seed.

    Without what the tokenizer puts before a text.
    """
    sentences = GeneratedHaystack(Random(seed)).sentences()
    text, ids = "", list[int]()
    while len(ids) < count:
        # Twice as long each time: the whole is tokenised as one text, and seldom.
        wanted = max(2 * len(text), 8 * count)
        while len(text) < wanted:
            text += f"{next(sentences)} "
        ids = tokens.encode(text, special=False)
    return ids[:count]


def _ids(tokens: Tokens, settings: LossSettings, written: str | None) -> list[int]:
    """The text's own ids: as many as leave room for what the tokenizer puts before them."""
    held = len(tokens.opening)
    if written is None:
        return generated(tokens, settings.length - held, f"{settings.seed}/loss")
    ids = tokens.encode(written, special=False, where=str(settings.text))
    if held + len(ids) < settings.length:
        raise LengthError(
            f"{settings.text} has {held + len(ids):,} tokens, and --length asks for "
            f"{settings.length:,}; say --length {held + len(ids)}, or name a longer text"
        )
    return ids[: settings.length - held]


def _shifts(
    reader: Reader, passage: list[int], length: int, *, relative: bool
) -> tuple[tuple[Shift, ...], tuple[str, ...]]:
    if not relative:
        return (), ("No shifted passage: this model's positions are not relative alone.",)
    if not reader.takes_positions:
        return (), ("No shifted passage: this model cannot be told where a text begins.",)
    size = len(reader.opening) + len(passage)
    offsets = (0, *(n - size for n in _doubling(2 * FIRST_DISTANCE, length)))
    return shift_probe(reader, passage, offsets), ()


def _relative(spec: PositionSpec) -> bool:
    """Whether scores depend on differences of position alone: rotary layers, or none at all."""
    kinds = (RotarySpec, AlibiSpec, NoPositionSpec, Recurrent)
    rotary = any(isinstance(group.encoding, RotarySpec) for group in spec.groups)
    return rotary and all(isinstance(group.encoding, kinds) for group in spec.groups)


def _doubling(first: int, last: int) -> tuple[int, ...]:
    """first, twice that, and so on below `last`, and `last`."""
    steps = []
    while first < last:
        steps.append(first)
        first *= 2
    return (*steps, last)


def _check(settings: LossSettings) -> None:
    if settings.length < 2 * PASSAGE:
        raise LengthError(
            f"a length of {settings.length} tokens is too short: at least {2 * PASSAGE} are needed"
        )
    if not 2 <= settings.window <= settings.length:
        raise LengthError(
            f"a window of {settings.window} tokens is impossible with a length of "
            f"{settings.length}: 2 to {settings.length} can be"
        )
    if not 1 <= settings.stride < settings.window:
        raise LengthError(
            f"a stride of {settings.stride} with a window of {settings.window} tokens is "
            "impossible: the stride is at least 1 and below the window"
        )
