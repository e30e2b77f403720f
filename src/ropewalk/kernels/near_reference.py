"""Cosines of many rows with a few queries, on plain torch: the reference and the fallback."""

from __future__ import annotations

import torch
from torch import Tensor

_CHUNK_BYTES = 8 << 20
"""Of rows widened to float32 at a time, so that no second table is made."""


def cosines(rows: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """As `ropewalk.kernels.near.cosines`."""
    count, width = rows.shape
    scores = torch.empty(len(queries), count)
    squares = torch.empty(count)
    step = max(1, _CHUNK_BYTES // (4 * max(width, 1)))
    for start in range(0, count, step):
        chunk = rows[start : start + step].float()
        place = slice(start, start + len(chunk))
        torch.linalg.vector_norm(chunk, dim=1, out=squares[place])
        scores[:, place] = queries @ chunk.T
    scores /= squares
    return scores, squares.square_()
