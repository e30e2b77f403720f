"""What is compared, and how large: encodings, sizes, steps and seeds, and the presets of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import get_args

from ropewalk.comparison.language import Language
from ropewalk.decoder import DecoderConfig, Position
from ropewalk.errors import UsageError
from ropewalk.short import short

EVERY: tuple[Position, ...] = get_args(Position)
"""All encodings, in the order in which they are shown."""
ADDS: tuple[Position, ...] = ("sinusoidal", "learned", "raw_index")
"""Encodings that add to the token vectors, once or before every block."""
AGAIN = "+every"
"""Follows the name of an encoding that is added before every block rather than once."""

LENGTHS = (1, 2, 4, 8)
"""Windows that are measured, as multiples of the trained length."""
FAR = 4
"""The multiple at which the orderings are tested."""


@short
@dataclass(frozen=True, slots=True, order=True)
class Variant:
    """An encoding, and whether it is added again before every block."""

    position: Position
    again: bool = False

    @property
    def name(self) -> str:
        """As it is typed and filed: `sinusoidal`, `sinusoidal+every`."""
        return f"{self.position}{AGAIN if self.again else ''}"


@short
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that the figures of a comparison follow from, machine apart.

    `trained_length` tokens per row and `rows` rows per step, for `steps` steps. `growing` is the
    share of steps in which rows are cut into pieces of a quarter, and then of half, of that
    length: what is to be recalled is then near, which helps where rows are long. `answer_weight`
    multiplies the loss on values. `device` is "cpu" or "cuda".
    """

    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    steps: int
    preset: str = "lesson"
    language: Language = field(default_factory=Language)
    hidden: int = 64
    layers: int = 2
    heads: int = 4
    trained_length: int = 64
    rows: int = 12
    rate: float = 5e-3
    growing: float = 0.0
    answer_weight: float = 3.0
    streams: int = 12
    prompts: int = 64
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Refuse what trains nothing. Raises UsageError."""
        if self.steps < 1:
            raise UsageError(f"--steps {self.steps}: at least 1 step trains something")
        for what, given in (("encodings", self.variants), ("seeds", self.seeds)):
            if not given or len(set(given)) != len(given):
                raise UsageError(f"the {what} are named once each, and one at least")

    @property
    def stride(self) -> int:
        """Tokens that a sliding window moves by: a quarter of the trained length."""
        return max(1, self.trained_length // 4)

    @property
    def windows(self) -> tuple[int, ...]:
        """The windows that are measured, in tokens."""
        return tuple(self.trained_length * each for each in LENGTHS)

    def config(self, variant: Variant) -> DecoderConfig:
        """The decoder of a variant; all else is the same for every one."""
        return DecoderConfig(
            # And one for words of other texts, which the tokenizer has to put somewhere.
            vocab_size=self.language.size + 1,
            hidden_size=self.hidden,
            intermediate_size=2 * self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            position=variant.position,
            trained_length=self.trained_length,
            reassert=variant.again,
        )

    def document(self) -> dict[str, object]:
        """All of it as JSON values."""
        return {**asdict(self), "variants": [each.name for each in self.variants]}

    def fingerprint(self) -> str:
        """16 hex digits of what one trained decoder's figures follow from, seed apart."""
        one = {k: v for k, v in self.document().items() if k not in ("variants", "seeds", "preset")}
        return hashlib.sha256(json.dumps(one, sort_keys=True).encode()).hexdigest()[:16]


def parse_variants(text: str) -> tuple[Variant, ...]:
    """`rope,alibi,sinusoidal+every` as variants. Raises UsageError for another word."""
    found = []
    for word in (part.strip() for part in text.split(",")):
        name, again = word.removesuffix(AGAIN), word.endswith(AGAIN)
        if name not in EVERY or (again and name not in ADDS):
            raise UsageError(
                f"--encodings {word!r} is not known; choose from {', '.join(EVERY)}, and for those "
                f"added before every block {', '.join(each + AGAIN for each in ADDS)}"
            )
        found.append(Variant(name, again))
    return tuple(found)


def parse_seeds(text: str) -> tuple[int, ...]:
    """`3` as seeds 0, 1 and 2, and `0,5,7` as they stand. Raises UsageError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise UsageError(f"--seeds {text!r} is neither a number of seeds nor a list such as 0,5,7")
    if len(parts) > 1:
        return tuple(map(int, parts))
    if int(parts[0]) > MOST_SEEDS:
        raise UsageError(f"--seeds {text}: at most {MOST_SEEDS}, or name those you want")
    return tuple(range(int(parts[0])))


def preset(
    name: str,
    *,
    variants: Sequence[Variant] | None = None,
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    device: str | None = None,
) -> Settings:
    """The settings of a preset, with what the user chose otherwise.

    `minute`: every encoding, one seed, under 6 minutes on 2 cores. `lesson`, the default: three
    seeds, and the sinusoids before every block too. `paper`: a larger decoder and longer rows, for
    a GPU; `device` puts any of them elsewhere. Raises UsageError for another name or device.
    """
    once = tuple(Variant(each) for each in EVERY)
    more = (*once, Variant("sinusoidal", again=True))
    if name not in ("minute", "lesson", "paper"):
        raise UsageError(f"--preset {name!r} is not known; choose minute, lesson or paper")
    if device not in (None, "cpu", "cuda"):
        raise UsageError(f"--device {device!r} is not known; choose cpu or cuda")
    chosen = tuple(variants) if variants is not None else (once if name == "minute" else more)
    given = tuple(seeds) if seeds is not None else ((0,) if name == "minute" else (0, 1, 2))
    if name != "paper":
        return Settings(
            variants=chosen,
            seeds=given,
            steps=STEPS if steps is None else steps,
            preset=name,
            device=device or "cpu",
        )
    return Settings(
        variants=chosen,
        seeds=given,
        steps=4000 if steps is None else steps,
        preset=name,
        language=Language(words=128, names=32, values=16, stop=0.3),
        hidden=256,
        layers=4,
        heads=8,
        trained_length=256,
        rows=64,
        rate=2e-3,
        growing=0.4,
        streams=32,
        prompts=256,
        device=device or "cuda",
    )


MOST_SEEDS = 100
STEPS = 800
"""Steps of the small presets."""
