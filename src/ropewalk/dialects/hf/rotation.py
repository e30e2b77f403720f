"""One rotary encoding from a rope dictionary, the keys around it and the family's facts."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.dialects.hf.defaults import RotaryFacts
from ropewalk.dialects.hf.measured import unread_keys
from ropewalk.dialects.hf.rope import BASE_KEYS, read_sections
from ropewalk.dialects.hf.scaling import Surroundings, read_scaling, type_of
from ropewalk.dialects.values import Notes, Section
from ropewalk.errors import ConfigError
from ropewalk.rope.schedules import UNSCALED, Scaling, SteppedNtk
from ropewalk.rope.spec import IncompleteRotary, Layout, Length, Placement, RotarySpec
from ropewalk.short import short


def read_rotary(
    config: Section,
    rope: Section,
    facts: RotaryFacts,
    model_type: str,
    claimed: Length,
    *,
    nested: bool,
    local: bool,
    notes: Notes,
) -> RotarySpec | IncompleteRotary:
    """The encoding of one kind of layer.

    `nested`: the dictionary belongs to one kind of layer. `local`: that kind has the family's
    second base. Raises ConfigError, or ScheduleError for what only the values' own types refuse.
    """
    whole_heads = type_of(rope, notes) == "proportional"
    dims = read_dims(config, rope, facts, notes, local=local, whole_heads=whole_heads)
    if config.has("rotary_dim") and "rotary_dim" in unread_keys(model_type):
        notes.warn(
            "width-not-rotated",
            f"{config.name('rotary_dim')} is {config.count('rotary_dim')}, which the code of "
            f"transformers' {model_type} never asks for: it rotates whole heads",
            "serve it with an engine that reads the key",
        )
    pairs = dims.rotary // 2 if dims.rotary is not None else None
    around = Surroundings(config, claimed, pairs, model_type, nested, notes, facts.original)
    scaling, scaling_source = _scaling(rope, facts, around)
    base, rope_theta_source = _base(config, rope, facts, model_type, local=local, notes=notes)
    _remark_on_unread_bases(config, facts, notes)
    sections = read_sections(rope, pairs, model_type, notes)
    layout = _layout(config, facts)
    if base is None or dims.head is None or dims.rotary is None:
        missing = {"rope_theta": base, "head_dim": dims.head, "rotary_dim": dims.rotary}
        reasons = [rope_theta_source] if base is None else []
        reasons += [dims.source] if dims.head is None else []
        return IncompleteRotary(
            missing=tuple(name for name, value in missing.items() if value is None),
            head_dim=dims.head,
            rotary_dim=dims.rotary,
            rope_theta=base,
            layout=layout,
            scaling=scaling,
            reason="; ".join(reasons),
        )
    return RotarySpec(
        head_dim=dims.head,
        rotary_dim=dims.rotary,
        rope_theta=base,
        layout=layout,
        scaling=scaling,
        sections=sections.counts,
        section_layout=sections.layout,
        placement=dims.placement,
        rope_theta_source=rope_theta_source,
        rotary_dim_source=dims.source,
        scaling_source=scaling_source,
    )


STEPPED = "use_dynamic_ntk"
"""Qwen's first models turn a base that grows in steps on by this key, from `seq_length` on."""


def _scaling(rope: Section, facts: RotaryFacts, around: Surroundings) -> tuple[Scaling, str]:
    """The scaling, unless the family's code does not read one, and where it is from."""
    source = rope.path if rope.values else "no rope dictionary"
    config = around.config
    if around.model_type == "qwen" and config.flag(STEPPED):
        start = config.length("seq_length")
        if start is not None:
            return SteppedNtk(start), f"{config.name(STEPPED)}, {config.name('seq_length')}"
    if not facts.fixed_schedule or not rope.values:
        return read_scaling(rope, around), source
    name = type_of(rope, around.notes)
    if name == "gptj":
        return read_scaling(rope, around), source
    if name != "default":
        around.notes.warn(
            "rope-scaling-not-read",
            f"{rope.path} asks for {name!r}, but the code of {around.model_type} has a fixed "
            "table and reads no scaling",
            "remove the key, or expect other engines to differ",
        )
    return UNSCALED, source


