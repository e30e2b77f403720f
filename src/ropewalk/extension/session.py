"""A whole extension: from a model's name to a schedule, and to a checkpoint that carries it.

The order is the one in which things can go wrong: what cannot be is refused before torch is
imported, and nothing is written until everything else has been done.
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.dialects.hf import load_json, read_config
from ropewalk.dialects.hf.family import config_source
from ropewalk.errors import StoreError
from ropewalk.extension.card import Card
from ropewalk.extension.fit import check
from ropewalk.extension.made_for import MadeFor, dequantised, spelling
from ropewalk.extension.methods import CLOSED_FORMS, Method, Stretch, Stretches, trained_length
from ropewalk.extension.serve import Options, file_options, options, own_options
from ropewalk.extension.settings import AUTO, ExtendSettings, check_settings, is_gguf, named
from ropewalk.listener import Listener
from ropewalk.models.resolve import ModelFiles, read_spec, resolve
from ropewalk.models.tokenizer import check_files, check_fits, highest_own
from ropewalk.proof.settings import RUNS
from ropewalk.rope.schedules import SEARCH, LongRope
from ropewalk.rope.spec import PositionSpec
from ropewalk.short import short
from ropewalk.shown import Shown

if TYPE_CHECKING:
    from ropewalk.extension.checkpoint import Written
    from ropewalk.extension.choose import Choice
    from ropewalk.extension.headroom import Headrooms
    from ropewalk.extension.score import Bench, Grid, Score
    from ropewalk.extension.search.run import Found


@short
@dataclass(frozen=True, slots=True)
class Extension(Shown):
    """What came of it. `after` None: no schedule was found that can be written."""

    files: ModelFiles
    before: PositionSpec
    after: PositionSpec | None
    method: str
    scores: tuple[Score, ...] = ()
    headrooms: Headrooms | None = None
    why: tuple[str, ...] = ()
    found: Found | None = None
    options: tuple[Options, ...] = ()
    warnings: tuple[str, ...] = ()
    written: Written | None = None
    work: Path | None = None


@dataclass(slots=True)
class _Chosen:
    """A method, and what was measured on the way to it."""

    stretch: Stretch | None
    scores: tuple[Score, ...] = ()
    headrooms: Headrooms | None = None
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
    check_settings(settings, files)
    check_files(files)
    made, stretches = None, Stretches(before, settings.target)
    if settings.engine is not None:
        made = MadeFor.of(settings, settings.engine, files, stretches)
    if settings.method in (AUTO, SEARCH):
        if made is not None and settings.method == SEARCH:
            made.check_search()
        forms = CLOSED_FORMS if made is None else made.methods()
        chosen = _measured(settings, files, stretches, forms, tell)
    else:
        chosen = _Chosen(named(settings))
        if made is not None and chosen.stretch is not None:
            made.check(chosen.stretch)
    if chosen.stretch is None:
        return Extension(
            files, before, None, settings.method, chosen.scores, chosen.headrooms, chosen.why,
            work=chosen.work,
        )  # fmt: skip
    after = stretches.by(chosen.stretch)
    warnings = _warnings(after)
    served = options(before, after, settings.engine)
    written = None
    if settings.out is not None:
        tell.say(f"writing {settings.out}")
        card = Card(
            files.title, before, after, chosen.stretch.name, chosen.measured, warnings, served
        )
        written = _write(settings, files, after, settings.out, card)
    return Extension(
        files=files,
        before=before,
        after=after,
        method=chosen.stretch.name,
        scores=chosen.scores,
        headrooms=chosen.headrooms,
        why=chosen.why,
        found=chosen.found,
        options=served,
        warnings=warnings,
        written=written,
        work=chosen.work,
    )


def _measured(
    settings: ExtendSettings,
    files: ModelFiles,
    stretches: Stretches,
    forms: tuple[Method, ...],
    tell: Listener,
) -> _Chosen:
    """Load the model, and let it say by which schedule, of these forms, it reads best."""
    from ropewalk.extension.score import Grid

    begun = time.monotonic()
    grid = Grid(
        settings.lengths or (settings.target,), settings.depths, settings.trials, settings.seed
    )
    bench, work = _bench(settings, files, stretches.spec, tell)
    deadline = None if settings.seconds is None else begun + settings.seconds
    if settings.method == AUTO:
        return _auto(bench, work, stretches, grid, forms, deadline, tell)
    return _search(bench, work, settings, stretches, grid, forms, deadline, tell)


def _auto(
    bench: Bench,
    work: Path,
    stretches: Stretches,
    grid: Grid,
    forms: tuple[Method, ...],
    deadline: float | None,
    tell: Listener,
) -> _Chosen:
    from ropewalk.extension.choose import TOLERANCE, choose, measure
    from ropewalk.extension.headroom import headrooms
    from ropewalk.extension.score import candidates

    longest = max(grid.lengths)
    rooms = headrooms(bench, stretches, longest, TOLERANCE, deadline, tell.say, forms)
    entries = candidates(bench.model, stretches, rooms.chosen)
    scores = tuple(measure(bench, entries, grid, deadline, tell.say))
    choice = choose(scores)
    return _Chosen(
        None if choice.score is None else choice.score.candidate.stretch,
        scores,
        rooms,
        choice.why,
        measured=_figures(choice, bench),
        work=work,
    )


def _figures(choice: Choice, bench: Bench) -> list[str]:
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
        f"loss of short text {score.short:.4f} nats per token, {score.change:+.2%} against the "
        "model before"
    )
    return [*told, f"in {bench.facts.dtype}, seed {bench.maker.seed}, without training"]


def _search(
    bench: Bench,
    work: Path,
    settings: ExtendSettings,
    stretches: Stretches,
    grid: Grid,
    forms: tuple[Method, ...],
    deadline: float | None,
    tell: Listener,
) -> _Chosen:
    from ropewalk.extension.search.run import Search

    search = Search(bench, stretches, seed=settings.seed, forms=forms)
    found = search.run(
        work, grid, tries=settings.tries, deadline=deadline, tell=tell.say, tried=tell.so_far
    )
    stretch = search.stretch(found, force=settings.force)
    lines = found.verdict.lines()
    return _Chosen(stretch, why=tuple(lines), found=found, measured=lines[:3], work=work)


def _bench(
    settings: ExtendSettings, files: ModelFiles, before: PositionSpec, tell: Listener
) -> tuple[Bench, Path]:
    """The loaded model, and the folder that keeps what is measured."""
    tell.say("loading torch and transformers")
    from ropewalk.extension.score import Bench, Facts
    from ropewalk.models.dtypes import dtype_word
    from ropewalk.models.load import check_device, load
    from ropewalk.proof.loss_run import read_text
    from ropewalk.proof.tokens import Tokens

    text = None if settings.text is None else read_text(settings.text)
    device, dtype = check_device(settings.device, settings.dtype, files)
    loaded = load(files, device=device, dtype=dtype, say=tell.say, share=tell.share)
    check_fits(highest_own(loaded.tokenizer), loaded.rows, files.title)
    tokens = Tokens(loaded.tokenizer, loaded.rows)
    ids = None if text is None else tokens.encode(text, special=False, where=str(settings.text))
    word = dtype_word(dtype)
    facts = Facts(files.title, loaded.identity, word, settings.command)
    digest = hashlib.sha256(f"{loaded.identity}|{word}|{settings.seed}".encode())
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
                    f"Prompts up to {scaling.original_max_position_embeddings:,} tokens and longer "
                    "ones rotate by different factors: a text that grows over that length while "
                    "it is being "
                    "written keeps keys of the other kind, and engines that choose once for a "
                    "server read short prompts by the long factors."
                )
            break
    else:
        told.append(
            f"Every prompt is rotated by this schedule, those of fewer than "
            f"{trained_length(after):,} tokens too."
        )
    return tuple(told)


def _write(
    settings: ExtendSettings, files: ModelFiles, after: PositionSpec, out: Path, card: Card
) -> Written:
    """A folder, or a GGUF file with its card beside it."""
    from ropewalk.extension.checkpoint import Written, write_folder, written_config
    from ropewalk.models.rotary_tables import schedule_fingerprint

    if not is_gguf(out):
        folder, place = files.path, settings.place
        if files.kind == "gguf":
            folder = dequantised(files.path)
            read = read_config(load_json(folder / "config.json"))
            # The cache is not to be written into through a second name.
            place = "copy"
        else:
            read = files.spec
        version = spelling(settings.engine)
        own = own_options(
            written_config(config_source(read), after, version), after, out.name, settings.engine
        )
        text = replace(card, own=own).markdown()
        written = write_folder(
            folder, after, out, place=place, card=text, version=version, read=read
        )
        return replace(written, serving=own)
    from ropewalk.dialects.gguf.write import write_gguf
    from ropewalk.files import write_whole

    beside = out.with_suffix(".md")
    if beside.exists() and not settings.force:
        raise StoreError(f"{beside} exists, where the card would go; name another --out")
    copy = write_gguf(after, files.path, out, overwrite=settings.force, numbers=settings.numbers)
    own = (file_options(settings.engine or "llamacpp", copy, out.name),)
    write_whole(beside, f"{replace(card, own=own).markdown()}\n")
    kept = "as stored" if settings.numbers is None else f"in {settings.numbers}"
    how = f"read back; weights {kept}, card in {beside}"
    return Written(out, schedule_fingerprint(copy), how, serving=own)
