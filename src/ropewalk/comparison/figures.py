"""What is measured of one trained decoder, as values that go into a file and come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ropewalk.errors import StoreError
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class WindowLoss:
    """The mean loss in nats of the same `tokens` tokens, read in windows.

    `kind` is "non-overlapping" or "sliding". `far`: the mean over those of them that are values
    last told between one and four trained lengths ago, which only distant text can tell; None
    without any.
    """

    kind: str
    window: int
    stride: int
    tokens: int
    mean: float
    far: float | None
    far_tokens: int


@short
@dataclass(frozen=True, slots=True)
class PositionLoss:
    """The mean loss of the tokens at positions `start` to `end` (exclusive) of one long reading."""

    start: int
    end: int
    mean: float


@short
@dataclass(frozen=True, slots=True)
class Recall:
    """Prompts of `length` tokens that ask for a value told `distance` tokens ago; exact hits."""

    length: int
    distance: int
    hits: int
    asked: int

    @property
    def share(self) -> float:
        """Hits of those asked."""
        return self.hits / self.asked


@short
@dataclass(frozen=True, slots=True)
class LayerProbe:
    """How well a linear map reads the position off the hidden state before block `layer`.

    The last one is the normed output. Fitted on some streams and scored on others: the share of
    variance explained (below 0 where a constant would do better), and the mean absolute error in
    tokens.
    """

    layer: int
    r2: float
    error: float


@short
@dataclass(frozen=True, slots=True)
class WindowReading:
    """What one decoder makes of windows within and beyond its trained length.

    `refusal` is what it said to longer ones, "" where it took them all.
    """

    losses: tuple[WindowLoss, ...]
    recalls: tuple[Recall, ...]
    refusal: str = ""

    def loss(self, kind: str, window: int) -> WindowLoss | None:
        """One evaluation; None where that window was refused or not asked for."""
        return next((x for x in self.losses if (x.kind, x.window) == (kind, window)), None)

    def recall(self, length: int, *, near: bool) -> Recall | None:
        """The nearest, or the farthest, fact asked for at a length; None where refused."""
        found = [each for each in self.recalls if each.length == length]
        if not found:
            return None
        return (min if near else max)(found, key=lambda each: each.distance)


@short
@dataclass(frozen=True, slots=True)
class DecoderFigures:
    """Everything measured of one variant under one seed.

    `parameters` of the whole decoder, `added` those of the encoding. `shared_weights` and `data`
    are SHA-256: of the weights at the start that are not the encoding's, and of all that was
    trained on. `curve`: mean training losses of ten equal parts. `schedules`: the same weights
    under another rotary schedule, by its name. `seconds` of training on this machine.
    """

    variant: str
    seed: int
    parameters: int
    added: int
    shared_weights: str
    data: str
    curve: tuple[float, ...]
    seconds: float
    reading: WindowReading
    positions: tuple[PositionLoss, ...]
    probes: tuple[LayerProbe, ...]
    schedules: Mapping[str, WindowReading]

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def figures_from(document: Mapping[str, Any], where: str) -> DecoderFigures:
    """The figures that `DecoderFigures.document` made a document of. Raises StoreError."""
    try:
        return DecoderFigures(
            **{
                **document,
                "curve": tuple(document["curve"]),
                "reading": _reading(document["reading"]),
                "positions": tuple(PositionLoss(**each) for each in document["positions"]),
                "probes": tuple(LayerProbe(**each) for each in document["probes"]),
                "schedules": {k: _reading(v) for k, v in document["schedules"].items()},
            }
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{where} does not hold the figures of a comparison ({error}); remove its folder, and "
            "the same command trains that decoder again"
        ) from error


def _reading(document: Mapping[str, Any]) -> WindowReading:
    return WindowReading(
        tuple(WindowLoss(**each) for each in document["losses"]),
        tuple(Recall(**each) for each in document["recalls"]),
        document["refusal"],
    )
