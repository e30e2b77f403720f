"""A document, and any result, as plain values: what `json.dumps` and a data frame take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING

from ropewalk.errors import MissingPartError, UsageError
from ropewalk.report.document import (
    Block,
    Chart,
    Details,
    Document,
    Folded,
    Heading,
    HeatMap,
    Listing,
    On,
    Prose,
    Table,
    ToCopy,
)

if TYPE_CHECKING:
    from pandas import DataFrame


def as_json(document: Document) -> dict[str, object]:
    """The document as plain JSON values: its parts in order, numbers as they are."""
    blocks = [values for block in document.blocks for values in _block(block)]
    return {"title": document.title, "command": document.command, "parts": blocks}


def plain(value: object) -> object:
    """Dataclasses, tuples, paths and enumerations as JSON has them.

    A number that is not finite, which JSON lacks, becomes its text.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | Set):
        return [plain(each) for each in value]
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value) if isinstance(value, PurePath) else repr(value)


def frame(document: Document, key: str = "") -> DataFrame:
    """A table of a document as a data frame: the one called `key`, or the first.

    Raises UsageError where there is none, MissingPartError without pandas.
    """
    try:
        import pandas
    except ImportError as error:
        raise MissingPartError(
            "a data frame needs the package pandas, which is not installed; install it with: "
            "pip install pandas"
        ) from error
    tables = [table for table in document.tables() if not key or table.key == key]
    if not tables:
        raise UsageError(f"{document.title} holds no table{f' called {key}' if key else ''}")
    return pandas.DataFrame.from_records(tables[0].values())


def _block(block: Block) -> Iterator[dict[str, object]]:
    match block:
        case str():
            if block.strip():
                yield {"text": block.strip()}
        case Heading():
            yield {"heading": block.text}
        case Prose():
            yield {"text": block.text}
        case Details():
            yield {
                "facts": {
                    each.name: plain(each.text if each.value is None else each.value)
                    for each in block.details
                }
            }
        case Table():
            yield {"table": block.key, "rows": plain(block.values())}
        case ToCopy():
            yield {"lead": block.lead, "copy": block.line}
        case Listing():
            yield {"listing": block.text}
        case HeatMap():
            yield _map(block)
        case Chart():
            yield {
                "chart": block.title,
                "lines": [
                    {"name": each.name, "points": plain(each.points)} for each in block.lines
                ],
            }
        case On() | Folded():
            yield from _blocks(block.blocks)
        case _:
            pass


def _blocks(blocks: Iterable[Block]) -> Iterator[dict[str, object]]:
    for block in blocks:
        yield from _block(block)


def _map(block: HeatMap) -> dict[str, object]:
    return {
        "map": block.title,
        "columns": list(block.columns),
        "rows": list(block.rows),
        "shares": [[each.share for each in row] for row in block.fields],
        "texts": [[each.text for each in row] for row in block.fields],
    }
