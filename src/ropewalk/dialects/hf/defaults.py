"""The kinds of facts that a configuration leaves to its model type; `families` has the facts.

A configuration leaves out what its class has as a default, and never says what its model code
does without a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ropewalk.rope.spec import Layout
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Every:
    """Of each `period` layers one is `rare`, the first or the last; the rest are `common`.

    `keys` may restate the period in the file. `to_the_end`: the model's last layer is `rare`
    wherever it falls.
    """

    period: int
    keys: tuple[str, ...] = ()
    first: bool = False
    rare: str = "full_attention"
    common: str = "sliding_attention"
    to_the_end: bool = False


@short
@dataclass(frozen=True, slots=True)
class Windowed:
    """All layers use `sliding_window` wherever it is set, as layers of the kind `word`."""

    word: str = "sliding_attention"


@short
@dataclass(frozen=True, slots=True)
class Switched:
    """`use_sliding_window` turns the window on, for layers from `max_window_layers` on."""


@short
@dataclass(frozen=True, slots=True)
class Uniform:
    """All layers alike, without a window; a `sliding_window` key is not read."""


Pattern = Every | Windowed | Switched | Uniform


@short
@dataclass(frozen=True, slots=True)
class LocalRope:
    """Sliding layers have a base of their own (`key`, "" where no key states it), and the
    scaling too when `scaled`. `flat`: flat `rope_parameters` are read as `rope_scaling` is.
    """

    key: str
    base: float
    scaled: bool
    flat: bool = False


@short
@dataclass(frozen=True, slots=True)
class RotaryFacts:
    """A rotary family.

    `base`: the default base, None where no default is known. `claimed`: the default of
    `max_position_embeddings`, in tokens. `partial`: the default share of a head that is rotated.
    `head_dim`: the class default, used when the key is absent (null means derived).
    `full_head_dim`: the default of `global_head_dim` in families whose layers without a window
    have heads of their own size.
    `heads_wide`: heads have that many times hidden_size / num_attention_heads channels, unless
    `attention_head_dim` says otherwise. `trailing`: the rotated channels are the last ones.
    `local_shape`: the shape of sliding layers, which the file may restate under `swa_` and the
    key. `original`: the default of `original_max_position_embeddings`.
    `window`, `softcap`: defaults of `sliding_window` and `attn_logit_softcapping`.
    `two_sided`: a window reaches to both sides.
    `nope_kinds`: kinds of layer that are not rotated. `rope_default`: the rope dictionary that
    the class has when the file has none, for all layers or by kind. `base_keys` and
    `partial_keys`: spellings, in order, beside the rope dictionary; `outer_share` and
    `inner_share`: whether the class reads a share there, and in the dictionary. `base_by_ratio`:
    the key holds the base over 10,000.
    `labels`: for kinds of layer, the word under which `rope_parameters` has their dictionary.
    `flat_yarn`: what yarn in a flat dictionary is filled up with, in families that read
    no base in it. `squares_yarn`: MLA whose softmax scale takes YaRN's amplitude squared.
    `scale_key`: the key that states the softmax scale itself, `factor_key` the one that states it
    over head_dim^-0.5, `scale` the default of either. `scalar_key`:
    the key of a number whose inverse root is the softmax scale, `scalar` its default. `unscaled`:
    the softmax scale over head_dim^-0.5 where no key states it. `nested`: what the class makes of
    `rope_parameters` by kind of layer ("computed", a base, an error; "" where not observed).
    `sink_kinds`: the kinds of layer that have sinks, where only some have. `backwards`: rotated by
    the negative angles. `grown`: what the query of layers without rotation was multiplied by at
    position 4,000, by a rule that no key states.
    """

    base: float | None = 10_000.0
    claimed: int | None = None
    partial: float = 1.0
    layout: Layout = "half"
    head_dim: int | None = None
    full_head_dim: int | None = None
    heads_wide: int = 1
    trailing: bool = False
    local_shape: Mapping[str, int] = field(default_factory=dict)
    original: int | None = None
    pattern: Pattern = Uniform()
    window: int | None = None
    softcap: float | None = None
    local: LocalRope | None = None
    nope_kinds: tuple[str, ...] = ()
    base_keys: tuple[str, ...] = ("rope_theta",)
    base_by_ratio: bool = False
    partial_keys: tuple[str, ...] = ("partial_rotary_factor",)
    outer_share: bool = True
    inner_share: bool = True
    fixed_schedule: bool = False
    mla: bool = False
    squares_yarn: bool = True
    sinks: bool = False
    two_sided: bool = False
    rope_default: Mapping[str, object] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    flat_yarn: Mapping[str, object] = field(default_factory=dict)
    scale_key: str = ""
    factor_key: str = ""
    scale: float | None = None
    scalar_key: str = ""
    scalar: float | None = None
    unscaled: float | None = None
    nested: str = ""
    sink_kinds: tuple[str, ...] = ()
    backwards: bool = False
    grown: float | None = None


@short
@dataclass(frozen=True, slots=True)
class LearnedFacts:
    """A learned table; `offset` rows serve no position, counted in the length key or beside it."""

    claimed: int | None
    offset: int = 0
    offset_counted: bool = False


@short
@dataclass(frozen=True, slots=True)
class AlibiFacts:
    """ALiBi by architecture."""

    claimed: int | None


@short
@dataclass(frozen=True, slots=True)
class BucketFacts:
    """T5's learned bias for buckets of distance.

    `scaled`: the scores are divided by sqrt(head_dim) as usual, which T5's are not.
    """

    buckets: int = 32
    max_distance: int = 128
    scaled: bool = False


@short
@dataclass(frozen=True, slots=True)
class ContentBiasFacts:
    """A bias by distance that each query mixes for itself (Inkling).

    `extent` and `width`: see `ropewalk.rope.spec.ContentBias`, defaults of `rel_extent` and
    `d_rel`; windowed layers have the window for an extent. `window`: the default of
    `sliding_window_size`. `log_floor`: that of `log_scaling_n_floor`, None for no such factor.
    """

    claimed: int | None
    window: int
    log_floor: float | None
    extent: int = 1024
    width: int = 16
    pattern: Pattern = Every(6, rare="hybrid", common="hybrid_sliding")


@short
@dataclass(frozen=True, slots=True)
class SinusoidalFacts:
    """Fixed sines and cosines."""

    claimed: int | None


@short
@dataclass(frozen=True, slots=True)
class UnrotatedFacts:
    """Attention without position, among or without recurrent layers.

    `attends`: whether any layer does.
    """

    claimed: int | None
    attends: bool = True


@short
@dataclass(frozen=True, slots=True)
class ContentFacts:
    """A bias on the scores by distance and by what the query is, which no spec describes."""

    claimed: int | None


Facts = (
    RotaryFacts
    | LearnedFacts
    | AlibiFacts
    | BucketFacts
    | ContentBiasFacts
    | SinusoidalFacts
    | UnrotatedFacts
    | ContentFacts
)


UNKNOWN = RotaryFacts(
    base=None,
    pattern=Windowed(),
    base_keys=("rope_theta", "rotary_emb_base"),
    partial_keys=(
        "partial_rotary_factor",
        "rotary_pct",
        "rope_pct",
        "rotary_emb_fraction",
        "rotary_percentage",
    ),
)
"""Read by the general rules: every spelling that any family uses."""
