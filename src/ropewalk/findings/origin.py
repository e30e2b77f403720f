"""How a model's context length was obtained, in a sentence: recipes that a schedule gives away.

A file shows a schedule, never a training. Where a family's report is public, the sentence says
what it reports; otherwise it says that the file does not tell. What a schedule is called is said
by its record; what the tool that extended a model wrote into the file counts before all else, as
long as the schedule is the one that it wrote.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.errors import ScheduleError
from ropewalk.findings.result import Origin
from ropewalk.rope.frequencies import schedule_fingerprint
from ropewalk.rope.schedules import (
    UNSCALED,
    Linear,
    Llama3,
    OriginWords,
    Proportional,
    Scaling,
    Yarn,
    words_of,
)
from ropewalk.rope.spec import (
    AlibiSpec,
    ContentBias,
    Extended,
    IncompleteRotary,
    LayerGroup,
    LearnedPositions,
    Length,
    NoPositionSpec,
    PositionSpec,
    Recurrent,
    RelativeBuckets,
    RotarySpec,
    SinusoidalSpec,
)
from ropewalk.short import short

ORIGINAL_BASE = 10_000.0
"""RoFormer's base; anything well above it has been raised at some time."""


@short
@dataclass(frozen=True, slots=True)
class Recipe:
    """A published recipe: families by the start of their model_type, a base, claimed lengths."""

    families: tuple[str, ...]
    base: float
    claims: tuple[int, ...]
    code: str
    sentence: str


BASE_RECIPES = (
    Recipe(("llama",), 5e5, (8192,), "as-trained",
             "As trained: Llama 3 was reported to be trained at base 500,000 from the start"),
    Recipe(("llama",), 8e6, (65536,), "larger-base",
             "Larger base, trained: ProLong reports base 8,000,000 for its training at 64k"),
    Recipe(("llama",), 1.28e8, (524288,), "larger-base",
             "Larger base, trained: ProLong reports base 128,000,000 for its training at 512k"),
    Recipe(("llama",), 5e6, (200000,), "larger-base",
             "Larger base, trained: Yi-200k reports a raised base and 5B tokens of training"),
    Recipe(("mistral",), 1e6, (32768,), "larger-base",
             "Larger base: Mistral 7B v0.2 went from 10,000 to 1,000,000; its training is not "
             "disclosed"),
    Recipe(("qwen2", "qwen3"), 1e6, (32768, 40960), "larger-base",
             "Larger base, trained: the Qwen reports go from 10,000 to 1,000,000 for training at "
             "32k"),
    Recipe(("smollm3",), 1.5e6, (32768,), "larger-base",
             "Larger base, trained: SmolLM3 reports base 1,500,000 for its training at 32k"),
    Recipe(("smollm3",), 5e6, (65536,), "larger-base",
             "Larger base, trained: SmolLM3 reports base 5,000,000 for its training at 64k"),
    Recipe(("apertus",), 12e6, (65536,), "larger-base",
             "Larger base, trained: Apertus reports base 12,000,000 for its training at 64k"),
)  # fmt: skip


@short
@dataclass(frozen=True, slots=True)
class Reported:
    """What is published on a family and a schedule: how it was put in, and who says so.

    `factors`: those of the models that are spoken of, where others have the family's code too.
    """

    families: tuple[str, ...]
    schedules: tuple[type[Scaling], ...]
    how: str
    report: str
    code: str | None = None
    factors: tuple[float, ...] = ()


REPORTS = (
    Reported(("deepseek",), (Yarn,), "trained",
             "DeepSeek reports training with it", "yarn-trained", (40.0,)),
    Reported(("llama",), (Llama3,), "trained",
             "Meta reports long training with it", None, (8.0, 32.0)),
    Reported(("gpt_oss", "gpt-oss"), (Yarn,), "trained",
             "the gpt-oss model card reports it as part of the model", "yarn-trained"),
    Reported(("qwen2", "qwen3"), (Yarn,), "at inference only",
             "Qwen documents it as an edit for longer prompts, and no training with it is known",
             "yarn-inference"),
    Reported(("smollm3",), (Yarn,), "at inference only",
             "SmolLM3 reports it for inference past 64k, and no training with it is known",
             "yarn-inference"),
    Reported(("gemma3",), (Linear, Proportional), "after training",
             "the Gemma 3 report trains at 32k and then scales"),
)  # fmt: skip
"""Matched by the beginning of the model_type."""


def how_obtained(spec: PositionSpec, trained: Length) -> Origin:
    """The most likely way to the claimed length, with what the file cannot prove said openly."""
    record = spec.extended
    if record is None:
        return _by_schedule(spec, trained)
    words = words_of(record.method)
    if words is not None and _still_holds(record, spec):
        return _by_record(record, words, _leading(spec))
    shown = _by_schedule(spec, trained)
    return Origin(
        shown.code,
        f"{shown.sentence} The file records that {record.tool} extended it to "
        f"{record.target:,} tokens (method {record.method}); its schedule or its claim was changed "
        "since.",
    )


