"""How a model's context length was obtained, in a sentence: recipes that a schedule gives away.

A file shows a schedule, never a training. Where a family's report is public, the sentence says
what it reports; otherwise it says that the file does not tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.findings.recorded import by_record, changed_since, still_holds
from ropewalk.findings.result import Origin
from ropewalk.rope import checks
from ropewalk.rope.frequencies import plain_inv_freq, scaled_inv_freq
from ropewalk.rope.scaling import (
    UNSCALED,
    DynamicNtk,
    LargerBase,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    NtkByParts,
    PairDivisors,
    Proportional,
    Scaling,
    Unscaled,
    Yarn,
    name_of,
)
from ropewalk.rope.spec import (
    Alibi,
    IncompleteRotary,
    LayerGroup,
    LearnedPositions,
    Length,
    NoPosition,
    PositionSpec,
    Recurrent,
    RelativeBuckets,
    RotarySpec,
    Sinusoidal,
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

YARN_TRAINED = {
    "deepseek": "DeepSeek reports training with it",
    "gpt_oss": "the gpt-oss model card reports it as part of the model",
    "gpt-oss": "the gpt-oss model card reports it as part of the model",
}
YARN_AT_INFERENCE = {
    "qwen2": "Qwen documents it as an edit for longer prompts",
    "qwen3": "Qwen documents it as an edit for longer prompts",
    "smollm3": "SmolLM3 reports it for inference past 64k",
}


def how_obtained(spec: PositionSpec, trained: Length) -> Origin:
    """The most likely way to the claimed length, with what the file cannot prove said openly.

    What the tool that extended a model wrote down counts before all else.
    """
    record = spec.extended
    if record is None:
        return _by_schedule(spec, trained)
    if still_holds(record, spec):
        return by_record(record, getattr(_leading(spec), "rope_theta", None))
    return changed_since(record, _by_schedule(spec, trained))


def _by_schedule(spec: PositionSpec, trained: Length) -> Origin:
    rotary = _leading(spec)
    if rotary is None:
        return Origin("not-rotary", _without_rotary(spec))
    scaling = rotary.scaling
    match scaling:
        case Unscaled() | Proportional(factor=1.0):
            if rotary.rope_theta is None:
                return Origin("unknown", "Unknown: the file does not give the base.")
            return _by_base(spec, trained, rotary.rope_theta)
        case Yarn():
            return _by_yarn(spec, scaling)
        case PairDivisors():
            return _by_divisors(rotary, scaling)
        case _:
            return _by_scaling(spec, scaling)


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


def _by_yarn(spec: PositionSpec, yarn: Yarn) -> Origin:
    what = f"factor {yarn.factor:g} from {yarn.original_max_position_embeddings} tokens"
    for family, report in YARN_TRAINED.items():
        if spec.model_type.startswith(family):
            return Origin(
                "yarn-trained",
                f"YaRN, trained ({what}): {report}; the file itself cannot show it.",
            )
    for family, report in YARN_AT_INFERENCE.items():
        if spec.model_type.startswith(family):
            return Origin(
                "yarn-inference",
                f"YaRN at inference only ({what}): {report}; no training with it is known.",
            )
    return Origin(
        "yarn", f"YaRN ({what}). The file does not say whether the model was trained with it."
    )


def _by_divisors(rotary: RotarySpec | IncompleteRotary, scaling: PairDivisors) -> Origin:
    rule = baked_llama3(rotary, scaling) if isinstance(rotary, RotarySpec) else None
    if rule is not None:
        return Origin(
            "llama3",
            f"llama3 rule: the file's divisors are those of factor {rule.factor:g} at reference "
            f"length {rule.original_max_position_embeddings}; the rule's own numbers are not "
            "in the file.",
        )
    return Origin(
        "pair-divisors",
        "A divisor for each pair, stored as a tensor. The file does not say which rule made it "
        "or what training followed.",
    )


def baked_llama3(rotary: RotarySpec, scaling: PairDivisors) -> Llama3 | None:
    """The llama3 rule behind stored divisors, when the published constants reproduce them.

    Constants: low 1, high 4, reference length 8192; the factor is the last divisor. Divisors
    are stored in fp32, so they agree to a relative 1e-4 at most.
    """
    if len(scaling.divisors) != rotary.pairs or not 1.0 < scaling.divisors[-1] <= checks.MOST:
        return None
    rule = Llama3(float(round(scaling.divisors[-1], 3)), 1.0, 4.0, 8192)
    as_rule = RotarySpec(rotary.head_dim, rotary.rotary_dim, rotary.rope_theta, scaling=rule)
    plain = plain_inv_freq(rotary.rope_theta, rotary.rotary_dim)
    made = [p / f for p, f in zip(plain, scaled_inv_freq(as_rule), strict=True)]
    close = all(abs(m - d) <= 1e-4 * d for m, d in zip(made, scaling.divisors, strict=True))
    return rule if close else None


def _by_scaling(spec: PositionSpec, scaling: Scaling) -> Origin:
    match scaling:
        case Linear(factor=factor) | Proportional(factor=factor):
            return _linear(spec, factor)
        case Llama3(factor=factor, original_max_position_embeddings=anchor):
            return Origin(
                "llama3",
                f"llama3 rule: slow pairs divided by {factor:g}, reference length {anchor}. Meta "
                "reports long training with it; the file does not say how long.",
            )
        case LongRope(short_factor=short, long_factor=long) if short == long:
            return Origin(
                "longrope",
                "longrope with equal short and long factors: a fixed rescaling of each pair at "
                "every length, not an extension by itself.",
            )
        case LongRope(original_max_position_embeddings=switch):
            return Origin(
                "longrope",
                f"longrope: a searched divisor for each pair, long ones past {switch} tokens. The "
                "file does not say how much training followed.",
            )
        case DynamicNtk(max_position_embeddings=anchor):
            return Origin(
                "dynamic",
                f"Dynamic NTK: as trained up to {anchor} tokens, and a base that grows with the "
                "prompt beyond. No training is implied.",
            )
        case Ntk(factor=factor):
            return Origin(
                "ntk",
                f"NTK-aware base, the slowest pair divided by {factor:g}. Nothing says whether "
                "the model was trained with it.",
            )
        case NtkByParts(factor=factor, original_max_position_embeddings=length):
            return Origin(
                "ntk-by-parts",
                f"NTK by parts (factor {factor:g} from {length} tokens), as YaRN's paper has it. "
                "Nothing says whether the model was trained with it.",
            )
        case LargerBase(rope_theta=base):
            return Origin(
                "larger-base",
                f"Larger base: raised to {base:,.10g} afterwards. Nothing says whether the model "
                "was trained with it.",
            )
        case _:
            return Origin("unknown", f"Unknown: scaling {name_of(scaling)!r} is not known here.")


def _linear(spec: PositionSpec, factor: float) -> Origin:
    if factor == 1.0:
        return Origin("as-trained", "As trained: linear scaling by 1 changes nothing.")
    turned = [
        g.encoding for g in spec.groups if isinstance(g.encoding, RotarySpec | IncompleteRotary)
    ]
    some = len({encoding.scaling for encoding in turned}) > 1
    where = " on some of the layers" if some else ""
    if spec.model_type.startswith("gemma3"):
        return Origin(
            "position-interpolation",
            f"Position interpolation by {factor:g}{where}: the Gemma 3 report trains at 32k and "
            "then scales; the file itself cannot show it.",
        )
    return Origin(
        "position-interpolation",
        f"Position interpolation by {factor:g}{where}. The file does not say whether training "
        "followed; without it, interpolation usually loses much.",
    )


def _without_rotary(spec: PositionSpec) -> str:
    kinds = {type(group.encoding) for group in spec.groups}
    if Alibi in kinds:
        return "Not rotary: ALiBi biases scores by distance, and its length is only a claim."
    if LearnedPositions in kinds:
        return "Not rotary: a learned table, whose number of rows is the length."
    if Sinusoidal in kinds:
        return "Not rotary: fixed sines and cosines added at the input, as trained."
    if RelativeBuckets in kinds:
        return "Not rotary: buckets of relative distance, without a hard length."
    if kinds <= {NoPosition, Recurrent} and kinds:
        return "Not rotary: no layer is told positions, and the length is only a claim."
    return "Unknown: the file describes no positional encoding."
