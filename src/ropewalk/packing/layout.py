"""Where documents lie in one row: the single source of positions, masks and cu_seqlens.

Everything a model needs to keep packed documents apart follows from the lengths of the pieces.
Nothing is guessed back from position ids, where a document of one token, or one that goes on
from an earlier row, looks like its neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from ropewalk.errors import PositionError, UsageError
from ropewalk.short import short

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn.attention.flex_attention import BlockMask

PADDING = -1
"""The document number of padding."""

Counting = Literal["reset", "document", "running"]
"""How tokens of a row are numbered; see `Layout.position_ids`."""


@short
@dataclass(frozen=True, slots=True)
class Piece:
    """A document, or a part of one, in a row.

    `document` is its number in the stream that was packed, `start` the place in the document of
    the piece's first token (0 unless the document was split), `length` its tokens.
    """

    document: int
    start: int
    length: int

    def __post_init__(self) -> None:
        if self.length < 1 or self.start < 0 or self.document < 0:
            raise UsageError(
                f"a piece of document {self.document} from token {self.start} with {self.length} "
                "tokens is impossible: documents and tokens count from 0, pieces have 1 or more"
            )


@short
@dataclass(frozen=True, slots=True)
class VarLen:
    """What a variable-length attention kernel is told: offsets (pieces + 1,) int32 into the
    tokens of all rows laid end to end, and the longest piece.
    """

    cu_seqlens: Tensor
    max_seqlen: int

    def flash(self) -> dict[str, Tensor | int]:
        """Under the names of flash-attn's `flash_attn_varlen_func`."""
        return {
            "cu_seqlens_q": self.cu_seqlens,
            "cu_seqlens_k": self.cu_seqlens,
            "max_seqlen_q": self.max_seqlen,
            "max_seqlen_k": self.max_seqlen,
        }

    def transformers(self) -> dict[str, Tensor | int]:
        """Under the names that models of transformers take as keyword arguments."""
        return {
            "cu_seq_lens_q": self.cu_seqlens,
            "cu_seq_lens_k": self.cu_seqlens,
            "max_length_q": self.max_seqlen,
            "max_length_k": self.max_seqlen,
        }


