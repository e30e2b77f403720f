"""Every way of rescaling rotary frequencies, a record and a file each.

A new one is a file beside these and its name in `Scaling`: the engines and writers that have to
decide about it are then named by mypy, each by the `assert_never` at its end.
"""

from typing import get_args

from ropewalk.rope.schedules.dynamic_ntk import DynamicNtk
from ropewalk.rope.schedules.larger_base import LargerBase
from ropewalk.rope.schedules.linear import Linear
from ropewalk.rope.schedules.llama3 import Llama3
from ropewalk.rope.schedules.longrope import SEARCHED, LongRope
from ropewalk.rope.schedules.ntk import Ntk, ntk_base
from ropewalk.rope.schedules.ntk_by_parts import NtkByParts
from ropewalk.rope.schedules.pair_divisors import PairDivisors
from ropewalk.rope.schedules.proportional import Proportional
from ropewalk.rope.schedules.rescaling import OriginWords, Rotates, plain_inv_freq
from ropewalk.rope.schedules.stepped_ntk import SteppedNtk
from ropewalk.rope.schedules.unknown import UnknownScaling
from ropewalk.rope.schedules.unscaled import Unscaled
from ropewalk.rope.schedules.yarn import (
    Yarn,
    deepseek_amplitude,
    deepseek_softmax,
    yarn_mscale,
)

__all__ = [
    "SCHEDULES",
    "SEARCH",
    "UNSCALED",
    "DynamicNtk",
    "LargerBase",
    "Linear",
    "Llama3",
    "LongRope",
    "Ntk",
    "NtkByParts",
    "OriginWords",
    "PairDivisors",
    "Proportional",
    "Rotates",
    "Scaling",
    "SteppedNtk",
    "UnknownScaling",
    "Unscaled",
    "Yarn",
    "deepseek_amplitude",
    "deepseek_softmax",
    "ntk_base",
    "plain_inv_freq",
    "words_of",
    "yarn_mscale",
]

Scaling = (
    Unscaled
    | Linear
    | Ntk
    | DynamicNtk
    | SteppedNtk
    | NtkByParts
    | Yarn
    | Llama3
    | LongRope
    | LargerBase
    | PairDivisors
    | Proportional
    | UnknownScaling
)

SCHEDULES: tuple[type[Scaling], ...] = get_args(Scaling)
"""Each record once, in the order in which tables and messages name them."""

UNSCALED = Unscaled()

SEARCH = "search"
"""The method of `ropewalk extend` that searches longrope's divisors."""


def words_of(method: str) -> OriginWords | None:
    """What an audit says of a file that records this method of `ropewalk extend`; None: no such."""
    if method == SEARCH:
        return SEARCHED
    return next((each.origin for each in SCHEDULES if each.spelled.method == method), None)
