"""One frozen type for each way of rescaling rotary frequencies; `Scaling` is their union.

A type carries only the numbers its formula needs. The formulas are in
`ropewalk.rope.frequencies`; nothing here computes. Lengths are in tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Unscaled:
    """The frequencies of the base alone (RoFormer, 2104.09864, section 3.3)."""


UNSCALED = Unscaled()


@dataclass(frozen=True, slots=True)
class Linear:
    """Position interpolation: every frequency divided by `factor` (2306.15595, section 3.2)."""

    factor: float


@dataclass(frozen=True, slots=True)
class NtkAware:
    """A larger base, chosen so that the slowest pair is divided by exactly `factor`.

    Source: the "NTK-aware scaled RoPE" proposal, written down in YaRN (2309.00071), section 3.1.
    """

    factor: float


@dataclass(frozen=True, slots=True)
class DynamicNtk:
    """NTK-aware scaling by the current length (2309.00071, section 3.3).

    `anchor_length` is the length at and below which nothing changes. transformers anchors on
    `max_position_embeddings`, whatever the original length is said to be.
    """

    factor: float
    anchor_length: int


@dataclass(frozen=True, slots=True)
class Yarn:
    """NTK by parts with a ramp over the pair index, and an amplitude (2309.00071, 3.2 and 3.4).

    `attention_factor` replaces the amplitude rule when given. `mscale` and `mscale_all_dim`
    count only as a pair, both non-zero, as in transformers. `truncate` rounds the ends of the
    ramp outwards to whole pairs. `ramp_length` is the length from which the ramp's ends are
    computed: the trained length.
    """

    factor: float
    ramp_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None


@dataclass(frozen=True, slots=True)
class Llama3:
    """Divide long wavelengths, keep short ones, blend between (Llama 3.1's published rule).

    `anchor_length` is the reference length of the formula. It is what the configuration calls
    the original length, and not a statement of how long the last training documents were.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    anchor_length: int


@dataclass(frozen=True, slots=True)
class LongRope:
    """A divisor for every pair, one list up to `switch_length` and one beyond (2402.13753).

    `factor` enters only the amplitude sqrt(1 + ln factor / ln switch_length), which applies in
    both modes; `attention_factor` replaces it when given. The short list serves lengths up to
    and including `switch_length`.
    """

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    switch_length: int
    factor: float
    attention_factor: float | None = None


@dataclass(frozen=True, slots=True)
class PairDivisors:
    """A divisor for every pair at every length, as the GGUF tensor `rope_freqs.weight` has it.

    llama.cpp's converter bakes the llama3 rule into such a tensor; the rule's own parameters
    are then gone from the file.
    """

    divisors: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class UnknownScaling:
    """A scaling type this package does not know. Its frequencies cannot be computed."""

    name: str
    parameters: tuple[tuple[str, str], ...] = field(default=())


Scaling = (
    Unscaled
    | Linear
    | NtkAware
    | DynamicNtk
    | Yarn
    | Llama3
    | LongRope
    | PairDivisors
    | UnknownScaling
)

NAMES: dict[type[Scaling], str] = {
    Unscaled: "default",
    Linear: "linear",
    NtkAware: "ntk",
    DynamicNtk: "dynamic",
    Yarn: "yarn",
    Llama3: "llama3",
    LongRope: "longrope",
    PairDivisors: "pair divisors",
    UnknownScaling: "unknown",
}


def name_of(scaling: Scaling) -> str:
    """The field's name of a scaling, as configurations spell it; an unknown one's own name."""
    return scaling.name if isinstance(scaling, UnknownScaling) else NAMES[type(scaling)]
