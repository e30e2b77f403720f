"""The lengths a configuration names: the claimed one, the trained one, and the rest.

Many keys name a length and mean different things. The first of `CLAIMED_KEYS` that a file has is
its claim, as in transformers; a later one with another number is kept beside it and remarked,
never merged. The trained length comes only from keys that mean it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.dialects.hf.defaults import BucketFacts, Facts
from ropewalk.dialects.values import MAX_LENGTH, Notes, Section
from ropewalk.rope.spec import Length
from ropewalk.short import short

CLAIMED_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "max_seq_len",
    "max_sequence_length",
    "seq_length",
    "seq_len",
    "model_max_length",
    "max_target_positions",
)
ORIGINAL = "original_max_position_embeddings"
CONVERTER_LENGTH = 8192
"""llama.cpp's converter reads llama3's reference length at the top of the file alone, and takes
this one where it is not there (`generate_extra_tensors` in `conversion/llama.py`)."""
TRAINED_KEYS = (ORIGINAL, "initial_context_length", "max_trained_positions")


@short
@dataclass(frozen=True, slots=True)
class Lengths:
    """What the files say of length, in tokens."""

    claimed: Length
    trained: Length
    others: tuple[Length, ...]


def read_lengths(
    config: Section,
    rope: Section,
    rope_stated: bool,
    facts: Facts,
    model_type: str,
    tokenizer: Section | None,
    notes: Notes,
) -> Lengths:
    """All lengths of a configuration; `rope` is the rope dictionary that counts, maybe empty.

    `rope_stated` is False when that dictionary is the library's default rather than the file's.
    """
    named = {
        key: Length(tokens, config.name(key))
        for key in CLAIMED_KEYS
        if (tokens := config.length(key)) is not None
    }
    claimed = next(iter(named.values()), _default_claim(facts, model_type))
    trained = _trained_candidates(config, rope, rope_stated) + _dual_chunk(config)
    shorter = named.get("seq_length")
    if not trained and shorter and (shorter.tokens or 0) < (claimed.tokens or 0):
        # Qwen's first files: the training length beside a larger maximum.
        trained = [named.pop("seq_length")]
    first = trained[0] if trained else Length.unknown(_no_trained_text())
    meant = _by_factor(rope, claimed, notes) if rope_stated else None
    under = [claimed] if meant is not None else []
    if meant is not None:
        # What remains under that key is the original length once more.
        named = {k: v for k, v in named.items() if v.tokens != claimed.tokens}
        claimed = meant
    claims = [length for length in named.values() if length.tokens != claimed.tokens]
    _remark_on_trained(trained, notes)
    _remark_on_claims(claimed, claims, notes)
    others = claims + [x for x in trained[1:] if x.tokens != first.tokens]
    others += under + _tokenizer_length(tokenizer, claimed, notes)
    return Lengths(claimed, first, tuple(others))


def _by_factor(rope: Section, claimed: Length, notes: Notes) -> Length | None:
    """The claim of a file whose yarn starts from the length that it claims: factor times that.

    Qwen's cards add yarn and leave max_position_embeddings at the original length, and vLLM
    multiplies the two (`_get_and_verify_max_len`).
    """
    kind = rope.text("rope_type") or rope.text("type")
    original, factor = rope.length(ORIGINAL), rope.number("factor")
    if kind != "yarn" or original is None or original != claimed.tokens or (factor or 0) <= 1:
        return None
    tokens = round(original * (factor or 1.0))
    if tokens > MAX_LENGTH:
        return None
    notes.note(
        "claim-by-factor",
        f"{claimed.source} {claimed.tokens} is the length that yarn starts from, not the one that "
        f"it is for: factor {factor:g} makes it {tokens}, as vLLM reckons; transformers and mlx-lm "
        "rotate alike and name no other length",
        f"write {tokens} under {claimed.source}, so that every engine takes it for the claim",
    )
    return Length(tokens, f"{rope.name('factor')} {factor:g} x {original}", stated=False)


def _default_claim(facts: Facts, model_type: str) -> Length:
    """The library's default, or why there is none."""
    if isinstance(facts, BucketFacts):
        return Length.unknown("no length key; relative buckets set no limit")
    if facts.claimed is None:
        return Length.unknown("no length key in the file")
    return Length(
        facts.claimed, f"transformers' default for {model_type}: {facts.claimed}", stated=False
    )


def _trained_candidates(config: Section, rope: Section, rope_stated: bool) -> list[Length]:
    """Every key that states the trained length, the one that counts first."""
    inner = rope.length(ORIGINAL)
    llama3 = (rope.text("rope_type") or rope.text("type")) == "llama3"
    found: list[Length] = []
    for key in TRAINED_KEYS:
        outer = config.length(key)
        if outer is not None:
            found.append(Length(outer, config.name(key)))
        if key == ORIGINAL and inner is not None:
            meaning = " (the reference length of the llama3 formula)" if llama3 else ""
            found.append(Length(inner, rope.name(key) + meaning, stated=rope_stated))
    return found


def _dual_chunk(config: Section) -> list[Length]:
    """The original length of dual chunk attention (Qwen2.5-1M, 2501.15383)."""
    key = "dual_chunk_attention_config"
    part = config.section(key) if config.has(key) else None
    if part is None:
        return []
    original = part.length(ORIGINAL)
    return [] if original is None else [Length(original, f"{part.name(ORIGINAL)}")]


def _remark_on_trained(trained: list[Length], notes: Notes) -> None:
    """Two keys for the trained length that differ."""
    for other in trained[1:]:
        if other.tokens != trained[0].tokens:
            notes.warn(
                "trained-lengths-disagree",
                f"{trained[0].source} says {trained[0].tokens}, {other.source} says "
                f"{other.tokens}; transformers takes the first",
                "find out which is right and remove the other",
            )


def _remark_on_claims(claimed: Length, others: list[Length], notes: Notes) -> None:
    """Length keys with other numbers than the claim."""
    for other in others:
        notes.warn(
            "lengths-disagree",
            f"{claimed.source} says {claimed.tokens}, {other.source} says {other.tokens}; "
            f"transformers reads {claimed.source}",
            "ask the model's authors which length they promise, or measure it",
        )


def _tokenizer_length(tokenizer: Section | None, claimed: Length, notes: Notes) -> list[Length]:
    """`model_max_length` of tokenizer_config.json; its 1e30 stands for "no limit"."""
    value = tokenizer.values.get("model_max_length") if tokenizer else None
    unlimited = (
        isinstance(value, int | float) and not isinstance(value, bool) and value > MAX_LENGTH
    )
    if tokenizer is None or value is None or unlimited:
        return []
    tokens = tokenizer.length("model_max_length")
    if claimed.tokens and tokens and tokens > claimed.tokens:
        notes.warn(
            "tokenizer-length-beyond-claim",
            f"the tokenizer allows {tokens} tokens, {claimed.source} says {claimed.tokens}: "
            "the tokenizer will not warn about prompts that are too long",
            "rely on the configuration's length",
        )
    return [Length(tokens, f"{tokenizer.where}: model_max_length")]


def _no_trained_text() -> str:
    """Why there is no trained length, with the keys that would have said it."""
    return f"not stated (no {', no '.join(TRAINED_KEYS)})"
