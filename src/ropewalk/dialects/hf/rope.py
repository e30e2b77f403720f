"""Which rope dictionary counts, and the rotary encoding that it and its surroundings make.

Version 4 of the format has `rope_scaling` beside `rope_theta`; version 5 has `rope_parameters`,
flat or with one dictionary for each kind of layer. Where a file has both, transformers takes
`rope_scaling` if it is not null (and not empty).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from ropewalk.dialects.hf.defaults import LocalRope, RotaryFacts
from ropewalk.dialects.values import Notes, Section
from ropewalk.rope.beside import AxisDealing
from ropewalk.rope.sections import SectionLayout, in_turns
from ropewalk.rope.spec import RotarySpec
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
        """The dictionary for a kind of layer, None when that kind has no position."""
        return self.by_kind.get(kind, self.main)


def select_rope(config: Section, facts: RotaryFacts, model_type: str, notes: Notes) -> RopeKeys:
    """Find the rope dictionary or dictionaries that transformers would use."""
    old, new = config.section("rope_scaling"), config.section("rope_parameters")
    if old is not None and not old.values:
        notes.note("empty-rope-scaling", f"{old.path} is empty and says nothing")
        old = None
    nested = _nested(new, facts.labels) if new is not None else {}
    for each in (old, new):
        if each is not None:
            _remark_on_kinds(each, facts.labels, notes)
    if old is not None and new is not None and new.values:
        _remark_on_both(config, old, new, notes)
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


def _remark_on_kinds(rope: Section, labels: Mapping[str, str], notes: Notes) -> None:
    """Dictionaries under a word that names no kind of layer."""
    known = LAYER_KINDS | {*labels, *labels.values()}
    for word, value in rope.values.items():
        if isinstance(value, Mapping) and word not in known:
            near = get_close_matches(str(word).lower(), sorted(known), 1, 0.8)
            notes.warn(
                "unknown-rope-kind",
                f"{rope.name(str(word))} is a dictionary, and {word!r} names no kind of layer: "
                "nothing reads it",
                f"write {near[0]!r}, if that is meant" if near else "check the word",
            )


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
    # Of sliding layers, whether there are any or not.
    config.take(local.key)
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


def _remark_on_both(config: Section, old: Section, new: Section, notes: Notes) -> None:
    """Both spellings in one file. Version 4 may have its base and its share at the top."""
    ignored = f"{old.path} and {new.path} are both present; transformers takes {old.path}"
    outer = {k: config.values[k] for k in ("rope_theta", SHARE) if config.has(k)}
    if {**outer, **old.values} == {**outer, **new.values}:
        notes.note(
            "both-rope-keys",
            f"{ignored}; they are equal",
            "leave both as they are: older releases and mlx-lm read rope_scaling alone",
        )
    else:
        notes.warn("both-rope-keys", f"{ignored} and they differ", "remove the one that is wrong")


SHARE = "partial_rotary_factor"
COUNTS, IN_TURNS = "mrope_section", "mrope_interleaved"


@short
@dataclass(frozen=True, slots=True)
class Sections:
    """Pairs of each axis, none for one axis, and how they are dealt out."""

    counts: tuple[int, ...] = ()
    layout: SectionLayout = "chunked"


_CHUNKED = Sections((16, 24, 24))
_TURNS = Sections((24, 20, 20), "interleaved")
_TURNS_OF_32 = Sections((11, 11, 10), "interleaved")

FAMILIES: dict[str, Sections] = {
    **dict.fromkeys("qwen2_vl_text qwen2_5_vl_text qwen2_5_omni_text".split(), _CHUNKED),
    "paddleocr_vl_text": _CHUNKED,
    **dict.fromkeys("glm4v_text glm4v_moe_text glm_ocr_text glm_image_text".split(),
                    Sections((8, 12, 12))),
    **dict.fromkeys("qwen3_vl_text qwen3_vl_moe_text qwen3_omni_moe_text".split(), _TURNS),
    **dict.fromkeys("cosmos3_edge_text cohere_compass_text hy_v4_vl_text".split(), _TURNS),
    **dict.fromkeys("qwen3_5_text qwen3_5_moe_text qwen4_exp_text".split(), _TURNS_OF_32),
}  # fmt: skip
"""What the code of each family does, with the counts that it takes where the file has none."""

XD_COUNTS = "xdrope_section"
_HUNYUAN = (
    "each axis in turn takes twice its count of the channels of a head, whose two halves pair"
)
OWN_DEALING: dict[str, tuple[str, tuple[int, ...]]] = {
    "ernie4_5_vl_moe_text": ("height and width by turns, then time", (22, 22, 20)),
    "ernie4_5_vl_text": ("height and width by turns, then time", (22, 22, 20)),
    "hunyuan_vl_text": (_HUNYUAN, ()),
}
"""Families that deal in a way of their own, with the counts that they take where the file has
none."""


def read_axes(rope: Section, model_type: str, notes: Notes) -> AxisDealing | None:
    """Positions on several axes that are dealt out in a way of the family's own."""
    key = next((each for each in (XD_COUNTS, COUNTS) if rope.has(each)), None)
    how, default = OWN_DEALING.get(model_type, ("", ()))
    stated = None if key is None else rope.counts(key, least=0)
    if not how and key != XD_COUNTS:
        return None
    counts = stated or default
    if not counts:
        return None
    told = "from transformers' default" if key is None else rope.name(key)
    notes.note(
        "mrope-of-its-own",
        f"{len(counts)} axes of {', '.join(map(str, counts))} pairs ({told}), dealt out in a way "
        f"of {model_type or 'the model'}'s own: {how or 'which is not known here'}; the angles "
        "here are those of a text, where all axes are equal",
        "for images use the model's own code",
    )
    return AxisDealing(counts, how, () if key is None else (rope.name(key),))


