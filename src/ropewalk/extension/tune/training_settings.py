"""What a tuning run is asked to do, checked before anything is loaded."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ropewalk.errors import LengthError, UsageError
from ropewalk.lengths import MOST_TOKENS, SYNTAX, read_length
from ropewalk.models.dtypes import check_dtype
from ropewalk.packing.layout import Counting
from ropewalk.packing.texts import Reading
from ropewalk.short import short

Decay = Literal["constant", "linear", "cosine"]
DECAYS: tuple[Decay, ...] = ("constant", "linear", "cosine")
COUNTINGS: tuple[Counting, ...] = ("reset", "document", "running")
DTYPES = ("auto", "bf16", "fp32")
ATTENTION = (
    "auto", "packed", "sdpa", "flex_attention", "eager", "flash_attention_2", "flash_attention_3",
)  # fmt: skip


@short
@dataclass(frozen=True, slots=True)
class Mix:
    """Row lengths and their weights: shares of the steps, and of the tokens.

    A step has rows of one length. Every step has the tokens of `rows` of the longest rows, so
    that a shorter length has more rows per step.
    """

    lengths: tuple[int, ...]
    weights: tuple[int, ...] = (1,)

    @property
    def longest(self) -> int:
        """The longest row, in tokens."""
        return max(self.lengths)

    def at(self, step: int) -> int:
        """The length of step `step`, from 0: the one that is furthest behind its share."""
        given = dict.fromkeys(self.lengths, 0)
        whole = sum(self.weights)
        # The order repeats after sum(weights) steps.
        for count in range(1, step % whole + 2):
            behind = [
                weight * count / whole - given[length]
                for length, weight in zip(self.lengths, self.weights, strict=True)
            ]
            chosen = self.lengths[behind.index(max(behind))]
            given[chosen] += 1
        return chosen

    def rows(self, length: int, longest_rows: int) -> int:
        """Rows of a step of `length`, where a step has `longest_rows` of the longest."""
        return longest_rows * (self.longest // length)

    def __str__(self) -> str:
        pairs = zip(self.lengths, self.weights, strict=True)
        return ",".join(f"{n}:{w}" if len(self.lengths) > 1 else f"{n}" for n, w in pairs)


def parse_mix(text: str) -> Mix:
    """ "4096", or "4k:3,1k:1": lengths as `ropewalk.lengths` reads them, and weights.

    Raises LengthError for a length below 2, one that does not divide the longest, the same one
    twice, and what is not written so.
    """
    lengths, weights = list[int](), list[int]()
    for part in text.split(","):
        found = re.fullmatch(r"([^:]*)(?::\s*(\d{1,6})\s*)?", part, re.ASCII)
        length = None if found is None else read_length(found[1])
        if found is None or length is None or length > MOST_TOKENS:
            raise LengthError(
                f"--length {text!r} is not understood: give a length like 4096 or 4k, or lengths "
                f"with weights like 4096:3,1024:1, where {SYNTAX}"
            )
        lengths.append(length)
        weights.append(int(found[2] or 1))
    short = next((n for n in lengths if n < 2), None)
    if short is not None:
        raise LengthError(
            f"--length {short} is impossible: a row needs 2 tokens or more, one to be read and "
            "one to be predicted"
        )
    if len(set(lengths)) < len(lengths):
        raise LengthError(f"--length {text!r} names a length twice; give each one weight")
    if 0 in weights:
        raise LengthError(f"--length {text!r} has a weight of 0; leave that length out")
    uneven = [n for n in lengths if max(lengths) % n]
    if uneven:
        raise LengthError(
            f"--length {text!r}: {uneven[0]} does not divide {max(lengths)}; every step has as "
            "many tokens, so each length must go into the longest without a rest"
        )
    return Mix(tuple(lengths), tuple(weights))


@short
@dataclass(frozen=True, slots=True)
class TuneSettings:
    """What to train and how. Lengths in tokens.

    `rows` rows of the longest length make a step, over all processes; `at_once` rows go through
    the model together. `warmup` steps lead up to `lr`; `decay` says how it falls from there to
    `lr_end` times itself. `every`: steps between checkpoints. `gate`: the share that the loss on
    short text may rise by, None to measure only; `gate_text` names a UTF-8 file. `prove`: lengths
    to prove before and after. `lora`: the rank of adapters, None to train all weights. `field`
    of JSON records holds the text, and so does `column` of Parquet, None for the same name.
    `dtype`: what is computed in; auto is bf16 for weights of 16 bits on a GPU that has it, and
    fp32 elsewhere.
    `seconds` after training began no step is begun that would not be done by then, judged by the
    step before; what was trained is written and measured as ever.
    """

    model: str
    data: tuple[Path, ...]
    steps: int
    out: Path
    mix: Mix
    rows: int = 8
    at_once: int = 1
    mask: bool = True
    positions: Counting = "reset"
    cutting: Literal["kept", "split"] = "kept"
    boundary: str | None = None
    field: str = "text"
    column: str | None = None
    encoding: str = "utf-8"
    lr: float = 2e-5
    lr_end: float = 0.1
    warmup: int = 10
    decay: Decay = "cosine"
    weight_decay: float = 0.0
    clip: float = 1.0
    dtype: str = "auto"
    activation_checkpoints: bool = True
    attention: str = "auto"
    lora: int | None = None
    every: int = 100
    seed: int = 0
    device: str = "auto"
    gate: float | None = None
    gate_text: Path | None = None
    prove: tuple[int, ...] = ()
    trials: int = 5
    context_parallel: int = 1
    seconds: float | None = None
    tensorboard: bool = True
    command: str = ""

    @property
    def reading(self) -> Reading:
        """How files become texts. Raises UsageError for an encoding that is not known."""
        column = self.field if self.column is None else self.column
        return Reading(self.field, column, self.encoding)

    def check(self) -> None:
        """Raise UsageError, in one sentence, for the first thing that cannot be."""
        if self.context_parallel != 1:
            raise UsageError(
                f"--context-parallel {self.context_parallel}: rows cut over several processes are "
                "not trained on yet; each process takes whole rows, so leave the option out, and "
                "use activation checkpoints, --dtype bf16 and shorter rows where memory is short"
            )
        _whole("--steps", self.steps, 1)
        _whole("--rows", self.rows, 1)
        _whole("--at-once", self.at_once, 1)
        _whole("--warmup", self.warmup, 0)
        _whole("--checkpoint-every", self.every, 1)
        _whole("--seed", self.seed, 0)
        _whole("--trials", self.trials, 1)
        if self.lora is not None:
            _whole("--lora", self.lora, 1)
        if self.warmup > self.steps:
            raise UsageError(
                f"--warmup {self.warmup} is longer than the {self.steps} steps of the run"
            )
        _number("--lr", self.lr, positive=True)
        _number("--clip", self.clip, positive=True)
        _number("--weight-decay", self.weight_decay)
        _number("--lr-end", self.lr_end)
        if self.gate is not None:
            _number("--gate", self.gate)
        _one_of("--decay", self.decay, DECAYS)
        _one_of("--positions", self.positions, COUNTINGS)
        if self.dtype == "fp16":
            raise UsageError(
                "--dtype fp16 trains to nothing: its range is too small for gradients; choose one "
                f"of {', '.join(DTYPES)}"
            )
        check_dtype(self.dtype, DTYPES)
        _one_of("--attention", self.attention, ATTENTION)
        _one_of("--cutting", self.cutting, ("kept", "split"))
        _ = self.reading
        if self.attention.startswith("flash") and self.dtype == "fp32":
            raise UsageError(
                f"--attention {self.attention} computes in 16 bits alone; give --dtype bf16"
            )


def _whole(option: str, value: int, least: int) -> None:
    if value < least:
        raise UsageError(f"{option} {value} is impossible: {least} or more can be")


def _number(option: str, value: float, *, positive: bool = False) -> None:
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        words = "above 0" if positive else "0 or more"
        raise UsageError(f"{option} {value:g} is impossible: give a number {words}")


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{option} {value!r} is not known; choose one of {', '.join(known)}")
