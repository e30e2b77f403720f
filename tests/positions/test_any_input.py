"""Whatever is asked of an encoding: numbers of the right shape, or an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ropewalk.attention import attention
from ropewalk.errors import RopewalkError
from ropewalk.positions import Rotary, RotatedHeads
from ropewalk.positions.alibi import Alibi
from ropewalk.positions.axes import Axial, Chunked
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.fire import Fire
from ropewalk.positions.kerple import KerpleLog, KerplePower
from ropewalk.positions.learned import Learned
from ropewalk.positions.nope import NoPosition
from ropewalk.positions.sinusoidal import Sinusoidal
from ropewalk.positions.t5 import T5Bias
from ropewalk.positions.xpos import XPos
from ropewalk.rope import spec
from ropewalk.rope.schedules import DynamicNtk

Build = Callable[[], PositionEncoding]

small = st.one_of(st.sampled_from([4, 8]), st.integers(-1, 12))
"""Sizes: often one that fits, some of them impossible."""
numbers = st.sampled_from([8.0, 100.0, 10_000.0, 0.0, -1.0, 0.5, 1.0, float("inf"), float("nan")])
dtypes = st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64])
id_dtypes = st.sampled_from(
    [*[torch.int64] * 6, torch.int32, torch.int16, torch.uint8, torch.float32, torch.bool]
)


def asked(kind: Callable[..., PositionEncoding], **options: Any) -> st.SearchStrategy[Build]:
    """Ways to build `kind`, from strategies for its arguments."""
    return st.fixed_dictionaries(options).map(lambda given: lambda: kind(**given))


def rotary(
    head_dim: int, rotary_dim: int, base: float, layout: Any, sections: Any
) -> spec.RotarySpec:
    return spec.RotarySpec(head_dim, rotary_dim, base, layout, sections=sections)


@st.composite
def rotaries(draw: st.DrawFn) -> Build:
    """Of any sizes; with sections, axes, some heads, a schedule of length, or XPos."""
    fitting = st.sampled_from([(8, 8), (8, 8), (8, 4), (4, 4)])
    arguments = (
        *draw(st.one_of(fitting, st.tuples(small, small))),
        draw(st.one_of(st.just(10_000.0), numbers)),
        draw(st.sampled_from(["half", "interleaved"])),
        draw(st.sampled_from([*[()] * 5, (2, 1, 1), (1, 1), (0, 4)])),
    )
    axes = draw(st.sampled_from([None, None, None, Axial(), Axial(0), Chunked()]))
    heads = draw(
        st.sampled_from([None, None, None, RotatedHeads((0,), (0,)), RotatedHeads((7,), (-1,))])
    )
    length = draw(st.sampled_from([None, None, 1, 64, 0, -3]))
    kind = draw(st.sampled_from(["rotary", "rotary", "dynamic", "xpos"]))
    centre = draw(st.integers(-5, 2000))

    def build() -> PositionEncoding:
        if kind == "xpos":
            return XPos(rotary(*arguments), centre=centre, length=length)
        if kind == "dynamic":
            scaled = spec.RotarySpec(*arguments[:3], scaling=DynamicNtk(2.0, 16))
            return Rotary(scaled, rotated=heads, length=length)
        return Rotary(rotary(*arguments), axes=axes, rotated=heads, length=length)

    return build


encodings = st.one_of(
    asked(
        Sinusoidal,
        d_model=small,
        variant=st.sampled_from(["paper", "tensor2tensor", "marian", "none"]),
        base=numbers,
    ),
    asked(
        Learned,
        rows=st.integers(-1, 40),
        d_model=small,
        offset=st.integers(-1, 3),
        padding_idx=st.sampled_from([None, None, 0, 1, 50]),
    ),
    rotaries(),
    rotaries(),
    rotaries(),
    asked(
        Alibi,
        heads=small,
        symmetric=st.booleans(),
        slopes=st.sampled_from(["reference", "geometric", "steep"]),
        max_bias=numbers,
    ),
    asked(
        T5Bias,
        heads=small,
        buckets=st.integers(-2, 33),
        max_distance=st.integers(-1, 130),
        bidirectional=st.booleans(),
    ),
    asked(KerpleLog, heads=small),
    asked(KerplePower, heads=small),
    asked(Fire, heads=small, width=small, initial_c=numbers, initial_threshold=numbers),
    st.just(NoPosition),
)


@st.composite
def positions(draw: st.DrawFn, batch: int, length: int) -> Tensor:
    """Ids for (batch, length), or of a wrong rank, length, value or dtype."""
    right = [(batch, length), (length,)]
    wrong = [(2, batch, length), (3, batch, length), (length + 1,), ()]
    shape = draw(st.sampled_from([*right * 4, *wrong]))
    # Mostly counted from some start, as rows are; else in any order.
    ids = (torch.arange(shape[-1] if shape else 1) + draw(st.integers(0, 30))).expand(shape or 1)
    if draw(st.integers(0, 3)) == 0:
        low, high = draw(st.sampled_from([(0, 20), (0, 255), (-2, 30), (0, 1_100_000)]))
        generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
        ids = torch.randint(low, high, shape, generator=generator)
    return ids.to(draw(id_dtypes))


@settings(max_examples=300, deadline=None)
@given(
    build=encodings,
    batch=st.integers(1, 2),
    heads=st.sampled_from([(4, 2), (8, 8), (4, 4), (1, 1), (3, 3), (4, 3)]),
    length=st.integers(0, 40),
    head_dim=small.map(abs),
    dtype=dtypes,
    causal=st.booleans(),
    cached=st.booleans(),
    fitting=st.booleans(),
    data=st.data(),
)
def test_a_finite_result_of_the_right_shape_or_an_error_of_ours(
    build: Build,
    batch: int,
    heads: tuple[int, int],
    length: int,
    head_dim: int,
    dtype: torch.dtype,
    causal: bool,
    cached: bool,
    fitting: bool,
    data: st.DataObject,
) -> None:
    ids = data.draw(positions(batch, length))
    x = torch.randn(batch, length, data.draw(small.map(abs)), dtype=dtype)
    try:
        encoding = build()
    except RopewalkError:
        return
    if isinstance(encoding, Rotary) and fitting:
        head_dim = encoding.rotary.head_dim
    q, k = (torch.randn(batch, n, length, head_dim, dtype=dtype) for n in heads)
    try:
        placed = encoding.embed(x, ids)
        assert placed.shape == x.shape
        assert placed.dtype == dtype
        assert bool(placed.isfinite().all())
        for rotated, before in zip(encoding.rotate(q, k, ids), (q, k), strict=True):
            assert rotated.shape == before.shape
            assert rotated.dtype == dtype
            assert bool(rotated.isfinite().all())
    except RopewalkError:
        pass
    try:
        out = attention(
            q,
            k,
            k,
            encoding,
            position_ids=ids,
            k_position_ids=ids if cached else None,
            causal=causal,
        )
        assert out.shape == q.shape
        assert out.dtype == dtype
        assert bool(out.isfinite().all())
    except RopewalkError:
        pass
