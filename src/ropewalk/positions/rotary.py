"""Rotary position encoding: queries and keys turned by their positions (2104.09864)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk.errors import LengthError, PositionError, ScheduleError, TensorError, UsageError
from ropewalk.positions.axes import Axes, OneAxis, choose, count_axes, laid_out
from ropewalk.positions.base import Description
from ropewalk.positions.checks import check_axes, check_fit, check_positions
from ropewalk.positions.exact import ExactEncoding, constant, to_exact, to_exact_by_pair, wide
from ropewalk.positions.tables_cache import ROTARY_TABLES
from ropewalk.positions.turning import Tables, turn_both, turn_some
from ropewalk.rope import spec
from ropewalk.short import short

Lengths = int | Sequence[int]
"""Tokens of the sequences at hand: one number for all rows of a batch, or one a row."""


@short
@dataclass(frozen=True, slots=True)
class RotatedHeads:
    """The query and the key heads that turn, by index; the others pass unchanged.

    Qwen2.5-Omni's token-to-wave model turns head 0 alone: `RotatedHeads((0,), (0,))`.
    """

    query: tuple[int, ...]
    key: tuple[int, ...]


class Rotary(ExactEncoding):
    """Turns pairs of channels of q and k by position x inverse frequency; values stay as they are.

    `rotary` is the whole encoding as a value: dimensions, base, layout, scaling, sections. `axes`
    is for what it cannot say: `Axial` positions of images. `rotated` restricts it to some heads.
    Where the last channels of a head turn (latent attention), the part that turns may be given
    alone, as the one shared key is: (batch, 1, length, rotary_dim).

    `length`, the tokens of the sequence at hand, matters to schedules that depend on it (dynamic,
    longrope) and has to be given for those, here or at each call: it is never guessed from the
    positions, and nothing is remembered from one call to the next. At a call it may be one number
    a row, for sequences of different lengths in one batch: each row is then turned as it would be
    alone, whatever stands beside it. (transformers turns a whole batch by its longest row. Rows
    that hold several packed documents have one length as well.) Keys cached under one length
    do not fit queries turned at another; see `ropewalk.positions.rerotate`.

    A token's position may be given without an axis dimension to a model with sections: text has
    the same position on every axis.

    Raises ScheduleError at construction when no schedule follows from these values.
    """

    def __init__(
        self,
        rotary: spec.RotarySpec,
        *,
        axes: Axes | None = None,
        rotated: RotatedHeads | None = None,
        length: int | None = None,
    ) -> None:
        super().__init__()
        self.rotary, self.rotated, self.length = rotary, rotated, length
        self.axes = choose(rotary, axes)
        self.axis_count = count_axes(self.axes, rotary)
        self.needs_length = rotary.scaling.depends_on_length
        # The amplitude and the axes of the pairs are the same at every length.
        laid = laid_out(rotary, self.axes, length)
        self.attention_factor = laid.attention_factor
        self.constants["axis"] = constant(laid.axis)
        if not self.needs_length or length is not None:
            self.constants["inv_freq"] = constant(laid.inv_freq)

    def at_length(self, length: int) -> Rotary:
        """The same encoding for sequences of `length` tokens."""
        return Rotary(self.rotary, axes=self.axes, rotated=self.rotated, length=length)

    def angles(
        self, position_ids: Tensor, length: Lengths | None = None, what: str = "position_ids"
    ) -> Tensor:
        """Radians (batch, sequence, pairs) or (sequence, pairs), fp64, without amplitude.

        `length` replaces the one given at construction. Raises PositionError for ids that are no
        positions or not as many rows as lengths, ScheduleError when the schedule needs a length
        and has none or is given a tensor, LengthError for a length that is none.
        """
        check_positions(position_ids, what=what)
        if isinstance(length, Tensor):
            raise ScheduleError(
                "length is a tensor, whose values would have to be waited for; give a whole "
                "number, or one a row in a list"
            )
        if isinstance(length, Sequence):
            position_ids = _by_row(position_ids, length, what)
            # (rows, 1, pairs): each row at its own length.
            inv_freq = torch.stack([self._inv_freq(each) for each in length])[:, None]
        else:
            inv_freq = self._inv_freq(length)
        if self.axis_count is None:
            check_axes(position_ids, None, what)
            return to_exact(position_ids, inv_freq)
        if position_ids.dim() < 3:
            self._check_text(position_ids, what)
            return to_exact(position_ids, inv_freq)
        check_axes(position_ids, self.axis_count, what)
        axis = self.constants["axis"].to(position_ids.device)
        of_pairs = position_ids.index_select(0, axis).movedim(0, -1)
        return to_exact_by_pair(of_pairs, inv_freq)

    def tables(
        self,
        position_ids: Tensor,
        length: Lengths | None = None,
        dtype: torch.dtype = torch.float32,
        what: str = "position_ids",
    ) -> Tables:
        """Cosines and sines times the attention factor, fp64 rounded once to `dtype`.

        Shapes, `length` and errors as for `angles`. Equal calls share their tables.
        """
        lengths = tuple(length) if isinstance(length, Sequence) else length
        if isinstance(lengths, Tensor):
            return self._built(position_ids, lengths, dtype, what)
        key = (type(self), self.rotary, self.axes, self.length, lengths, dtype)
        return ROTARY_TABLES.get(
            key, position_ids, lambda: self._built(position_ids, length, dtype, what)
        )

    def _built(
        self, position_ids: Tensor, length: Lengths | None, dtype: torch.dtype, what: str
    ) -> Tables:
        """The tables, built."""
        angles = self.angles(position_ids, length, what)
        cos, sin = (
            (wave * self.attention_factor).to(dtype).to(position_ids.device)
            for wave in (angles.cos(), angles.sin())
        )
        return Tables(cos, sin)

    def rotate(
        self,
        q: Tensor,
        k: Tensor,
        position_ids: Tensor,
        k_position_ids: Tensor | None = None,
        *,
        length: Lengths | None = None,
    ) -> tuple[Tensor, Tensor]:
        """q and k turned, in fp32 at least, back in their dtypes; see the base class for shapes.

        Keys have heads of their own count. `k_position_ids` are the keys' positions where they
        are not the queries', as with a cache of un-rotated keys.

        Raises a UsageError for ids or shapes that do not fit, ScheduleError as `angles`.
        """
        self.check_ids(position_ids, q, "position_ids", "q")
        own = k_position_ids is not None
        k_ids = position_ids if k_position_ids is None else k_position_ids
        self.check_ids(k_ids, k, "k_position_ids" if own else "position_ids")
        dtype = torch.promote_types(wide(q.dtype), wide(k.dtype))
        q_tables = self.tables(position_ids, length, dtype)
        k_tables = self.tables(k_ids, length, dtype, "k_position_ids") if own else q_tables
        return self.rotate_by(q, k, q_tables, k_tables)

    def rotate_by(
        self, q: Tensor, k: Tensor, q_tables: Tables, k_tables: Tables
    ) -> tuple[Tensor, Tensor]:
        """As `rotate`, by tables made before: once a forward pass, whatever the layers."""
        layout, placement, rotated = self.rotary.layout, self.rotary.placement, self.rotated
        if rotated is None:
            return turn_both(q, k, q_tables, k_tables, layout, placement)
        for name, heads, x in (("query", rotated.query, q), ("key", rotated.key, k)):
            if not all(0 <= head < x.shape[1] for head in heads):
                raise UsageError(
                    f"{name} heads {list(heads)} are to be rotated, and there are {x.shape[1]}, "
                    "counted from 0"
                )
        return (
            turn_some(q, q_tables, layout, rotated.query, placement),
            turn_some(k, k_tables, layout, rotated.key, placement),
        )

    def check_ids(self, ids: Tensor, x: Tensor, what: str, name: str = "k") -> None:
        """Refuse `x` (called `name`) that is no (batch, heads, length, head_dim), or ids (called
        `what`) that are not its tokens' positions. Raises PositionError.
        """
        r = self.rotary
        widths = [r.head_dim] if r.placement == "first" else [r.head_dim, r.rotary_dim]
        if x.dim() != 4 or x.shape[-1] not in widths:
            raise TensorError(
                f"{name} has shape {tuple(x.shape)}; this encoding turns (batch, heads, length, "
                f"{' or '.join(map(str, dict.fromkeys(widths)))})"
            )
        check_fit(ids, x.shape[0], x.shape[2], self.axis_count, what)

    def describe(self) -> Description:
        """This encoding's row of the comparison table."""
        return Description(
            name="RoPE",
            parameters="0",
            applied_to="q and k, every layer",
            encodes="relative directly",
            beyond_trained_length="accepted, degrades quickly, extendable by rescaling plus brief "
            "long-context training",
            typical_users="Llama, Mistral, Qwen",
        )

    def extra_repr(self) -> str:
        """What stands between the brackets when the module is printed."""
        r = self.rotary
        axes = "" if isinstance(self.axes, OneAxis) else f", axes={self.axes}"
        part = f"{r.placement} {r.rotary_dim}" if r.rotary_dim != r.head_dim else r.rotary_dim
        length = "" if self.length is None else f", length={self.length}"
        return (
            f"{part} of {r.head_dim}, rope_theta={r.rope_theta:g}, {r.layout}, "
            f"{r.scaling.name}{axes}{length}"
        )

    def _inv_freq(self, length: int | None) -> Tensor:
        """Radians a token of each pair, fp64, at the length that counts."""
        if not self.needs_length or length is None:
            if "inv_freq" not in self.constants:
                raise ScheduleError(
                    f"a {self.rotary.scaling.name} schedule depends on the length of the "
                    "sequence, and none was given; pass length= here, or at construction"
                )
            return self.constants["inv_freq"]
        if torch.compiler.is_compiling():
            length = range(length).stop  # a symbolic length becomes the number it stands for
        built: Tensor = self._inv_freq_at(length)
        return built

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def _inv_freq_at(self, length: int) -> Tensor:
        """Built anew from all it depends on; compiled code holds it as a constant by length."""
        return constant(laid_out(self.rotary, self.axes, length).inv_freq)

    def _check_text(self, position_ids: Tensor, what: str) -> None:
        """Refuse ids without an axis dimension where no text has them."""
        if not self.rotary.sections:
            raise PositionError(
                f"{what} has shape {tuple(position_ids.shape)}; {self.axes} takes "
                f"({self.axis_count}, batch, sequence): one position on each axis"
            )


def _by_row(position_ids: Tensor, rows: Sequence[int], what: str) -> Tensor:
    """Ids with a row for each length; one row of ids serves all. Raises LengthError."""
    ids = position_ids[None] if position_ids.dim() == 1 else position_ids
    if not rows or ids.shape[-2] not in (1, len(rows)):
        raise LengthError(
            f"{what} has shape {tuple(position_ids.shape)} and length holds {len(rows)} numbers; "
            "give one length for all rows, or one a row"
        )
    return ids
