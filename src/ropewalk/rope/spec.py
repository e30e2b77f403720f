"""What a model says of position: one `PositionSpec`, whatever file it was read from.

Values only; no formula and no file format lives here. A spec is groups of layers, because
models give their layers different encodings (Gemma 3 has two rotary bases, SmolLM3 and Llama 4
have layers without position, hybrids have layers without attention).
Two numbers are never one: `PositionSpec.trained` and `PositionSpec.claimed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, get_args

from ropewalk.errors import ScheduleError
from ropewalk.rope import checks
from ropewalk.rope.beside import AxisDealing, DualChunk
from ropewalk.rope.log_rule import LogRule
from ropewalk.rope.schedules import UNSCALED, Scaling
from ropewalk.rope.sections import SectionLayout, pair_axes
from ropewalk.short import short

Layout = Literal["half", "interleaved"]
"""How channels pair up: (i, i + rotary_dim / 2), NeoX style, or (2i, 2i + 1), GPT-J style."""

Placement = Literal["first", "last"]
"""Which channels of a head are rotated where not all are: its first, or its last.

"first": GPT-NeoX, Phi, GLM. "last": latent attention (DeepSeek-V2, 2405.04434, section 2.1.3),
where the part that is rotated stands behind the part that is not.
"""


@short
@dataclass(frozen=True, slots=True)
class RotarySpec:
    """A rotary encoding, complete: from this value alone every angle follows.

    `rotary_dim` channels of each head's `head_dim` are rotated; both are even counts of channels.
    `placement` says which channels those are. `sections` splits the pairs over position axes
    (mRoPE), empty for a single axis, and `section_layout` says how they are dealt out.
    The `*_source` texts say which field, or which fallback, gave a value, and `layout_known` that
    the layout is no assumption; they do not take part in comparisons.

    Raises ScheduleError with field, value and remedy: a rotary_dim that is odd or above head_dim,
    a rope_theta of 1 or less, sections that do not sum to the pairs or cannot be dealt out in
    turns, an interleaved layout of no sections, divisors that are not one per pair, a proportional
    scaling on part of a head.
    """

    head_dim: int
    rotary_dim: int
    rope_theta: float
    layout: Layout = "half"
    scaling: Scaling = UNSCALED
    sections: tuple[int, ...] = ()
    section_layout: SectionLayout = "chunked"
    placement: Placement = "first"
    rope_theta_source: str = field(default="given", compare=False)
    rotary_dim_source: str = field(default="given", compare=False)
    scaling_source: str = field(default="given", compare=False)
    layout_known: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        """Refuse what no angle can follow from."""
        checks.channels(self.head_dim, self.rotary_dim)
        checks.number("rope_theta", self.rope_theta, least=1.0, above=True,
                      remedy="the base of Llama 2 is 10000")  # fmt: skip
        checks.one_of("layout", self.layout, get_args(Layout))
        checks.one_of("section_layout", self.section_layout, get_args(SectionLayout))
        checks.one_of("placement", self.placement, get_args(Placement))
        checks.sections(self.sections, self.pairs)
        if self.section_layout == "interleaved":
            if not self.sections:
                raise ScheduleError(
                    "section_layout is 'interleaved' and there are no sections to deal out; state "
                    "sections, or leave it at 'chunked'"
                )
            pair_axes(self.sections, self.section_layout)
        self.scaling.check_fits(self)

    @property
    def pairs(self) -> int:
        """How many channel pairs are rotated."""
        return self.rotary_dim // 2


@short
@dataclass(frozen=True, slots=True)
class IncompleteRotary:
    """A rotary encoding of which the file leaves something out, so that no angle can be stated.

    `missing` names what is not there, in the field's terms ("rope_theta", "head_dim").
    """

    missing: tuple[str, ...]
    head_dim: int | None = None
    rotary_dim: int | None = None
    rope_theta: float | None = None
    layout: Layout = "half"
    scaling: Scaling = UNSCALED
    reason: str = field(default="", compare=False)


@short
@dataclass(frozen=True, slots=True)
class AlibiSpec:
    """A penalty on the scores that grows with distance, one slope a head (2108.12409)."""

    heads: int | None
    max_bias: float = 8.0


@short
@dataclass(frozen=True, slots=True)
class LearnedPositions:
    """A trained table added to the token vectors; position `rows` does not exist.

    `rows` counts usable positions; `offset` further rows at the start serve none (RoBERTa's 2,
    OPT's 2).
    """

    rows: int | None
    offset: int = 0


@short
@dataclass(frozen=True, slots=True)
class SinusoidalSpec:
    """Fixed sines and cosines added to the token vectors (1706.03762, section 3.5)."""

    rows: int | None


@short
@dataclass(frozen=True, slots=True)
class RelativeBuckets:
    """A learned bias for each bucket of relative distance (T5, 1910.10683, section 2.1)."""

    buckets: int
    max_distance: int


@short
@dataclass(frozen=True, slots=True)
class ContentBias:
    """A learned bias on scores, by distance, that each query mixes for itself (Inkling).

    `width` numbers a head, made from the query's vector, mix as many trained curves of bias over
    distance; distances of `extent` and more have none.
    """

    extent: int
    width: int


@short
@dataclass(frozen=True, slots=True)
class NoPositionSpec:
    """Attention without position (NoPE)."""


@short
@dataclass(frozen=True, slots=True)
class Recurrent:
    """A layer without attention, which knows order by its state (`kind`: "mamba", ...)."""

    kind: str


Encoding = (
    RotarySpec
    | IncompleteRotary
    | AlibiSpec
    | LearnedPositions
    | SinusoidalSpec
    | RelativeBuckets
    | ContentBias
    | NoPositionSpec
    | Recurrent
)


@short
@dataclass(frozen=True, slots=True)
class Window:
    """How far a layer sees: `size` tokens, by `kind` counted otherwise.

    "sliding": the query and the `size` - 1 tokens before it; in a layer that also looks ahead, as
    many behind it. "chunked": its own of the fixed chunks of `size`. "two-sided": size // 2
    tokens on each side and the query itself (ModernBERT, EmbeddingGemma).
    """

    size: int
    kind: Literal["sliding", "chunked", "two-sided"] = "sliding"

    @property
    def reach(self) -> int:
        """How many distances occur, from 0: a pair of tokens farther apart never meets."""
        return self.size // 2 + 1 if self.kind == "two-sided" else self.size


@short
@dataclass(frozen=True, slots=True)
class SoftmaxRule:
    """What the scores are multiplied by beside 1/sqrt(head_dim), and what else shapes them.

    `factor` multiplies the usual scale; `rule` says in words where it comes from. `softcap`
    bounds scores by cap * tanh(score / cap). `log_rule` is a factor that grows with the logarithm
    of position or length. `sinks`: a learned extra logit.
    """

    factor: float = 1.0
    rule: str = "1/sqrt(head_dim), nothing added"
    softcap: float | None = None
    log_rule: LogRule | None = None
    sinks: bool = False


PLAIN_SOFTMAX = SoftmaxRule()


@short
@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers that treat position alike. `layers` are indices from 0; empty when unknown."""

    name: str
    layers: tuple[int, ...]
    encoding: Encoding
    window: Window | None = None
    softmax: SoftmaxRule = PLAIN_SOFTMAX


@short
@dataclass(frozen=True, slots=True)
class Length:
    """A length in tokens and the field or the fallback that gave it.

    `stated` is True only when the model's own files say the number. `tokens` is None when
    nothing says it.
    """

    tokens: int | None
    source: str
    stated: bool = True

    @classmethod
    def unknown(cls, source: str = "not stated") -> Length:
        """No number, and why."""
        return cls(None, source, stated=False)


@short
@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about a model: what and why in `text`, what to do in `remedy` ("" for
    nothing).

    `code` is stable, for tests and JSON. "warning" asks the user to act, "note" tells.
    """

    code: str
    severity: Literal["warning", "note"]
    text: str
    remedy: str = ""


@short
@dataclass(frozen=True, slots=True)
class Extended:
    """How a context was made longer, as the tool that did it wrote it down.

    `method` is a name of `ropewalk extend`. Lengths in tokens: `trained` before, `target` after,
    `made_for` the one that the schedule was made for. `rope_theta` is the one before. `fingerprint`
    (`ropewalk.rope.frequencies.schedule_fingerprint`) is that of the schedule it left, by which a
    later change shows.
    """

    tool: str
    method: str
    trained: int
    target: int
    made_for: int
    rope_theta: float
    fingerprint: str


Part = Literal["indexer", "compressor", "draft layers", "depth decoder"]
"""What rotates beside a model's layers."""


@short
@dataclass(frozen=True, slots=True)
class SecondRotation:
    """A rotation beside that of the attention.

    "indexer": chooses the keys that each query of `layers` sees, `keeps` of them, by `heads` of
    its own. "compressor": makes one key of each `rate` tokens, which stands at the first of them.
    "draft layers": predict further tokens, behind the model's own. "depth decoder": a decoder of
    `claimed` tokens within each step. `rotary` is None where nothing is rotated, or where the
    file and its family leave open how; `reason` says which. `keys` are those of the file.
    """

    part: Part
    layers: tuple[int, ...]
    rotary: RotarySpec | None
    heads: int | None = None
    keeps: int | None = None
    rate: int | None = None
    claimed: Length | None = None
    keys: tuple[str, ...] = field(default=(), compare=False)
    reason: str = field(default="", compare=False)


class SourceKind(Enum):
    """What a spec was read from: a Hugging Face configuration, that of a module in memory, or a
    GGUF file. `MADE`: it was not read, but made in a program.
    """

    CONFIG = "configuration"
    MODULE = "module"
    GGUF = "GGUF file"
    MADE = "program"


@short
@dataclass(frozen=True, slots=True)
class GroupKeys:
    """What the file says of one group of layers.

    `layer_type` is transformers' word for its layers ("full_attention", "sliding_attention"), ""
    where there is none. `rope` is the rope dictionary that serves them, as the file spells it, and
    `nested` whether it belongs to this type of layer alone.
    """

    layer_type: str = ""
    rope: Mapping[str, object] = field(default_factory=dict)
    nested: bool = False


@short
@dataclass(frozen=True, slots=True)
class Source:
    """Where a spec is from. What was read stays with it, so that no file is read twice.

    `keys` has one entry for each of the spec's groups, in their order, or none at all. `latent`:
    latent attention (DeepSeek-V2, 2405.04434). `vocabulary`: the rows of the table of token
    vectors, None where the file does not say.
    """

    kind: SourceKind = SourceKind.MADE
    keys: tuple[GroupKeys, ...] = ()
    latent: bool = False
    vocabulary: int | None = None


@short
@dataclass(frozen=True, slots=True)
class PositionSpec:
    """Everything a model's files say of position.

    `trained`: the length of the training (or of the formula's reference) that the files state.
    `claimed`: the length the files promise. `other_lengths`: further fields that also name a
    length (tokenizer, leftovers), to be shown and never merged. `format` says what was read
    in words ("Hugging Face config, version 5 spelling", "GGUF version 3"). `findings`: what the
    reader noticed and must not lose. `source`: the file behind it, which takes no part in
    comparisons. `extended`: a record of how the
    claimed length was obtained, None without one. `second`: rotations beside that of the layers,
    `dual_chunk` and `axes` what else shapes their positions.
    """

    model_type: str
    format: str
    groups: tuple[LayerGroup, ...]
    trained: Length
    claimed: Length
    other_lengths: tuple[Length, ...] = ()
    findings: tuple[Finding, ...] = ()
    extended: Extended | None = None
    source: Source = field(default=Source(), compare=False)
    second: tuple[SecondRotation, ...] = ()
    dual_chunk: DualChunk | None = None
    axes: AxisDealing | None = None

    def rotary_groups(self) -> Iterator[tuple[LayerGroup, RotarySpec]]:
        """The groups whose angles can be computed, with their encoding."""
        for group in self.groups:
            if isinstance(group.encoding, RotarySpec):
                yield group, group.encoding

    def keyed_groups(self) -> Iterator[tuple[LayerGroup, RotarySpec, GroupKeys]]:
        """As `rotary_groups`, with what the file says of each."""
        keys = self.source.keys or (GroupKeys(),) * len(self.groups)
        for group, read in zip(self.groups, keys, strict=True):
            if isinstance(group.encoding, RotarySpec):
                yield group, group.encoding, read
