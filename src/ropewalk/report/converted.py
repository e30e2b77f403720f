"""Converted position settings as a document: options to copy, a file's path, or a configuration."""

from __future__ import annotations

from dataclasses import asdict

from ropewalk.report.document import Block, Document, Listing, Prose, ToCopy
from ropewalk.verbs.converting import Converted, config_text


def document(converted: Converted) -> Document:
    """What to copy, and what to know beside it."""
    blocks: list[Block] = [Prose(remark) for remark in converted.remarks]
    if converted.options is not None:
        blocks.append(ToCopy(converted.options, ""))
    elif converted.written is not None:
        blocks.append(f"wrote {converted.written}")
    else:
        blocks.append(Listing(config_text(converted.config)))
    title = f"Position settings for {converted.to}"
    return Document(title, tuple(blocks), "ropewalk convert")


def values(converted: Converted) -> dict[str, object]:
    """Everything as plain JSON values."""
    return {"schema": "ropewalk.convert/1", **asdict(converted)}
