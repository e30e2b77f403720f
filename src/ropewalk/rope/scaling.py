"""One frozen type for each way of rescaling rotary frequencies; `Scaling` is their union.

A type carries only the numbers its formula needs. The formulas are in
`ropewalk.rope.frequencies`; nothing here computes. Lengths are in tokens.

Every type refuses, when it is made, values its formula cannot take: ScheduleError with field,
value and remedy. A factor is the new length over the trained one, so at least 1; `Linear` alone
takes less, because to squeeze positions is well defined and engines do it when told to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ropewalk.errors import ScheduleError
from ropewalk.rope import checks
from ropewalk.short import short

TRAINED = "state the length of the training (original_max_position_embeddings)"


@short
@dataclass(frozen=True, slots=True)
class Unscaled:
    """The frequencies of the base alone (RoFormer, 2104.09864, section 3.3)."""


UNSCALED = Unscaled()


@short
@dataclass(frozen=True, slots=True)
class Linear:
    """Position interpolation: every frequency divided by `factor` (2306.15595, section 3.2)."""

    factor: float

    def __post_init__(self) -> None:
        """Refuse a factor of 0 or less."""
        remedy = "a factor is the new length over the trained one"
        checks.number("the linear scaling factor", self.factor, least=0.0, above=True,
                      remedy=remedy)  # fmt: skip


@short
@dataclass(frozen=True, slots=True)
class LargerBase:
    """Another base in the place of the encoding's own ("ABF", 2309.16039, section 2).

    A model whose base was raised before training has simply that base; this type is for raising
    it afterwards, where the encoding's own base is what came before.
    """

    rope_theta: float

    def __post_init__(self) -> None:
        """Refuse a base of 1 or less."""
        remedy = "10000 is the usual one, and a longer context takes more"
        checks.number("the larger base", self.rope_theta, least=1.0, above=True, remedy=remedy)


@short
@dataclass(frozen=True, slots=True)
class Ntk:
    """A larger base, chosen so that the slowest pair is divided by exactly `factor`.

    Source: the "NTK-aware scaled RoPE" proposal, written down in YaRN (2309.00071), section 3.1.
    """

    factor: float

    def __post_init__(self) -> None:
        """Refuse a factor below 1."""
        checks.stretch("the ntk scaling factor", self.factor)


@short
@dataclass(frozen=True, slots=True)
class DynamicNtk:
    """NTK-aware scaling by the current length (2309.00071, section 3.3).

    Nothing changes at and below `max_position_embeddings`; transformers begins
    there, whatever the original length is said to be.
    """

    factor: float
    max_position_embeddings: int

    def __post_init__(self) -> None:
        """Refuse a factor below 1 and an anchor that is no length."""
        checks.stretch("the dynamic scaling factor", self.factor)
        remedy = "state max_position_embeddings, from where scaling starts"
        checks.length(
            "the dynamic max_position_embeddings", self.max_position_embeddings, remedy=remedy
        )


@short
@dataclass(frozen=True, slots=True)
class NtkByParts:
    """YaRN's frequencies as its paper has them: a ramp linear in turns (2309.00071, 3.2).

    A pair that makes r turns in `original_max_position_embeddings` tokens keeps the share
    clip((r - beta_slow) / (beta_fast - beta_slow), 0, 1) of its frequency, and the rest is
    divided by `factor`. Every implementation called "yarn"
    runs its ramp over the pair index instead, which
    is `Yarn`: same ends, other numbers between. No amplitude.
    """

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a factor below 1, a missing length, and ends that do not rise."""
        checks.stretch("the by-parts scaling factor", self.factor)
        checks.length(
            "the by-parts original_max_position_embeddings",
            self.original_max_position_embeddings,
            remedy=TRAINED,
        )
        _rising(
            "by-parts",
            "beta_slow",
            self.beta_slow,
            "beta_fast",
            self.beta_fast,
            "the paper has 1 and 32",
        )


@short
@dataclass(frozen=True, slots=True)
class Yarn:
    """NTK by parts with a ramp over the pair index, and an amplitude (2309.00071, 3.2 and 3.4).

    `attention_factor` replaces the amplitude rule when given. `mscale` and `mscale_all_dim`
    count only as a pair, both non-zero, as in transformers. `truncate` rounds the ends of the
    ramp outwards to whole pairs. The ramp's ends are computed from
    `original_max_position_embeddings`, the trained length.
    """

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    def __post_init__(self) -> None:
        """Refuse a factor below 1, a missing length, impossible betas and amplitudes."""
        checks.stretch("the yarn scaling factor", self.factor)
        checks.length(
            "the yarn original_max_position_embeddings",
            self.original_max_position_embeddings,
            remedy=TRAINED,
        )
        _rising("yarn", "beta_slow", self.beta_slow, "beta_fast", self.beta_fast,
                "the paper has 1 and 32")  # fmt: skip
        _amplitude("yarn", self.attention_factor)
        for name in ("mscale", "mscale_all_dim"):
            if getattr(self, name) is not None:
                checks.number(f"the yarn {name}", getattr(self, name), least=0.0,
                              remedy="leave it out, or state attention_factor")  # fmt: skip


