"""The rotation against transformers', against the paper's loop, and on every instruction set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers.models.cohere.modeling_cohere import (
    apply_rotary_pos_emb as interleaved_of_transformers,
)
from transformers.models.llama.modeling_llama import (
    apply_rotary_pos_emb as half_of_transformers,
)

from ropewalk.errors import UsageError
from ropewalk.kernels import reference, rotate
from ropewalk.kernels.cpu.library import INSTRUCTION_SETS, native
from ropewalk.rope.spec import Layout

LAYOUTS: tuple[Layout, ...] = ("half", "interleaved")
HALVES = (torch.bfloat16, torch.float16)


@pytest.fixture(params=INSTRUCTION_SETS)
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each one that this processor has; without a library, the torch path once."""
    library = native()
    if library is None:
        if request.param != "baseline":
            pytest.skip("no compiled kernels here")
        yield "torch"
        return
    widest = library.instruction_set
    try:
        if library.use_instruction_set(request.param) != request.param:
            pytest.skip(f"this processor has no {request.param}")
        yield request.param
    finally:
        library.use_instruction_set(widest)


def drawn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def alone(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """One tensor rotated, without keys beside it."""
    return rotate(x, None, cos, sin, layout)[0]


def tables(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 9) -> tuple[Tensor, Tensor]:
    """Cosines and sines of random angles."""
    angles = 7.0 * drawn(*shape, dtype=torch.float64, seed=seed)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def by_the_paper(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """Pair by pair in fp64 (2104.09864, equation 34); tables (batch, sequence, pairs)."""
    out = x.double().clone()
    batch, _, length, _ = x.shape
    pairs = cos.shape[-1]
    for row in range(batch):
        for at in range(length):
            for i in range(pairs):
                first, second = (i, i + pairs) if layout == "half" else (2 * i, 2 * i + 1)
                c, s = float(cos[row, at, i]), float(sin[row, at, i])
                a, b = x[row, :, at, first].double(), x[row, :, at, second].double()
                out[row, :, at, first], out[row, :, at, second] = a * c - b * s, a * s + b * c
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.usefixtures("instruction_set")
def test_it_is_the_paper_s_loop_with_heads_that_are_rotated_in_part(layout: Layout) -> None:
    q, k = drawn(2, 3, 5, 90), drawn(2, 1, 5, 90, seed=1)
    # 37 pairs: whole vectors of every width, and some left over.
    cos, sin = tables(2, 5, 37)
    for x, rotated in zip((q, k), rotate(q, k, cos, sin, layout), strict=True):
        expected = by_the_paper(x, cos, sin, layout)
        assert (rotated - expected).abs().max() < 1e-6
        assert torch.equal(rotated[..., 74:], x[..., 74:])


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.usefixtures("instruction_set")
def test_half_precision_is_the_fp32_result_rounded_once(dtype: torch.dtype, layout: Layout) -> None:
    q, k = drawn(1, 3, 40, 128, dtype=dtype), drawn(1, 2, 40, 128, dtype=dtype, seed=1)
    cos, sin = tables(40, 64)
    exact = rotate(q.float(), k.float(), cos, sin, layout)
    for rotated, wide in zip(rotate(q, k, cos, sin, layout), exact, strict=True):
        assert rotated.dtype == dtype
        assert torch.equal(rotated, wide.to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.usefixtures("instruction_set")
def test_every_16_bit_number_comes_through_as_torch_rounds_it(dtype: torch.dtype) -> None:
    """Subnormals, infinities, NaN; times 1/3, so that rounding has something to do."""
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype).view(1, 1, 2**10, 64)
    cos, sin = torch.full((2**10, 32), 1.0 / 3.0), torch.zeros(2**10, 32)
    a, b = every.float().chunk(2, dim=-1)
    third = cos[0, 0]
    expected = torch.cat((a * third - b * 0.0, b * third + a * 0.0), dim=-1).to(dtype)
    rotated = alone(every, cos, sin, "half")
    assert torch.equal(rotated.isnan(), expected.isnan())
    assert torch.equal(rotated[~expected.isnan()], expected[~expected.isnan()])


@pytest.mark.parametrize(
    ("layout", "theirs"),
    [("half", half_of_transformers), ("interleaved", interleaved_of_transformers)],
)
@pytest.mark.usefixtures("instruction_set")
def test_it_is_what_transformers_computes(
    layout: Layout, theirs: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    q, k = drawn(2, 8, 33, 64), drawn(2, 2, 33, 64, seed=1)
    cos, sin = tables(2, 33, 32)
    if layout == "half":
        cos_of_theirs, sin_of_theirs = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
    else:
        cos_of_theirs, sin_of_theirs = (t.repeat_interleave(2, -1) for t in (cos, sin))
    expected = theirs(q, k, cos_of_theirs, sin_of_theirs)
    for rotated, other in zip(rotate(q, k, cos, sin, layout), expected, strict=True):
        assert torch.allclose(rotated, other, rtol=0.0, atol=1e-6)


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "heads first": lambda x: x.clone(),
    "tokens first": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "channels apart": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "a part of a wider tensor": lambda x: torch.cat((x[:, :1], x, x), dim=1)[:, 1 : x.shape[1] + 1],
    "misaligned": lambda x: torch.cat((x[..., :1], x), dim=-1)[..., 1:],
    "every second token": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.usefixtures("instruction_set")
def test_wherever_values_lie_they_are_rotated_alike_out_of_place_and_in_place(
    view: str, layout: Layout, dtype: torch.dtype
) -> None:
    q, k = drawn(2, 5, 19, 72, dtype=dtype), drawn(2, 2, 19, 72, dtype=dtype, seed=1)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    cos, sin = tables(2, 19, 35, dtype=wide)
    expected = reference.rotate(q, cos, sin, layout), reference.rotate(k, cos, sin, layout)
    q_view, k_view = VIEWS[view](q), VIEWS[view](k)
    for rotated, x, other in zip(
        rotate(q_view, k_view, cos, sin, layout), (q_view, k_view), expected, strict=True
    ):
        assert torch.equal(rotated, other)
        assert rotated.stride() == torch.empty_like(x).stride()
    assert torch.equal(q_view, q)
    assert torch.equal(alone(q_view, cos, sin, layout), expected[0])
    same = rotate(q_view, k_view, cos, sin, layout, in_place=True)
    assert same[0] is q_view
    assert torch.equal(q_view, expected[0])
    assert torch.equal(k_view, expected[1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_neighbours_in_memory_are_not_touched(layout: Layout) -> None:
    whole = drawn(1, 4, 12, 80)
    before = whole.clone()
    q, k = whole[:, 1:2, 2:10, 8:72], whole[:, 2:3, 2:10, 8:72]
    rotate(q, k, *tables(8, 32), layout, in_place=True)
    changed = whole != before
    assert changed[:, 1:3, 2:10, 8:72].all()
    changed[:, 1:3, 2:10, 8:72] = False
    assert not changed.any()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    q, k = drawn(3, 7, 301, 64), drawn(3, 3, 301, 64, seed=1)
    cos, sin = tables(301, 32)
    expected = reference.rotate(q, cos, sin, "half"), reference.rotate(k, cos, sin, "half")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        rotated = rotate(q, k, cos, sin, "half")
    finally:
        torch.set_num_threads(before)
    assert torch.equal(rotated[0], expected[0])
    assert torch.equal(rotated[1], expected[1])


def test_threads_of_its_own_serve_where_torch_has_no_openmp() -> None:
    library = native()
    if library is None:
        pytest.skip("no compiled kernels here")
    from ropewalk.kernels.cpu.library import _openmp

    x, (cos, sin) = drawn(1, 8, 500, 64), tables(500, 32)
    runtime = _openmp()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        library.handle.ropewalk_use_openmp(0)
        rotated = alone(x, cos, sin, "half")
    finally:
        torch.set_num_threads(before)
        library.handle.ropewalk_use_openmp(0 if runtime is None else runtime[1])
    assert torch.equal(rotated, reference.rotate(x, cos, sin, "half"))


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(*(st.integers(0, n) for n in (3, 4, 4, 9))),
    st.integers(0, 20),
    st.integers(0, 5),
    st.sampled_from(LAYOUTS),
    st.sampled_from(["shared", "one row", "own rows"]),
)
def test_any_shape_is_rotated_as_by_the_reference(
    shape: tuple[int, int, int, int], pairs: int, more: int, layout: Layout, rows: str
) -> None:
    batch, heads, k_heads, length = shape
    q, k = (drawn(batch, n, length, 2 * pairs + more) for n in (heads, k_heads))
    lead = {"shared": (), "one row": (1,), "own rows": (batch,)}[rows]
    cos, sin = tables(*lead, length, pairs)
    rotated = rotate(q, k, cos, sin, layout)
    assert torch.equal(rotated[0], reference.rotate(q, cos, sin, layout))
    assert torch.equal(rotated[1], reference.rotate(k, cos, sin, layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_keys_may_have_a_length_and_tables_of_their_own(layout: Layout) -> None:
    q, k = drawn(2, 4, 1, 64), drawn(2, 2, 50, 64, seed=1)
    q_tables, k_tables = tables(2, 1, 32), tables(50, 32, seed=3)
    rotated_q, rotated_k = rotate(q, k, *q_tables, layout, *k_tables)
    assert torch.equal(rotated_q, reference.rotate(q, *q_tables, layout))
    assert torch.equal(rotated_k, reference.rotate(k, *k_tables, layout))


@pytest.mark.usefixtures("instruction_set")
def test_norms_are_kept_and_scores_depend_on_distance_alone() -> None:
    inverse = torch.tensor([10000.0 ** (-i / 32) for i in range(32)], dtype=torch.float64)
    q = drawn(1, 1, 1, 64).expand(1, 1, 200, 64)
    angles = torch.arange(200)[:, None] * inverse
    rotated = alone(q, angles.cos().float(), angles.sin().float(), "half")[0, 0]
    assert torch.allclose(rotated.norm(dim=-1), q[0, 0].norm(dim=-1))
    scores = rotated.double() @ rotated.double().T
    for distance in (1, 17, 150):
        along = scores.diagonal(distance)
        assert torch.allclose(along, along[:1], rtol=0.0, atol=1e-4)


def test_one_nan_stays_within_its_pair() -> None:
    x = drawn(1, 1, 1, 64)
    x[..., 5] = math.nan
    assert alone(x, *tables(1, 32), "half").isnan().nonzero()[:, 3].tolist() == [5, 37]
    assert alone(x, *tables(1, 32), "interleaved").isnan().nonzero()[:, 3].tolist() == [4, 5]


def test_doubles_by_single_tables_are_computed_in_fp64_and_the_other_way_round() -> None:
    x, (cos, sin) = drawn(1, 2, 3, 16, dtype=torch.float64), tables(3, 8)
    assert torch.equal(
        alone(x, cos, sin, "half"), reference.rotate(x, cos.double(), sin.double(), "half")
    )
    wide = tables(3, 8, dtype=torch.float64)
    assert torch.equal(alone(x.float(), *wide, "half"), reference.rotate(x.float(), *wide, "half"))


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "three dimensions": (
        lambda: alone(drawn(4, 3, 8), *tables(3, 4), "half"),
        r"q has shape \(4, 3, 8\); what is rotated is \(batch, heads, sequence, head_dim\)",
    ),
    "integers": (
        lambda: alone(torch.ones(1, 1, 3, 8, dtype=torch.int64), *tables(3, 4), "half"),
        r"q has dtype torch.int64; it may be float32",
    ),
    "another length": (
        lambda: rotate(drawn(1, 2, 3, 8), drawn(1, 1, 4, 8), *tables(3, 4), "half"),
        r"cos has shape \(3, 4\) and k \(1, 1, 4, 8\); tables are \(4, pairs\)",
    ),
    "too many pairs": (
        lambda: alone(drawn(1, 1, 3, 8), *tables(3, 5), "half"),
        r"cos rotates 5 pairs and q has 8 channels; at most 4",
    ),
    "other rows": (
        lambda: alone(drawn(3, 1, 3, 8), *tables(2, 3, 4), "half"),
        r"cos has shape \(2, 3, 4\) and q \(3, 1, 3, 8\)",
    ),
    "half tables": (
        lambda: alone(drawn(1, 1, 3, 8), *tables(3, 4, dtype=torch.bfloat16), "half"),
        r"cos has dtype torch.bfloat16; tables are float32",
    ),
    "unlike tables": (
        lambda: alone(drawn(1, 1, 3, 8), tables(3, 4)[0], tables(3, 3)[1], "half"),
        r"both have one shape and one dtype",
    ),
    "half of the keys' tables": (
        lambda: rotate(
            drawn(1, 1, 3, 8), drawn(1, 1, 3, 8), *tables(3, 4), "half", k_cos=tables(3, 4)[0]
        ),
        r"k_cos was given without k_sin",
    ),
    "no layout": (
        lambda: alone(drawn(1, 1, 3, 8), *tables(3, 4), "neox"),  # type: ignore[arg-type]
        r"layout is 'neox'; channels are paired 'half' or 'interleaved'",
    ),
    "tables that learn": (
        lambda: alone(drawn(1, 1, 3, 8), tables(3, 4)[0].requires_grad_(), tables(3, 4)[1], "half"),
        r"cos or sin requires a gradient; tables are constants here",
    ),
    "elements in one place": (
        lambda: rotate(
            drawn(1, 1, 3, 8).expand(1, 2, 3, 8),
            drawn(1, 1, 3, 8),
            *tables(3, 4),
            "half",
            in_place=True,
        ),
        r"q has shape \(1, 2, 3, 8\) and strides .* elements share memory",
    ),
    "a gradient to keep": (
        lambda: rotate(
            drawn(1, 2, 3, 8),
            drawn(1, 1, 3, 8).requires_grad_(),
            *tables(3, 4),
            "half",
            in_place=True,
        ),
        r"k of shape \(1, 1, 3, 8\) requires a gradient and would be overwritten; train with",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_a_located_error(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(UsageError, match=message):
        call()