def _still_holds(record: Extended, spec: PositionSpec) -> bool:
    """Whether the spec claims the recorded length, and rotates as it did then."""
    try:
        same = schedule_fingerprint(spec) == record.fingerprint
    except ScheduleError:
        return False
    return same and spec.claimed.tokens == record.target


def _by_record(
    record: Extended, words: OriginWords, now: RotarySpec | IncompleteRotary | None
) -> Origin:
    """The origin that a record tells; `now` is the encoding in the file."""
    base = None if now is None else now.rope_theta
    filled = words.filled(
        {
            **({} if now is None else now.scaling.numbers()),
            "factor": record.made_for / record.trained,
            "original_max_position_embeddings": record.trained,
        }
    )
    raised = ""
    if base is not None and base != record.rope_theta:
        raised = f" (rope_theta {record.rope_theta:,.10g} before, {base:,.10g} now)"
    room = "" if record.made_for == record.target else f", made for {record.made_for:,}"
    return Origin(
        words.code,
        f"{filled.what}{raised}; extended from {record.trained:,} to {record.target:,} "
        f"tokens{room}, by {record.tool} (method {record.method}), as the file records. It does "
        "not say whether training followed.",
    )


def _by_schedule(spec: PositionSpec, trained: Length) -> Origin:
    rotary = _leading(spec)
    if rotary is None:
        return Origin("not-rotary", _without_rotary(spec))
    scaling = rotary.scaling
    if not scaling.stretches:
        if rotary.rope_theta is None:
            return Origin("unknown", "Unknown: the file does not give the base.")
        return _by_base(spec, trained, rotary.rope_theta)
    words = scaling.told(rotary if isinstance(rotary, RotarySpec) else None)
    rotated = [
        g.encoding.scaling
        for g in spec.groups
        if isinstance(g.encoding, RotarySpec | IncompleteRotary)
    ]
    what = words.what + (" on some of the layers" if len({*rotated}) > 1 else "")
    for each in REPORTS:
        theirs = not each.factors or scaling.numbers().get("factor") in each.factors
        family = spec.model_type.startswith(each.families)
        if isinstance(scaling, each.schedules) and family and theirs:
            sentence = f"{what}, {each.how}: {each.report}; the file itself cannot show it."
            return Origin(each.code or words.code, sentence)
    return Origin(words.code, f"{what}. {words.unsaid}".rstrip())


def _leading(spec: PositionSpec) -> RotarySpec | IncompleteRotary | None:
    """The encoding that carries the length: scaled before plain, unwindowed before windowed."""

    def rank(group: LayerGroup) -> tuple[bool, bool, float]:
        encoding = group.encoding
        scaled = (
            isinstance(encoding, RotarySpec | IncompleteRotary) and encoding.scaling != UNSCALED
        )
        return not scaled, group.window is not None, -(getattr(encoding, "rope_theta", None) or 0.0)

    found = [g for g in spec.groups if isinstance(g.encoding, RotarySpec | IncompleteRotary)]
    if not found:
        return None
    best = min(found, key=rank).encoding
    return best if isinstance(best, RotarySpec | IncompleteRotary) else None


def _by_base(spec: PositionSpec, trained: Length, base: float) -> Origin:
    claimed = spec.claimed.tokens
    if claimed is not None and trained.stated and (trained.tokens or claimed) < claimed:
        return Origin(
            "unknown",
            f"Unknown: the file states {trained.tokens} trained and claims {claimed}, and nothing "
            "in the schedule accounts for the difference.",
        )
    if base <= ORIGINAL_BASE * 1.01:
        return Origin(
            "as-trained",
            f"As trained: base {base:,g}, and nothing in the file stretches positions.",
        )
    for recipe in BASE_RECIPES:
        if (
            spec.model_type.startswith(recipe.families)
            and base == recipe.base
            and claimed in recipe.claims
        ):
            return Origin(recipe.code, recipe.sentence + "; the file itself cannot show it.")
    return Origin(
        "larger-base",
        f"Larger base: {base:,.10g} where the original is 10,000. The file does not say "
        "whether training began with it or it was raised for length.",
    )


def _without_rotary(spec: PositionSpec) -> str:
    kinds = {type(group.encoding) for group in spec.groups}
    if AlibiSpec in kinds:
        return "Not rotary: ALiBi biases scores by distance, and its length is only a claim."
    if LearnedPositions in kinds:
        return "Not rotary: a learned table, whose number of rows is the length."
    if SinusoidalSpec in kinds:
        return "Not rotary: fixed sines and cosines added at the input, as trained."
    if RelativeBuckets in kinds:
        return "Not rotary: buckets of relative distance, without a hard length."
    if ContentBias in kinds:
        return "Not rotary: a relative bias that each query mixes for itself, as trained."
    if kinds <= {NoPositionSpec, Recurrent} and kinds:
        return "Not rotary: no layer is told positions, and the length is only a claim."
    return "Unknown: the file describes no positional encoding."
