"""What an audit says: values only, complete for the terminal text and for JSON alike."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.rope.angles import Schedule
from ropewalk.rope.diagnostics import PairRow
from ropewalk.rope.spec import Finding, LayerGroup, Length, PositionSpec, RotarySpec
from ropewalk.short import short, short_with
from ropewalk.shown import Shown


@short
@dataclass(frozen=True, slots=True)
class Origin:
    """How the context length was obtained, as far as the files can tell.

    `code` is one of as-trained, larger-base, position-interpolation, ntk, ntk-by-parts, dynamic,
    yarn-inference, yarn-trained, yarn, llama3, longrope, pair-divisors, not-rotary, unknown.
    """

    code: str
    sentence: str


@short
@dataclass(frozen=True, slots=True)
class Horizon:
    """The first distance at which like keys stop scoring above random ones, in tokens.

    `tokens` is None when there is none below `searched`.
    """

    tokens: int | None
    searched: int


@short_with("unseen", "critical_dimension", "horizon")
@dataclass(frozen=True, slots=True)
class RotaryAudit:
    """One group of layers with computable rotary angles.

    `start` is the schedule of a short prompt, `claim` that of the claimed length; they differ
    only where the schedule depends on the length. `critical_dimension` counts channels.
    `horizon` is of the schedule at the claimed length, `trained_horizon` of the frequencies
    in training, searched up to the trained length. None: no length to compute it for.
    """

    group: LayerGroup
    rotary: RotarySpec
    start: Schedule
    claim: Schedule
    pairs: tuple[PairRow, ...]
    critical_dimension: int | None
    horizon: Horizon | None
    trained_horizon: Horizon | None

    @property
    def unseen(self) -> int:
        """How many pairs the claimed length shows angles that training did not."""
        return sum(row.unseen is True for row in self.pairs)


@short_with("name", "origin", "trained", "findings")
@dataclass(frozen=True, slots=True)
class Audit(Shown):
    """Everything that is known of one model's positions.

    `trained` is the trained length used in the numbers: the stated one, or a guess with
    `stated` False and its reason as the source.
    """

    name: str
    spec: PositionSpec
    trained: Length
    rotary: tuple[RotaryAudit, ...]
    origin: Origin
    findings: tuple[Finding, ...]
