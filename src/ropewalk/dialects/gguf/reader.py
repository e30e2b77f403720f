"""From a GGUF file's header to a `PositionSpec`, as llama.cpp would run the file.

Keys carry the architecture's name as a prefix (`llama.rope.freq_base`). What the file leaves
unsaid and llama.cpp fills in by architecture comes from `archs`; each such value says so in its
source text or in a remark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from ropewalk.dialects.gguf.archs import ARCHITECTURES, GRANITE, MLP_HEADS, UNKNOWN_ARCHITECTURE
from ropewalk.dialects.gguf.header import GgufHeader, read_header
from ropewalk.dialects.gguf.keys import GgufSource, Keys, WindowReader, rows_of
from ropewalk.dialects.gguf.loader import (
    DEFAULT_BASE,
    SECTIONS,
    UNSTATED,
    check_sections,
    remark_on_leftover_pairs,
    remark_on_missing_base,
    remark_on_unread,
)
from ropewalk.dialects.gguf.scaling import Heads, ScalingReader
from ropewalk.dialects.record import GGUF_RECORD, read_text
from ropewalk.errors import GgufError, ScheduleError
from ropewalk.rope.log_rule import LogRule
from ropewalk.rope.schedules import UNSCALED, LongRope, Scaling, Yarn, yarn_mscale
from ropewalk.rope.sections import used_sections
from ropewalk.rope.spec import (
    PLAIN_SOFTMAX,
    AlibiSpec,
    Encoding,
    GroupKeys,
    IncompleteRotary,
    LayerGroup,
    LearnedPositions,
    Length,
    NoPositionSpec,
    PositionSpec,
    Recurrent,
    RelativeBuckets,
    RotarySpec,
    SoftmaxRule,
    SourceKind,
    Window,
)

LARGEST_HEAD = 16384
MOST_LAYERS = 4096
T5_MAX_DISTANCE = 128
"""llama.cpp has this as a constant; the file does not state it."""

Kind = tuple[Encoding, Window | None, SoftmaxRule]
"""What makes two layers alike."""


def read_gguf(path: Path) -> PositionSpec:
    """What the GGUF file at `path` says of position; reads its header and small tensors only.

    Raises GgufError when the file cannot be read or states impossible values.
    """
    return spec_of_header(read_header(path))


def spec_of_header(header: GgufHeader) -> PositionSpec:
    """What a header already read says of position.

    Raises GgufError when a key that is needed is missing or holds an impossible value.
    """
    try:
        return _Reader(header).spec()
    except ScheduleError as error:
        raise GgufError(
            f"{header.path}: {error}; it stands in the rope.* keys or tensors of the file: "
            "download it again, or convert the model anew"
        ) from error


class _Reader:
    """One file's keys, the facts of its architecture, and the layers they describe."""

    def __init__(self, header: GgufHeader) -> None:
        self.header = header
        self.keys = Keys.of(header)
        known = ARCHITECTURES.get(self.keys.arch)
        self.facts, self.known = known or UNKNOWN_ARCHITECTURE, known is not None
        self.context_length = self.keys.required_count("context_length")
        self.layers = self.keys.count("block_count", most=MOST_LAYERS) or 0
        self.scaling = ScalingReader(self.keys, self.facts, self.context_length)
        self.windows = WindowReader(self.keys, self.facts, self.layers)
        check_sections(self.keys)
        remark_on_unread(self.keys)
        if known is None:
            self.keys.remark(
                "architecture-unknown",
                f"the architecture {self.keys.arch!r} is not known here: it is read by the "
                "general keys, and that its channels pair as (i, i + rotary_dim / 2) is assumed",
                "compare the layout with the model's own code",
                warn=True,
            )
        parts = header.metadata.get("split.count")
        if isinstance(parts, int) and parts > 1:
            self.keys.remark(
                "split-file",
                f"this is one of {parts} files of a split model; tensors in the other parts, "
                "among them a schedule in rope_freqs.weight, are not seen",
                "merge the parts (llama-gguf-split --merge) for a complete reading",
            )

    def spec(self) -> PositionSpec:
        """The whole description."""
        groups = self.groups()
        return PositionSpec(
            model_type=self.keys.arch,
            format=f"GGUF version {self.header.version}",
            groups=groups,
            trained=self.trained(groups),
            claimed=Length(self.context_length, self.keys.name("context_length")),
            extended=read_text(
                self.header.metadata.get(GGUF_RECORD), self.keys.where, self.keys.notes
            ),
            findings=tuple(self.keys.notes.findings),
            source=GgufSource(
                kind=SourceKind.GGUF,
                keys=tuple(
                    GroupKeys(f"{g.window.kind if g.window else 'full'}_attention") for g in groups
                ),
                latent=self.facts.mla,
                vocabulary=rows_of(self.header),
                header=self.header,
            ),
        )

    def groups(self) -> tuple[LayerGroup, ...]:
        """Layers with equal treatment, together, in order of their first layer."""
        if self.keys.has("attention.relative_buckets_count"):
            return self.bucket_groups()
        members: dict[Kind, list[int]] = {}
        for layer in range(self.layers):
            kind = self.kind(layer)
            if kind is not None:
                members.setdefault(kind, []).append(layer)
        if not self.layers:
            kind = self.kind(None)
            members = {kind: []} if kind else {}
        names = _names(list(members))
        return tuple(
            LayerGroup(next(names), tuple(layers), *kind) for kind, layers in members.items()
        )

    def bucket_groups(self) -> tuple[LayerGroup, ...]:
        """T5: an encoder and, but for encoder-only files, a decoder with as many layers."""
        buckets = self.keys.required_count("attention.relative_buckets_count")
        encoding = RelativeBuckets(buckets, T5_MAX_DISTANCE)
        self.keys.remark(
            "bucket-distance-assumed",
            f"the largest bucketed distance, {T5_MAX_DISTANCE}, is llama.cpp's constant; "
            "the file does not state it",
        )
        encoder = LayerGroup("encoder", tuple(range(self.layers)), encoding)
        if self.keys.arch == "t5encoder":
            return (encoder,)
        depth = self.keys.count("decoder_block_count", most=MOST_LAYERS) or self.layers
        return (encoder, LayerGroup("decoder", tuple(range(depth)), encoding))

    def kind(self, layer: int | None) -> Kind | None:
        """How a layer treats position; None for a layer that mixes no tokens.

        `layer` None stands for all layers of a file that does not state how many there are.
        """
        if self.facts.all_recurrent:
            return Recurrent(self.facts.recurrent), None, PLAIN_SOFTMAX
        if layer is not None and self.without_attention(layer):
            if self.mixes_nothing(layer):
                self.keys.remark(
                    "layers-without-mixing",
                    "some layers are feed-forward only: they take no part in position",
                )
                return None
            return Recurrent(self.facts.recurrent), None, PLAIN_SOFTMAX
        window = self.windows.of(layer)
        encoding = self.encoding(layer, window)
        return encoding, window, self.softmax(layer, encoding)

    def without_attention(self, layer: int) -> bool:
        """Whether the layer has no attention: no key heads, or between full layers."""
        if self.facts.full_interval:
            every = self.keys.count("full_attention_interval") or self.facts.full_interval
            return (layer + 1) % every != 0
        return self.kv_heads is not None and self.kv_heads[layer] == 0

    def mixes_nothing(self, layer: int) -> bool:
        """Whether a layer without attention has no recurrence either."""
        if self.keys.arch in MLP_HEADS:
            return True
        widths = self.feed_forward
        return self.facts.zero_kv_is_feed_forward and widths is not None and widths[layer] > 0

    @cached_property
    def kv_heads(self) -> tuple[int, ...] | None:
        """Key heads by layer, where the file has them by layer."""
        return self.keys.by_layer("attention.head_count_kv", self.layers)

    @cached_property
    def feed_forward(self) -> tuple[int, ...] | None:
        """Feed-forward widths by layer, where the file has them by layer."""
        return self.keys.by_layer("feed_forward_length", self.layers)

    def encoding(self, layer: int | None, window: Window | None) -> Encoding:
        """What tells one attention layer of position."""
        table = self.header.tensors.get("position_embd.weight")
        if table is not None:
            return LearnedPositions(table.shape[-1])
        alibi = self.max_alibi_bias()
        if alibi:
            return AlibiSpec(self.keys.count("attention.head_count"), alibi)
        if not self.facts.rotary or self.without_position(layer, window):
            return NoPositionSpec()
        return self.rotary(layer, window)

    def max_alibi_bias(self) -> float:
        """The largest bias, 0 where there are no slopes."""
        stated = self.keys.number("attention.max_alibi_bias", zero=True)
        if stated is not None:
            return stated
        return self.facts.alibi if self.facts.alibi_layers in (0, self.layers) else 0.0

    def without_position(self, layer: int | None, window: Window | None) -> bool:
        """Whether a layer of a rotary architecture is left without position."""
        finetuned = self.keys.flag("rope.scaling.finetuned")
        if self.keys.arch in GRANITE and finetuned is False:
            return True
        step = self.facts.nope_step
        if layer is None or (step and (layer + 1) % step == 0):
            return layer is not None
        return (
            self.windows.window is not None and window is None and not self.facts.full_has_position
        )

    def rotary(self, layer: int | None, window: Window | None) -> Encoding:
        """The rotary encoding of one layer."""
        local = window is not None
        base, source = self.base(local=local)
        heads = self.heads(local=local)
        if heads is None:
            return IncompleteRotary(
                ("head_dim",),
                rope_theta=base,
                layout=self.facts.layout,
                scaling=self.scaling.plain,
                reason="neither attention.key_length nor embedding_length and head_count is there",
            )
        if local and self.facts.local_unscaled:
            scaling: Scaling = UNSCALED
            scaling_source = f"{self.keys.arch}: windowed layers are not scaled"
        else:
            scaling, scaling_source = self.scaling.of(layer, base, heads)
        return RotarySpec(
            heads.head_dim,
            heads.rotary_dim,
            base,
            layout="half" if self.sections else self.facts.layout,
            scaling=scaling,
            sections=self.sections,
            section_layout=self.facts.section_layout if self.sections else "chunked",
            placement=self.facts.placement if heads.rotary_dim < heads.head_dim else "first",
            rope_theta_source=source,
            rotary_dim_source=heads.rotary_dim_source,
            scaling_source=scaling_source,
            layout_known=self.known,
        )

    def base(self, *, local: bool) -> tuple[float, str]:
        """The base and where it comes from; windowed layers may have their own."""
        for suffix in ("rope.freq_base_swa", "rope.freq_base") if local else ("rope.freq_base",):
            value = self.keys.number(suffix)
            if value is not None:
                if value <= 1.0:
                    raise self.keys.wrong(suffix, "a base above 1")
                return value, self.keys.name(suffix)
            if local and suffix.endswith("_swa") and self.facts.local_base:
                return self.facts.local_base, f"llama.cpp's base for windows in {self.keys.arch}"
        remark_on_missing_base(self.keys)
        return DEFAULT_BASE, UNSTATED

    def heads(self, *, local: bool) -> Heads | None:
        """The sizes of heads, of windowed layers where those differ; None when unknown."""
        head = self.keys.count("attention.key_length_swa", most=LARGEST_HEAD) if local else None
        for suffix in ("attention.key_length_mla", "attention.key_length"):
            head = head or self.keys.count(suffix, most=LARGEST_HEAD)
        head = head or self.width_per_head
        if not head:
            return None
        names = ("rope.dimension_count_swa",) if local else ()
        for suffix in (*names, "rope.dimension_count"):
            rotated = self.keys.count(suffix)
            if rotated is not None:
                if rotated % 2 or rotated > head:
                    raise self.keys.wrong(suffix, f"an even number up to the head's {head}")
                return Heads(head, rotated, self.keys.name(suffix))
        if head % 2:
            raise self.keys.wrong("attention.key_length", "an even number of channels to rotate")
        return Heads(head, head, "the whole head: no rope.dimension_count")

    @cached_property
    def width_per_head(self) -> int | None:
        """embedding_length / head_count."""
        width = self.keys.count("embedding_length")
        heads = self.keys.count("attention.head_count", least=0)
        return width // heads if width and heads else None

    @cached_property
    def sections(self) -> tuple[int, ...]:
        """Pairs for each position axis, without the zeros that fill the array up."""
        stated = self.keys.by_layer(SECTIONS, 1) or ()
        used = used_sections(stated)
        if used and self.facts.section_layout == "interleaved":
            remark_on_leftover_pairs(self.keys, used)
        return used

    def softmax(self, layer: int | None, encoding: Encoding) -> SoftmaxRule:
        """What else shapes the scores of one attention layer."""
        factor, rule = 1.0, PLAIN_SOFTMAX.rule
        head = getattr(encoding, "head_dim", None) or self.width_per_head
        scale = self.keys.number("attention.scale", zero=True) or self.facts.attention_scale
        if scale and head:
            factor, rule = scale * math.sqrt(head), f"{scale:g} in place of 1/sqrt(head_dim)"
        elif self.layers and self.layers == self.facts.scale_by_width_layers and head:
            factor = math.sqrt(head / (self.width_per_head or head))
            rule = "1/sqrt(embedding_length / head_count)"
        elif (
            self.facts.mla
            and isinstance(encoding, RotarySpec)
            and isinstance(encoding.scaling, Yarn)
        ):
            weight = self.scaling.log_multiplier()
            amplitude = encoding.scaling.amplitude()[0]
            factor = (amplitude * yarn_mscale(encoding.scaling.factor, weight)) ** 2
            rule = f"1/sqrt(head_dim) times (1 + 0.1 * {weight:g} ln factor)^2, for YaRN"
        softcap = self.keys.number("attn_logit_softcapping", zero=True)
        return SoftmaxRule(
            factor=factor,
            rule=rule,
            softcap=(self.facts.softcap if softcap is None else softcap) or None,
            log_rule=self.log_rule(encoding),
            sinks=f"blk.{layer or 0}.attn_sinks.weight" in self.header.tensors,
        )

    def log_rule(self, encoding: Encoding) -> LogRule | None:
        """Queries that grow with position."""
        names = ("attention.temperature_scale", "attention.temperature_length")
        scale = self.keys.number(names[0], zero=True)
        if scale:
            start = self.keys.count(names[1]) or self.scaling.trained
            keys = tuple(self.keys.name(each) for each in names if self.keys.has(each))
            return LogRule("in steps", start=float(start), scale=scale, keys=keys)
        # Llama 4 sharpens the layers without position.
        return self.facts.log_rule if isinstance(encoding, NoPositionSpec) else None

    def trained(self, groups: tuple[LayerGroup, ...]) -> Length:
        """The length of the training: stated, recognised in a tensor, or unknown."""
        key = self.keys.name("rope.scaling.original_context_length")
        if self.scaling.original is not None:
            return Length(self.scaling.original, key)
        if self.scaling.llama3 is not None:
            source = "the reference length of Llama 3's rule, recognised in rope_freqs.weight"
            length = self.scaling.llama3.original_max_position_embeddings
            return Length(length, source, stated=False)
        if any(isinstance(getattr(g.encoding, "scaling", None), Yarn | LongRope) for g in groups):
            self.keys.remark(
                "original-length-missing",
                f"{key} is missing; llama.cpp computes with the context length "
                f"{self.context_length} in its place",
                "convert the model anew, with the length that it was trained with",
                warn=True,
            )
        return Length.unknown(f"not stated (no {key})")


def _names(kinds: list[Kind]) -> Iterator[str]:
    """A short name for each kind of layer, no two alike."""
    seen: dict[str, int] = {}
    for encoding, window, _ in kinds:
        if isinstance(encoding, Recurrent):
            name = encoding.kind
        elif window is not None:
            name = f"{window.kind} window"
        else:
            name = "full attention" if len(kinds) > 1 else "all layers"
        if isinstance(encoding, NoPositionSpec) and len(kinds) > 1:
            name += ", no position"
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})"
