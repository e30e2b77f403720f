"""Rotary position encoding: queries and keys rotated by their positions (2104.09864).

`rerotate` is for caches that hold rotated keys: these are right for one schedule only. When a
schedule that depends on length moves on, or tokens before the cached ones are dropped, keys are
rotated by the difference of the two angles, in one rotation and one rounding. A cache of
un-rotated keys, rotated at every step by `rotate(q, k, position_ids, k_position_ids)`, never
needs this.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ropewalk.errors import LengthError, PositionError, ScheduleError, TensorError
from ropewalk.kernels.reference import wide
from ropewalk.positions.axes import Axes, OneAxis, choose, count_axes, laid_out
from ropewalk.positions.base import Description, ExactEncoding, constant, to_exact, to_exact_by_pair
from ropewalk.positions.checks import check_axes, check_fit, check_positions
from ropewalk.positions.rotary_tables import ROTARY_TABLES, RotatedHeads, Tables, apply_tables
from ropewalk.rope import spec

Lengths = int | Sequence[int]
"""Tokens of the sequences at hand: one number for all rows of a batch, or one per row."""


class Rotary(ExactEncoding):
    """Rotates pairs of channels of q and k by position x inverse frequency; values stay.

    `rotary` is the whole encoding as a value: dimensions, base, layout, scaling, sections. `axes`
    is for what it cannot say: `Axial` positions of images. `rotated` restricts it to some heads.
    Where the last channels of a head are rotated (latent attention), that part may be given alone,
    as the one shared key is: (batch, 1, length, rotary_dim).

    `length`, the tokens of the sequence at hand, matters to schedules that depend on it (dynamic,
    longrope) and has to be given for those, here or at each call: it is never guessed from the
    positions, and nothing is remembered from one call to the next. At a call it may be one number
    a row, for sequences of different lengths in one batch: each row is then rotated as it would be
    alone, whatever stands beside it. (transformers rotates a whole batch by its longest row. Rows
    that hold several packed documents have one length as well.) Keys cached under one length
    do not fit queries rotated at another; see `ropewalk.positions.rerotate`.

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
                "number, or one per row in a list"
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
        """q and k rotated, in fp32 at least, back in their dtypes; see the base class for shapes.

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
        return apply_tables(q, k, q_tables, k_tables, self.rotary, self.rotated)

    def check_ids(self, ids: Tensor, x: Tensor, what: str, name: str = "k") -> None:
        """Refuse `x` (called `name`) that is no (batch, heads, length, head_dim), or ids (called
        `what`) that are not its tokens' positions. Raises PositionError.
        """
        r = self.rotary
        widths = [r.head_dim] if r.placement == "first" else [r.head_dim, r.rotary_dim]
        if x.dim() != 4 or x.shape[-1] not in widths:
            raise TensorError(
                f"{name} has shape {tuple(x.shape)}; this encoding rotates (batch, heads, length, "
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
            "give one length for all rows, or one per row"
        )
    return ids


def rerotate(
    k: Tensor,
    was: Rotary,
    now: Rotary,
    position_ids: Tensor,
    now_position_ids: Tensor | None = None,
) -> Tensor:
    """Keys rotated by `was` at `position_ids` become keys rotated by `now`.

    `k`: (batch, kv_heads, length, head_dim), as `was` returned them. `now_position_ids` are the
    new positions where they change (a shift of the context), else the same ones. For a schedule
    that depends on length: `rerotate(k, rope.at_length(4096), rope.at_length(8192), ids)`.

    Raises ScheduleError when the two encodings rotate different channels or heads, PositionError
    for ids or shapes that do not fit.
    """
    _same_channels(was, now)
    new_ids = position_ids if now_position_ids is None else now_position_ids
    was.check_ids(position_ids, k, "position_ids")
    now.check_ids(new_ids, k, "now_position_ids")
    by = now.angles(new_ids, what="now_position_ids") - was.angles(position_ids)
    ratio = now.attention_factor / was.attention_factor
    dtype = wide(k.dtype)
    tables = Tables(*((w * ratio).to(dtype).to(k.device) for w in (by.cos(), by.sin())))
    heads = None if now.rotated is None else RotatedHeads((), now.rotated.key)
    return apply_tables(k[:, :0], k, tables, tables, now.rotary, heads)[1]


def _same_channels(was: Rotary, now: Rotary) -> None:
    """Refuse two encodings of which one cannot follow from the other by a rotation."""
    for name in ("head_dim", "rotary_dim", "layout", "placement"):
        before, after = getattr(was.rotary, name), getattr(now.rotary, name)
        if before != after:
            raise ScheduleError(
                f"keys were rotated with {name} {before} and are to be rotated with {after}; a "
                "rotation cannot change that: compute the keys anew"
            )
    if was.rotated != now.rotated:
        raise ScheduleError("keys cannot be moved between encodings that rotate different heads")
    if was.attention_factor == 0.0:
        raise ScheduleError(
            "keys rotated with an attention factor of 0 hold nothing to rotate back"
        )
