"""Results as people read them: one document per result, rendered for a terminal, a page, or JSON.

`document_of` finds the function that makes a result's document: `document` of the file that
`HOMES` names for it. `terminal`, `html` and `as_json` render any document. A file of this room is
a result (`audit`, `proof`, `extension`, ...) or one of the renderers' parts: `document` is the
model, `lines` and `map_lines` the terminal, `page` and `svg` the page, `values` the
plain values, `text` makes anything from a file safe to print and breaks it into lines. Nothing is
measured here.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ropewalk.errors import UsageError
from ropewalk.report.document import Document
from ropewalk.report.lines import terminal
from ropewalk.report.values import as_json, frame, plain

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "Document",
    "as_json",
    "document_of",
    "framed",
    "html",
    "terminal",
    "to_dict",
    "to_pandas",
]

HOMES = {
    "Audit": "audit",
    "Comparison": "comparison",
    "Converted": "converted",
    "Extension": "extension",
    "LossReport": "losses",
    "Packed": "packed",
    "Proof": "proof",
    "RunDiff": "diff",
    "RunSummary": "proof",
    "ServedWindow": "served_window",
    "Story": "chapters",
    "Trace": "traced",
    "Tuned": "tune",
}
"""Each class of results that has a report, by its name, and the file that makes its document.

Such a file has `document(result)`, and `values(result)` where its plain values are more than the
fields of the result.
"""


def document_of(result: Any, **options: Any) -> Document:
    """The document of a result; options as the function of that result takes them.

    Raises UsageError for what has no report.
    """
    made: Document = _home(result, "document")(result, **options)
    return made


def html(document: Document) -> str:
    """The document as one HTML page. Raises MissingPartError without jinja2."""
    from ropewalk.report import page

    return page.html(document)


def framed(document: Document) -> str:
    """The page as a notebook shows it. Raises as `html`."""
    from ropewalk.report import page

    return page.framed(document)


def to_dict(result: Any) -> dict[str, object]:
    """A result as plain JSON values, under its schema's name: what its command prints as JSON."""
    made: Callable[[Any], Any] = getattr(_module(result), "values", plain)
    found: dict[str, object] = made(result)
    return found


def to_pandas(result: Any, key: str = "") -> DataFrame:
    """A table of a result's report as a data frame: the one called `key`, or the first.

    Raises UsageError where there is none, MissingPartError without pandas.
    """
    return frame(document_of(result), key)


def _home(result: Any, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(_module(result), name)
    return found


def _module(result: Any) -> Any:
    for kind in type(result).__mro__:
        if kind.__name__ in HOMES:
            return import_module(f"ropewalk.report.{HOMES[kind.__name__]}")
    known = ", ".join(sorted(HOMES))
    raise UsageError(f"a {type(result).__name__} has no report; these have one: {known}")
