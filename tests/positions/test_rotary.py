"""Rotation against the published example, the paper's loop, and numbers with 50 digits."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ropewalk.errors import PositionError, ScheduleError, TensorError, UsageError
from ropewalk.positions import Rotary, RotatedHeads, to_half, to_interleaved
from ropewalk.positions.axes import Axial, Chunked
from ropewalk.positions.from_mask import position_ids_from_mask
from ropewalk.rope import spec
from ropewalk.rope.schedules import DynamicNtk, Linear, LongRope, Proportional, Yarn

PLAIN = spec.RotarySpec(8, 8, 10_000.0)
LAYOUTS = ["half", "interleaved"]


def vectors(heads: int = 4, kv_heads: int = 2, length: int = 6, dim: int = 8) -> Any:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(2, heads, length, dim, generator=generator),
        torch.randn(2, kv_heads, length, dim, generator=generator),
    )


def test_the_published_example_gives_cos_2_at_every_place_with_that_gap() -> None:
    encoding = Rotary(spec.RotarySpec(2, 2, 10_000.0))
    one = torch.tensor([1.0, 0.0]).expand(1, 1, 1, 2)
    for m, n in ((3, 1), (503, 501), (1_000_003, 1_000_001)):
        q, k = encoding.rotate(one, one, torch.tensor([m]), torch.tensor([n]))
        assert float((q * k).sum()) == pytest.approx(math.cos(2), abs=1e-6)
    q, k = encoding.rotate(one, one, torch.tensor([3]), torch.tensor([1]))
    assert [round(v, 3) for v in q.flatten().tolist()] == [-0.990, 0.141]
    assert [round(v, 3) for v in k.flatten().tolist()] == [0.540, 0.841]
    assert [round(v, 4) for v in (q * k).flatten().tolist()] == [-0.5349, 0.1187]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rotary_dim", [8, 4])
def test_the_paper_s_loop_gives_the_same_vectors(
    rotated_by_hand: Any, layout: spec.Layout, rotary_dim: int
) -> None:
    q, k = vectors()
    ids = torch.tensor([[0, 1, 2, 7, 100, 5000], [9, 8, 7, 0, 0, 3]])
    rotated, _ = Rotary(spec.RotarySpec(8, rotary_dim, 500.0, layout)).rotate(q, k, ids)
    inv_freq = [500.0 ** (-2 * i / rotary_dim) for i in range(rotary_dim // 2)]
    for b, h, s in ((0, 0, 5), (1, 3, 0), (1, 1, 3), (0, 2, 3)):
        expected = rotated_by_hand(q[b, h, s], int(ids[b, s]), inv_freq, layout)
        assert torch.allclose(rotated[b, h, s].double(), expected, atol=1e-6)


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_at_a_million_the_table_is_the_exact_one_to_1e_7(exact_waves: Any, base: float) -> None:
    tables = Rotary(spec.RotarySpec(128, 128, base)).tables(torch.tensor([1_048_576]))
    for i, (cos, sin) in enumerate(exact_waves(1_048_576, base, 128)):
        assert abs(float(tables.cos[0, i]) - cos) < 1e-7
        assert abs(float(tables.sin[0, i]) - sin) < 1e-7


def test_a_partial_exponent_runs_over_the_rotated_channels() -> None:
    inv_freq = Rotary(spec.RotarySpec(128, 32, 10_000.0)).constants["inv_freq"]
    assert float(inv_freq[1]) == pytest.approx(0.56234, abs=1e-5)


def test_channels_beyond_a_partial_rotation_pass_bit_for_bit() -> None:
    q, k = vectors()
    rotated = Rotary(spec.RotarySpec(8, 4, 10_000.0)).rotate(q.bfloat16(), k, torch.arange(6))
    assert torch.equal(rotated[0][..., 4:], q.bfloat16()[..., 4:])
    assert torch.equal(rotated[1][..., 4:], k[..., 4:])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_position_0_is_the_identity_and_rotation_keeps_lengths(layout: spec.Layout) -> None:
    q, k = vectors()
    encoding = Rotary(spec.RotarySpec(8, 8, 10_000.0, layout))
    assert all(map(torch.equal, encoding.rotate(q, k, torch.zeros(6).long()), (q, k)))
    rotated, _ = encoding.rotate(q, k, torch.arange(6) * 20_011)
    assert torch.allclose(rotated.norm(dim=-1), q.norm(dim=-1), atol=1e-5)


def test_scores_depend_on_the_gap_alone() -> None:
    q, k = vectors(heads=2)
    encoding = Rotary(spec.RotarySpec(8, 8, 10_000.0))
    near, far = (
        torch.einsum("bhid,bhjd->bhij", *encoding.rotate(q, k, torch.arange(6) + start))
        for start in (0, 100_000)
    )
    assert torch.allclose(near, far, atol=1e-5)


def test_interpolation_by_4_rotates_12000_as_3000() -> None:
    q, k = vectors(length=1)
    stretched = Rotary(spec.RotarySpec(8, 8, 10_000.0, scaling=Linear(4.0)))
    rotated = stretched.rotate(q, k, torch.tensor([12_000]))
    plain = Rotary(PLAIN).rotate(q, k, torch.tensor([3_000]))
    assert all(map(torch.equal, rotated, plain))


def test_neighbours_a_half_float_would_merge_stay_apart() -> None:
    encoding = Rotary(spec.RotarySpec(2, 2, 10_000.0)).to(torch.bfloat16)
    ones = torch.ones(1, 1, 2, 2, dtype=torch.bfloat16)
    q, _ = encoding.rotate(ones, ones, torch.tensor([256, 257]))
    expected = torch.tensor([math.cos(p) - math.sin(p) for p in (256, 257)])
    assert torch.allclose(q[0, 0, :, 0].float(), expected, atol=1e-2)


def test_yarn_s_amplitude_multiplies_what_rotates_and_nothing_else() -> None:
    q, k = vectors()
    scaling = Yarn(4.0, 64)
    rotated, _ = Rotary(spec.RotarySpec(8, 4, 100.0, scaling=scaling)).rotate(q, k, torch.arange(6))
    ratio = rotated[..., :4].norm(dim=-1) / q[..., :4].norm(dim=-1)
    # m(4) as published.
    assert torch.allclose(ratio, torch.tensor(1.1386294361), atol=1e-5)
    assert torch.equal(rotated[..., 4:], q[..., 4:])


def test_pairs_of_frequency_zero_pass_unchanged_inside_the_head() -> None:
    # Proportional rotation: 2 of 4 pairs live, exponents over the whole head, pairs (i, i + 4).

    q, k = vectors()
    encoding = Rotary(spec.RotarySpec(8, 8, 10_000.0, scaling=Proportional(0.5)))
    rotated, _ = encoding.rotate(q, k, torch.arange(6) + 50)
    assert encoding.constants["inv_freq"].tolist() == pytest.approx([1.0, 0.1, 0.0, 0.0])
    assert torch.equal(rotated[..., [2, 3, 6, 7]], q[..., [2, 3, 6, 7]])
    assert not torch.isclose(rotated[..., [0, 1, 4, 5]], q[..., [0, 1, 4, 5]]).all()


def test_head_0_alone_rotates_where_the_model_says_so() -> None:
    q, k = vectors(kv_heads=4)
    ids = torch.arange(6)
    all_q, all_k = Rotary(PLAIN).rotate(q, k, ids)
    one_q, one_k = Rotary(PLAIN, rotated=RotatedHeads((0,), (0,))).rotate(q, k, ids)
    for one, full, plain in ((one_q, all_q, q), (one_k, all_k, k)):
        assert torch.equal(one[:, 0], full[:, 0])
        assert torch.equal(one[:, 1:], plain[:, 1:])


def test_heads_that_are_not_there_cannot_rotate() -> None:
    q, k = vectors()
    with pytest.raises(UsageError, match=r"key heads \[2\] .* there are 2"):
        Rotary(PLAIN, rotated=RotatedHeads((0,), (2,))).rotate(q, k, torch.arange(6))


def test_one_head_of_keys_is_rotated_too() -> None:
    q, k = vectors(kv_heads=1)
    _, rotated = Rotary(PLAIN).rotate(q, k, torch.arange(6))
    assert not torch.isclose(rotated[:, :, 1:], k[:, :, 1:]).all()


def test_queries_and_keys_of_the_caller_are_not_changed() -> None:
    q, k = vectors()
    before = q.clone(), k.clone()
    Rotary(PLAIN).rotate(q, k, torch.arange(6))
    assert torch.equal(q, before[0])
    assert torch.equal(k, before[1])


def test_packed_documents_get_what_each_would_get_alone() -> None:
    q, k = vectors()
    encoding = Rotary(PLAIN)
    packed = encoding.rotate(q, k, torch.tensor([0, 1, 2, 0, 1, 2]))
    for x, rotated in zip((q, k), packed, strict=True):
        for part in (slice(0, 3), slice(3, 6)):
            alone, _ = encoding.rotate(x[:, :, part], x[:, :, part], torch.arange(3))
            assert torch.equal(rotated[:, :, part], alone)


def test_the_shard_of_a_packed_row_is_rotated_as_in_the_whole_row() -> None:
    # Two documents of 4 tokens over 2 ranks, each with the first and last chunk of a document.
    q, k = vectors(length=8)
    ids, rank_0 = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3]), torch.tensor([0, 3, 4, 7])
    whole, _ = Rotary(PLAIN).rotate(q, k, ids)
    shard, _ = Rotary(PLAIN).rotate(q[:, :, rank_0], k[:, :, rank_0], ids[rank_0])
    assert torch.equal(shard, whole[:, :, rank_0])


def test_left_padded_rows_get_what_they_would_get_alone() -> None:
    q, k = vectors()
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    padded, _ = Rotary(PLAIN).rotate(q, k, position_ids_from_mask(mask))
    alone, _ = Rotary(PLAIN).rotate(q[:1, :, 2:], k[:1, :, 2:], torch.arange(4))
    assert torch.equal(padded[:1, :, 2:], alone)


def test_a_cache_filled_step_by_step_holds_what_one_pass_gives() -> None:
    q, k = vectors()
    encoding = Rotary(PLAIN)
    full_q, full_k = encoding.rotate(q, k, torch.arange(6))
    steps = [
        encoding.rotate(q[:, :, i : i + 1], k[:, :, i : i + 1], torch.tensor([i])) for i in range(6)
    ]
    assert torch.equal(torch.cat([step[0] for step in steps], dim=2), full_q)
    assert torch.equal(torch.cat([step[1] for step in steps], dim=2), full_k)


def test_a_cache_of_unrotated_keys_follows_a_schedule_that_moves_with_length() -> None:
    q, k = vectors(heads=2, length=12)
    encoding = Rotary(spec.RotarySpec(8, 8, 10_000.0, scaling=DynamicNtk(2.0, 4)))
    full_q, full_k = encoding.rotate(q, k, torch.arange(12), length=12)
    last_q, cached_k = encoding.rotate(
        q[:, :, 11:], k, torch.tensor([11]), torch.arange(12), length=12
    )
    assert torch.equal(last_q, full_q[:, :, 11:])
    assert torch.equal(cached_k, full_k)


def test_a_long_call_leaves_nothing_behind_for_a_short_one() -> None:
    q, k = vectors()
    encoding = Rotary(spec.RotarySpec(8, 8, 10_000.0, scaling=DynamicNtk(2.0, 4096)))
    ids = torch.arange(6) + 10
    before = encoding.rotate(q, k, ids, length=11)
    long = encoding.rotate(q, k, ids, length=8192)
    after = encoding.rotate(q, k, ids, length=11)
    assert all(map(torch.equal, before, after))
    assert not torch.equal(before[0], long[0])
    assert all(map(torch.equal, before, Rotary(PLAIN).rotate(q, k, ids)))


def test_dynamic_rotates_by_the_base_computed_for_the_length() -> None:
    encoding = Rotary(spec.RotarySpec(128, 128, 10_000.0, scaling=DynamicNtk(2.0, 4096)))
    by = encoding.angles(torch.tensor([1]), 8192)[0, 1]
    assert float(by) == pytest.approx(30527.7367 ** (-2 / 128), rel=1e-9)


def test_longrope_switches_after_its_trained_length() -> None:
    scaling = LongRope((1.0,) * 4, (2.0,) * 4, 4096, 32.0)
    encoding = Rotary(spec.RotarySpec(8, 8, 10_000.0, scaling=scaling))
    short, long = (encoding.angles(torch.tensor([6]), n)[0, 0] for n in (4096, 4097))
    assert (float(short), float(long)) == (6.0, 3.0)
    assert encoding.attention_factor == pytest.approx(1.1902380714)


@pytest.mark.parametrize(
    "scaling", [DynamicNtk(2.0, 16), LongRope((1.0,) * 4, (2.0,) * 4, 16, 2.0)]
)
def test_a_schedule_that_needs_a_length_does_not_guess_one(scaling: Any) -> None:
    q, k = vectors()
    encoding = Rotary(spec.RotarySpec(8, 8, 10_000.0, scaling=scaling))
    with pytest.raises(ScheduleError, match="depends on the length"):
        encoding.rotate(q, k, torch.arange(6))
    fixed = encoding.at_length(32).rotate(q, k, torch.arange(6))
    assert all(map(torch.equal, fixed, encoding.rotate(q, k, torch.arange(6), length=32)))


def test_the_same_ids_with_another_offset_give_other_vectors() -> None:
    q, k = vectors()
    encoding = Rotary(PLAIN)
    first, _ = encoding.rotate(q, k, torch.arange(6))
    second, _ = encoding.rotate(q, k, torch.arange(6) + 5)
    again, _ = encoding.rotate(q, k, torch.arange(6))
    assert not torch.equal(first, second)
    assert torch.equal(first, again)


def test_ids_changed_in_place_are_read_anew() -> None:
    q, k = vectors()
    ids = torch.arange(6)
    encoding = Rotary(PLAIN)
    encoding.rotate(q, k, ids)
    ids += 3
    assert all(
        map(torch.equal, encoding.rotate(q, k, ids), encoding.rotate(q, k, torch.arange(3, 9)))
    )


def test_scores_are_the_same_in_either_layout_when_rows_are_reordered() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 5, 16)
    wq, wk = torch.randn(2 * 8, 16), torch.randn(1 * 8, 16)
    scores = []
    for layout, q_rows, k_rows in (
        ("interleaved", wq, wk),
        ("half", to_half(wq, 2), to_half(wk, 1)),
    ):
        q = (x @ q_rows.T).unflatten(-1, (2, 8)).transpose(1, 2)
        k = (x @ k_rows.T).unflatten(-1, (1, 8)).transpose(1, 2)
        encoding = Rotary(spec.RotarySpec(8, 8, 10_000.0, layout))  # type: ignore[arg-type]
        q, k = encoding.rotate(q, k, torch.arange(5))
        scores.append(q @ k.transpose(-1, -2))
    assert torch.allclose(scores[0], scores[1], atol=1e-4)


def test_four_rows_are_reordered_as_published_and_back() -> None:
    rows = torch.arange(4)
    assert to_half(rows, 1).tolist() == [0, 2, 1, 3]
    assert to_interleaved(to_half(rows, 1), 1).tolist() == [0, 1, 2, 3]
    two_heads = torch.arange(8)
    assert to_half(two_heads, 2).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_gradients_are_those_of_finite_differences() -> None:
    q, k = (x[:1, :2, :3, :4].double().requires_grad_() for x in vectors())
    ids = torch.tensor([5, 900, 70_000])
    for layout in LAYOUTS:
        encoding = Rotary(spec.RotarySpec(4, 4, 10_000.0, layout))  # type: ignore[arg-type]
        assert torch.autograd.gradcheck(lambda q, k, e=encoding: e.rotate(q, k, ids), (q, k))


@pytest.mark.parametrize("shape", [(2, 4, 6, 7), (4, 6, 8)])
def test_queries_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    _, k = vectors()
    with pytest.raises(TensorError, match="q has shape"):
        Rotary(PLAIN).rotate(torch.zeros(shape), k, torch.arange(6))


def test_keys_longer_than_their_ids_are_refused() -> None:
    q, k = vectors()
    with pytest.raises(PositionError, match=r"position_ids has shape \(1,\) for 2 rows of 6"):
        Rotary(PLAIN).rotate(q[:, :, :1], k, torch.tensor([5]))
    with pytest.raises(PositionError, match=r"k_position_ids has shape \(5,\)"):
        Rotary(PLAIN).rotate(q, k, torch.arange(6), torch.arange(5))


def test_a_wrong_key_position_is_named_as_such() -> None:
    q, k = vectors()
    with pytest.raises(PositionError, match="k_position_ids holds -1 at column 2"):
        Rotary(PLAIN).rotate(q, k, torch.arange(6), torch.tensor([0, 1, -1, 3, 4, 5]))


@pytest.mark.parametrize(
    ("sections", "axes", "shape", "named"),
    [
        ((), None, (3, 2, 6), "one axis"),
        ((2, 1, 1), Chunked(), (2, 2, 6), "3 axes"),
        ((2, 1, 1), None, (4, 2, 6), "3 axes"),
        ((), Axial(), (2, 6), "one position on each axis"),
        ((), Axial(), (6,), "one position on each axis"),
    ],
)
def test_ids_with_other_axes_are_refused(
    sections: Any, axes: Any, shape: tuple[int, ...], named: str
) -> None:
    q, k = vectors()
    encoding = Rotary(spec.RotarySpec(8, 8, 10_000.0, sections=sections), axes=axes)
    ids = torch.zeros(shape, dtype=torch.int64)
    with pytest.raises(PositionError, match=named):
        encoding.rotate(q, k, ids)
    with pytest.raises(PositionError, match=named):
        encoding.tables(ids)
