"""What every schedule's record says: its formula, its words, and how to stretch a model by it.

A record is a frozen dataclass; its fields are the numbers of its formula, under the names that
configurations use, and it refuses impossible ones when it is made (ScheduleError with field, value
and remedy). Lengths are in tokens, frequencies in radians per token, fp64. Notation: d =
rotary_dim, pair index i = 0 .. d/2 - 1, s = factor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ropewalk.errors import ScheduleError
from ropewalk.rope import checks
from ropewalk.short import short

if TYPE_CHECKING:
    from typing import Self

TRAINED = "state the length of the training (original_max_position_embeddings)"

NOT_SAID = "The file does not say whether the model was trained with it."

Rescaled = tuple[tuple[float, ...], tuple[str, ...]]
"""Inverse frequencies and, in sentences, the rules that gave them."""


class Rotates(Protocol):
    """What a formula needs of an encoding; `ropewalk.rope.spec.RotarySpec` has it."""

    @property
    def rope_theta(self) -> float:
        """The base of the unscaled frequencies."""

    @property
    def rotary_dim(self) -> int:
        """Channels that rotate."""

    @property
    def head_dim(self) -> int:
        """Channels of a head."""

    @property
    def pairs(self) -> int:
        """Channel pairs that rotate."""


@short
@dataclass(frozen=True, slots=True)
class SpelledAs:
    """A schedule in everybody's words, None or empty where there is no word for it.

    `hf5` and `hf4` are the `rope_type` of transformers 5 and 4, `hf_aliases` other words that it
    takes for the same, `hf_keys` the keys of the rope dictionary that it reads for it. `gguf` is
    `rope.scaling.type`, which is llama.cpp's --rope-scaling too. On our command line `rope` stands
    before the number of --rope ("yarn" in yarn:2), and `method` in extend --method.
    """

    hf5: str | None = None
    hf4: str | None = None
    hf_aliases: tuple[str, ...] = ()
    hf_keys: frozenset[str] = frozenset()
    gguf: str | None = None
    rope: str | None = None
    method: str | None = None


@short
@dataclass(frozen=True, slots=True)
class OriginWords:
    """What an audit says of a length that was obtained by a schedule.

    `code` is stable. `what` names the schedule, with fields in braces for `filled`; `unsaid` is
    what the file does not tell.
    """

    code: str
    what: str
    unsaid: str = field(default=NOT_SAID)

    def filled(self, numbers: Mapping[str, Any]) -> OriginWords:
        """The same with its numbers in place."""
        return replace(self, what=self.what.format(**numbers))


@short
@dataclass(frozen=True, slots=True)
class Rescaling(ABC):
    """A way of rescaling rotary frequencies; each file beside this one holds one.

    `kind` is its stable name in JSON and messages. `number` says what stands behind the name in
    --rope: a factor, or for a larger base that base; None where the name stands by itself.
    """

    kind: ClassVar[str]
    spelled: ClassVar[SpelledAs]
    origin: ClassVar[OriginWords]
    number: ClassVar[str | None] = "FACTOR"

    @abstractmethod
    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:
        """The inverse frequencies of a sequence of `length` tokens, and the rules that fired.

        Without a length: as for a sequence so short that nothing depends on it. Raises
        ScheduleError where the formula has no value.
        """

    @property
    def name(self) -> str:
        """As configurations spell it; an unknown one's own name."""
        return self.kind

    @property
    def depends_on_length(self) -> bool:
        """Whether the frequencies change with the length of the sequence at hand."""
        return False

    @property
    def stretches(self) -> bool:
        """Whether anything is rescaled at all."""
        return True

    def amplitude(self) -> tuple[float, str]:
        """What multiplies cos and sin, and in words the rule that gave it."""
        return 1.0, f"{self.name} leaves the amplitude alone"

    def base(self, rotary: Rotates) -> float:
        """The base that the frequencies begin from."""
        return rotary.rope_theta

    def check_fits(self, rotary: Rotates) -> None:  # noqa: B027 - most fit every encoding
        """Raise ScheduleError where the numbers are not those of such an encoding."""

    def in_training(self, stretched: bool) -> Rescaling | None:
        """What training is taken to have used; None: the base alone.

        `stretched`: the claimed length is above the trained one, so that the scaling came later.
        """
        return None if stretched else self

    def told(self, rotary: Rotates | None) -> OriginWords:  # noqa: ARG002 - some need it
        """The origin of a length that the schedule shows; `rotary` None where it is incomplete."""
        return self.origin.filled(self.numbers())

    def numbers(self) -> dict[str, Any]:
        """The fields by their names."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def asked(cls, number: float, trained: int | None, claimed: int | None) -> Self:  # noqa: ARG003
        """What `--rope NAME:NUMBER` means for a model of these lengths.

        Raises ScheduleError for a length that it needs and the model does not state.
        """
        raise ScheduleError(f"{cls.kind} cannot be asked for by a number")

    @classmethod
    def stretch(cls, rotary: Rotates, trained: int, target: int) -> Self:  # noqa: ARG003
        """The schedule that takes an unscaled encoding from one length to another."""
        return cls.asked(target / trained, trained, target)


def needed(length: int | None, other: int | None, what: str) -> int:
    """The first of two lengths that a model states. Raises ScheduleError where it states none."""
    found = length or other
    if found is None:
        raise ScheduleError(
            f"{what} needs the trained length, and this model states none; use linear, ntk or base"
        )
    return found


def plain_inv_freq(rope_theta: float, rotary_dim: int) -> tuple[float, ...]:
    """rope_theta^(-2i/d) for i = 0 .. d/2 - 1 (RoFormer, 2104.09864, section 3.3)."""
    return tuple(rope_theta ** (-2.0 * i / rotary_dim) for i in range(rotary_dim // 2))


def plain(rotary: Rotates) -> tuple[float, ...]:
    """An encoding's inverse frequencies before any scaling."""
    return plain_inv_freq(rotary.rope_theta, rotary.rotary_dim)


def kept_share(rotations: float, low: float, high: float) -> float:
    """How much of a pair is kept: 0 below `low` full rotations, 1 above `high`, linear between."""
    if rotations < low:
        return 0.0
    if rotations > high or high == low:
        return 1.0
    return (rotations - low) / (high - low)


def blend(plain: Sequence[float], factor: float, keep: Sequence[float]) -> tuple[float, ...]:
    """Each frequency kept by its share, and divided by `factor` for the rest."""
    return tuple(f / factor * (1.0 - k) + f * k for f, k in zip(plain, keep, strict=True))


def divide(plain: Sequence[float], divisors: Sequence[float]) -> tuple[float, ...]:
    """Each frequency over its own divisor."""
    return tuple(f / d for f, d in zip(plain, divisors, strict=True))


def check_rising(what: str, low: tuple[str, object], high: tuple[str, object], usual: str) -> None:
    """Refuse two ends of a band, each with its field's name, that are no numbers or crossed."""
    for name, value in (low, high):
        checks.number(f"the {what} {name}", value, least=0.0, above=True, remedy=usual)
    if low[1] > high[1]:  # type: ignore[operator]  # both are numbers by now
        raise ScheduleError(
            f"the {what} {low[0]} is {low[1]} and above {high[0]} {high[1]}; it must be at most "
            f"that: {usual}, are they swapped?"
        )


def check_amplitude(what: str, value: object) -> None:
    """Refuse an attention factor that is given and is no positive number."""
    if value is not None:
        remedy = "leave it out, and the published rule gives it"
        checks.number(f"the {what} attention_factor", value, least=0.0, above=True, remedy=remedy)
