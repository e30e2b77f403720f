"""A whole extension: from a model's name to a schedule, and to a checkpoint that carries it.

The order is the one in which things can go wrong: what cannot be is refused before torch is
imported, and nothing is written until everything else has been done.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.dialects.gguf.weights import Numbers
from ropewalk.errors import LengthError, StoreError, UsageError
from ropewalk.extend.card import Card
from ropewalk.extend.fit import check
from ropewalk.extend.methods import (
    CLOSED_FORMS,
    NAMES,
    LongFactors,
    Method,
    RaisedBase,
    extended,
    trained_length,
)
from ropewalk.extend.serve import Options, options
from ropewalk.extend.vocabulary import check_files
from ropewalk.models.resolve import ModelFiles, read_spec, resolve
from ropewalk.prove.progress import Event
from ropewalk.prove.session import RUNS
from ropewalk.rope.scaling import LongRope
from ropewalk.rope.spec import PositionSpec

if TYPE_CHECKING:
    from ropewalk.extend.checkpoint import Place, Written
    from ropewalk.extend.choose import Choice
    from ropewalk.extend.score import Bench, Grid, Score
    from ropewalk.extend.search.run import Found

AUTO, SEARCH = "auto", "search"
METHODS = (*NAMES, AUTO, SEARCH)
DEFAULT_DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
DEFAULT_TRIALS = 2
_MOST_FACTOR = 10_000


@dataclass(frozen=True, slots=True)
class ExtendSettings:
    """What to extend, how far, how, and where to. Lengths in tokens, depths as shares.

    `factors` names a JSON list of divisors for longrope, `base` the base for base. `lengths` are
    where auto and search ask (the target where empty), `trials` documents of each. `tries` bounds
    a search; `seconds` everything measured. `work` keeps answers, `text` is a file of short text.
    """

    model: str
    target: int
    method: str = AUTO
    factors: Path | None = None
    base: float | None = None
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
    dtype: str = "float32"
    command: str = ""


@dataclass(frozen=True, slots=True)
class Extension:
    """What came of it. `after` None: no schedule was found that can be written."""

    files: ModelFiles
    before: PositionSpec
    after: PositionSpec | None
    method: str
    scores: tuple[Score, ...] = ()
    why: tuple[str, ...] = ()
    found: Found | None = None
    options: tuple[Options, ...] = ()
    warnings: tuple[str, ...] = ()
    written: Written | None = None
    work: Path | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told how it goes on: phases, shares of them, and answers as they come."""

    say: Callable[[str], None] = lambda _: None
    share: Callable[[int, int], None] = lambda _done, _total: None
    event: Callable[[Event], None] = lambda _: None


@dataclass(slots=True)
class _Chosen:
    """A method, and what was measured on the way to it."""

    method: Method | None
    scores: tuple[Score, ...] = ()
    why: tuple[str, ...] = ()
    found: Found | None = None
    measured: list[str] = field(default_factory=list)
    work: Path | None = None


def extend(settings: ExtendSettings, listener: Listener | None = None) -> Extension:
    """Choose a schedule, and write it where `out` is given.

    Raises an error of `ropewalk.errors`; nothing is left of what could not be written, and what
    was measured stays in the work folder.
    """
    tell = listener or Listener()
    files = resolve(settings.model)
    before = read_spec(files)
    check(before, settings.target)
    _check(settings, files)
    check_files(files)
    if settings.method in (AUTO, SEARCH):
        chosen = _measured(settings, files, before, tell)
    else:
        chosen = _Chosen(_method(settings))
    if chosen.method is None:
        return Extension(
            files, before, None, settings.method, chosen.scores, chosen.why, work=chosen.work
        )
    after = extended(before, settings.target, chosen.method)
    warnings, served = _warnings(after), options(files, before, after)
    written = None
    if settings.out is not None:
        tell.say(f"writing {settings.out}")
        card = Card(
            files.title, before, after, chosen.method.name, chosen.measured, warnings, served
        ).markdown()
        written = _write(settings, files, after, settings.out, card)
    return Extension(
        files=files,
        before=before,
        after=after,
        method=chosen.method.name,
        scores=chosen.scores,
        why=chosen.why,
        found=chosen.found,
        options=served,
        warnings=warnings,
        written=written,
        work=chosen.work,
    )


