"""A rope dictionary's scaling type and parameters into `ropewalk.rope.schedules`.

Rules of transformers 5.24: `rope_type` beats its old name `type`; `su` is longrope; `mrope` is
no scaling but a split of the pairs; dynamic anchors on the claimed length; yarn and longrope
take the ratio of lengths where the factor is missing; a top-level original length beats the one
inside a flat dictionary; proportional takes partial_rotary_factor for the share of its pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ropewalk.dialects.hf.length_keys import ORIGINAL
from ropewalk.dialects.values import Notes, Section, shown
from ropewalk.errors import ConfigError
from ropewalk.rope.schedules import (
    SCHEDULES,
    UNSCALED,
    DynamicNtk,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    Proportional,
    Scaling,
    UnknownScaling,
    Unscaled,
    Yarn,
)
from ropewalk.rope.spec import Length
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a rope dictionary's meaning depends on beside itself.

    `config` is the section that holds the dictionary, `pairs` the count of rotary pairs where
    known, `nested` whether the dictionary belongs to one kind of layer, `original` the default
    of the model type for the key of that name beside the dictionary.
    """

    config: Section
    claimed: Length
    pairs: int | None
    model_type: str
    nested: bool
    notes: Notes
    original: int | None = None


_WORDS = {
    word: record
    for record in SCHEDULES
    for word in (record.spelled.hf5, *record.spelled.hf_aliases)
    if word is not None
}
_ALIASES = {word: record.spelled.hf5 or word for word, record in _WORDS.items()}

# Spellings that mark a layout in other tools' files and scale nothing.
_MARKERS = {"gptj": "MLC-LLM's marker for the interleaved layout"}

_ALWAYS = frozenset({"rope_type", "type", "rope_theta", "partial_rotary_factor"})
_MROPE = frozenset({"mrope_section", "mrope_interleaved", "xdrope_section"})
_BETA_MODELS = frozenset({"mistral4", "ministral3"})
_LONGROPE_ONLY = frozenset({"phi3", "phi4_multimodal"})


def type_of(rope: Section, notes: Notes) -> str:
    """The scaling type's name as transformers takes it; "default" where none is given."""
    new, old = rope.text("rope_type"), rope.text("type")
    if new and old and _ALIASES.get(new, new) != _ALIASES.get(old, old):
        notes.warn(
            "type-and-rope-type-differ",
            f"{rope.name('rope_type')} is {new!r} and {rope.name('type')} is {old!r}; "
            "transformers takes rope_type",
            "remove the old key",
        )
    name = new or old
    if name is None and rope.has("factor"):
        notes.warn(
            "no-rope-type",
            f"{rope.path} gives a factor and no rope_type, so nothing is scaled",
            "find out whether training scaled by it: if so, add its rope_type; if not, remove it",
        )
    return _ALIASES.get(name, name) if name else "default"


def read_scaling(rope: Section, around: Surroundings) -> Scaling:
    """The scaling that a rope dictionary asks for.

    Raises ConfigError for missing, impossible or contradicting parameters.
    """
    name = type_of(rope, around.notes)
    if name == "yarn" and around.model_type in _LONGROPE_ONLY and rope.has("short_factor"):
        around.notes.note(
            "yarn-read-as-longrope",
            f"{rope.path} says yarn and has longrope's lists; transformers' {around.model_type} "
            "takes it for longrope",
            'write "rope_type": "longrope"',
        )
        name = "longrope"
    if name == "xdrope" and around.model_type.startswith("hunyuan"):
        # That family's older word; its class reads it so.
        name = "dynamic"
    if name in _MARKERS:
        around.notes.note(
            "marker-not-a-scaling",
            f"{rope.path} says {name!r}, which is {_MARKERS[name]}; nothing is scaled",
        )
        return UNSCALED
    record = _WORDS.get(name)
    if record is None or record not in _READERS:
        around.notes.warn(
            "unknown-scaling-type",
            f"{rope.path} asks for {name!r}, which is not known here, so its frequencies "
            "cannot be computed",
            f"known types: {', '.join(KNOWN_TYPES)}",
        )
        others = sorted((k, shown(v)) for k, v in rope.values.items() if k not in _ALWAYS)
        return UnknownScaling(name, tuple(others))
    _remark_on_keys(rope, name, around)
    return _READERS[record](rope, around)


def _default(rope: Section, around: Surroundings) -> Scaling:  # noqa: ARG001 - one signature
    return UNSCALED


def _linear(rope: Section, around: Surroundings) -> Scaling:
    return Linear(_factor(rope, around))


