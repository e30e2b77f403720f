"""Documents from an iterator of any size into rows of one length, in constant memory.

Held at any time are the open rows of the policy and at most one row's worth of the document that
is being read, however long it is: a document may itself come as an iterator of pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from ropewalk.errors import LengthError, UsageError
from ropewalk.packing.distances import Distances, distances
from ropewalk.packing.layout import Counting, Layout, Piece, VarLen, varlen
from ropewalk.packing.policies import BestFit, InOrder, OpenRows, Policy
from ropewalk.short import short

if TYPE_CHECKING:
    from torch import Tensor

Ids = npt.NDArray[np.int32]
Document = (
    Sequence[int] | npt.NDArray[np.integer] | Iterator[Sequence[int] | npt.NDArray[np.integer]]
)
"""Token ids (n,), or an iterator of them in pieces, for a document too long to be held."""

Cutting = Literal["kept", "split"]
_MOST_ID = 2**31 - 1


@short
@dataclass(frozen=True, slots=True)
class Boundary:
    """Tokens put around every document: ids before (a BOS) and after it (an EOS), None for none.

    Raises UsageError for ids below 0.
    """

    before: int | None = None
    after: int | None = None

    def __post_init__(self) -> None:
        for token in (self.before, self.after):
            if token is not None and not 0 <= token <= _MOST_ID:
                raise UsageError(f"boundary token {token} is no token id: ids count from 0")


@short
@dataclass(frozen=True)
class PackedRow:
    """One row: `token_ids` (length,) int32, padding included, and where its documents lie."""

    token_ids: Ids
    layout: Layout

    def labels(self, ignore: int = -100) -> Tensor:
        """Targets (length,) int64; see `Layout.labels`."""
        import torch

        return self.layout.labels(torch.from_numpy(self.token_ids), ignore)


@short
@dataclass
class Report:
    """What has been packed so far.

    `seq_lens` and `row_lens` count pieces and rows by their tokens, padding left out.
    """

    length: int
    documents: int = 0
    empty: int = 0
    split: int = 0
    rows: int = 0
    tokens: int = 0
    seq_lens: Counter[int] = field(default_factory=Counter)
    row_lens: Counter[int] = field(default_factory=Counter)

    @property
    def fill(self) -> float:
        """The share of all rows that holds documents; 1 before there is a row."""
        return self.tokens / (self.rows * self.length) if self.rows else 1.0

    def distances(self, *, masked: bool = True) -> Distances:
        """How often each distance will be trained: within pieces, or within whole rows where no
        mask keeps the documents apart.
        """
        return distances(self.seq_lens if masked else self.row_lens)


class Packing:
    """The rows of a stream of documents; iterate over it once. `report` counts as rows come."""

    def __init__(
        self,
        documents: Iterable[Document],
        length: int,
        *,
        policy: Policy | None = None,
        cutting: Cutting = "kept",
        boundary: Boundary | None = None,
        padding_id: int = 0,
        left: bool = False,
        multiple: int = 1,
    ) -> None:
        """As `pack`."""
        if length < 1:
            raise LengthError(f"rows of {length} tokens are impossible: they have 1 or more")
        if cutting not in ("kept", "split"):
            raise UsageError(f"cutting {cutting!r} is not known; there are 'kept' and 'split'")
        if multiple < 1 or length % multiple:
            raise UsageError(
                f"rows of {length} tokens do not divide by multiple={multiple}: give a length that "
                "does"
            )
        self.report = Report(length)
        self._documents = documents
        self._length = length
        self._cutting = cutting
        self._boundary = boundary or Boundary()
        self._padding_id = padding_id
        self._left = left
        self._multiple = multiple
        chosen = policy or BestFit()
        self._open: OpenRows = chosen.open_rows_of(length)
        self._ordered = isinstance(chosen, InOrder)
        self._held: dict[int, _Row] = {}
        self._next = 0

    def __iter__(self) -> Iterator[PackedRow]:
        """Rows as they are closed."""
        for number, document in enumerate(self._documents):
            self.report.documents += 1
            pieces = 0
            for start, ids in self._read(number, document):
                for piece, part in self._parts(number, start, ids):
                    pieces += 1
                    yield from self._put(piece, part)
            self.report.empty += pieces == 0
            self.report.split += pieces > 1
        while (row := self._open.find(0)) is not None:
            yield self._close(row)

    def _read(self, number: int, document: Document) -> Iterator[tuple[int, Ids]]:
        """The document in stretches of `length` tokens and a last one of what is left."""
        start, held = 0, np.empty(0, dtype=np.int32)
        for ids in self._bounded(_stretches(number, document)):
            held = np.concatenate([held, ids]) if len(held) else ids
            while len(held) > self._length:
                # Kept back until there is more, so that the last stretch is never empty.
                yield start, held[: self._length]
                start, held = start + self._length, held[self._length :]
        if len(held):
            yield start, held

    def _bounded(self, stretches: Iterator[Ids]) -> Iterator[Ids]:
        """With the boundary tokens around; nothing for a document without tokens."""
        first = next((ids for ids in stretches if len(ids)), None)
        if first is None:
            return
        before, after = self._boundary.before, self._boundary.after
        if before is not None:
            first = np.concatenate([np.array([before], dtype=np.int32), first])
        yield first
        yield from stretches
        if after is not None:
            yield np.array([after], dtype=np.int32)

    def _parts(self, number: int, start: int, ids: Ids) -> Iterator[tuple[Piece, Ids]]:
        """What goes into one row each: all of it where it fits, or documents are kept."""
        done = 0
        while done < len(ids):
            rest = len(ids) - done
            if self._cutting == "split" and self._open.find(self._padded(rest)) is None:
                row = self._open.roomiest()
                room = 0 if row is None else self._length - self._held[row].size
                take = min(rest, room or self._length)
            else:
                take = rest
            yield Piece(number, start + done, take), ids[done : done + take]
            done += take

    def _put(self, piece: Piece, ids: Ids) -> Iterator[PackedRow]:
        size = self._padded(piece.length)
        row = self._open.find(size)
        if row is None:
            # A row that will be full at once takes no place among the open ones, where order
            # does not matter.
            surplus = self._open.surplus() if self._ordered or size < self._length else None
            if surplus is not None:
                yield self._close(surplus)
            row = self._next
            self._next += 1
            self._held[row] = _Row()
        held = self._held[row]
        # A view would keep all of a long document's stretch in memory until the row is closed.
        held.pieces.append((piece, ids if ids.base is None else ids.copy()))
        held.size += size
        self._open.set(row, self._length - held.size)
        if held.size == self._length:
            yield self._close(row)

    def _padded(self, size: int) -> int:
        """`size` and what a piece is padded with to a multiple."""
        return -(-size // self._multiple) * self._multiple

    def _close(self, row: int) -> PackedRow:
        self._open.remove(row)
        held = self._held.pop(row)
        layout = Layout(
            tuple(piece for piece, _ in held.pieces),
            self._length,
            self._left,
            self._multiple,
        )
        token_ids = np.full(self._length, self._padding_id, dtype=np.int32)
        for (_, ids), start in zip(held.pieces, layout.starts, strict=True):
            token_ids[start : start + len(ids)] = ids
        used = sum(layout.seq_lens)
        self.report.rows += 1
        self.report.tokens += used
        self.report.seq_lens.update(layout.seq_lens)
        self.report.row_lens[used] += 1
        return PackedRow(token_ids, layout)


@dataclass(slots=True)
class _Row:
    """An open row: its pieces, and the tokens that they take."""

    pieces: list[tuple[Piece, Ids]] = field(default_factory=list)
    size: int = 0


def pack(
    documents: Iterable[Document],
    length: int,
    *,
    policy: Policy | None = None,
    cutting: Cutting = "kept",
    boundary: Boundary | None = None,
    padding_id: int = 0,
    left: bool = False,
    multiple: int = 1,
) -> Packing:
    """Rows of `length` tokens from `documents`, an iterator of any size, in constant memory.

    `policy`: BestFit() unless given, or InOrder(). `cutting`: "kept" cuts only documents that are
    longer than a row, into full rows and a rest; "split" cuts any document where a row ends, and
    leaves hardly any padding. `boundary`: tokens around every document. Documents without tokens
    are counted and left out. `left` puts padding in front; `multiple` pads each piece to a
    multiple of so many tokens (2 * ranks for the zigzag order of ring attention).

    Raises LengthError and UsageError for settings that cannot be, at once; while rows are taken,
    UsageError for a document that holds something else than token ids, with its number and place.
    """
    return Packing(
        documents, length, policy=policy, cutting=cutting, boundary=boundary,
        padding_id=padding_id, left=left, multiple=multiple,
    )  # fmt: skip


def _stretches(number: int, document: Document) -> Iterator[Ids]:
    """The document's ids as arrays, checked."""
    parts = document if isinstance(document, Iterator) else iter((document,))
    done = 0
    for part in parts:
        ids = np.asarray(part)
        if ids.size == 0:
            continue
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise UsageError(
                f"document {number} is an array of shape {ids.shape} and type {ids.dtype}; token "
                "ids are whole numbers in one dimension"
            )
        wrong = (ids < 0) | (ids > _MOST_ID)
        if wrong.any():
            place = int(wrong.argmax())
            raise UsageError(
                f"document {number} has {ids[place]} at token {done + place}, which is no token "
                f"id: ids are 0 to {_MOST_ID}"
            )
        done += len(ids)
        # A copy: callers may fill one buffer again and again.
        yield ids.astype(np.int32)


