"""A table as Parquet, with columns that embedding-atlas opens.

    embedding-atlas FILE --text token_text --x x --y y --neighbors neighbors

Columns: `token_id`, `token_bytes` (the key itself, of which not all are text), `token_text` (its
one-to-one display form), `kind`, `norm`, `x` and `y`; `neighbors` as {"ids", "distances"}, ids
being places of rows in the file from 0, as embedding-atlas reads them, and distances 1 - cosine;
`vector` as a list of float32. The schema's metadata holds where the file came from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.errors import MissingPartError
from ropewalk.files import written_beside
from ropewalk.tables.export.rows import STRETCH, ExportedFile, provenance

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable
    from ropewalk.tables.principal import Projection, ShownNeighbours


def write_parquet(
    table: EmbeddingTable,
    path: Path,
    shown: Projection,
    *,
    near: ShownNeighbours | None = None,
    vectors: bool = False,
) -> ExportedFile:
    """Write the rows of `shown`, a row group for each stretch of them.

    With `near`, rows without a direction are left out and named, for readers take as many
    neighbours from every row. Raises MissingPartError without pyarrow, StoreError where the file
    cannot be written.
    """
    pq, schema = _schema(table, shown, near, vectors=vectors)
    kept = shown.norms > 0 if near is not None else shown.norms >= 0
    rows = int(kept.sum())
    with written_beside(path) as beside:
        with pq.ParquetWriter(beside, schema, compression="zstd") as writer:
            for batch in _batches(table, shown, near, kept, schema, vectors=vectors):
                writer.write_batch(batch)
        size = beside.stat().st_size
    said = [shown.chosen.line]
    if shown.not_finite:
        named = ", ".join(map(str, shown.not_finite[:8]))
        said.append(f"left out, not finite: {len(shown.not_finite):,} rows, from row {named}")
    if rows < len(shown):
        named = ", ".join(map(str, shown.zero[:8]))
        said.append(f"left out, without a direction: {len(shown) - rows:,} zero rows: {named}")
    return ExportedFile(path, size, rows, tuple(said))


def _schema(
    table: EmbeddingTable, shown: Projection, near: ShownNeighbours | None, *, vectors: bool
) -> tuple[Any, Any]:
    """pyarrow.parquet, and the columns with where they came from."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingPartError(
            "Parquet needs the package pyarrow, which is not installed; "
            'install it with: pip install "ropewalk[look]"'
        ) from error
    columns = [
        pa.field("token_id", pa.int32(), nullable=False),
        pa.field("token_bytes", pa.binary()),
        pa.field("token_text", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("norm", pa.float32(), nullable=False),
        pa.field("x", pa.float32(), nullable=False),
        pa.field("y", pa.float32(), nullable=False),
    ]
    if near is not None:
        lists = [("ids", pa.list_(pa.int64())), ("distances", pa.list_(pa.float32()))]
        columns.append(pa.field("neighbors", pa.struct(lists), nullable=False))
    if vectors:
        columns.append(pa.field("vector", pa.list_(pa.float32()), nullable=False))
    about = provenance(table, shown.chosen.line) | {
        "axes": f"principal axes of {shown.fitted} rows, "
        + ("about the mean" if shown.centred else "about zero"),
        "shares_of_variance": ", ".join(f"{share:.6f}" for share in shown.axes.shares),
    }
    return pq, pa.schema(columns, metadata={"ropewalk": json.dumps(about)})


def _batches(
    table: EmbeddingTable,
    shown: Projection,
    near: ShownNeighbours | None,
    kept: Tensor,
    schema: Any,
    *,
    vectors: bool,
) -> Iterator[Any]:
    """Record batches of up to STRETCH rows."""
    import pyarrow as pa
    import torch

    at = kept.nonzero().flatten()
    ids = shown.ids[at]
    # From places among the rows shown to places among the rows of the file.
    place = kept.cumsum(0) - 1
    starts = range(0, table.rows, STRETCH)
    tiles = table.tiles(STRETCH) if vectors else ((start, None) for start in starts)
    for start, rows in tiles:
        first, last = torch.searchsorted(ids, torch.tensor([start, start + STRETCH])).tolist()
        if first == last:
            continue
        own = at[first:last]
        columns = _token_columns(table, ids[first:last].tolist())
        columns += [shown.norms[own].numpy(), *shown.places[own].T.contiguous().numpy()]
        arrays = [pa.array(c, schema.field(i).type) for i, c in enumerate(columns)]
        if near is not None:
            named = place[near.at[own]].numpy()
            distances = (1 - near.cosines[own]).numpy()
            lists = [_lists(named, pa.int64()), _lists(distances, pa.float32())]
            arrays.append(pa.StructArray.from_arrays(lists, ["ids", "distances"]))
        if rows is not None:
            arrays.append(_lists(rows[ids[first:last] - start].float().numpy(), pa.float32()))
        yield pa.record_batch(arrays, schema=schema)


def _lists(matrix: Any, kind: Any) -> Any:
    """A matrix (n, k) as n lists."""
    import numpy as np
    import pyarrow as pa

    n, k = matrix.shape
    offsets = pa.array(np.arange(0, n * k + 1, k, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(matrix.reshape(-1), kind))


def _token_columns(table: EmbeddingTable, ids: list[int]) -> list[Any]:
    """token_id, token_bytes, token_text and kind."""
    tokens = [None if table.vocabulary is None else table.vocabulary.token(row) for row in ids]
    return [
        ids,
        [None if t is None else t.key for t in tokens],
        [table.label(row) for row in ids],
        [table.kind(row) for row in ids],
    ]
