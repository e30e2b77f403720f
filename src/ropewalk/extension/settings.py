"""What an extension is asked for, and what of it cannot be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.dialects.gguf.weights import Numbers
from ropewalk.errors import LengthError, UsageError
from ropewalk.extension.methods import CLOSED_FORMS, NAMES, Method, Stretch
from ropewalk.models.resolve import ModelFiles
from ropewalk.rope.schedules import SEARCH, LargerBase, LongRope
from ropewalk.short import short

if TYPE_CHECKING:
    from ropewalk.extension.checkpoint import Place
    from ropewalk.extension.serve import For

AUTO = "auto"
METHODS = (*NAMES, AUTO, SEARCH)
_LONGROPE = str(LongRope.spelled.method)
_BASE = str(LargerBase.spelled.method)
DEFAULT_DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
DEFAULT_TRIALS = 2
_MOST_FACTOR = 10_000
_MOST_HEADROOM = 16


@short
@dataclass(frozen=True, slots=True)
class ExtendSettings:
    """What to extend, how far, how, and where to. Lengths in tokens, depths as shares.

    `engine` is whom it is made for: schedules that it cannot serve are left out or refused.
    `factors` names a JSON list of divisors for longrope, `rope_theta` that of base. The schedule is
    made for `headroom` times the target; None: auto and search choose, and the others take 1.
    `lengths` are
    where auto and search ask (the target where empty), `trials` documents of each. `tries` bounds
    a search; `seconds` everything measured. `work` keeps answers, `text` is a file of short text.
    """

    model: str
    target: int
    method: str = AUTO
    engine: For | None = None
    factors: Path | None = None
    rope_theta: float | None = None
    headroom: float | None = None
    lengths: tuple[int, ...] = ()
    depths: tuple[float, ...] = DEFAULT_DEPTHS
    trials: int = DEFAULT_TRIALS
    tries: int | None = None
    seconds: float | None = None
    seed: int = 0
    text: Path | None = None
    out: Path | None = None
    place: Place = "link"
    numbers: Numbers | None = None
    force: bool = False
    work: Path | None = None
    device: str = "auto"
    dtype: str = "auto"
    command: str = ""


def check_settings(settings: ExtendSettings, files: ModelFiles) -> None:
    """Refuse what cannot be, before anything is loaded.

    Raises UsageError, LengthError, and StoreError for a place that cannot be written to.
    """
    from ropewalk.extension.checkpoint import check_target
    from ropewalk.extension.serve import ENGINES

    if settings.method not in METHODS:
        raise UsageError(
            f"--method {settings.method[:40]!r} is not known; choose one of {', '.join(METHODS)}"
        )
    if settings.engine not in (None, *ENGINES):
        raise UsageError(
            f"--for {settings.engine!r:.40} is not known; choose one of {', '.join(ENGINES)}"
        )
    for option, value, method in (
        ("--factors", settings.factors, _LONGROPE),
        ("--rope-theta", settings.rope_theta, _BASE),
    ):
        if value is not None and settings.method != method:
            raise UsageError(f"{option} goes with --method {method}, not {settings.method}")
    _check_headroom(settings)
    if settings.tries is not None and settings.method != SEARCH:
        raise UsageError(f"--tries goes with --method {SEARCH}, not {settings.method}")
    if settings.method == SEARCH and settings.tries is None and settings.seconds is None:
        raise UsageError("a search has no end of its own: give --minutes or --tries")
    if settings.trials < 1:
        raise LengthError(f"--trials {settings.trials} is impossible: at least 1 document")
    long = [length for length in settings.lengths if length > settings.target]
    if long:
        raise LengthError(f"--lengths {long[0]} is beyond --to {settings.target}")
    if settings.out is None:
        if settings.numbers is not None:
            raise UsageError("--gguf needs --out FILE.gguf, the file to write")
        return
    if files.kind == "config":
        raise UsageError(
            f"{files.path} is a configuration without weights, of which no checkpoint can be "
            "made; give the model's folder, or leave --out away to see what would be written"
        )
    if is_gguf(settings.out) and files.kind != "gguf":
        raise UsageError(
            f"{files.path} is no GGUF file, of which one could be written; name a folder for "
            "--out, and convert that with llama.cpp's convert_hf_to_gguf.py"
        )
    if settings.numbers is not None and not is_gguf(settings.out):
        raise UsageError(f"--gguf {settings.numbers} goes with --out FILE.gguf")
    check_target(settings.out, force=settings.force)


def _check_headroom(settings: ExtendSettings) -> None:
    headroom = settings.headroom
    if headroom is None:
        return
    if settings.method in (AUTO, SEARCH):
        raise UsageError(
            f"--headroom {headroom:g} goes with a method that is named: {settings.method} chooses "
            "one of its own"
        )
    if settings.factors is not None or settings.rope_theta is not None:
        raise UsageError(
            f"--headroom {headroom:g} says for how long a context numbers are computed, and "
            "--factors and --rope-theta give the numbers; leave one of the two away"
        )
    if not 1 <= headroom <= _MOST_HEADROOM:
        raise UsageError(
            f"--headroom {headroom:g} is impossible: from 1, which makes the schedule for the new "
            f"length itself, to {_MOST_HEADROOM}"
        )


def is_gguf(out: Path) -> bool:
    """Whether a GGUF file is wanted, and no folder."""
    return out.suffix.lower() == ".gguf"


def named(settings: ExtendSettings) -> Stretch:
    """The closed form that was named, with its own numbers."""
    if settings.factors is not None:
        return Stretch(Method(_LONGROPE, LongRope, divisors=_read_factors(settings.factors)))
    if settings.rope_theta is not None:
        return Stretch(Method(_BASE, LargerBase, base=settings.rope_theta))
    method = next(each for each in CLOSED_FORMS if each.name == settings.method)
    return Stretch(method, 1.0 if settings.headroom is None else settings.headroom)


def _read_factors(path: Path) -> tuple[float, ...]:
    """A JSON list of numbers, or an object that has one under long_factor."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--factors {path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--factors {path} holds no JSON ({error}); a list is wanted") from error
    if isinstance(held, dict):
        held = held.get("long_factor")
    numbers = isinstance(held, list) and all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in held
    )
    if not numbers or not 0 < len(held) <= _MOST_FACTOR:
        raise UsageError(
            f"--factors {path} holds no list of numbers; write one divisor a rotary pair, like "
            "[1.0, 1.05, ...], or an object with long_factor"
        )
    return tuple(float(each) for each in held)
