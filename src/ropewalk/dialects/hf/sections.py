"""mRoPE in a rope dictionary: how many pairs each position axis has, and how they are dealt out.

transformers deals them out by the family's own code and reads no key for it; `mrope_interleaved`
is what vLLM reads, and what counts here for families that are not in the table.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.dialects.hf.values import Notes, Section
from ropewalk.rope.sections import SectionLayout, in_turns
from ropewalk.rope.spec import RotarySpec
from ropewalk.short import short

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

OWN_DEALING = {"ernie4_5_vl_moe_text": "height and width by turns, then time"}
"""Families that deal in a way of their own."""


def read_sections(rope: Section, pairs: int | None, model_type: str, notes: Notes) -> Sections:
    """The split of the pairs over time, height and width; without one where it does not fit."""
    stated = rope.counts(COUNTS, least=0) or ()
    if stated and (own := OWN_DEALING.get(model_type)) is not None:
        notes.warn(
            "mrope-of-its-own",
            f"{model_type} deals its pairs out {own}, which is neither in chunks nor in turns: "
            "here all pairs are described as on one axis",
            "for text nothing changes; for images use the model's own code",
        )
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