def _base(
    config: Section,
    rope: Section,
    facts: RotaryFacts,
    model_type: str,
    *,
    local: bool,
    notes: Notes,
) -> tuple[float | None, str]:
    """The base and where it is from, or None and why there is none."""
    if facts.base_by_ratio:
        return _chatglm_base(config)
    if facts.fixed_schedule:
        return facts.base, f"{facts.base:.10g}, fixed in the code of {model_type}"
    keys, default = facts.base_keys, facts.base
    if local and facts.local is not None:
        keys, default = (facts.local.key,), facts.local.base
    inner = _base_number(rope, "rope_theta")
    tops = [(key, value) for key in keys if (value := _base_number(config, key)) is not None]
    if inner is not None:
        for key, value in tops:
            if value != inner:
                notes.warn(
                    "base-stated-twice",
                    f"{rope.name('rope_theta')} is {inner:.10g} and {config.name(key)} is "
                    f"{value:.10g}; transformers takes the first",
                    "remove the one that is wrong: older releases take the second",
                )
        return inner, rope.name("rope_theta")
    if tops:
        key, value = tops[0]
        for other, number in tops[1:]:
            if number != value:
                notes.warn(
                    "base-stated-twice",
                    f"{config.name(key)} is {value:.10g} and {config.name(other)} is "
                    f"{number:.10g}; the first is taken",
                    "remove the one that is wrong",
                )
        return value, config.name(key)
    if default is None:
        asked = ", ".join(dict.fromkeys((*keys, "rope_parameters.rope_theta")))
        whose = f"for {model_type} " if model_type else "without a known model_type "
        return None, f"the file has no {asked}, and {whose}no default is known"
    return default, f"transformers' default for {model_type}: {default:.10g}"


def _base_number(section: Section, key: str) -> float | None:
    """A base: a number above 1."""
    value = section.number(key)
    if value is not None and value <= 1.0:
        raise section.wrong(key, "a base above 1", "10000 is the usual one")
    return value


def _remark_on_unread_bases(config: Section, facts: RotaryFacts, notes: Notes) -> None:
    """A base under a key that this family does not read."""
    read = set(facts.base_keys) | ({facts.local.key} if facts.local else set())
    for key in BASE_KEYS:
        if key not in read and config.has(key):
            there = [name for name in facts.base_keys if config.has(name)]
            notes.warn(
                "base-key-not-read",
                f"{config.name(key)} is there, but transformers reads "
                f"{', '.join(facts.base_keys) or 'no such key'} for this family",
                "remove the one of the two that training did not use"
                if there
                else f"move the value to {facts.base_keys[0]}, if training used it"
                if facts.base_keys
                else "remove it: nothing reads it there",
            )


def _chatglm_base(config: Section) -> tuple[float | None, str]:
    """ChatGLM's own code: 10000 times `rope_ratio`, which is 1 where absent."""
    ratio = config.number("rope_ratio")
    if ratio is None:
        return 10_000.0, "10000, by the convention of chatglm's remote code"
    base = 10_000.0 * ratio
    if base <= 1.0:
        raise config.wrong("rope_ratio", "a ratio that leaves the base above 1")
    product = f"10000 x {config.name('rope_ratio')} {ratio:.10g}"
    return base, f"{product}, by the convention of chatglm's remote code"


def _layout(config: Section, facts: RotaryFacts) -> Layout:
    """How channels pair: the family's way, unless the file has a switch for it."""
    for key in ("rope_interleave", "rotary_emb_interleaved"):
        interleaved = config.flag(key)
        if interleaved is not None:
            return "interleaved" if interleaved else "half"
    return facts.layout


@short
@dataclass(frozen=True, slots=True)
class Dims:
    """Channels of a head, how many are rotated (None where the file does not say), and which."""

    head: int | None
    rotary: int | None
    source: str
    placement: Placement = "first"


def read_dims(
    config: Section,
    rope: Section,
    facts: RotaryFacts,
    notes: Notes,
    *,
    local: bool,
    whole_heads: bool,
) -> Dims:
    """Head and rotary dimension, in channels; raises ConfigError when they cannot be.

    `local`: for layers with a window, where a family has other heads there. `whole_heads`: the
    scaling is defined on whole heads, so that no share of the channels is taken here.
    """
    mla = config.count("qk_rope_head_dim")
    if mla is not None:
        whole = mla + (config.count("qk_nope_head_dim") or 0)
        if "qk_nope_head_dim" not in config.values:
            whole = max(config.count("head_dim") or 0, whole)
        source = config.name("qk_rope_head_dim")
        return _checked(Dims(whole, mla, source, "last" if mla < whole else "first"), config)
    if facts.mla:
        return Dims(None, None, "qk_rope_head_dim is missing")
    head, head_source = _head_dim(config, facts, notes, local=local)
    fixed = config.count("rotary_dim")
    by_width = "rotary_dim" in facts.partial_keys
    reads = by_width or facts.base is None
    if fixed is not None and reads:
        return _checked(Dims(head, fixed, config.name("rotary_dim")), config)
    if fixed is not None:
        notes.note("unread-rotary-dim", f"{config.name('rotary_dim')} is not read by this family")
    if facts.fixed_schedule and by_width and "rotary_dim" not in config.values:
        return _checked(Dims(head, 64, "transformers' default rotary_dim: 64"), config)
    share, share_source = (1.0, "") if whole_heads else _share(config, rope, facts, notes)
    if head is None:
        return Dims(None, None, head_source)
    source = head_source if share == 1.0 else f"{share_source} of {head} ({head_source})"
    placement: Placement = "last" if facts.trailing else "first"
    return _checked(Dims(head, int(head * share), source, placement), config)


