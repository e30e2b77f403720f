"""What an engine is given, what its rule answers, and the view that is made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ropewalk.rope.angles import Schedule
from ropewalk.rope.schedules import LongRope
from ropewalk.rope.spec import LayerGroup, RotarySpec
from ropewalk.short import short

NEUTRAL = frozenset(
    {"rope_type", "type", "rope_theta", "partial_rotary_factor", "llama_4_scaling_beta"}
    | {"mrope_section", "mrope_interleaved"}
)
"""Keys of a rope dictionary that are no parameters of a scaling."""


@short
@dataclass(frozen=True, slots=True)
class Given:
    """One group of layers as an engine finds it.

    `rotary` is the encoding by transformers 5.24's rules, or llama.cpp's for a GGUF file. `keys`
    is the rope dictionary of these layers as the file spells it, `config` the text model's part
    of `config.json` (both empty for a GGUF file). `served` is the longest prompt that the engine
    is started for, in tokens. `mla`: latent attention. `nested`: the dictionary belongs to one
    kind of layer. `bare`: the encoding of a reader that knows no `rope_parameters`.
    """

    group: LayerGroup
    rotary: RotarySpec
    keys: Mapping[str, object]
    config: Mapping[str, object]
    model_type: str
    claimed: int | None
    trained: int | None
    served: int | None
    mla: bool = False
    nested: bool = False
    from_gguf: bool = False
    bare: RotarySpec | None = None

    def number(self, key: str) -> float | None:
        """A number of the rope dictionary, None where it is absent or is none."""
        value = self.keys.get(key)
        good = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if good else None  # type: ignore[arg-type]

    def lists(self, name: str, known: tuple[float, ...]) -> tuple[float, ...]:
        """Longrope's list as the file has it: transformers takes another for some families."""
        stated = self.keys.get(name)
        if not isinstance(stated, list | tuple) or len(stated) != len(known):
            return known
        return tuple(float(each) for each in stated)

    def own_lists(self, scaling: LongRope) -> LongRope:
        """The same schedule with both lists as the file has them."""
        return replace(
            scaling,
            short_factor=self.lists("short_factor", scaling.short_factor),
            long_factor=self.lists("long_factor", scaling.long_factor),
        )

    def length_in_keys(self, key: str) -> int | None:
        """A whole number of the rope dictionary."""
        value = self.keys.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def length(self, key: str) -> int | None:
        """A whole number at the top of the configuration."""
        value = self.config.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


@short
@dataclass(frozen=True, slots=True)
class Effect:
    """What an engine makes of it.

    `rotary`: the encoding it computes; None where it stops with an error, or rotates by a rule
    that is not known here, and `rules` then says why. `trained`: the length its formula takes
    for the training's. `softmax`: what it multiplies the scores by, None for the group's own.
    `read`: the keys that this rule reads.
    """

    rotary: RotarySpec | None
    trained: int | None = None
    softmax: float | None = None
    read: frozenset[str] = frozenset()
    rules: tuple[str, ...] = ()


@short
@dataclass(frozen=True, slots=True)
class Engine:
    """An engine: its name with the version its rules were read from, and its rule.

    `before` may answer for every schedule, or leave it to the rule (None).
    """

    name: str
    rule: Callable[[Given], Effect]
    before: Callable[[Given], Effect | None] = field(default=lambda given: None)  # noqa: ARG005


def no_rule(given: Given) -> Effect:  # noqa: ARG001 - one signature
    """Of a schedule that the engine is not known to take."""
    return Effect(None, rules=("no rule of this engine for this scaling is known here",))


@short
@dataclass(frozen=True, slots=True)
class EngineView:
    """What one engine computes for one group of layers.

    `prompt` and `claim` are its schedules for a short prompt and at the claimed length, with the
    softmax factor; `prompt_length` and `claim_length` are those lengths in tokens. `rope_theta` is
    the base of `claim` (after ntk rules), `trained` the length that its formula takes for the
    training's. `ignored`: keys of the file that it does not read. `rules`: sentences on what it
    does in its own way. `claim` and `prompt` are None where the engine computes nothing.
    """

    engine: str
    group: str
    rope_theta: float | None
    prompt: Schedule | None
    claim: Schedule | None
    prompt_length: int
    claim_length: int
    trained: int | None
    ignored: tuple[str, ...]
    rules: tuple[str, ...]

    @property
    def inv_freq(self) -> tuple[float, ...]:
        """Inverse frequencies at the claimed length, radians a token; empty where none."""
        return () if self.claim is None else self.claim.inv_freq

    @property
    def attention_factor(self) -> float | None:
        """What multiplies cos and sin at the claimed length."""
        return None if self.claim is None else self.claim.attention_factor

    @property
    def softmax_factor(self) -> float | None:
        """What multiplies the usual softmax scale."""
        return None if self.claim is None else self.claim.softmax_factor


@short
@dataclass(frozen=True, slots=True)
class Parting:
    """Where two engines part, for a prompt of `length` tokens.

    `pair` and `position` are the first position, and of its pairs the first, at which their
    angles differ by more than the tolerance, None where they do not below `length`. `attention`
    and `softmax` are the second engine's factor over the first's.
    """

    first: str
    second: str
    group: str
    length: int
    pair: int | None
    position: int | None
    attention: float
    softmax: float

    @property
    def agree(self) -> bool:
        """Whether both compute the same."""
        near = max(abs(self.attention - 1.0), abs(self.softmax - 1.0)) <= 1e-6
        return self.position is None and near
