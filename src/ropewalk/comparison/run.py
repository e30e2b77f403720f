"""A whole comparison: train what is not there yet, measure it, keep it, and put it together."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch

from ropewalk.comparison import measure, train
from ropewalk.comparison.figures import DecoderFigures
from ropewalk.comparison.ordering import OrderFinding, findings
from ropewalk.comparison.presets import Settings, Variant
from ropewalk.comparison.store import ComparisonStore, opened
from ropewalk.decoder import Decoder, encoding_of
from ropewalk.errors import RopewalkError, UsageError
from ropewalk.listener import Listener
from ropewalk.positions.base import Description
from ropewalk.short import short
from ropewalk.shown import Shown

PARTS = 10
"""Of the training curve."""


@short
@dataclass(frozen=True, slots=True)
class Comparison(Shown):
    """All figures: by variant and seed, and tokens a second by variant's name.

    `machine` in words; `trained` counts the decoders that this call trained rather than found.
    """

    settings: Settings
    figures: tuple[DecoderFigures, ...]
    speeds: dict[str, float]
    machine: str
    trained: int

    def of(self, variant: Variant) -> tuple[DecoderFigures, ...]:
        """The figures of one variant, a seed each."""
        return tuple(each for each in self.figures if each.variant == variant.name)

    def findings(self) -> tuple[OrderFinding, ...]:
        """The published ordering, tested."""
        return findings(self.figures, self.settings.trained_length)


def compare(settings: Settings, folder: Path, listener: Listener | None = None) -> Comparison:
    """Train and measure everything in `settings` that `folder` does not hold yet.

    Raises UsageError where the device is not there, StoreError for a folder that cannot be used,
    RopewalkError where decoders did not start from the same weights and data.
    """
    tell = listener or Listener()
    _check_device(settings)
    with opened(folder, settings) as store:
        # Seeds outside: an interrupted comparison has whole seeds first.
        runs = [(seed, variant) for seed in settings.seeds for variant in settings.variants]
        found = [store.figures(variant, seed) for seed, variant in runs]
        pace, kept = _Pace(found.count(None)), []
        for (seed, variant), figures in zip(runs, found, strict=True):
            if figures is None:
                kept.append(_one(settings, variant, seed, store, tell, pace))
                pace.done += 1
            else:
                kept.append(figures)
        speeds = store.speeds()
        if not {each.name for each in settings.variants} <= speeds.keys():
            tell.say("measuring the speed of training, in turns")
            speeds = train.speeds(settings, settings.variants)
            store.keep_speeds(speeds)
    _check_alike(kept)
    return Comparison(settings, tuple(kept), speeds, machine(settings), pace.done)


class _Pace:
    """How far a comparison is, and how long the rest should take at the pace so far."""

    def __init__(self, count: int) -> None:
        """`count` decoders are to be trained and measured, from now on."""
        self.count, self.done, self.begun = count, 0, time.perf_counter()

    def words(self) -> str:
        """`3 of 24, about 41 min for the rest`; no guess before one is done."""
        here = f"{self.done + 1} of {self.count}"
        if not self.done:
            return here
        left = (time.perf_counter() - self.begun) / self.done * (self.count - self.done)
        return f"{here}, about {left / 60:.0f} min for the rest" if left > 90 else here


def _one(
    settings: Settings,
    variant: Variant,
    seed: int,
    store: ComparisonStore,
    listener: Listener,
    pace: _Pace,
) -> DecoderFigures:
    """Train one decoder, measure it, keep it."""
    listener.say(f"training {variant.name}, seed {seed} ({pace.words()})")
    begun = time.perf_counter()
    untouched = train.fresh(settings, variant, seed)
    model, losses, seen = train.train(settings, variant, seed, listener.share)
    seconds = time.perf_counter() - begun

    def measuring(what: str) -> None:
        listener.say(f"measuring {variant.name}, seed {seed}: {what}")

    reading = measure.read_beyond(model, settings, settings.windows, measuring)
    schedules = {}
    if variant.position == "rope":
        for name, scaling in measure.schedules(settings).items():
            measuring(f"again under {name}")
            schedules[name] = measure.rescaled(model, settings, scaling)
    measuring("position by layer")
    found = DecoderFigures(
        variant=variant.name,
        seed=seed,
        parameters=sum(each.numel() for each in model.parameters()),
        added=added(model),
        shared_weights=train.shared_hash(untouched),
        data=seen,
        curve=_parts(losses),
        seconds=seconds,
        reading=reading,
        positions=measure.by_position(model, settings),
        probes=measure.probes(model, settings),
        schedules=schedules,
    )
    store.keep(variant, found, model)
    return found


def added(model: Decoder) -> int:
    """Parameters of the encoding's own."""
    return sum(each.numel() for each in model.position.parameters())


def described(settings: Settings, variant: Variant) -> Description:
    """The encoding's row of the lesson's table, of the size that is trained here."""
    with torch.random.fork_rng(devices=[]):
        return encoding_of(settings.config(variant)).describe()


def _parts(losses: Sequence[float]) -> tuple[float, ...]:
    """Means over PARTS equal parts, or each loss where there are fewer."""
    count = min(PARTS, len(losses))
    edges = [len(losses) * part // count for part in range(count + 1)]
    return tuple(statistics.fmean(losses[a:b]) for a, b in pairwise(edges))


def _check_device(settings: Settings) -> None:
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            f"--preset {settings.preset} trains on a GPU, and torch sees none here; on a CPU take "
            "--preset minute or lesson, or --device cpu with a few --steps to see it run"
        )


def _check_alike(figures: Sequence[DecoderFigures]) -> None:
    """Every encoding had the same weights at the start and the same data, seed by seed."""
    for seed in {each.seed for each in figures}:
        starts = {(x.shared_weights, x.data) for x in figures if x.seed == seed}
        if len(starts) != 1:
            raise RopewalkError(
                f"the decoders of seed {seed} did not start from the same weights and data, so "
                "they cannot be compared; was the folder begun with another version?"
            )


def machine(settings: Settings) -> str:
    """Where it ran, in words."""
    if settings.device == "cuda":
        return torch.cuda.get_device_name()
    return (
        f"{os.cpu_count()} CPU cores ({platform.machine()}), {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}"
    )
