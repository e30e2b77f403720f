"""Attention under an encoding: check, plan, and run the plan.

Position enters where the encoding says: `rotate` rotates queries and keys, a bias is added to the
scores. A bias that factors goes in as channels of its own, so that the plain causal kernel
computes it with gradients and without a matrix of length x length.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.attention.flex import flex
from ropewalk.attention.packed import by_document
from ropewalk.attention.plan import AttentionPlan, Kernel, Needs, choose
from ropewalk.attention.sdpa import biased_sdpa, sdpa
from ropewalk.attention.visible import Visible, check_order
from ropewalk.errors import PositionError, TensorError, UsageError
from ropewalk.kernels.reference import wide
from ropewalk.positions.base import PositionEncoding, ScoreFeatures
from ropewalk.positions.checks import check_fit, check_positions
from ropewalk.positions.relative import RelativeBias
from ropewalk.rope.spec import Window
from ropewalk.short import short


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: PositionEncoding,
    *,
    position_ids: Tensor,
    k_position_ids: Tensor | None = None,
    causal: bool = True,
    segment_ids: Tensor | None = None,
    k_segment_ids: Tensor | None = None,
    window: Window | None = None,
    mask: Tensor | None = None,
    scale: float | None = None,
    softmax_factor: float = 1.0,
    kernel: Kernel = "auto",
) -> Tensor:
    """softmax(scale * q k + bias) v: (batch, heads, q_length, value channels), dtype of q.

    q: (batch, heads, q_length, head_dim); k and v: (batch, kv_heads, k_length, ...), where
    kv_heads divides heads. `k_position_ids` are given where keys are not the queries' own
    tokens (a cache); such keys are taken un-rotated. Without them `causal` goes by the order of
    the row, with them by positions: a query sees keys at its own position and before.

    `segment_ids`, (batch, length) or (length,): tokens see only tokens of the same number, so
    packed rows need it and padding takes a number of its own; `k_segment_ids` goes with
    `k_position_ids`. `window` goes by positions. `mask`: bools, (batch, k_length) for keys or
    broadcasting to (batch, heads, q_length, k_length), True where a key may be seen. A query
    that sees no key gives zeros. `scale` is 1/sqrt(head_dim) unless given (T5: 1.0), and
    `softmax_factor` multiplies it.

    Raises PositionError for positions, TensorError for shapes, dtypes and masks, UsageError for
    kernels.
    """
    call = AttentionCall(
        q=q, k=k, v=v, encoding=encoding, position_ids=position_ids,
        k_position_ids=k_position_ids, causal=causal, segment_ids=segment_ids,
        k_segment_ids=k_segment_ids, window=window, mask=mask, scale=scale,
        softmax_factor=softmax_factor, kernel=kernel,
    )  # fmt: skip
    return _run(prepare(call))


_BLOCK = 32
"""What lengths are padded to a multiple of, in fp32 and fp64."""


@short
@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCall:
    """The arguments of one call, as `attention` takes and describes them; unchecked."""

    q: Tensor
    k: Tensor
    v: Tensor
    encoding: PositionEncoding
    position_ids: Tensor
    k_position_ids: Tensor | None = None
    causal: bool = True
    segment_ids: Tensor | None = None
    k_segment_ids: Tensor | None = None
    window: Window | None = None
    mask: Tensor | None = None
    scale: float | None = None
    softmax_factor: float = 1.0
    kernel: Kernel = "auto"

    @property
    def k_ids(self) -> Tensor:
        """The keys' positions, their own or the queries'."""
        return self.position_ids if self.k_position_ids is None else self.k_position_ids


@short
@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """A checked call, and how it is computed: `plan` says so. Nothing is rotated yet.

    `scale` multiplies the scores, `dtype` is what all is computed in, `sizes` are the tokens of
    the documents that go through the kernel one at a time.
    """

    asked: AttentionCall
    visible: Visible
    features: ScoreFeatures | None
    scale: float
    dtype: torch.dtype
    plan: AttentionPlan
    sizes: list[int]


def prepare(asked: AttentionCall) -> PreparedCall:
    """Check everything that was given and decide how to compute it."""
    q, k, v, encoding = asked.q, asked.k, asked.v, asked.encoding
    _check_shapes(q, k, v, encoding)
    _check_ids(asked.position_ids, q, "position_ids")
    _check_ids(asked.k_ids, k, "k_position_ids")
    if encoding.causal_only and not asked.causal:
        raise UsageError(
            f"{type(encoding).__name__} is right only for keys before their query; leave causal "
            "at True, or take an encoding for both directions (Alibi(symmetric=True))"
        )
    visible = _visible(asked)
    factor = asked.softmax_factor * (q.shape[-1] ** -0.5 if asked.scale is None else asked.scale)
    if not 0 < factor < math.inf:
        raise UsageError(f"the scores' scale is {factor}; it is a finite number above 0")
    dtype = q.dtype
    if torch.is_autocast_enabled(q.device.type):
        dtype = torch.get_autocast_dtype(q.device.type)
    ids, k_ids = asked.position_ids, asked.k_ids
    biased = type(encoding).score_bias is not PositionEncoding.score_bias
    features = encoding.score_features(ids, k_ids, dtype, scale=factor) if biased else None
    # A GPU's FlexAttention skips other documents in one launch.
    apart = q.device.type == "cpu" and not biased
    sizes = (visible.sizes(q.shape[0]) if apart else None) or []
    needs = Needs(
        shape=(q.shape[0], q.shape[1], q.shape[2], k.shape[2]),
        bias=_kind(encoding, biased, features),
        whole=visible.whole,
        trains=torch.is_grad_enabled()
        and any(x.requires_grad for x in (q, k, v, *encoding.parameters())),
        device=q.device.type,
        documents=len(sizes),
        kernel=asked.kernel,
        can_fuse=not biased or isinstance(encoding, RelativeBias),
        mask_rows=visible.rows,
        mask_heads=visible.heads,
        bias_bytes=wide(dtype).itemsize,
        bias_rows=max(at.shape[0] if at.dim() > 1 else 1 for at in (ids, k_ids)),
    )
    return PreparedCall(
        asked=asked, visible=visible, features=features, scale=factor, dtype=dtype,
        plan=choose(needs), sizes=sizes,
    )  # fmt: skip


def _kind(
    encoding: PositionEncoding, biased: bool, features: ScoreFeatures | None
) -> Literal["none", "factored", "relative", "general"]:
    if not biased:
        return "none"
    if features is not None:
        return "factored"
    return "relative" if isinstance(encoding, RelativeBias) else "general"


def _check_shapes(q: Tensor, k: Tensor, v: Tensor, encoding: PositionEncoding) -> None:
    """Refuse tensors that do not go together. Raises UsageError."""
    shapes = " ".join(f"{n} {tuple(x.shape)}" for n, x in (("q", q), ("k", k), ("v", v)))
    if not q.dim() == k.dim() == v.dim() == 4:
        raise TensorError(f"got {shapes}; each is (batch, heads, length, channels)")
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise TensorError(
            f"got {shapes}; batch is the same in all, channels in q and k, heads and length in "
            "k and v"
        )
    if min(*q.shape[:2], q.shape[3], k.shape[1], v.shape[3]) < 1:
        raise TensorError(f"got {shapes}; batch, heads and channels are 1 or more")
    if q.shape[1] % k.shape[1]:
        raise TensorError(f"got {shapes}; the number of key heads must divide that of the queries")
    if len({q.dtype, k.dtype, v.dtype}) > 1 and not torch.is_autocast_enabled(q.device.type):
        raise TensorError(f"q, k and v are {q.dtype}, {k.dtype} and {v.dtype}; give one dtype")
    heads = getattr(encoding, "heads", None)
    if isinstance(heads, int) and heads != q.shape[1]:
        raise UsageError(f"the encoding has a bias for {heads} heads and q has {q.shape[1]}")


def _check_ids(ids: Tensor, tokens: Tensor, what: str) -> None:
    """Refuse ids that do not give every one of `tokens` (batch, heads, length, ...) a position."""
    if what == "k_position_ids" and ids.shape[-1:] != tokens.shape[2:3]:
        raise PositionError(
            f"there are {tokens.shape[2]} keys and positions of {tuple(ids.shape)}; give "
            "k_position_ids, the positions of all keys, cached ones included"
        )
    check_positions(ids, what=what)
    axes = ids.shape[0] if ids.dim() == 3 else None
    check_fit(ids, tokens.shape[0], tokens.shape[2], axes, what)


def _visible(asked: AttentionCall) -> Visible:
    """The rule of who sees whom. Raises a UsageError."""
    position_ids, k_position_ids, window = asked.position_ids, asked.k_position_ids, asked.window
    same = k_position_ids is None
    if position_ids.dim() == 3 and not same and (asked.causal or window is not None):
        raise PositionError(
            "positions of several axes have no order between queries and cached keys; give "
            "causal=False and a mask"
        )
    unpaired = (asked.segment_ids is None) != (asked.k_segment_ids is None)
    if unpaired and not (same and asked.k_segment_ids is None):
        raise UsageError("with k_position_ids, give segment_ids and k_segment_ids, or neither")
    if window is not None and window.size < 1:
        raise UsageError(f"window.size is {window.size}; a query sees itself, so it is 1 or more")
    q_rows = _rows(position_ids)
    q_segment_ids = _segments(asked.segment_ids, asked.q, "segment_ids")
    visible = Visible(
        q_positions=q_rows,
        k_positions=q_rows if k_position_ids is None else _rows(k_position_ids),
        same_tokens=same,
        causal=asked.causal,
        window=window,
        q_segment_ids=q_segment_ids,
        k_segment_ids=q_segment_ids
        if same
        else _segments(asked.k_segment_ids, asked.k, "k_segment_ids"),
        mask=_mask(asked.mask, asked.q, asked.k),
    )
    if asked.causal and visible.whole:
        check_order(position_ids)
    return visible


def _rows(ids: Tensor) -> Tensor:
    """Positions as (rows, length), int64; of several axes, the place in the row."""
    if ids.dim() == 3:
        return torch.arange(ids.shape[-1], device=ids.device)[None]
    return ids.long() if ids.dim() == 2 else ids.long()[None]


def _segments(ids: Tensor | None, tokens: Tensor, what: str) -> Tensor | None:
    """Segment ids as (rows, length)."""
    if ids is None:
        return None
    if ids.is_floating_point() or ids.dim() not in (1, 2):
        raise TensorError(f"{what} is {ids.dtype} {tuple(ids.shape)}; integers (batch, length)")
    check_fit(ids, tokens.shape[0], tokens.shape[2], None, what)
    return ids if ids.dim() == 2 else ids[None]


def _mask(mask: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """The mask with four dimensions."""
    if mask is None:
        return None
    wanted = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    four = mask[:, None, None, :] if mask.dim() == 2 else mask
    fits = four.dim() == 4 and all(
        size in (1, full) for size, full in zip(four.shape, wanted, strict=True)
    )
    if mask.dtype != torch.bool or not fits:
        raise TensorError(
            f"mask is {mask.dtype} {tuple(mask.shape)}; bools that broadcast to {wanted}, or "
            f"({wanted[0]}, {wanted[3]}) for keys, True where a key may be seen"
        )
    return four


def _run(call: PreparedCall) -> Tensor:
    """Rotate, cast, and hand over to the kernel of the plan."""
    asked = call.asked
    q, k = asked.encoding.rotate(asked.q, asked.k, asked.position_ids, asked.k_position_ids)
    q, k, v = (x.to(call.dtype) for x in (q, k, asked.v))
    device = q.device.type
    # Under autocast the kernels would round features and biases to 16 bits.
    casting = torch.is_autocast_enabled(device)
    with torch.autocast(device, enabled=False) if casting else nullcontext():
        match call.plan.path:
            case "sdpa":
                return sdpa(q, k, v, call.scale, causal=call.visible.causal)
            case "by document":
                return by_document(q, k, v, call.sizes, scale=call.scale)
            case "masked sdpa":
                return sdpa(q, k, v, call.scale, mask=call.visible.matrix())
            case "features" | "masked features":
                return _with_features(call, q, k, v)
            case "dense bias":
                return biased_sdpa(q, k, v, call.scale, mask=_dense_bias(call, q))
            case "flex":
                bias = asked.encoding if isinstance(asked.encoding, RelativeBias) else None
                return flex(q, k, v, bias, call.visible, call.scale)


def _with_features(call: PreparedCall, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """SDPA with the features before the head's channels.

    Values are padded to the same width, since SDPA leaves its fast kernels where widths differ.
    Lengths are padded in fp32, because a matrix product of a few rows or columns, as the last
    block of an odd length would be, sums channels in another order, and the features cancel
    only in theirs. Padded keys come after every query, padded queries are cut off again.
    """
    features, visible = call.features, call.visible
    if features is None:
        raise UsageError("this plan needs an encoding that factors")
    batch = q.shape[0]
    q = torch.cat((features.query.expand(batch, -1, -1, -1), q), dim=-1)
    k = torch.cat((features.key.expand(batch, k.shape[1], -1, -1), k), dim=-1)
    width = max(q.shape[-1], v.shape[-1])
    if q.device.type == "cuda" or q.dtype == torch.float64:
        # What the GPU's flash kernels ask for; in fp64 an odd width would sum in another order.
        width += -width % 8
    q_length, values = q.shape[2], v.shape[-1]
    blocks = _BLOCK if q.dtype in (torch.float32, torch.float64) else 1
    q_more, k_more = -q_length % blocks, -k.shape[2] % blocks
    q = _padded(q, width, q_more)
    k, v = (_padded(x, width, k_more) for x in (k, v))
    if visible.whole:
        out = biased_sdpa(q, k, v, call.scale, causal=True)
    else:
        seen = functional.pad(visible.matrix(), (0, k_more))
        out = biased_sdpa(
            q, k, v, call.scale, mask=functional.pad(seen, (0, 0, 0, q_more), value=True)
        )
    return out[:, :, :q_length, :values]


def _padded(x: Tensor, width: int, more: int) -> Tensor:
    """Zeros behind the channels, `width` in all, and `more` rows of them; `pad` would copy also
    what needs none.
    """
    missing = width - x.shape[-1]
    return functional.pad(x, (0, missing, 0, more)) if missing or more else x


def _dense_bias(call: PreparedCall, q: Tensor) -> Tensor:
    """The bias, minus infinity where a key is not seen, four-dimensional, as SDPA takes it."""
    asked = call.asked
    bias = asked.encoding.score_bias(asked.position_ids, asked.k_ids, q.dtype)
    if bias is None:
        raise UsageError("this plan needs an encoding with a bias")
    bias = bias if bias.dim() == 4 else bias[None]
    if call.visible.causal or not call.visible.whole:
        bias = bias.masked_fill(~call.visible.matrix(), -math.inf)
    # The GPU's kernels take a bias in the queries' dtype only; a CPU's take fp32 beside 16 bits.
    return bias.to(wide(q.dtype) if q.device.type == "cpu" else q.dtype)
