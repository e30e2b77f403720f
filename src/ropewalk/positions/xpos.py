"""Rotary encoding with a decay: scores fade with distance (XPos, 2212.10554, section 3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ropewalk.errors import UsageError
from ropewalk.kernels.reference import wide
from ropewalk.positions.base import Description, ExactEncoding, constant, to_exact
from ropewalk.positions.checks import check_positions
from ropewalk.positions.rotary import Rotary
from ropewalk.positions.rotary_tables import Tables, apply_tables
from ropewalk.rope import spec

GAMMA = 0.4
"""The paper's constant: how much the fastest pair keeps."""


class XPos(ExactEncoding):
    """Rotation, and q of pair i times zeta_i^((p - centre) / scale_base), k divided by it.

    zeta_i = (2i/d + 0.4) / 1.4 for i = 0 .. d/2 - 1 with d the rotary dimension, so that a score
    carries zeta_i^(distance / scale_base). Only the difference of positions matters, provided
    that q and k have one centre: it is a position given here, not half of some length, so cached
    keys stay right. For causal attention only: a key after its query would be amplified.

    The two factors must stay within the dtype of q and k; the square root of its range is taken
    for them and the rest left to the values: 18,000 positions from the centre at scale_base 512
    in float32 and bfloat16, 1,980 in float16. Put the centre in the middle of what you attend to.

    Raises ScheduleError for a rotary encoding that has no schedule, UsageError for a
    scale_base that is no positive number or a rotary encoding with sections.
    """

    def __init__(
        self,
        rotary: spec.RotarySpec,
        *,
        scale_base: float = 512.0,
        centre: int = 0,
        length: int | None = None,
    ) -> None:
        super().__init__()
        if not (math.isfinite(scale_base) and scale_base > 0.0):
            raise UsageError(f"scale_base is {scale_base}; it is a positive number of tokens")
        if rotary.sections:
            raise UsageError(
                f"the encoding has sections {list(rotary.sections)}; XPos is defined on one axis"
            )
        self.rotation = Rotary(rotary, length=length)
        self.scale_base, self.centre = scale_base, centre
        self.log_zeta = tuple(_log_zeta(i, rotary.rotary_dim) for i in range(rotary.pairs))
        self.constants["decay"] = constant(tuple(each / scale_base for each in self.log_zeta))

    def rotate(
        self,
        q: Tensor,
        k: Tensor,
        position_ids: Tensor,
        k_position_ids: Tensor | None = None,
        *,
        length: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """q rotated and scaled up, k rotated and scaled down; see the base class for shapes.

        Raises PositionError as `Rotary.rotate`, and for positions too far from the centre.
        """
        k_ids = position_ids if k_position_ids is None else k_position_ids
        k_what = "position_ids" if k_position_ids is None else "k_position_ids"
        self.rotation.check_ids(position_ids, q, "position_ids", "q")
        self.rotation.check_ids(k_ids, k, k_what, "k")
        dtype = torch.promote_types(wide(q.dtype), wide(k.dtype))
        q_tables = self._tables(position_ids, length, dtype, q.dtype, 1.0, "position_ids")
        k_tables = self._tables(k_ids, length, dtype, k.dtype, -1.0, k_what)
        return apply_tables(q, k, q_tables, k_tables, self.rotation.rotary)

    def reach(self, dtype: torch.dtype) -> int:
        """How many positions from the centre the factors stay within the root of the range."""
        limits = torch.finfo(dtype)
        room = min(math.log(limits.max), -math.log(limits.tiny)) / 2.0
        return int(room * self.scale_base / -self.log_zeta[0])

    def describe(self) -> Description:
        """This encoding's row of the comparison table."""
        return Description(
            name="XPos",
            parameters="0",
            applied_to="q and k, every layer",
            encodes="relative directly, fading with distance",
            beyond_trained_length="accepted, far keys fade",
            typical_users="RetNet, in its original form",
        )

    def extra_repr(self) -> str:
        """What stands between the brackets when the module is printed."""
        return f"scale_base={self.scale_base:g}, centre={self.centre}"

    def _tables(
        self,
        ids: Tensor,
        length: int | None,
        dtype: torch.dtype,
        values: torch.dtype,
        sign: float,
        what: str,
    ) -> Tables:
        """Cosines and sines with amplitude and decay, fp64 rounded once to `dtype`."""
        reach = self.reach(values)
        check_positions(
            ids,
            what=what,
            low=max(0, self.centre - reach),
            high=self.centre + reach,
            why=f"{reach} positions from the centre {self.centre} the decay of XPos leaves "
            f"{values}; move the centre, or raise scale_base",
        )
        angles = self.rotation.angles(ids, length, what)
        decay = to_exact(ids.long() - self.centre, self.constants["decay"]) * sign
        scale = decay.exp() * self.rotation.attention_factor
        return Tables(
            *((wave * scale).to(dtype).to(ids.device) for wave in (angles.cos(), angles.sin()))
        )


def _log_zeta(pair: int, rotary_dim: int) -> float:
    """ln((2i/d + gamma) / (1 + gamma)) (2212.10554, section 3.2)."""
    return math.log((2.0 * pair / rotary_dim + GAMMA) / (1.0 + GAMMA))
