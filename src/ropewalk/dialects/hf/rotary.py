"""One rotary encoding from a rope dictionary, the keys around it and the family's facts."""

from __future__ import annotations

from ropewalk.dialects.hf.facts import RotaryFacts
from ropewalk.dialects.hf.rope import BASE_KEYS, read_dims
from ropewalk.dialects.hf.scaling import Surroundings, read_scaling, type_of
from ropewalk.dialects.hf.sections import read_sections
from ropewalk.dialects.hf.values import Notes, Section
from ropewalk.errors import ConfigError, ScheduleError
from ropewalk.rope.schedules import UNSCALED, Scaling
from ropewalk.rope.spec import IncompleteRotary, Layout, Length, RotarySpec


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
    second base. Raises ConfigError for values that no schedule can have.
    """
    try:
        return _rotary(config, rope, facts, model_type, claimed,
                       nested=nested, local=local, notes=notes)  # fmt: skip
    except ScheduleError as error:
        place = f"{config.where}: {rope.path}" if rope.values else config.where
        raise ConfigError(f"{place}: {error}") from error


def _rotary(
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
    """As `read_rotary`, with a ScheduleError for what only the values' own types refuse."""
    whole_heads = type_of(rope, notes) == "proportional"
    dims = read_dims(config, rope, facts, notes, local=local, whole_heads=whole_heads)
    pairs = dims.rotary // 2 if dims.rotary is not None else None
    around = Surroundings(config, claimed, pairs, model_type, nested, notes, facts.original)
    scaling = _scaling(rope, facts, around)
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
        scaling_source=rope.path if rope.values else "no rope dictionary",
    )


def _scaling(rope: Section, facts: RotaryFacts, around: Surroundings) -> Scaling:
    """The scaling, unless the family's code does not read one."""
    if not facts.fixed_schedule or not rope.values:
        return read_scaling(rope, around)
    name = type_of(rope, around.notes)
    if name == "gptj":
        return read_scaling(rope, around)
    if name != "default":
        around.notes.warn(
            "rope-scaling-not-read",
            f"{rope.path} asks for {name!r}, but the code of {around.model_type} has a fixed "
            "table and reads no scaling",
            "remove the key, or expect other engines to differ",
        )
    return UNSCALED


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
    if facts.base_keys == ("rope_ratio",):
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
