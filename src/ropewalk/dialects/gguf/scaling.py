"""How a GGUF file rescales rotary frequencies, as llama.cpp would rotate by them.

llama.cpp's rules, from its loader and its context: a missing type is "linear"; a missing or
zero factor is 1; the original length falls back on the context length; YaRN is on when its
extrapolation factor is not 0, which a type of "yarn" sets to 1; a tensor of divisors comes
before everything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from ropewalk.dialects.gguf.archs import ARCHITECTURES, ArchFacts
from ropewalk.dialects.gguf.keys import Keys
from ropewalk.dialects.gguf.loader import yarn_keys
from ropewalk.errors import GgufError
from ropewalk.rope.schedules import (
    SCHEDULES,
    UNSCALED,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    PairDivisors,
    Proportional,
    Scaling,
    UnknownScaling,
    Unscaled,
    Yarn,
    yarn_mscale,
)
from ropewalk.rope.schedules.pair_divisors import baked_llama3
from ropewalk.rope.spec import RotarySpec
from ropewalk.short import short

STILL_DIVISOR = 1e30
"""What converters write for a pair that is not rotated (Gemma 4)."""

_TYPES = tuple(record.spelled.gguf for record in SCHEDULES if record.spelled.gguf)


@short
@dataclass(frozen=True, slots=True)
class Heads:
    """Sizes of one kind of layer: channels of a head, and how many of them are rotated."""

    head_dim: int
    rotary_dim: int
    rotary_dim_source: str


class ScalingReader:
    """The scaling keys of one file, read and checked once; `of` gives a layer's scaling."""

    def __init__(self, keys: Keys, facts: ArchFacts, context_length: int) -> None:
        self.keys, self.facts, self.context_length = keys, facts, context_length
        self.original = keys.count("rope.scaling.original_context_length")
        self.type = keys.text("rope.scaling.type")
        self.factor = self._factor()
        self.attn_factor = keys.number("rope.scaling.attn_factor")
        self.alpha = keys.number("rope.scaling.alpha", zero=True)
        self.plain, self.plain_source = self._plain()
        self.llama3: Llama3 | None = None
        # A tensor for all layers is read and recognised once, not once a layer.
        self._divisors = lru_cache(maxsize=None)(self._pair_divisors)
        self._lists = lru_cache(maxsize=None)(self._longrope)

    @property
    def trained(self) -> int:
        """The original length, or llama.cpp's fallback for it."""
        return self.original or self.context_length

    def of(self, layer: int | None, base: float, heads: Heads) -> tuple[Scaling, str]:
        """The scaling of a layer and which key or tensor gave it.

        Raises GgufError when a tensor of divisors does not fit the heads.
        """
        own = self.keys.layer_tensor("rope_freqs", layer)
        if own is not None:
            return self._divisors(own, base, heads)
        long = self.keys.layer_tensor("rope_factors_long", layer)
        short = self.keys.layer_tensor("rope_factors_short", layer)
        if long is not None or short is not None:
            return self._lists(long, short, heads.rotary_dim)
        return self.plain, self.plain_source

    def log_multiplier(self) -> float:
        """mscale_all_dim as llama.cpp understands `yarn_log_multiplier`; 0 where not read."""
        value = self.keys.number("rope.scaling.yarn_log_multiplier", negative=True)
        unit = self.facts.yarn_log_unit
        if value is None or not value:
            return 0.0
        if unit is None:
            self.keys.remark(
                "yarn-log-multiplier-unread",
                f"{self.keys.name('rope.scaling.yarn_log_multiplier')} is {value:g}, and "
                f"llama.cpp does not read it for {self.keys.arch}",
            )
            return 0.0
        return value / unit

    def _factor(self) -> float:
        """The factor, 1 when it is missing or 0."""
        value = self.keys.number("rope.scaling.factor", zero=True)
        if value is None:
            value = self.keys.number("rope.scale_linear", zero=True)
        if not value and self.type in ("linear", "yarn"):
            self.keys.remark(
                "factor-missing",
                f"the scaling type is {self.type!r} and the factor is missing or 0, which "
                "llama.cpp reads as 1",
                "set rope.scaling.factor when converting",
                warn=True,
            )
        return value or 1.0

    def _plain(self) -> tuple[Scaling, str]:
        """The scaling that the keys alone state."""
        kind, factor, keys = self.type, self.factor, self.keys
        if kind is not None and kind not in _TYPES:
            keys.remark(
                "scaling-unknown",
                f"{keys.name('rope.scaling.type')} is {kind!r}, and llama.cpp knows only "
                f"{', '.join(_TYPES)}",
                "convert the model anew",
                warn=True,
            )
            return UnknownScaling(kind, (("factor", f"{factor:g}"),)), "rope.scaling.type"
        self._check_share()
        extrapolation = self._yarn_number("ext_factor", 1.0 if kind == "yarn" else 0.0)
        if extrapolation is None or extrapolation < 0:
            extrapolation = 1.0 if kind == "yarn" else 0.0
        if extrapolation:
            return self._yarn(extrapolation)
        if kind == "none":
            return self._alpha("rope.scaling.type is 'none'")
        self._note_lost_amplitude()
        if factor == 1.0:
            return self._alpha("no scaling factor")
        if kind is None:
            name = "rope.scaling.factor" if keys.has("rope.scaling.factor") else "rope.scale_linear"
            return Linear(factor), f"{name}, without a type: linear"
        return Linear(factor), "rope.scaling.factor"

    def _check_share(self) -> None:
        """yarn_ext_factor is a share; a factor in its place is no schedule that could be served."""
        key = "rope.scaling.yarn_ext_factor"
        value = self.keys.number(key, negative=True)
        if value is not None and value > 1.0:
            raise GgufError(
                f"{self.keys.header.path}: {self.keys.name(key)} is {value:g}, and it is a share "
                "from 0 to 1, of which 1 is YaRN: the scaling's factor stands in the wrong key, "
                f"where 1 is right ({self.keys.name('rope.scaling.factor')} is "
                f"{self.factor:g}); set the key to 1, or convert the model anew"
            )

    def _alpha(self, source: str) -> tuple[Scaling, str]:
        """No scaling, or the fixed larger base that Hunyuan's converter leaves to the loader."""
        if self.alpha and self.alpha != 1.0:
            return Ntk(self.alpha), "rope.scaling.alpha"
        return UNSCALED, source

    def _yarn(self, extrapolation: float) -> tuple[Scaling, str]:
        """YaRN with llama.cpp's amplitude."""
        keys, factor = self.keys, self.factor
        if extrapolation != 1.0:
            keys.remark(
                "yarn-partial",
                f"{keys.name('rope.scaling.yarn_ext_factor')} is {extrapolation:g}: a mixture "
                "of linear scaling and YaRN that no other engine knows",
                warn=True,
            )
            detail = (("factor", f"{factor:g}"), ("ext_factor", f"{extrapolation:g}"))
            return UnknownScaling("partial yarn", detail), "rope.scaling.yarn_ext_factor"
        if keys.number("rope.scaling.yarn_attn_factor", zero=True) not in (None, 1.0):
            keys.remark(
                "yarn-attn-factor-overwritten",
                f"{keys.name('rope.scaling.yarn_attn_factor')} is stated, and llama.cpp "
                "overwrites it for a YaRN model; attn_factor is what it keeps",
            )
        mscale, all_dim = self._mscale_pair()
        amplitude = None
        if self.attn_factor not in (None, 1.0):
            pair = yarn_mscale(factor, mscale or 1.0)
            pair = pair / yarn_mscale(factor, all_dim) if all_dim else yarn_mscale(factor)
            amplitude = pair * (self.attn_factor or 1.0)
        scaling = Yarn(
            factor,
            self.trained,
            beta_fast=self._yarn_number("beta_fast", 32.0) or 32.0,
            beta_slow=self._yarn_number("beta_slow", 1.0) or 1.0,
            attention_factor=amplitude,
            mscale=mscale,
            mscale_all_dim=all_dim,
        )
        return scaling, "rope.scaling.type"

    def _yarn_number(self, name: str, usual: float) -> float | None:
        """`rope.scaling.yarn_<name>` where llama.cpp reads it for this architecture."""
        key = f"rope.scaling.yarn_{name}"
        value = self.keys.number(key, negative=name == "ext_factor")
        loads = yarn_keys(self.keys.arch)
        usual = loads.beta_fast if name == "beta_fast" else usual
        if name in loads.reads:
            if loads.since and value is not None and value != usual:
                self.keys.remark(
                    "yarn-key-by-release",
                    f"{self.keys.name(key)} is {value:g}: llama.cpp's sources read it for "
                    f"{self.keys.arch}, and its release {loads.since} does not yet and computes "
                    f"with {usual:g}",
                )
            return usual if value is None and name != "ext_factor" else value
        if value is None:
            return None
        if value != usual:
            known = self.keys.arch in ARCHITECTURES
            # A share between is no schedule that training has seen: no option for it.
            option = known and name != "ext_factor"
            self.keys.remark(
                "yarn-key-unread",
                f"{self.keys.name(key)} is {value:g}, and llama.cpp does not read it for "
                f"{self.keys.arch}: it computes with {usual:g}"
                if known
                else f"{self.keys.name(key)} is {value:g}, and whether llama.cpp reads it for "
                f"{self.keys.arch} is not known here: {usual:g} is taken",
                f"state it when serving: --yarn-{name.replace('_', '-')} {value:g}"
                if option
                else "",
                warn=True,
            )
        return None

    def _mscale_pair(self) -> tuple[float | None, float | None]:
        """(mscale, mscale_all_dim): llama.cpp takes mscale for 1, and for DeepSeek-V2 as equal."""
        all_dim = self.log_multiplier()
        if not all_dim:
            return None, None
        # The key holds a tenth of the number in single precision.
        same = self.keys.arch == "deepseek2" and abs(all_dim - 1.0) > 1e-6
        return (all_dim if same else 1.0), all_dim

    def _note_lost_amplitude(self) -> None:
        """An amplitude without YaRN or divisors by length: `Scaling` has no place for it."""
        longrope = any("rope_factors_" in name for name in self.keys.header.tensors)
        if self.attn_factor not in (None, 1.0) and not longrope:
            self.keys.remark(
                "amplitude-alone",
                f"{self.keys.name('rope.scaling.attn_factor')} is {self.attn_factor:g} without "
                "YaRN or LongRoPE; llama.cpp multiplies cos and sin by it, and the schedule "
                "shown here does not hold it",
                warn=True,
            )

    def _sized(self, name: str, rotary_dim: int) -> tuple[float, ...]:
        """The divisors of a tensor, one for each pair."""
        values = self.keys.divisors(name)
        if len(values) != rotary_dim // 2:
            raise GgufError(
                f"{self.keys.header.path}: tensor {name!r} holds {len(values)} divisors for "
                f"{rotary_dim // 2} rotary pairs; one for each pair was expected: check "
                f"{self.keys.name('rope.dimension_count')}, or convert the model anew"
            )
        return values

    def _longrope(self, long: str | None, short: str | None, dim: int) -> tuple[Scaling, str]:
        """Two lists of divisors and the length at which llama.cpp switches."""
        if long is None or short is None:
            there, lacking = (long, "short") if short is None else (short, "long")
            raise GgufError(
                f"{self.keys.header.path} has the tensor {there!r} and no rope_factors_{lacking}"
                ".weight; both lists are needed: download the file again, or convert it anew"
            )
        if self.attn_factor is None:
            self.keys.remark(
                "longrope-amplitude-missing",
                f"{self.keys.name('rope.scaling.attn_factor')} is missing, so that llama.cpp "
                "rotates with amplitude 1; the published rule gives sqrt(1 + ln s / ln L)",
                f"set it to {self._longrope_amplitude():.7g} if the model was trained by that rule",
                warn=True,
            )
        if self.factor != 1.0 and self.type != "none":
            self.keys.remark(
                "longrope-and-factor",
                f"a scaling factor of {self.factor:g} is stated beside LongRoPE's divisors; "
                "llama.cpp divides by both, and the schedule shown here holds the lists alone",
                "remove rope.scaling.factor from the file",
                warn=True,
            )
        stretch = self.factor if self.factor != 1.0 else self.context_length / self.trained
        scaling = LongRope(
            short_factor=self._sized(short, dim),
            long_factor=self._sized(long, dim),
            original_max_position_embeddings=self.trained,
            factor=max(stretch, 1.0),
            attention_factor=1.0 if self.attn_factor is None else self.attn_factor,
        )
        return scaling, f"tensors {long} and {short}"

    def _longrope_amplitude(self) -> float:
        """What the published rule gives for the two lengths in the file."""
        stretch = max(self.context_length / self.trained, 1.0)
        return math.sqrt(1.0 + math.log(stretch) / math.log(self.trained))

    def _pair_divisors(self, name: str, base: float, heads: Heads) -> tuple[Scaling, str]:
        """A divisor for each pair, times the linear factor where there is one."""
        values = self._sized(name, heads.rotary_dim)
        proportional = _proportional(values, heads)
        if proportional is not None and isinstance(self.plain, Unscaled):
            self.keys.remark(
                "rope-freqs-proportional",
                f"{name} rotates {proportional.live_pairs(heads.head_dim)} of {len(values)} pairs "
                f"and divides the others by {STILL_DIVISOR:g}, which holds them still: a "
                f"proportional schedule with share {proportional.partial_rotary_factor:g}",
            )
            return proportional, f"tensor {name}"
        self._recognise(name, values, base, heads.rotary_dim)
        match self.plain:
            case Unscaled():
                return PairDivisors(values), f"tensor {name}"
            case Linear(factor=factor):
                both = tuple(v * factor for v in values)
                return PairDivisors(both), f"tensor {name} and {self.plain_source}"
            case _:
                self.keys.remark(
                    "divisors-and-scaling",
                    f"the tensor {name} and {self.plain_source} both rescale; what they make "
                    "together is not computed here",
                    "convert the model anew: which of the two was meant is not in the file",
                    warn=True,
                )
                detail = (("tensor", name), ("with", self.plain_source))
                return UnknownScaling("divisors and scaling", detail), f"tensor {name}"

    def _recognise(
        self, name: str, values: tuple[float, ...], base: float, rotary_dim: int
    ) -> None:
        """Say so when the divisors are Llama 3's rule for some factor."""
        found = baked_llama3(RotarySpec(rotary_dim, rotary_dim, base), PairDivisors(values))
        if found is None:
            self.keys.remark(
                "rope-freqs-own",
                f"{name} holds divisors from {min(values):g} to {max(values):g}, which are not "
                "Llama 3's rule for any factor",
            )
            return
        self.llama3, made = found
        numbers = (
            f"factor {self.llama3.factor:g}, low_freq_factor 1, high_freq_factor 4 and original "
            f"length {self.llama3.original_max_position_embeddings}"
        )
        if made == base:
            self.keys.remark("rope-freqs-llama3", f"{name} is Llama 3's rule with {numbers}")
        else:
            self.keys.remark(
                "rope-freqs-other-base",
                f"{name} is Llama 3's rule with {numbers}, made for the base {made:,.0f}, and "
                f"{self.keys.name('rope.freq_base')} is {base:,.0f}: each pair is divided by what "
                "another frequency was to be divided by",
                "convert the model anew, with the base that it is trained at in its rope_theta",
                warn=True,
            )


def _proportional(values: tuple[float, ...], heads: Heads) -> Proportional | None:
    """The p-RoPE that a list of divisors is: one factor for the first pairs, the rest still."""
    live = next((i for i, v in enumerate(values) if v >= STILL_DIVISOR * 0.999), len(values))
    whole = heads.rotary_dim == heads.head_dim and 0 < live < len(values)
    if not whole or values[0] < 1.0 or len(set(values[:live])) > 1 or len(set(values[live:])) > 1:
        return None
    scaling = Proportional(2 * live / heads.head_dim, values[0])
    if scaling.live_pairs(heads.head_dim) != live:
        # The quotient was rounded down; half a pair more cannot add a whole one.
        scaling = Proportional((2 * live + 1) / heads.head_dim, values[0])
    return scaling
