"""pyarrow, where it is needed and installed."""

from __future__ import annotations

from typing import Any

from ropewalk.errors import MissingPartError


def arrow() -> tuple[Any, Any]:
    """pyarrow and pyarrow.parquet. Raises MissingPartError without them."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingPartError(
            "Parquet needs the package pyarrow, which is not installed; "
            'install it with: pip install "ropewalk[look]"'
        ) from error
    return pa, pq