def read_sections(rope: Section, pairs: int | None, model_type: str, notes: Notes) -> Sections:
    """The split of the pairs over time, height and width; without one where it does not fit."""
    stated = rope.counts(COUNTS, least=0) or ()
    if model_type in OWN_DEALING or rope.has(XD_COUNTS):
        return Sections()
    family = FAMILIES.get(model_type)
    layout = _layout(rope, family, model_type, notes) if stated or family else "chunked"
    counts = stated
    if not stated and family is not None and sum(family.counts) == pairs:
        counts = family.counts
        notes.note(
            "mrope-sections-from-library-default",
            f"{rope.name(COUNTS)} is not there; transformers' {model_type} takes {list(counts)}",
        )
    if not counts:
        return Sections()
    if pairs is not None and not _fit(counts, layout, pairs):
        notes.warn("mrope-sections-do-not-fit", _misfit(rope, counts, pairs),
                   "take the sections from the publisher's file; engines need a sum of half the "
                   "rotary dimension"
                   + (", the first the longest" if layout == "interleaved" else ""))  # fmt: skip
        return Sections()
    return Sections(counts, layout)


def section_keys(rotary: RotarySpec) -> dict[str, object]:
    """The keys that say of sections what `rotary` does; None takes a key out."""
    if not rotary.sections:
        return {}
    turns = True if rotary.section_layout == "interleaved" else None
    return {COUNTS: list(rotary.sections), IN_TURNS: turns}


def _layout(rope: Section, family: Sections | None, model_type: str, notes: Notes) -> SectionLayout:
    """By the family's code, or by the key."""
    flag = rope.flag(IN_TURNS)
    if family is None:
        return "interleaved" if flag else "chunked"
    turns = family.layout == "interleaved"
    if flag is not None and flag != turns:
        notes.warn(
            "mrope-interleaved-not-read",
            f"{rope.name(IN_TURNS)} is {str(flag).lower()}, but transformers' {model_type} deals "
            f"its axes out {'in turns' if turns else 'in chunks'} without looking; vLLM does look",
            f"set it to {str(turns).lower()}",
        )
    return family.layout


def _fit(counts: tuple[int, ...], layout: SectionLayout, pairs: int) -> bool:
    """Whether the counts come out as they stand."""
    if sum(counts) != pairs:
        return False
    if layout == "chunked":
        return True
    dealt = in_turns(counts, pairs)
    return all(dealt.count(axis) == count for axis, count in enumerate(counts))


def _misfit(rope: Section, counts: tuple[int, ...], pairs: int) -> str:
    """What engines do with sections that do not fit."""
    what = f"{rope.name(COUNTS)} {list(counts)}"
    if sum(counts) != pairs:
        return (
            f"{what} sums to {sum(counts)}, and there are {pairs} rotary pairs: engines cut the "
            "split off without a word, and here all pairs are described as on one axis"
        )
    dealt = in_turns(counts, pairs)
    come = [dealt.count(axis) for axis in range(len(counts))]
    return (
        f"{what} dealt out in turns over {pairs} pairs come out as {come} without a word, and "
        "here all pairs are described as on one axis"
    )
