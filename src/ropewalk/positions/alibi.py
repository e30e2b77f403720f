"""ALiBi: a penalty that grows with distance, one slope a head, nothing to train (2108.12409).

Two rules for the slopes go by that name. Where the number of heads n is a power of two they
agree: 2^(-8h/n) for h = 1 .. n. Elsewhere the paper's code takes the slopes of the power of two
below and fills up with every other slope of the power of two above; that is what BLOOM, MPT,
Baichuan and llama.cpp were trained with or compute, and the default. The paper's text keeps the
one geometric series for any n: `slopes="geometric"`.

The causal bias -m(i - j) is a product of query and key features. Written -m*i + m*j in floating
point it would cancel badly, so slopes and positions are split into parts whose products are
exact in the fp32 accumulator of a matrix product, and ordered so that large terms meet first.
Slopes stand on the query's side alone, so that grouped keys serve all of their heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ropewalk.errors import TensorError, UsageError
from ropewalk.positions.base import Description, ScoreFeatures
from ropewalk.positions.relative import RelativeBias, check_pair
from ropewalk.rope.diagnostics import alibi_slopes

SlopeRule = Literal["reference", "geometric"]


def geometric_slopes(heads: int, max_bias: float = 8.0) -> tuple[float, ...]:
    """2^(-max_bias * h / heads) for h = 1 .. heads: the series of the paper's section 3."""
    return tuple(2.0 ** (-max_bias * (h + 1) / heads) for h in range(heads))


@dataclass(frozen=True, slots=True)
class _Form:
    """How slopes and positions are split for one dtype, so that no product is rounded.

    A slope is `slope_parts` numbers of `slope_bits` bits; a position is `digits` digits of
    `digit_bits` bits; `offsets` numbers hold the query's own term, of which only the size
    matters, since it is the same for all keys. Positions from `limit` on would not be exact.
    Each feature takes `channels`, all but the first of them zeros.
    """

    slope_bits: int
    slope_parts: int
    digit_bits: int
    digits: int
    offsets: int
    limit: int
    channels: int = 1


_FORMS = {
    # Likewise 27 + 26 bits fill the 53 of fp64. Its matrix products keep a sum for every second
    # channel, fourth or eighth; terms that cancel have to meet in one and the same.
    torch.float64: _Form(27, 2, 0, 1, 1, 2**26, channels=8),
    # 8 + 16 bits fill the 24 of fp32, so products are exact to position 65,536 even where a
    # machine rounds them before it adds; with fused multiply-add, everywhere below the limit.
    torch.float32: _Form(8, 3, 0, 1, 1, 2**24),
    torch.float16: _Form(11, 2, 11, 2, 2, 2**22),
    torch.bfloat16: _Form(8, 2, 8, 3, 2, 2**24),
}


class Alibi(RelativeBias):
    """-m(i - j) on the scores, or -m|i - j| with `symmetric`, for encoders.

    `heads` are the heads here; with tensor parallelism `first_head` is the number of the first
    of them and `total_heads` the model's, since slopes go by the global number. `max_bias` is
    the exponent of the smallest slope (8 in the paper). The causal form rewards keys after their
    query, so attention takes it only with a causal mask. Raises UsageError.
    """

    def __init__(
        self,
        heads: int,
        *,
        slopes: SlopeRule = "reference",
        symmetric: bool = False,
        max_bias: float = 8.0,
        first_head: int = 0,
        total_heads: int | None = None,
    ) -> None:
        super().__init__(heads)
        total = first_head + heads if total_heads is None else total_heads
        if first_head and total_heads is None:
            raise UsageError(
                f"first_head is {first_head} and total_heads is not given; slopes depend on the "
                "number of heads of the whole model"
            )
        if not 0 <= first_head <= total - heads:
            raise UsageError(
                f"heads {first_head} to {first_head + heads - 1} are not among the {total} heads "
                "of the model; see first_head and total_heads"
            )
        if not 0 < max_bias < math.inf:
            raise UsageError(f"max_bias is {max_bias}; it is a finite number above 0, often 8")
        rules = {"reference": alibi_slopes, "geometric": geometric_slopes}
        if slopes not in rules:
            raise UsageError(f"slopes is {slopes!r}; allowed: {', '.join(map(repr, rules))}")
        self.symmetric = symmetric
        self.causal_only = not symmetric
        self.slopes = rules[slopes](total, max_bias)[first_head : first_head + heads]

    def tables(
        self, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, ...]:
        """The slopes, (heads,) in `dtype`."""
        return (_on(device, list(self.slopes), dtype),)

    def bias_at(self, head: Tensor, distance: Tensor, *tables: Tensor) -> Tensor:
        """-m * distance in the slopes' dtype, with |distance| where symmetric."""
        (slopes,) = tables
        return -slopes[head] * (distance.abs() if self.symmetric else distance).to(slopes.dtype)

    def score_features(
        self,
        q_position_ids: Tensor,
        k_position_ids: Tensor,
        dtype: torch.dtype,
        *,
        scale: float = 1.0,
    ) -> ScoreFeatures | None:
        """The causal bias as 2 to 8 features in `dtype`, in fp64 16 or 24; None where symmetric.

        Raises TensorError for a dtype without a form, PositionError for a position that it
        cannot hold.
        """
        if self.symmetric:
            return None
        form = _FORMS.get(dtype)
        if form is None:
            names = ", ".join(str(known).removeprefix("torch.") for known in _FORMS)
            raise TensorError(f"ALiBi's features are not known in {dtype}; allowed: {names}")
        why = f"features in {dtype} hold no later position exactly; use another dtype"
        check_pair(q_position_ids, k_position_ids, high=form.limit - 1, why=why)
        parts = _split([slope / scale for slope in self.slopes], form)
        query = _query_features(q_position_ids, _on(q_position_ids.device, parts, dtype), form)
        return ScoreFeatures(query, _key_features(k_position_ids, len(parts), dtype, form))

    def extra_repr(self) -> str:
        """What `print(module)` shows."""
        return f"heads={self.heads}, symmetric={self.symmetric}"

    def describe(self) -> Description:
        """This encoding's row of the comparison table."""
        return Description(
            name="ALiBi",
            parameters="0",
            applied_to="attention scores",
            encodes="relative distance penalty",
            beyond_trained_length="extrapolates well",
            typical_users="BLOOM, MPT",
        )