def _check(settings: ExtendSettings, files: ModelFiles) -> None:
    """Refuse what cannot be, before anything is loaded."""
    from ropewalk.extend.checkpoint import check_target

    if settings.method not in METHODS:
        raise UsageError(
            f"--method {settings.method[:40]!r} is not known; choose one of {', '.join(METHODS)}"
        )
    for option, value, method in (
        ("--factors", settings.factors, LongFactors.name),
        ("--base", settings.base, RaisedBase.name),
    ):
        if value is not None and settings.method != method:
            raise UsageError(f"{option} goes with --method {method}, not {settings.method}")
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
    if _is_gguf(settings.out) and files.kind != "gguf":
        raise UsageError(
            f"{files.path} is no GGUF file, of which one could be written; name a folder for "
            "--out, and convert that with llama.cpp's convert_hf_to_gguf.py"
        )
    if settings.numbers is not None and not _is_gguf(settings.out):
        raise UsageError(f"--gguf {settings.numbers} goes with --out FILE.gguf")
    check_target(settings.out, force=settings.force)


def _is_gguf(out: Path) -> bool:
    return out.suffix.lower() == ".gguf"


def _method(settings: ExtendSettings) -> Method:
    """The closed form that was named, with its own numbers."""
    if settings.factors is not None:
        return LongFactors(_read_factors(settings.factors))
    if settings.base is not None:
        return RaisedBase(settings.base)
    return next(each for each in CLOSED_FORMS if each.name == settings.method)


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


def _measured(
    settings: ExtendSettings, files: ModelFiles, before: PositionSpec, tell: Listener
) -> _Chosen:
    """Load the model, and let it say which schedule it reads best by."""
    from ropewalk.extend.score import Grid

    begun = time.monotonic()
    grid = Grid(
        settings.lengths or (settings.target,), settings.depths, settings.trials, settings.seed
    )
    bench, work = _bench(settings, files, before, tell)
    deadline = None if settings.seconds is None else begun + settings.seconds
    if settings.method == AUTO:
        return _auto(bench, work, settings, grid, deadline, tell)
    return _search(bench, work, settings, grid, deadline, tell)


def _auto(
    bench: Bench,
    work: Path,
    settings: ExtendSettings,
    grid: Grid,
    deadline: float | None,
    tell: Listener,
) -> _Chosen:
    from ropewalk.extend.choose import choose, measure
    from ropewalk.extend.score import candidates

    entries = candidates(bench.model, bench.spec, settings.target)
    scores = tuple(measure(bench, entries, grid, deadline, tell.say))
    choice = choose(scores)
    method = None
    if choice.score is not None:
        name = choice.score.name
        method = next(each for each in CLOSED_FORMS if each.name == name)
    return _Chosen(
        method, scores, choice.why, measured=_figures(choice, settings, bench), work=work
    )


def _figures(choice: Choice, settings: ExtendSettings, bench: Bench) -> list[str]:
    """What a card says of the score that was chosen."""
    score = choice.score
    if score is None:
        return []
    lengths = sorted({row.cell.length for row in score.rows})
    told = [
        f"{sum(r.answer.outcome == 'HIT' for r in score.rows if r.cell.length == length)} of "
        f"{sum(r.cell.length == length for r in score.rows)} hidden facts found at "
        f"{length:,} tokens"
        for length in lengths
    ]
    told.append(
        f"loss of short text {score.short:.4f} nats a token, {score.change:+.2%} against the "
        "model before"
    )
    return [*told, f"in {settings.dtype}, seed {bench.maker.seed}, without training"]