@short
@dataclass(frozen=True)
class PackedBatch:
    """Equally long rows: each tensor (batch, length), int64. `segment_ids` is for
    `ropewalk.attention`, `varlen` for kernels over rows laid end to end, `layouts` for the rest.
    """

    input_ids: Tensor
    position_ids: Tensor
    labels: Tensor
    segment_ids: Tensor
    varlen: VarLen
    layouts: tuple[Layout, ...]


def stack(rows: Sequence[PackedRow], counting: Counting = "reset") -> PackedBatch:
    """A batch of rows. Raises UsageError for none, or for rows of several lengths."""
    import torch

    lengths = {row.layout.length for row in rows}
    if len(lengths) != 1:
        raise UsageError(
            f"rows of lengths {sorted(lengths)} do not make a batch: it takes one length, and at "
            "least one row"
        )
    layouts = tuple(row.layout for row in rows)
    return PackedBatch(
        input_ids=torch.stack([torch.from_numpy(row.token_ids).long() for row in rows]),
        position_ids=torch.stack([layout.position_ids(counting) for layout in layouts]),
        labels=torch.stack([row.labels() for row in rows]),
        segment_ids=torch.stack([layout.segment_ids() for layout in layouts]),
        varlen=varlen(layouts),
        layouts=layouts,
    )
