"""Which rope dictionary counts, and the rotary encoding that it and its surroundings make.

Version 4 of the format has `rope_scaling` beside `rope_theta`; version 5 has `rope_parameters`,
flat or with one dictionary for each kind of layer. Where a file has both, transformers takes
`rope_scaling` if it is not null (and not empty).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ropewalk.dialects.hf.facts import LocalRope, RotaryFacts
from ropewalk.dialects.hf.values import Notes, Section
from ropewalk.errors import ConfigError
from ropewalk.rope.spec import Placement
from ropewalk.short import short

LAYER_KINDS = frozenset(
    {"full_attention", "sliding_attention", "chunked_attention", "linear_attention"}
    | {"indexed_attention", "hybrid", "hybrid_sliding", "reference_sliding_attention"}
    | {"compressed_sparse_attention", "heavily_compressed_attention"}
)
BASE_KEYS = (
    "rope_theta",
    "rotary_emb_base",
    "global_rope_theta",
    "local_rope_theta",
    "rope_local_base_freq",
    "rope_ratio",
)


@short
@dataclass(frozen=True, slots=True)
class RopeKeys:
    """The rope dictionaries that count.

    `main` serves every kind of layer that `by_kind` does not name; a kind that maps to None is
    said to have no position. `stated` is False for the library's default dictionary. `spelling`
    tells the version of the format in words.
    """

    main: Section
    by_kind: Mapping[str, Section | None]
    stated: bool
    spelling: str

    def serving(self, kind: str) -> Section | None:
        """The dictionary for a kind of layer, None when that kind is told nothing."""
        return self.by_kind.get(kind, self.main)


def select_rope(config: Section, facts: RotaryFacts, model_type: str, notes: Notes) -> RopeKeys:
    """Find the rope dictionary or dictionaries that transformers would use."""
    old, new = config.section("rope_scaling"), config.section("rope_parameters")
    if old is not None and not old.values:
        notes.note("empty-rope-scaling", f"{old.path} is empty and says nothing")
        old = None
    nested = _nested(new, facts.labels) if new is not None else {}
    if old is not None and new is not None and new.values:
        _remark_on_both(old, new, notes)
    if facts.local is not None:
        return _local_families(config, facts, facts.local, old, new, nested, notes)
    if old is not None:
        spelling = "version 4 spelling" + (" and version 5 spelling" if new else "")
        nested_old = _nested(old, facts.labels)
        return RopeKeys(_full_of(nested_old, old), nested_old, True, spelling)
    if new is not None and new.values:
        return RopeKeys(_full_of(nested, new), nested, True, "version 5 spelling")
    if facts.rope_default:
        notes.note(
            "scaling-from-library-default",
            f"the file has no rope dictionary; transformers' {model_type} then uses "
            f"{facts.rope_default.get('rope_type', 'a dictionary by kind of layer')} with its own "
            "numbers",
        )
        default = Section(
            facts.rope_default, config.where, f"transformers' default for {model_type}"
        )
        by_kind = _nested(default, facts.labels)
        return RopeKeys(_full_of(by_kind, default), by_kind, False, "no rope dictionary")
    spelling = "version 4 spelling" if _has_v4_keys(config) else "no rope dictionary"
    return RopeKeys(Section({}, config.where, config.name("rope_scaling")), {}, True, spelling)


def _has_v4_keys(config: Section) -> bool:
    """Whether keys of version 4 stand at the top."""
    return "rope_scaling" in config.values or any(config.has(key) for key in BASE_KEYS)


def _nested(rope: Section, labels: Mapping[str, str]) -> dict[str, Section | None]:
    """The dictionaries for kinds of layers, empty when the dictionary is flat.

    `labels`: the words under which a family has the dictionaries of some kinds.
    """
    found = {
        kind: rope.section(kind)
        for kind in rope.values
        if kind in LAYER_KINDS and isinstance(rope.values[kind], Mapping | None)
    }
    for kind, label in labels.items():
        if kind not in found and isinstance(rope.values.get(label), Mapping):
            found[kind] = rope.section(label)
    return found


def _full_of(nested: Mapping[str, Section | None], flat: Section) -> Section:
    """The dictionary that stands for the whole: the full layers' one, or the flat one."""
    if not nested:
        return flat
    whole = nested.get("full_attention", nested.get("hybrid"))
    return whole if whole is not None else Section({}, flat.where, flat.path)


