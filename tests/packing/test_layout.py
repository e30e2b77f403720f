"""Positions, masks and offsets of a row, against what attention over each document alone gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from ropewalk.attention import attention
from ropewalk.errors import PositionError, UsageError
from ropewalk.packing.layout import PADDING, Layout, Piece, block_mask, varlen
from ropewalk.positions.nope import NoPosition


def test_documents_of_one_token_keep_a_segment_each() -> None:
    # Told by position ids alone, [0, 1, 0, 0, 0] was read as [0, 2, 5].
    layout = Layout.of([2, 1, 1, 1])
    assert layout.position_ids().tolist() == [0, 1, 0, 0, 0]
    assert layout.cu_seqlens().tolist() == [0, 2, 3, 4, 5]
    assert layout.cu_seqlens().dtype == torch.int32


def test_a_piece_that_goes_on_from_another_row_is_a_segment_and_can_keep_its_positions() -> None:
    # Documents of 3 and 6 tokens in rows of 4: the second row holds tokens 1 to 4 of the second.
    second = Layout((Piece(1, 1, 4),), 4)
    assert second.position_ids("reset").tolist() == [0, 1, 2, 3]
    assert second.position_ids("document").tolist() == [1, 2, 3, 4]
    third = Layout((Piece(1, 5, 1), Piece(2, 0, 3)), 4)
    assert third.position_ids("document").tolist() == [5, 0, 1, 2]
    assert third.cu_seqlens().tolist() == [0, 1, 4]


def test_padding_on_the_left_moves_documents_and_takes_no_position_from_them() -> None:
    layout = Layout((Piece(0, 0, 1), Piece(1, 0, 2)), 5, left=True)
    assert layout.position_ids().tolist() == [0, 0, 0, 0, 1]
    assert layout.position_ids("running").tolist() == [0, 0, 0, 1, 2]
    assert layout.segment_ids().tolist() == [PADDING, PADDING, 0, 1, 1]
    assert layout.cu_seqlens().tolist() == [0, 2, 3, 5]


def test_labels_never_ask_a_document_for_the_start_of_the_next() -> None:
    layout = Layout.of([2, 3], 7)
    ids = torch.tensor([5, 6, 7, 8, 9, 0, 0])
    assert layout.labels(ids).tolist() == [-100, 6, -100, 8, 9, -100, -100]


def test_mrope_positions_of_a_row_are_each_documents_own() -> None:
    own = {
        0: torch.tensor([[0, 1, 1], [0, 1, 2], [0, 1, 1]]),
        4: torch.tensor([[0, 0, 7, 8], [0, 1, 7, 8], [0, 0, 7, 8]]),
    }
    layout = Layout((Piece(0, 0, 3), Piece(4, 2, 2)), 6)
    laid = layout.axis_position_ids(own)
    assert laid.tolist() == [[0, 1, 1, 7, 8, 0], [0, 1, 2, 7, 8, 0], [0, 1, 1, 7, 8, 0]]
    # Three axes are no three documents: offsets come from the lengths.
    assert layout.cu_seqlens().tolist() == [0, 3, 5, 6]


def test_mrope_positions_that_are_too_short_are_refused_with_the_document() -> None:
    layout = Layout((Piece(3, 0, 5),), 5)
    with pytest.raises(PositionError, match=r"document 3 .*\(3, 5\).*given: shape \(3, 4\)"):
        layout.axis_position_ids({3: torch.zeros(3, 4, dtype=torch.int64)})


def test_a_packed_row_attends_as_each_document_alone() -> None:
    torch.manual_seed(0)
    lens = [5, 1, 7, 3]
    layout = Layout.of(lens, 20)
    q, k, v = torch.randn(3, 1, 2, 20, 8, dtype=torch.float64).unbind(0)
    packed = functional.scaled_dot_product_attention(q, k, v, attn_mask=layout.mask())
    ours = attention(
        q, k, v, NoPosition(), position_ids=layout.position_ids()[None],
        segment_ids=layout.segment_ids()[None],
    )  # fmt: skip
    assert not packed.isnan().any()
    for start, size in zip(layout.starts, lens, strict=True):
        part = slice(start, start + size)
        alone = functional.scaled_dot_product_attention(
            q[:, :, part], k[:, :, part], v[:, :, part], is_causal=True
        )
        torch.testing.assert_close(packed[:, :, part], alone)
        torch.testing.assert_close(ours[:, :, part], alone)


def test_a_block_mask_allows_what_the_dense_mask_allows() -> None:
    layouts = [Layout.of([5, 1, 7], 16), Layout((Piece(0, 0, 9),), 16, left=True)]
    mask = block_mask(layouts)
    order = torch.arange(16)
    for row, layout in enumerate(layouts):
        flexible = mask.mask_mod(torch.tensor(row), torch.tensor(0), order[:, None], order[None, :])
        assert torch.equal(flexible, layout.mask())
    with pytest.raises(UsageError, match=r"\[4, 16\]"):
        block_mask([layouts[0], Layout.of([4])])


def test_variable_length_arguments_run_over_the_whole_batch() -> None:
    told = varlen([Layout.of([2, 1], 4), Layout.of([4])])
    assert told.cu_seqlens.tolist() == [0, 2, 3, 4, 8]
    assert told.max_seqlen == 4
    assert set(told.flash()) == {"cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"}


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_a_model_of_transformers_reads_each_document_as_if_alone(
    kind: str, tiny_model: Callable[..., Any]
) -> None:
    model = tiny_model(kind)
    lens = [9, 1, 14, 6]
    layout = Layout.of(lens, 34)
    ids = torch.randint(2, 1200, (1, 34), generator=torch.Generator().manual_seed(3))
    packed = model(
        ids, attention_mask=layout.mask()[None, None], position_ids=layout.position_ids()[None]
    ).logits
    careless = model(ids).logits
    drift = []
    for start, size in zip(layout.starts, lens, strict=True):
        alone = model(ids[:, start : start + size]).logits[0]
        torch.testing.assert_close(packed[0, start : start + size], alone, atol=1e-5, rtol=1e-5)
        drift.append((careless[0, start : start + size] - alone).abs().max().item())
    # The first document has nothing before it; the others read their neighbours.
    assert drift[0] < 1e-5
    assert min(drift[1:]) > 1e-2


def test_what_a_row_cannot_hold_is_refused() -> None:
    with pytest.raises(UsageError, match="pieces of 9 tokens do not fit a row of 8"):
        Layout.of([4, 5], 8)
    with pytest.raises(UsageError, match="pieces have 1 or more"):
        Layout.of([3, 0])
    with pytest.raises(UsageError, match="'restart' is not known"):
        Layout.of([3]).position_ids("restart")  # type: ignore[arg-type]
