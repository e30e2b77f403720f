"""The page of a proof's summary, with any text in the place of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ropewalk.proof.summary import RunSummary
from ropewalk.report import proof
from ropewalk.report.document import Document, Widget
from ropewalk.report.prompts import CellPrompt, fitted


def render_html(
    summary: RunSummary,
    *,
    audit: Mapping[str, object] | None = None,
    audit_text: str = "",
    prompts: Sequence[CellPrompt] = (),
) -> str:
    """The page of a summary, with any text in the place of an audit."""

    def made(detail: Mapping[str, bool], reader: Widget) -> Document:
        found = proof.document(summary, tasks=None, audit=None, reader=reader, **detail)
        if audit is None and not audit_text:
            return found
        part = proof.audit_part(audit_text, audit or {})
        return replace(found, blocks=(*found.blocks, part))

    return fitted(made, summary, prompts)
