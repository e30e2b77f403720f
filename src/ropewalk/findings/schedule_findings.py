"""Findings that follow from a rotary schedule and the lengths together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ropewalk.findings.result import Origin, RotaryAudit
from ropewalk.rope.schedules import (
    DynamicNtk,
    Linear,
    Llama3,
    LongRope,
    PairDivisors,
    Scaling,
    SteppedNtk,
    Yarn,
    yarn_mscale,
)
from ropewalk.rope.spec import Finding, IncompleteRotary, Length, PositionSpec, RotarySpec

LENGTH_TOLERANCE = 0.01
"""Lengths within one per cent agree: configurations round them."""


def schedule_findings(
    spec: PositionSpec, trained: Length, rotary: tuple[RotaryAudit, ...], origin: Origin
) -> Iterator[Finding]:
    """Findings about scalings, and about the groups whose angles are known.

    What holds for several groups alike is said once, with their names before it; a model with
    one group needs no name.
    """
    about: dict[Finding, list[str]] = {}
    for group in spec.groups:
        if isinstance(group.encoding, RotarySpec | IncompleteRotary):
            scaling = group.encoding.scaling
            for finding in (
                *_factor_and_lengths(spec, trained, scaling),
                *_short_prompts(scaling, origin),
                *_length_dependence(spec, scaling),
                *_in_tensor(scaling),
            ):
                about.setdefault(finding, []).append(group.name)
    for part in rotary:
        for finding in (
            *_unseen(spec, trained, part),
            *_base_need(trained, part),
            *_amplitude(part),
        ):
            about.setdefault(finding, []).append(part.group.name)
    for finding, names in about.items():
        if len(spec.groups) == 1:
            text = finding.text[0].upper() + finding.text[1:]
        else:
            text = f"{' and '.join(names)}: {finding.text}"
        yield replace(finding, text=text)


def _factor_and_lengths(spec: PositionSpec, trained: Length, scaling: Scaling) -> Iterator[Finding]:
    claimed = spec.claimed.tokens
    if claimed is None:
        return
    match scaling:
        case Yarn(factor=factor) | Linear(factor=factor) if trained.stated and trained.tokens:
            reach = factor * trained.tokens
            if _agree(reach, claimed):
                return
            record = spec.extended
            if record and claimed == record.target and _agree(reach, record.made_for):
                yield Finding(
                    "made-for-longer",
                    "note",
                    f"factor {factor:g} x trained {trained.tokens} = {reach:.0f}, and {claimed} is "
                    "claimed: the schedule was made for a longer context on purpose, as the file "
                    "records.",
                    "Give engines the claimed length; one that multiplies the factor by the "
                    "trained length allows more than was meant.",
                )
                return
            yield Finding(
                "factor-lengths-disagree",
                "warning",
                f"factor {factor:g} x trained {trained.tokens} = {reach:.0f}, but "
                f"{claimed} is claimed, a ratio of {claimed / trained.tokens:g}.",
                "Find out which of the three numbers training used; engines follow the factor.",
            )
        case Llama3(factor=factor, original_max_position_embeddings=anchor):
            reach = factor * anchor
            if _agree(reach, claimed):
                return
            side = "short of" if reach < claimed else "beyond"
            yield Finding(
                "llama3-claim",
                "note",
                f"factor {factor:g} x reference length {anchor} = {reach:.0f}, {side} the "
                f"claimed {claimed}; the claim rests on {spec.claimed.source} alone.",
                "Do not compute a length from a llama3 factor; prove the one you need.",
            )
        case _:
            return


def _short_prompts(scaling: Scaling, origin: Origin) -> Iterator[Finding]:
    """Scalings that leave no prompt untouched."""
    if isinstance(scaling, Yarn) and scaling.factor > 1.0 and origin.code != "yarn-trained":
        yield Finding(
            "static-yarn",
            "note",
            "YaRN is static: it also changes prompts within "
            f"{scaling.original_max_position_embeddings} tokens, often for the worse.",
            "If the model was not trained with it, serve shorter prompts from a copy without the "
            f"scaling (--rope none) that claims {scaling.original_max_position_embeddings} tokens.",
        )
    if isinstance(scaling, LongRope) and any(f != 1.0 for f in scaling.short_factor):
        low, high = min(scaling.short_factor), max(scaling.short_factor)
        yield Finding(
            "short-factors-stretch",
            "note",
            f"the short factors are not 1 ({low:g} to {high:g}), so short prompts are "
            "rescaled too.",
            "Keep them: the model was fitted to them; do not serve short prompts unscaled.",
        )


def _length_dependence(spec: PositionSpec, scaling: Scaling) -> Iterator[Finding]:
    claimed = spec.claimed.tokens
    if isinstance(scaling, DynamicNtk) and scaling.factor != 1.0:
        yield Finding(
            "depends-on-length",
            "note",
            f"past {scaling.max_position_embeddings} tokens the base grows with the prompt. Keys "
            "cached before do not match later queries; engines differ: transformers recomputes "
            "with each call, vLLM fixes one length at load.",
            f"Stay within {scaling.max_position_embeddings} tokens, or fix one base for all "
            "lengths.",
        )
    if isinstance(scaling, SteppedNtk):
        yield Finding(
            "depends-on-length",
            "note",
            f"past {scaling.seq_length} tokens the base grows in steps with the prompt: alpha "
            f"{scaling.alpha(2 * scaling.seq_length):g} up to {2 * scaling.seq_length} tokens, "
            f"{scaling.alpha(4 * scaling.seq_length):g} up to {4 * scaling.seq_length}. Keys "
            "cached before a step do not match later queries, and no engine but the model's own "
            "code does this.",
            f"Stay within {scaling.seq_length} tokens elsewhere.",
        )
    if not isinstance(scaling, LongRope) or scaling.short_factor == scaling.long_factor:
        return
    if claimed is not None and claimed <= scaling.original_max_position_embeddings:
        return
    yield Finding(
        "depends-on-length",
        "warning",
        f"the factors switch past {scaling.original_max_position_embeddings} tokens. Keys cached "
        "before the switch do not match later queries; engines differ: transformers chooses with "
        "each call, "
        "vLLM once at load, mlx always takes the long factors.",
        "Choose the mode by the longest length that a conversation will reach, before it starts.",
    )


def _in_tensor(scaling: Scaling) -> Iterator[Finding]:
    if isinstance(scaling, PairDivisors):
        yield Finding(
            "schedule-in-tensor",
            "note",
            "the scaling lies only in a tensor of divisors, which some loaders drop "
            "(transformers does, for a GGUF).",
            "Compare the live tables with the file after loading; `ropewalk prove` does.",
        )


def _unseen(spec: PositionSpec, trained: Length, part: RotaryAudit) -> Iterator[Finding]:
    if not part.unseen:
        return
    text = (
        f"{part.unseen} of {len(part.pairs)} pairs meet angles at {spec.claimed.tokens} "
        f"tokens that {trained.tokens} tokens never showed."
    )
    if spec.dual_chunk is not None:
        yield Finding(
            "unseen-angles",
            "note",
            f"{text[:-1]}, where the attention is a plain one; dual chunks keep distances within "
            "those.",
        )
        return
    if isinstance(part.rotary.scaling, Llama3):
        yield Finding(
            "unseen-angles",
            "note",
            f"{text[:-1]}; that is the formula's reference length, and later training may have "
            "shown them.",
            "Read the model's report for the lengths of its last training.",
        )
        return
    if isinstance(part.rotary.scaling, LongRope):
        yield from _unseen_by_longrope(spec, text, part.rotary.scaling)
        return
    yield Finding(
        "unseen-angles",
        "warning",
        text,
        "Scale further, train at the claimed length, or stay within the trained one.",
    )


def _unseen_by_longrope(spec: PositionSpec, text: str, scaling: LongRope) -> Iterator[Finding]:
    """LongRoPE's factors are searched pair by pair and then trained with, so that unseen angles
    are no surprise; slowest pairs that are not stretched as far as the claim are one.
    """
    yield Finding(
        "unseen-angles",
        "note",
        f"{text[:-1]}; that is the length before the factors were searched, and training with "
        "them may have shown them.",
        "Read the model's report for the lengths of its last training.",
    )
    widest, needed = (
        max(scaling.long_factor),
        (spec.claimed.tokens or 0) / scaling.original_max_position_embeddings,
    )
    # Where long and short are the same, a finding of the reader says why.
    told = scaling.long_factor == scaling.short_factor
    if widest < needed and not _agree(widest, needed) and not told:
        yield Finding(
            "long-factors-short",
            "warning",
            f"the long factors reach {widest:g} at most, and {spec.claimed.tokens} tokens are "
            f"{needed:g} times {scaling.original_max_position_embeddings}: the slowest pairs are "
            "not stretched as far as the claim.",
            "Compare the list with the publisher's file; if it is so there, stay within the "
            "original length.",
        )


def _base_need(trained: Length, part: RotaryAudit) -> Iterator[Finding]:
    horizon, window = part.trained_horizon, part.group.window
    if horizon is None or horizon.tokens is None or trained.tokens is None:
        return
    if window is not None and window.reach <= horizon.tokens:
        return
    guessed = "" if trained.stated else "guessed "
    yield Finding(
        "horizon-below-trained",
        "note",
        f"base {part.rotary.rope_theta:,.10g} has its similarity horizon at "
        f"{horizon.tokens} tokens, below the {guessed}trained length {trained.tokens}. A "
        "diagnostic, not a verdict: many good models are like this.",
        f"Prove retrieval beyond {horizon.tokens} tokens.",
    )


def _amplitude(part: RotaryAudit) -> Iterator[Finding]:
    """An mscale pair on a model whose softmax carries nothing of it.

    An equal pair is the way in which Mistral's own files say that there is no amplitude.
    """
    scaling = part.rotary.scaling
    if not isinstance(scaling, Yarn) or scaling.attention_factor is not None:
        return
    if not scaling.mscale or not scaling.mscale_all_dim or scaling.factor <= 1.0:
        return
    if part.group.softmax.factor != 1.0:
        return
    pair = f"mscale {scaling.mscale:g} over mscale_all_dim {scaling.mscale_all_dim:g}"
    without = (
        "Leave both keys as published: without them cos and sin would be multiplied by "
        f"{yarn_mscale(scaling.factor):.5g}."
    )
    if scaling.mscale == scaling.mscale_all_dim:
        yield Finding(
            "mscale-pair-cancels",
            "note",
            f"{pair} leaves 1 on cos and sin, so that there is no amplitude: Mistral's files say "
            "so on purpose.",
            without,
        )
        return
    wanted = yarn_mscale(scaling.factor, scaling.mscale_all_dim) ** 2
    yield Finding(
        "amplitude-incomplete",
        "warning",
        f"{pair} leaves {part.claim.attention_factor:g} on cos and sin, and nothing here "
        f"multiplies the softmax by {wanted:.5g}, as DeepSeek's code would.",
        f"Look in the model's code whether its softmax is scaled. {without}",
    )


def _agree(first: float, second: float) -> bool:
    return abs(first - second) <= LENGTH_TOLERANCE * max(first, second)
