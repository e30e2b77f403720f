"""A packed row's attention against each document alone: dense, FlexAttention, varlen."""

from __future__ import annotations

import warnings
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.packing.layout import Counting, Layout, Piece, block_mask, varlen

LAYOUTS = {
    "whole": Layout.of([5, 1, 9, 1], 16),
    "padded": Layout.of([5, 1, 4], 16),
    "left": Layout((Piece(0, 0, 3), Piece(1, 0, 1), Piece(2, 0, 6)), 16, left=True),
    "goes on": Layout((Piece(3, 7, 6), Piece(4, 0, 5)), 16),
    "in fours": Layout((Piece(0, 0, 3), Piece(1, 0, 6)), 16, multiple=4),
    "in fours, left": Layout((Piece(0, 0, 3), Piece(1, 0, 6)), 16, left=True, multiple=4),
}
EVERY = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def _drawn() -> Tensor:
    """q, k and v (3, 1, 2, 16, 8) in fp32."""
    return torch.randn(3, 1, 2, 16, 8, generator=torch.Generator().manual_seed(1))


def _rotated(x: Tensor, positions: Tensor) -> Tensor:
    """Pairs rotated by position over powers of 100, as complex numbers."""
    angles = positions[:, None] * 100.0 ** -torch.arange(0, 1, 1 / (x.shape[-1] // 2))
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def _qkv(layout: Layout, counting: Counting = "reset") -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = _drawn()
    positions = layout.position_ids(counting)
    return _rotated(q, positions), _rotated(k, positions), v


def _alone(layout: Layout) -> list[tuple[slice, Tensor]]:
    """Where each piece lies, and causal attention over it by itself from position 0."""
    found = []
    for start, size in zip(layout.starts, layout.seq_lens, strict=True):
        part = slice(start, start + size)
        q, k, v = (x[..., part, :] for x in _drawn())
        order = torch.arange(size)
        q, k = _rotated(q, order), _rotated(k, order)
        found.append((part, functional.scaled_dot_product_attention(q, k, v, is_causal=True)))
    return found


def _check(out: Tensor, layout: Layout) -> None:
    assert not out.isnan().any()
    for part, alone in _alone(layout):
        torch.testing.assert_close(out[..., part, :], alone, atol=1e-5, rtol=1e-5)


@EVERY
@pytest.mark.parametrize("counting", ["reset", "document", "running"])
def test_dense_masks_give_each_document_what_it_gets_alone(
    layout: Layout, counting: Counting
) -> None:
    # Rotary positions are relative: where a piece begins to count does not matter, a mask does.
    out = functional.scaled_dot_product_attention(*_qkv(layout, counting), attn_mask=layout.mask())
    _check(out, layout)


@EVERY
def test_flex_attention_gives_each_document_what_it_gets_alone(layout: Layout) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    with warnings.catch_warnings():
        # Uncompiled it says that it is slow.
        warnings.filterwarnings("ignore", message=".*flex_attention called without torch.compile")
        out = flex_attention(*_qkv(layout), block_mask=block_mask([layout]))
    assert isinstance(out, Tensor)
    _check(out, layout)


@EVERY
def test_variable_length_arguments_give_each_document_what_it_gets_alone(layout: Layout) -> None:
    # What a varlen kernel computes, as a plain loop over its offsets.
    told = varlen([layout])
    q, k, v = _qkv(layout)
    offsets = told.cu_seqlens.tolist()
    assert offsets[-1] == layout.length
    parts = []
    for start, end in pairwise(offsets):
        assert 0 < end - start <= told.max_seqlen
        own = slice(start, end)
        parts.append(
            functional.scaled_dot_product_attention(
                q[..., own, :], k[..., own, :], v[..., own, :], is_causal=True
            )
        )
    _check(torch.cat(parts, -2), layout)


@EVERY
@pytest.mark.parametrize("counting", ["reset", "running"])
def test_without_a_mask_every_document_but_the_first_reads_its_neighbours(
    layout: Layout, counting: Counting
) -> None:
    out = functional.scaled_dot_product_attention(*_qkv(layout, counting), is_causal=True)
    drift = [float((out[..., part, :] - alone).abs().max()) for part, alone in _alone(layout)]
    assert min(drift[1:]) > 0.05


def test_mrope_positions_are_those_of_each_document() -> None:
    # Three axes; document 1 begins with an image of 2 x 2 tokens, document 0 goes on from token 2.
    own = {
        0: torch.arange(5).expand(3, 5),
        1: torch.tensor([[0, 0, 0, 0, 2, 3], [0, 0, 1, 1, 2, 3], [0, 1, 0, 1, 2, 3]]),
    }
    layout = Layout((Piece(0, 2, 3), Piece(1, 0, 6)), 16, multiple=4)
    whole = layout.axis_position_ids(own)
    expected = torch.zeros(3, 16, dtype=torch.int64)
    expected[:, 0:3], expected[:, 4:10] = own[0][:, 2:5], own[1]
    assert torch.equal(whole, expected)