def _local_families(
    config: Section,
    facts: RotaryFacts,
    local: LocalRope,
    old: Section | None,
    new: Section | None,
    nested: Mapping[str, Section | None],
    notes: Notes,
) -> RopeKeys:
    """Families whose sliding layers have a base of their own.

    A `rope_scaling` is laid over the full layers' dictionary, and over the sliding ones' only
    where the family says so. Flat keys in `rope_parameters` are not read by these classes.
    """
    flat = new is not None and bool(new.values) and not nested
    if flat and local.flat and old is None:
        old, flat = new, False
    if old is not None and facts.flat_yarn:
        old = _without_base(old, facts.flat_yarn, notes)
    elif old is not None and local.flat and not nested:
        # One dictionary for all kinds of layer has one base.
        base = old.number("rope_theta") or config.number("rope_theta") or facts.base
        old = replace(old, values={**old.values, "rope_theta": base})
    if flat:
        notes.warn(
            "flat-rope-parameters-ignored",
            f"{config.name('rope_parameters')} is flat, but this family reads it only by "
            "kind of layer; transformers uses its defaults instead",
            "write it as {full_attention: {...}}; sliding layers keep a base of their own",
        )
    path = config.name("rope_scaling" if old is not None or new is None else "rope_parameters")

    def laid(kind: str, overlay: Section | None) -> Section:
        base = nested.get(kind)
        if base is None and kind == "full_attention" and facts.rope_default:
            base = Section(facts.rope_default, config.where, "transformers' default rope")
        if base is None:
            return overlay or Section({}, config.where, f"{path}.{kind}" if nested else path)
        if overlay is None:
            return base
        return replace(base, values={**base.values, **overlay.values})

    if old is not None and old.has("type") and not old.has("rope_type") and not local.flat:
        # These classes lay the dictionary over one that says rope_type "default" already.
        notes.warn(
            "old-type-key-not-read",
            f"{old.name('type')} is not read for this family: transformers looks for rope_type "
            "only, finds none and scales nothing",
            f"rename the key to rope_type in {old.path}",
        )
        old = replace(old, values={k: v for k, v in old.values.items() if k != "type"})
    full = laid("full_attention", old)
    sliding = laid("sliding_attention", old if local.scaled else None)
    spelling = "version 5 spelling" if nested else "version 4 spelling"
    return RopeKeys(full, {"full_attention": full, "sliding_attention": sliding}, True, spelling)


def _without_base(rope: Section, flat_yarn: Mapping[str, object], notes: Notes) -> Section:
    """A flat dictionary of a family that takes the bases from keys beside it alone.

    Yarn is filled up with `flat_yarn`.
    """
    yarn = "yarn" in (rope.values.get("rope_type"), rope.values.get("type"))
    kept = {key: value for key, value in rope.values.items() if key != "rope_theta"}
    filled = [f"{key} {value}" for key, value in flat_yarn.items() if key not in kept]
    if yarn and filled:
        notes.note(
            "yarn-filled-up",
            f"{rope.path} is yarn for this family's layers, which fills it up with "
            f"{', '.join(filled)} where the file has none",
        )
    return replace(rope, values={**flat_yarn, **kept} if yarn else kept)


def _remark_on_both(old: Section, new: Section, notes: Notes) -> None:
    """Both spellings in one file."""
    ignored = f"{old.path} and {new.path} are both present; transformers takes {old.path}"
    if dict(old.values) == dict(new.values):
        notes.note(
            "both-rope-keys",
            f"{ignored}; they are equal",
            "leave both as they are: older releases and mlx-lm read rope_scaling alone",
        )
    else:
        notes.warn("both-rope-keys", f"{ignored} and they differ", "remove the one that is wrong")


@short
@dataclass(frozen=True, slots=True)
class Dims:
    """Channels of a head, how many of them turn (None where the file does not say), and which."""

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
    if fixed is not None and (facts.fixed_schedule or facts.base is None):
        return _checked(Dims(head, fixed, config.name("rotary_dim")), config)
    if fixed is not None:
        notes.note("unread-rotary-dim", f"{config.name('rotary_dim')} is not read by this family")
    if facts.fixed_schedule and "rotary_dim" not in config.values:
        return _checked(Dims(head, 64, "transformers' default rotary_dim: 64"), config)
    share, share_source = (1.0, "") if whole_heads else _share(config, rope, facts)
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


def _share(config: Section, rope: Section, facts: RotaryFacts) -> tuple[float, str]:
    """The share of a head that turns: the rope dictionary, then the top, then the default."""
    value = rope.number("partial_rotary_factor")
    if value is not None:
        return value, rope.name("partial_rotary_factor") + f" {value:g}"
    for key in facts.partial_keys:
        if (value := config.number(key)) is not None:
            return value, config.name(key) + f" {value:g}"
    if facts.base is None:
        return facts.partial, f"{facts.partial:g}, by the convention of the model's own code,"
    return facts.partial, f"transformers' default partial_rotary_factor {facts.partial:g}"


def _checked(dims: Dims, config: Section) -> Dims:
    """Dimensions that some rotation can have."""
    rotary, head = dims.rotary, dims.head
    if rotary is not None and (rotary < 2 or rotary % 2 or (head is not None and rotary > head)):
        raise ConfigError(
            f"{config.where}: {rotary} of {head} channels of a head would turn ({dims.source}); "
            "an even count from 2 to head_dim is allowed: check head_dim, hidden_size, "
            "num_attention_heads and partial_rotary_factor"
        )
    return dims
