"""What the terminal and the page say alike of a comparison: numbers over seeds, and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ropewalk.comparison.figures import DecoderFigures, WindowReading
from ropewalk.comparison.ordering import FLAT, Interval, interval, words
from ropewalk.comparison.presets import FAR, Settings, Variant
from ropewalk.comparison.run import Comparison
from ropewalk.proof.statistics.intervals import wilson
from ropewalk.proof.summary import Share

Number = Callable[[DecoderFigures], float | None]
"""A number of one decoder, None where it has none."""

NAMES = {
    "sinusoidal": "sinusoidal",
    "learned": "learned",
    "rope": "RoPE",
    "alibi": "ALiBi",
    "t5": "T5 bias",
    "none": "none",
    "raw_index": "raw index",
}


def name(variant: Variant) -> str:
    """What a variant is called: `sinusoidal, every layer` where it is added before every block."""
    return NAMES[variant.position] + (", every layer" if variant.again else "")


def over_seeds(found: Sequence[DecoderFigures], number: Number) -> Interval | None:
    """A number's mean and interval over the seeds, None unless every seed has it."""
    values = [number(each) for each in found]
    known = [value for value in values if value is not None]
    return interval(known) if known and len(known) == len(values) else None


def loss_in(kind: str, window: int) -> Number:
    """The mean loss of one evaluation."""

    def number(found: DecoderFigures) -> float | None:
        loss = found.reading.loss(kind, window)
        return None if loss is None else loss.mean

    return number


def recall_at(length: int, *, near: bool) -> Number:
    """The share of exact hits at a length."""

    def number(found: DecoderFigures) -> float | None:
        recall = found.reading.recall(length, near=near)
        return None if recall is None else recall.share

    return number


def probe_at(layer: int) -> Number:
    """R^2 of position at a layer, and None beyond the last."""

    def number(found: DecoderFigures) -> float | None:
        return found.probes[layer].r2 if layer < len(found.probes) else None

    return number


def head(found: Comparison) -> str:
    """What was trained on what, in a few sentences."""
    s = found.settings
    seeds = f"{len(s.seeds)} seed{'s' * (len(s.seeds) != 1)} ({', '.join(map(str, s.seeds))})"
    return (
        f"Decoders of {s.layers} layers x {s.hidden} channels, {s.heads} heads, each trained for "
        f"{s.steps:,} steps of {s.rows * s.trained_length:,} tokens in rows of up to "
        f"{s.trained_length} (the trained length), {seeds}; under every encoding the same data and "
        f"the same weights at the start. {found.machine}."
    )


def how(settings: Settings) -> str:
    """How losses and recall were measured."""
    s = settings
    tokens = s.streams * s.windows[-1]
    return (
        f"Losses in nats per token, of the same {tokens:,} tokens of unseen streams under every "
        f"window; non-overlapping windows begin anew where the one before ends (stride = window "
        f"- 1), sliding ones move by a stride of {s.stride}. Recall: {s.prompts} prompts each end "
        "in a name that was told its value once; a hit is the value as the most likely of all "
        f"{s.language.size + 1} tokens; a guess among the values hits {s.language.chance:.1%}."
    )


def schedule_rows(found: Comparison) -> list[tuple[str, tuple[str, str, str, str]]]:
    """RoPE under its own schedule and under others, weights as trained; [] without RoPE.

    Of each the sliding loss at the trained length and at FAR times that, and at the latter the
    share of facts recalled near and far, over all seeds.
    """
    rope = [each for each in found.figures if each.variant == "rope"]
    if not rope:
        return []
    trained = found.settings.trained_length
    rows = [("its own schedule", [each.reading for each in rope])]
    rows += [(key, [each.schedules[key] for each in rope]) for key in rope[0].schedules]
    shown = []
    for label, readings in rows:
        losses, hits = [], []
        for window in (trained, FAR * trained):
            kept = [x for x in (each.loss("sliding", window) for each in readings) if x]
            losses.append(f"{math.fsum(x.mean for x in kept) / len(kept):.3f}")
        for near in (True, False):
            facts = [x for x in (each.recall(FAR * trained, near=near) for each in readings) if x]
            hits.append(f"{sum(x.hits for x in facts) / sum(x.asked for x in facts):.0%}")
        shown.append((label, (losses[0], losses[1], hits[0], hits[1])))
    return shown