@short
@dataclass(frozen=True, slots=True)
class Llama3:
    """Divide long wavelengths, keep short ones, blend between (Llama 3.1's published rule).

    `original_max_position_embeddings` is the reference length of the formula, and
    not a statement of how long the last training documents were.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def __post_init__(self) -> None:
        """Refuse a factor below 1, a missing length, and bands that cross."""
        checks.stretch("the llama3 scaling factor", self.factor)
        checks.length(
            "the llama3 original_max_position_embeddings",
            self.original_max_position_embeddings,
            remedy=TRAINED,
        )
        _rising("llama3", "low_freq_factor", self.low_freq_factor, "high_freq_factor",
                self.high_freq_factor, "Llama 3.1 has 1 and 4")  # fmt: skip


@short
@dataclass(frozen=True, slots=True)
class LongRope:
    """A divisor for every pair, one list up to the original length and one beyond (2402.13753).

    `factor` enters only the amplitude sqrt(1 + ln factor / ln original length), which applies
    in both modes; `attention_factor` replaces it when given. The short list serves lengths up to
    and including `original_max_position_embeddings`.
    """

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_max_position_embeddings: int
    factor: float
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        """Refuse lists that do not pair up, a switch that is no length, a factor below 1."""
        checks.divisors("longrope short_factor", self.short_factor)
        checks.divisors("longrope long_factor", self.long_factor)
        if len(self.short_factor) != len(self.long_factor):
            raise ScheduleError(
                f"longrope short_factor holds {len(self.short_factor)} divisors and long_factor "
                f"{len(self.long_factor)}; both must have one a rotary pair: check the lists"
            )
        # The amplitude divides by the logarithm of this length.
        checks.length(
            "the longrope original_max_position_embeddings",
            self.original_max_position_embeddings,
            least=2,
            remedy=TRAINED,
        )
        checks.stretch("the longrope scaling factor", self.factor)
        _amplitude("longrope", self.attention_factor)


@short
@dataclass(frozen=True, slots=True)
class PairDivisors:
    """A divisor for every pair at every length, as the GGUF tensor `rope_freqs.weight` has it.

    llama.cpp's converter bakes the llama3 rule into such a tensor; the rule's own parameters
    are then gone from the file.
    """

    divisors: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse anything but positive numbers; their count is checked against the encoding."""
        checks.divisors("rope_freqs", self.divisors)


@short
@dataclass(frozen=True, slots=True)
class Proportional:
    """Only the fastest pairs turn, this share of them; the rest stands still (2410.06205).

    As Gemma 4 has it: int(partial_rotary_factor * head_dim // 2) pairs live with the
    exponents of the whole head,
    the other frequencies are exactly 0, and `factor` divides those that live. A partial rotary
    encoding is another function: its exponents are spread over the channels that turn.
    """

    partial_rotary_factor: float
    factor: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a share outside (0, 1] and a factor below 1."""
        remedy = "the share of the pairs that turn is above 0 and at most 1"
        checks.number(
            "the proportional partial_rotary_factor",
            self.partial_rotary_factor,
            least=0.0,
            above=True,
            remedy=remedy,
        )
        if self.partial_rotary_factor > 1.0:
            raise ScheduleError(
                f"the proportional partial_rotary_factor is {self.partial_rotary_factor}; {remedy}"
            )
        checks.stretch("the proportional scaling factor", self.factor)


@short
@dataclass(frozen=True, slots=True)
class UnknownScaling:
    """A scaling type this package does not know. Its frequencies cannot be computed."""

    name: str
    parameters: tuple[tuple[str, str], ...] = field(default=())


Scaling = (
    Unscaled
    | Linear
    | LargerBase
    | Ntk
    | DynamicNtk
    | NtkByParts
    | Yarn
    | Llama3
    | LongRope
    | PairDivisors
    | Proportional
    | UnknownScaling
)

NAMES: dict[type[Scaling], str] = {
    Unscaled: "default",
    Linear: "linear",
    LargerBase: "larger base",
    Ntk: "ntk",
    DynamicNtk: "dynamic",
    NtkByParts: "ntk by parts",
    Yarn: "yarn",
    Llama3: "llama3",
    LongRope: "longrope",
    PairDivisors: "pair divisors",
    Proportional: "proportional",
    UnknownScaling: "unknown",
}


def name_of(scaling: Scaling) -> str:
    """The field's name of a scaling, as configurations spell it; an unknown one's own name."""
    return scaling.name if isinstance(scaling, UnknownScaling) else NAMES[type(scaling)]


def depends_on_length(scaling: Scaling) -> bool:
    """Whether the frequencies change with the length of the sequence at hand.

    A LongRoPE with two equal lists does not.
    """
    match scaling:
        case DynamicNtk():
            return True
        case LongRope(short_factor=short, long_factor=long):
            return short != long
        case _:
            return False


def _rising(
    what: str, low_name: str, low: object, high_name: str, high: object, usual: str
) -> None:
    """Refuse two ends of a band that are no positive numbers or that have crossed."""
    checks.number(f"the {what} {low_name}", low, least=0.0, above=True, remedy=usual)
    checks.number(f"the {what} {high_name}", high, least=0.0, above=True, remedy=usual)
    if low > high:  # type: ignore[operator]  # both are numbers by now
        raise ScheduleError(
            f"the {what} {low_name} is {low} and above {high_name} {high}; it must be at most "
            f"that: {usual}, are they swapped?"
        )


def _amplitude(what: str, value: object) -> None:
    """Refuse an attention factor that is given and is no positive number."""
    if value is not None:
        remedy = "leave it out, and the published rule gives it"
        checks.number(f"the {what} attention_factor", value, least=0.0, above=True, remedy=remedy)