def _dynamic(rope: Section, around: Surroundings) -> Scaling:
    alpha = rope.number("alpha")
    if alpha is not None and around.model_type.startswith("hunyuan"):
        around.notes.note(
            "dynamic-with-alpha",
            f"{rope.path} is called {type_of(rope, around.notes)} and has alpha {alpha:g}: in this "
            "family a fixed larger base, whatever the length",
        )
        return Ntk(alpha)
    factor = _factor(rope, around)
    anchor = around.claimed.tokens
    if anchor is None:
        raise ConfigError(
            f"{rope.where}: {rope.path} is dynamic and needs max_position_embeddings, the "
            "length from which it starts to scale; add that key"
        )
    return DynamicNtk(factor, anchor)


def _yarn(rope: Section, around: Surroundings) -> Scaling:
    original = original_length(rope, around)
    truncate = rope.flag("truncate")
    mscale = rope.number("mscale", zero=True)
    all_dim = rope.number("mscale_all_dim", zero=True)
    if bool(mscale) != bool(all_dim) and not rope.has("attention_factor"):
        alone = "mscale" if mscale else "mscale_all_dim"
        latent = around.config.has("qk_rope_head_dim")
        around.notes.note(
            "mscale-ignored",
            f"{rope.name(alone)} stands without its partner; transformers uses mscale and "
            "mscale_all_dim only as a pair for the amplitude",
            "look in the model's code what stands for the missing one there"
            if latent
            else "remove it if the model was trained by transformers' rule, where nothing changes "
            "without it: other engines do read it alone",
        )
    return Yarn(
        factor=_factor_or_ratio(rope, around, original),
        original_max_position_embeddings=original,
        # transformers takes 0 as "not given" here.
        beta_fast=rope.number("beta_fast", zero=True) or 32.0,
        beta_slow=rope.number("beta_slow", zero=True) or 1.0,
        truncate=True if truncate is None else truncate,
        attention_factor=rope.number("attention_factor"),
        mscale=mscale,
        mscale_all_dim=all_dim,
    )


def _llama3(rope: Section, around: Surroundings) -> Scaling:
    low, high = _needed(rope, "low_freq_factor"), _needed(rope, "high_freq_factor")
    if high == low:
        cut = (
            f"{rope.name('high_freq_factor')} {high:g} is not above low_freq_factor {low:g}: "
            "frequencies are kept or divided with no blend between"
        )
        if around.model_type == "llama4_text":
            around.notes.note("llama3-hard-cut", f"{cut}, as Llama 4's own files have it")
        else:
            remedy = "Llama 3.1 has 1 and 4; check that the cut is meant"
            around.notes.warn("llama3-hard-cut", cut, remedy)
    return Llama3(_factor(rope, around), low, high, original_length(rope, around))


def _longrope(rope: Section, around: Surroundings) -> Scaling:
    short, long = (_divisors(rope, key, around) for key in ("short_factor", "long_factor"))
    original = original_length(rope, around)
    if original < 2:
        raise ConfigError(
            f"{rope.where}: {rope.path} is longrope with an original length of {original}; "
            "its amplitude divides by the logarithm of that length, which must be at least 2"
        )
    factor = _factor_or_ratio(rope, around, original)
    if around.model_type == "phimoe":
        # transformers 5.24, modeling_phimoe: the length it compares is that of its own table.
        around.notes.warn(
            "long-factors-not-taken",
            f"transformers 5.24's phimoe always takes {rope.path}.short_factor, also beyond "
            f"{original} tokens; described here as it computes",
            "serve long prompts with an engine that takes long_factor there",
        )
        long = short
    return LongRope(short, long, original, factor, _longrope_amplitude(rope, around))


def _longrope_amplitude(rope: Section, around: Surroundings) -> float | None:
    """The stated amplitude, None for the rule's own; phimoe's code multiplies by its two keys."""
    if around.model_type != "phimoe":
        return rope.number("attention_factor")
    within, beyond = (rope.number(f"{mode}_mscale") for mode in ("short", "long"))
    if within is None or beyond is None:
        around.notes.warn(
            "phimoe-amplitude-missing",
            f"{rope.path} has no short_mscale and long_mscale, without which transformers' phimoe "
            "does not load",
            "take both from the checkpoint's publisher",
        )
    elif within != beyond:
        around.notes.warn(
            "phimoe-two-amplitudes",
            f"short_mscale {within:g} and long_mscale {beyond:g} are two amplitudes, by the length "
            "of a prompt; the schedule shown here holds the first",
        )
    return within


def _divisors(rope: Section, key: str, around: Surroundings) -> tuple[float, ...]:
    """One of longrope's lists, checked against the count of pairs."""
    values = rope.numbers(key)
    if values is None:
        raise rope.wrong(key, "a list of numbers, one for each rotary pair,")
    if around.pairs is not None and len(values) != around.pairs:
        raise rope.wrong(
            key,
            f"one number for each of the {around.pairs} rotary pairs",
            "check head_dim and partial_rotary_factor",
        )
    return values


