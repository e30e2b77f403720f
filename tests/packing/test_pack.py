"""Documents into rows: nothing lost, nothing twice, little padding, constant memory."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import LengthError, UsageError
from ropewalk.packing.pack import Boundary, PackedRow, pack, stack
from ropewalk.packing.policies import BestFit, InOrder

DOCUMENTS = st.lists(st.lists(st.integers(1, 2**31 - 1), max_size=30), max_size=25)
POLICIES = st.sampled_from([InOrder(), BestFit(), BestFit(1), BestFit(3)])


def _unpacked(rows: list[PackedRow]) -> dict[int, list[int]]:
    """Every document's tokens again, put together from its pieces."""
    parts: dict[int, dict[int, list[int]]] = defaultdict(dict)
    for row in rows:
        for piece, start in zip(row.layout.pieces, row.layout.starts, strict=True):
            assert piece.start not in parts[piece.document]
            parts[piece.document][piece.start] = row.token_ids[
                start : start + piece.length
            ].tolist()
    return {
        number: [token for at in sorted(pieces) for token in pieces[at]]
        for number, pieces in parts.items()
    }


@given(DOCUMENTS, POLICIES, st.sampled_from(["kept", "split"]), st.booleans(), st.integers(1, 3))
def test_every_token_comes_out_once_and_in_its_documents_order(
    documents: list[list[int]], policy: Any, cutting: Any, left: bool, multiple: int
) -> None:
    packing = pack(
        documents, 12, policy=policy, cutting=cutting, left=left, multiple=multiple,
        boundary=Boundary(before=0, after=7),
    )  # fmt: skip
    rows = list(packing)
    expected = {n: [0, *document, 7] for n, document in enumerate(documents) if document}
    assert _unpacked(rows) == expected
    assert all(len(row.token_ids) == 12 for row in rows)
    report = packing.report
    assert report.tokens == sum(map(len, expected.values()))
    assert report.empty == sum(not document for document in documents)
    if cutting == "kept":
        # Only a document that no row holds is cut.
        assert report.split == sum(len(tokens) > 12 for tokens in expected.values())


@given(DOCUMENTS)
def test_in_order_and_split_is_one_stream_cut_into_rows(documents: list[list[int]]) -> None:
    rows = list(pack(documents, 8, policy=InOrder(), cutting="split"))
    stream = [token for document in documents for token in document]
    laid = [token for row in rows for token in row.token_ids.tolist()]
    assert laid[: len(stream)] == stream
    assert len(rows) == -(-len(stream) // 8)


@given(DOCUMENTS)
def test_in_order_rows_hold_documents_in_the_order_of_the_stream(
    documents: list[list[int]],
) -> None:
    rows = list(pack(documents, 12, policy=InOrder()))
    order = [(p.document, p.start) for row in rows for p in row.layout.pieces]
    assert order == sorted(order)


def test_best_fit_leaves_less_padding_than_order_and_splitting_less_still() -> None:
    random = Random(0)
    documents = [[1] * random.randint(5, 900) for _ in range(600)]
    fills = {}
    for name, policy, cutting in (
        ("order", InOrder(), "kept"),
        ("best", BestFit(), "kept"),
        ("split", BestFit(), "split"),
    ):
        packing = pack(documents, 1024, policy=policy, cutting=cutting)  # type: ignore[arg-type]
        rows = sum(1 for _ in packing)
        assert packing.report.fill == pytest.approx(sum(map(len, documents)) / (1024 * rows))
        fills[name] = packing.report.fill
    assert fills["order"] < 0.85 < 0.97 < fills["best"] < fills["split"]


def test_a_document_longer_than_memory_is_read_piece_by_piece() -> None:
    chunk = np.arange(1, 4097, dtype=np.int32)

    def endless() -> Iterator[np.ndarray[Any, Any]]:
        for _ in range(4000):
            yield chunk

    tracemalloc.start()
    rows = 0
    for _ in pack([endless()], 4096):
        rows += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The document is 66 MB.
    assert rows == 4000
    assert peak < 2_000_000


def test_open_rows_bound_memory_whatever_the_stream() -> None:
    def stream() -> Iterator[np.ndarray[Any, Any]]:
        random = Random(1)
        for _ in range(20_000):
            yield np.ones(random.randint(1, 700), dtype=np.int32)

    tracemalloc.start()
    packing = pack(stream(), 1024, policy=BestFit(64))
    assert sum(1 for _ in packing) > 6000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3_000_000
    assert packing.report.fill > 0.97


def test_what_is_no_token_id_is_refused_with_document_and_place() -> None:
    with pytest.raises(UsageError, match="document 1 has -3 at token 2"):
        list(pack([[1], [1, 2, -3]], 4))
    with pytest.raises(UsageError, match=r"document 0 is an array of shape .* float64"):
        list(pack([[0.5]], 4))  # type: ignore[list-item]
    with pytest.raises(UsageError, match=r"document 0 .* at token 5"):
        list(pack([iter([[1, 2, 3], [4, 5, 2**31]])], 4))


def test_settings_that_cannot_be_are_refused_before_anything_is_read() -> None:
    with pytest.raises(LengthError, match="rows of 0 tokens"):
        pack([[1]], 0)
    with pytest.raises(UsageError, match="multiple=3"):
        pack([[1]], 8, multiple=3)
    with pytest.raises(UsageError, match="'halved'"):
        pack([[1]], 8, cutting="halved")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="boundary token -1"):
        Boundary(after=-1)
    with pytest.raises(UsageError, match="0 open rows"):
        BestFit(0)


def test_a_batch_carries_the_same_layout_everywhere() -> None:
    rows = list(pack([[5, 6, 7], [8], [9, 10]], 4, policy=InOrder()))
    batch = stack(rows)
    assert batch.input_ids.tolist() == [[5, 6, 7, 8], [9, 10, 0, 0]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 0], [0, 1, 0, 0]]
    assert batch.labels.tolist() == [[-100, 6, 7, -100], [-100, 10, -100, -100]]
    assert batch.segment_ids.tolist() == [[0, 0, 0, 1], [0, 0, -1, -1]]
    assert batch.varlen.cu_seqlens.tolist() == [0, 3, 4, 6, 8]
    with pytest.raises(UsageError, match="rows of lengths"):
        stack([])