@short
@dataclass(frozen=True)
class Layout:
    """The pieces of one row of `length` tokens, in order; what they leave is padding.

    `left`: padding stands in front of the pieces rather than behind them. `multiple`: every
    piece is padded at its end to a multiple of so many tokens, as context-parallel ranks need it.
    Raises UsageError for pieces that are longer than the row.
    """

    pieces: tuple[Piece, ...]
    length: int
    left: bool = False
    multiple: int = 1

    def __post_init__(self) -> None:
        if self.length < 1:
            raise UsageError(f"a row of {self.length} tokens is impossible: it has 1 or more")
        if self.multiple < 1:
            raise UsageError(f"a multiple of {self.multiple} is impossible: it is 1 or more")
        if sum(self._spans) > self.length:
            raise UsageError(
                f"pieces of {sum(self._spans)} tokens do not fit a row of {self.length}"
            )

    @classmethod
    def of(cls, seq_lens: tuple[int, ...] | list[int], length: int | None = None) -> Layout:
        """Whole documents of these lengths, numbered from 0, in a row of `length` (their sum)."""
        pieces = tuple(Piece(number, 0, each) for number, each in enumerate(seq_lens))
        return cls(pieces, sum(seq_lens) if length is None else length)

    @cached_property
    def seq_lens(self) -> tuple[int, ...]:
        """Tokens of each piece."""
        return tuple(piece.length for piece in self.pieces)

    @property
    def padding(self) -> int:
        """Tokens of the row that belong to no document."""
        return self.length - sum(self.seq_lens)

    @cached_property
    def _spans(self) -> tuple[int, ...]:
        """Places that each piece takes, its own padding included."""
        return tuple(-(-size // self.multiple) * self.multiple for size in self.seq_lens)

    @property
    def _around(self) -> int:
        """Padding before or behind all pieces."""
        return self.length - sum(self._spans)

    @property
    def fill(self) -> float:
        """The share of the row that is not padding."""
        return 1 - self.padding / self.length

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The place in the row of each piece's first token."""
        first = self._around if self.left else 0
        return tuple(accumulate(self._spans[:-1], initial=first)) if self.pieces else ()

    def position_ids(self, counting: Counting = "reset") -> Tensor:
        """Positions (length,), int64; padding takes 0, which is masked.

        - "reset": every piece counts from 0.
        - "document": a piece counts from its place in its document, so that one that was split
          goes on where it stopped.
        - "running": the row counts through, as if it were one document.

        Raises UsageError for another word.
        """
        import torch

        if counting not in ("reset", "document", "running"):
            raise UsageError(
                f"counting {counting!r} is not known; there are 'reset', 'document' and 'running'"
            )
        positions = torch.zeros(self.length, dtype=torch.int64)
        first = self.starts[0] if self.pieces else 0
        for piece, start in zip(self.pieces, self.starts, strict=True):
            begin = {"reset": 0, "document": piece.start, "running": start - first}[counting]
            positions[start : start + piece.length] = torch.arange(begin, begin + piece.length)
        return positions

    def axis_position_ids(self, by_document: Mapping[int, Tensor]) -> Tensor:
        """Positions on several axes (axes, length), as mRoPE has them, from each document's own.

        `by_document[number]` is (axes, tokens of the whole document). A piece takes its own
        tokens' columns; padding takes 0. Raises PositionError for a document without positions,
        with another number of axes, or with fewer columns than its piece reaches.
        """
        import torch

        axes = next(iter(by_document.values())).shape[0] if by_document else 0
        positions = torch.zeros(axes, self.length, dtype=torch.int64)
        for piece, start in zip(self.pieces, self.starts, strict=True):
            own = by_document.get(piece.document)
            end = piece.start + piece.length
            if own is None or own.shape[0] != axes or own.shape[1] < end:
                given = "none" if own is None else f"shape {tuple(own.shape)}"
                raise PositionError(
                    f"document {piece.document} needs positions of shape ({axes}, {end}) or "
                    f"more columns; given: {given}"
                )
            positions[:, start : start + piece.length] = own[:, piece.start : end]
        return positions

    def segment_ids(self) -> Tensor:
        """Which piece each token belongs to (length,), int64 from 0; padding is PADDING.

        Numbers count within the row, so that two pieces of one document in a row stay apart.
        """
        import torch

        numbers = torch.full((self.length,), PADDING, dtype=torch.int64)
        for number, (start, size) in enumerate(zip(self.starts, self.seq_lens, strict=True)):
            numbers[start : start + size] = number
        return numbers

    def segments(self) -> tuple[int, ...]:
        """Lengths from end to end of the row: pieces with their own padding, which a causal mask
        hides from them, and the padding around them as a segment of its own.
        """
        if not self._around:
            return self._spans
        return (self._around, *self._spans) if self.left else (*self._spans, self._around)

    def cu_seqlens(self) -> Tensor:
        """Offsets (segments + 1,), int32, of this row's segments, padding being one of them."""
        return varlen([self]).cu_seqlens

    def mask(self) -> Tensor:
        """Which key (column) each query (row) sees (length, length), bool: its own piece's, up to
        itself. Padding sees padding alone, so that no row is empty and none gives NaN.
        """
        import torch

        segment_ids = self.segment_ids()
        order = torch.arange(self.length)
        return (segment_ids[:, None] == segment_ids[None, :]) & (order[:, None] >= order[None, :])

    def labels(self, token_ids: Tensor, ignore: int = -100) -> Tensor:
        """Targets (length,) for a model that shifts them itself, as transformers' do.

        A piece's first token is not to be predicted from its neighbour's last one, and padding
        not at all: both are `ignore`.
        """
        labels = token_ids.clone().long()
        labels[list(self.starts)] = ignore
        labels[self.segment_ids() == PADDING] = ignore
        return labels


def varlen(layouts: list[Layout] | tuple[Layout, ...]) -> VarLen:
    """The variable-length arguments of a batch of rows that are laid end to end.

    Padding is a segment of its own, so that the offsets cover (batch * length) tokens.
    Raises UsageError for an empty batch.
    """
    import torch

    if not layouts:
        raise UsageError("a batch has at least one row; none was given")
    sizes = [size for layout in layouts for size in layout.segments()]
    offsets = torch.tensor([0, *accumulate(sizes)], dtype=torch.int32)
    return VarLen(offsets, max(sizes))


def block_mask(
    layouts: list[Layout] | tuple[Layout, ...], device: torch.device | str = "cpu"
) -> BlockMask:
    """FlexAttention's mask of a batch of equally long rows: causal within each piece.

    Made once a batch and not once a layer. Raises UsageError for rows of several lengths.
    """
    import torch
    from torch.nn.attention.flex_attention import create_block_mask

    lengths = {layout.length for layout in layouts}
    if len(lengths) != 1:
        raise UsageError(
            f"rows of lengths {sorted(lengths)} cannot share a block mask: give one length"
        )
    segment_ids = torch.stack([layout.segment_ids() for layout in layouts]).to(device)

    def seen(batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (segment_ids[batch, query] == segment_ids[batch, key]) & (query >= key)

    (length,) = lengths
    return create_block_mask(seen, len(layouts), None, length, length, device=str(device))