def _proportional(rope: Section, around: Surroundings) -> Scaling:
    share = rope.number("partial_rotary_factor") or around.config.number("partial_rotary_factor")
    if share is None:
        around.notes.warn(
            "proportional-without-share",
            f"{rope.name('partial_rotary_factor')} is missing, so every pair is rotated and "
            "proportional is no more than linear scaling",
            "add partial_rotary_factor: Gemma 4 has 0.25",
        )
    return Proportional(share or 1.0, _factor(rope, around) if rope.has("factor") else 1.0)


_READERS: dict[type[Scaling], Callable[[Section, Surroundings], Scaling]] = {
    Unscaled: _default,
    Linear: _linear,
    DynamicNtk: _dynamic,
    Yarn: _yarn,
    Llama3: _llama3,
    LongRope: _longrope,
    Proportional: _proportional,
}
"""Of each record that transformers has a word for; tests see that none is left out."""

KNOWN_TYPES = tuple(record.spelled.hf5 for record in _READERS if record.spelled.hf5)


def original_length(rope: Section, around: Surroundings) -> int:
    """The reference length of a formula: outer key, inner key, or the claim as a fallback."""
    outer, inner = around.config.length(ORIGINAL), rope.length(ORIGINAL)
    if outer is None and around.original is not None and not around.nested:
        around.notes.warn(
            "original-length-from-default",
            f"{around.config.name(ORIGINAL)} is not there; transformers' {around.model_type} "
            f"computes with its default {around.original}"
            + (f" and not with {rope.name(ORIGINAL)} {inner}" if inner else ""),
            f"state {ORIGINAL} {inner} beside the rope dictionary, if that is the trained length"
            if inner
            else f"state the trained length as {ORIGINAL} beside the rope dictionary",
        )
        return around.original
    value = (inner or outer) if around.nested else (outer or inner)
    if value is not None:
        return value
    if around.claimed.tokens is None:
        raise ConfigError(
            f"{rope.where}: {rope.path} needs {ORIGINAL} (or max_position_embeddings, which "
            "transformers takes in its place), and the file has neither"
        )
    around.notes.warn(
        "original-length-missing",
        f"{rope.name(ORIGINAL)} is missing; transformers computes with the claimed length "
        f"{around.claimed.tokens} in its place",
        f"add {ORIGINAL}: the length the model was trained with",
    )
    return around.claimed.tokens


def _needed(rope: Section, key: str) -> float:
    """A number that its type cannot do without."""
    value = rope.number(key)
    if value is None:
        name = rope.text("rope_type") or rope.text("type")
        raise rope.wrong(key, "a number above 0", f"scaling type {name!r} needs it")
    return value


def _factor(rope: Section, around: Surroundings) -> float:
    """The stated factor, which must be there."""
    factor = _needed(rope, "factor")
    if factor < 1.0:
        around.notes.warn(
            "factor-below-one",
            f"{rope.name('factor')} is {factor:g}: it squeezes the context instead of "
            "stretching it",
            "factors are the ratio of the new length to the old, so 1 or more",
        )
    return factor


def _factor_or_ratio(rope: Section, around: Surroundings, original: int) -> float:
    """The stated factor, or the claimed length over the original one."""
    if rope.has("factor"):
        return _factor(rope, around)
    if around.claimed.tokens is None:
        raise rope.wrong("factor", "a number above 0", "max_position_embeddings is missing too")
    ratio = around.claimed.tokens / original
    around.notes.note(
        "factor-from-lengths",
        f"{rope.path} has no factor; {around.claimed.tokens} / {original} = {ratio:g} is used",
    )
    return ratio


def _remark_on_keys(rope: Section, name: str, around: Surroundings) -> None:
    """Keys of a rope dictionary that this type does not read."""
    read = _ALWAYS | _MROPE | _WORDS[name].spelled.hf_keys
    if around.model_type in _BETA_MODELS:
        read |= {"llama_4_scaling_beta"}
    if around.model_type == "phimoe":
        read |= {"short_mscale", "long_mscale"}
    unread = sorted(str(k) for k, v in rope.values.items() if k not in read and v is not None)
    if ORIGINAL in unread:
        unread.remove(ORIGINAL)
        around.notes.note(
            "original-length-ignored",
            f"{rope.name(ORIGINAL)} has no effect: transformers' {name} does not read it"
            + (" and starts at max_position_embeddings" if name == "dynamic" else ""),
            "it still tells the trained length",
        )
    if unread:
        around.notes.note(
            "unread-rope-keys",
            f"{rope.path} holds keys that transformers' {name} does not read: {', '.join(unread)}",
            "check their spelling; other engines may read them",
        )