def _head_dim(
    config: Section, facts: RotaryFacts, notes: Notes, *, local: bool
) -> tuple[int | None, str]:
    """Channels of a head and where the number is from."""
    if facts.heads_wide > 1:
        return _wide_heads(config, facts)
    if facts.full_head_dim is not None and not local and "per_layer_config" not in config.values:
        if (stated := config.count("global_head_dim")) is not None:
            return stated, config.name("global_head_dim")
        return facts.full_head_dim, f"transformers' default global_head_dim: {facts.full_head_dim}"
    stated = config.count("head_dim")
    if stated is not None:
        return stated, config.name("head_dim")
    if facts.head_dim is not None and "head_dim" not in config.values:
        return facts.head_dim, f"transformers' default head_dim: {facts.head_dim}"
    if facts.base is None and (channels := config.count("kv_channels")) is not None:
        return channels, config.name("kv_channels")
    width_key, width = width_of(config)
    heads_key, heads = heads_of(config)
    if width is None or heads is None:
        return None, "head_dim is missing, and so is what it could be derived from"
    if width % heads:
        notes.warn(
            "head-dim-not-whole",
            f"{width_key} {width} / {heads_key} {heads} is not whole; it is rounded down",
            "state head_dim",
        )
    return max(width // heads, 1), f"{width_key} / {heads_key}"


def _wide_heads(config: Section, facts: RotaryFacts) -> tuple[int | None, str]:
    """Heads of a whole multiple of the usual width."""
    if (stated := config.count("attention_head_dim")) is not None:
        return stated, config.name("attention_head_dim")
    width, heads = width_of(config)[1], heads_of(config)[1]
    if width is None or heads is None:
        return None, "hidden_size or num_attention_heads is missing"
    source = f"{facts.heads_wide} x hidden_size / num_attention_heads"
    return max(facts.heads_wide * width // heads, 1), source


def width_of(config: Section) -> tuple[str, int | None]:
    """The model's width in channels, by any of its spellings."""
    return _first(config, ("hidden_size", "n_embd", "d_model", "n_embed"))


def heads_of(config: Section) -> tuple[str, int | None]:
    """The count of query heads, by any of its spellings."""
    return _first(
        config,
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_num_attention_heads"),
    )


def _first(config: Section, keys: tuple[str, ...]) -> tuple[str, int | None]:
    """The first of several spellings that the file has."""
    for key in keys:
        if (value := config.count(key)) is not None:
            return key, value
    return keys[0], None


def _share(config: Section, rope: Section, facts: RotaryFacts, notes: Notes) -> tuple[float, str]:
    """The share of a head that is rotated: the rope dictionary, then the top, then the default."""
    value = rope.number("partial_rotary_factor")
    if value is not None:
        if not facts.inner_share:
            _remark_on_share(rope, "partial_rotary_factor", value, facts, notes)
        return value, rope.name("partial_rotary_factor") + f" {value:g}"
    for key in facts.partial_keys:
        if (stated := config.number(key)) is not None:
            if not facts.outer_share:
                _remark_on_share(config, key, stated, facts, notes)
            return stated, config.name(key) + f" {stated:g}"
    if facts.base is None:
        return facts.partial, f"{facts.partial:g}, by the convention of the model's own code,"
    return facts.partial, f"transformers' default partial_rotary_factor {facts.partial:g}"


def _remark_on_share(
    part: Section, key: str, value: float, facts: RotaryFacts, notes: Notes
) -> None:
    """A share that the class of a model type was seen not to take."""
    if value != facts.partial:
        notes.warn(
            "share-not-read",
            f"{part.name(key)} is {value:g}, which transformers' class of this model type does "
            f"not read: it rotates {facts.partial:g} of each head",
            "serve it with an engine that reads the key, if training used it",
        )


def _checked(dims: Dims, config: Section) -> Dims:
    """Dimensions that some rotation can have."""
    rotary, head = dims.rotary, dims.head
    if rotary is not None and (rotary < 2 or rotary % 2 or (head is not None and rotary > head)):
        raise ConfigError(
            f"{config.where}: {rotary} of {head} channels of a head would be rotated "
            f"({dims.source}); an even count from 2 to head_dim is allowed: check head_dim, "
            "hidden_size, num_attention_heads and partial_rotary_factor"
        )
    return dims