def _on(
    device: torch.device, values: list[float] | list[list[float]], dtype: torch.dtype
) -> Tensor:
    """Constants on a device without waiting for it."""
    return torch.tensor(values, dtype=dtype, device="cpu").to(device, non_blocking=True)


def _split(values: list[float], form: _Form) -> list[list[float]]:
    """`values` as sums of parts of few bits, largest first; one part where that is exact."""
    parts: list[list[float]] = []
    rest = values
    while len(parts) < form.slope_parts and any(rest):
        part = [_leading(value, form.slope_bits) for value in rest]
        rest = [value - taken for value, taken in zip(rest, part, strict=True)]
        parts.append(part)
    return parts


def _leading(value: float, bits: int) -> float:
    """`value` rounded to that many significant bits."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(fraction, bits)), exponent - bits)


def _digits(position_ids: Tensor, form: _Form) -> list[Tensor]:
    """The digits of each position, highest first; the first takes all that is left."""
    ids = position_ids.long()
    if form.digits == 1:
        return [ids]
    mask = 2**form.digit_bits - 1
    levels = range(form.digits - 1, -1, -1)
    shifted = [ids >> (form.digit_bits * level) for level in levels]
    return [shifted[0], *(digit & mask for digit in shifted[1:])]


def _key_features(ids: Tensor, slope_parts: int, dtype: torch.dtype, form: _Form) -> Tensor:
    """(batch, 1, k, features): the unit for each offset, then the digits for each slope part."""
    digits = [digit.to(dtype) for digit in _digits(ids, form)]
    unit = torch.full_like(digits[0], 2.0**form.digit_bits)
    features = _stacked([unit] * form.offsets + digits * slope_parts, form)
    return features.unsqueeze(-3) if ids.dim() == 2 else features[None, None]


def _query_features(ids: Tensor, parts: Tensor, form: _Form) -> Tensor:
    """(batch, heads, q, features): the query's own term, then each slope part times its digit.

    `parts`: (slope_parts, heads) in the features' dtype.
    """
    rows = (ids[:, None] if ids.dim() == 2 else ids[None, None]).to(
        torch.float64 if form.limit > 2**24 else torch.float32
    )
    slopes = parts.to(rows.dtype).sum(0).view(-1, 1)
    rest = -slopes * rows / 2.0**form.digit_bits
    columns = []
    for _ in range(form.offsets):
        columns.append(rest.to(parts.dtype))
        rest = rest - columns[-1].to(rest.dtype)
    levels = range(form.digits - 1, -1, -1)
    weights = [part * 2.0 ** (form.digit_bits * level) for part in parts for level in levels]
    columns += [weight.view(1, -1, 1).expand_as(rest) for weight in weights]
    return _stacked(columns, form)


def _stacked(columns: list[Tensor], form: _Form) -> Tensor:
    """Features (..., len(columns) * channels): each column, and the zeros it is followed by."""
    zeros = [torch.zeros_like(columns[0])] * (form.channels - 1)
    return torch.stack([each for column in columns for each in (column, *zeros)], dim=-1)