def _search(
    bench: Bench,
    work: Path,
    settings: ExtendSettings,
    grid: Grid,
    deadline: float | None,
    tell: Listener,
) -> _Chosen:
    from ropewalk.extend.search.run import Search

    search = Search(bench, settings.target, seed=settings.seed)
    found = search.run(work, grid, tries=settings.tries, deadline=deadline, tell=tell.say)
    method = search.method(found, force=settings.force)
    lines = found.verdict.lines()
    return _Chosen(method, why=tuple(lines), found=found, measured=lines[:3], work=work)


def _bench(
    settings: ExtendSettings, files: ModelFiles, before: PositionSpec, tell: Listener
) -> tuple[Bench, Path]:
    """The loaded model, and the folder that keeps what is measured."""
    tell.say("loading torch and transformers")
    from ropewalk.extend.fit import check_vocabulary
    from ropewalk.extend.score import Bench, Facts
    from ropewalk.models.load import check_device, load
    from ropewalk.prove.loss_run import read_text
    from ropewalk.prove.tokens import Tokens

    text = None if settings.text is None else read_text(settings.text)
    device, dtype = check_device(settings.device, settings.dtype)
    loaded = load(files, device=device, dtype=dtype, say=tell.say, share=tell.share)
    rows = int(loaded.model.get_input_embeddings().weight.shape[0])
    check_vocabulary(rows, max(loaded.tokenizer.get_vocab().values()), files.title)
    tokens = Tokens(loaded.tokenizer)
    ids = None if text is None else tokens.encode(text)
    facts = Facts(files.title, loaded.identity, settings.dtype, settings.command)
    digest = hashlib.sha256(f"{loaded.identity}|{settings.dtype}|{settings.seed}".encode())
    words = re.sub(r"[^A-Za-z0-9.]+", "-", f"{files.title}-to-{settings.target}").strip("-")
    folder = settings.work or RUNS / f"extend-{words}-{digest.hexdigest()[:8]}"
    bench = Bench(
        loaded.model, tokens, before, facts, folder, seed=settings.seed, text=ids,
        on_event=tell.event,
    )  # fmt: skip
    return bench, folder


def _warnings(after: PositionSpec) -> tuple[str, ...]:
    """What a user of the schedule has to know whatever it measured."""
    told = []
    for _, rotary in after.rotary_groups():
        if isinstance(rotary.scaling, LongRope):
            scaling = rotary.scaling
            if scaling.short_factor != scaling.long_factor:
                told.append(
                    f"Prompts up to {scaling.switch_length:,} tokens and longer ones turn by "
                    "different factors: a text that grows over that length while it is being "
                    "written keeps keys of the other kind, and engines that choose once for a "
                    "server read short prompts by the long factors."
                )
            break
    else:
        told.append(
            f"Every prompt turns by this schedule, those of fewer than {trained_length(after):,} "
            "tokens too."
        )
    return tuple(told)


def _write(
    settings: ExtendSettings, files: ModelFiles, after: PositionSpec, out: Path, card: str
) -> Written:
    """A folder, or a GGUF file with its card beside it."""
    from ropewalk.extend.checkpoint import Written, write_folder
    from ropewalk.models.cache import cached_folder
    from ropewalk.models.rotary_tables import schedule_fingerprint

    if not _is_gguf(out):
        folder = files.path
        if files.kind == "gguf":
            from ropewalk.models.dequantise import dequantise

            folder = cached_folder(files.path, lambda into: dequantise(files.path, into))
            # The cache is not to be written into through a second name.
            return write_folder(folder, after, out, place="copy", card=card)
        return write_folder(folder, after, out, place=settings.place, card=card)
    from ropewalk.dialects.gguf.write import write_gguf
    from ropewalk.files import write_whole

    beside = out.with_suffix(".md")
    if beside.exists() and not settings.force:
        raise StoreError(f"{beside} exists, where the card would go; name another --out")
    copy = write_gguf(after, files.path, out, overwrite=settings.force, numbers=settings.numbers)
    write_whole(beside, f"{card}\n")
    kept = "as stored" if settings.numbers is None else f"in {settings.numbers}"
    return Written(out, schedule_fingerprint(copy), f"read back; weights {kept}, card in {beside}")