def lesson(found: Comparison) -> str:
    """Flat loss against use of distant text, in the figures of ALiBi; "" where it is not there."""
    alibi = next((each for each in found.settings.variants if each.position == "alibi"), None)
    if alibi is None:
        return ""
    trained, kept = found.settings.trained_length, found.of(alibi)
    readings = [each.reading for each in kept]
    apart = _from_to(kept, "non-overlapping", trained)
    sliding = _from_to(kept, "sliding", trained)
    if apart is None or sliding is None:
        return ""
    said = (
        f"ALiBi with windows of {trained} and of {FAR * trained} tokens: the non-overlapping loss "
        f"goes from {apart[0]:.3f} to {apart[1]:.3f}, the sliding one from {sliding[0]:.3f} to "
        f"{sliding[1]:.3f} on the same tokens (stride {found.settings.stride}). In "
        "longer windows fewer tokens stand at the beginning, which by itself may lower the first; "
        "only what the second gains can come from distant text. "
    )
    flat = sliding[1] <= FLAT * sliding[0]
    return said + _far_values(readings, trained) + _far_recall(found, alibi, flat)


def _from_to(kept: Sequence[DecoderFigures], kind: str, trained: int) -> tuple[float, float] | None:
    near = over_seeds(kept, loss_in(kind, trained))
    far = over_seeds(kept, loss_in(kind, FAR * trained))
    return None if near is None or far is None else (near.mean, far.mean)


def _far_values(readings: Sequence[WindowReading], trained: int) -> str:
    """What the longer window saves on the values that only distant text tells."""
    gains = []
    for reading in readings:
        near, far = reading.loss("sliding", trained), reading.loss("sliding", FAR * trained)
        if near and far and near.far is not None and far.far is not None:
            gains.append(near.far - far.far)
    if not gains:
        return ""
    return (
        f"On values last told {trained} to {FAR * trained} tokens ago the longer window saves "
        f"{words(interval(gains))} nats. "
    )


def _far_recall(found: Comparison, alibi: Variant, flat: bool) -> str:
    """Whether facts beyond the trained length are recalled, against chance and within it.

    `flat`: the loss hardly rises there, and says nothing of it.
    """
    settings = found.settings
    trained, chance = settings.trained_length, settings.language.chance
    near, far = (_hits(found, alibi, length) for length in (trained, FAR * trained))
    if near is None or far is None:
        return ""
    said = (
        f"Of facts in the first eighth of a window of {trained} it recalls {_share(near)}, of "
        f"those in the first eighth of {FAR * trained} {_share(far)}; chance is {chance:.1%}: "
    )
    shown = ", which its loss does not show. " if flat else ". "
    flat_proves = "Flat loss does not prove use of distant text." if flat else ""
    if far.low <= chance:
        return f"{said}not beyond chance. {flat_proves}".rstrip()
    if far.high < near.low:
        said += f"less than within its length{shown}"
    else:
        said += f"more than chance{shown}"
    return (said + flat_proves).rstrip() + (_other_order(found, alibi, far) if flat else "")


def _other_order(found: Comparison, alibi: Variant, far: Share) -> str:
    """The encoding that recalls most of distant text though its loss is higher, where one does."""
    length = FAR * found.settings.trained_length
    own = over_seeds(found.of(alibi), loss_in("sliding", length))
    best: tuple[Share, str] | None = None
    for variant in found.settings.variants:
        loss = over_seeds(found.of(variant), loss_in("sliding", length))
        hits = _hits(found, variant, length)
        if loss is None or own is None or hits is None or hits.low <= far.high:
            continue
        if loss.low > own.high and (best is None or hits.hits > best[0].hits):
            best = hits, f"{name(variant)}, whose sliding loss there is {loss.mean:.3f},"
    if best is None:
        return ""
    return f" Nor does a higher one disprove it: {best[1]} recalls {_share(best[0])}."


def _hits(found: Comparison, variant: Variant, length: int) -> Share | None:
    """Hits in the first eighth of a length, over all seeds; None unless every seed read it."""
    recalls = [each.reading.recall(length, near=False) for each in found.of(variant)]
    known = [each for each in recalls if each is not None]
    if not known or len(known) < len(recalls):
        return None
    return wilson(sum(each.hits for each in known), sum(each.asked for each in known))


def _share(found: Share) -> str:
    return f"{found.hits} of {found.judged} (95 % {found.low:.0%} to {found.high:.0%})"
