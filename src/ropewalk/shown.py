"""What every result of a verb can do beside holding its numbers: be printed, shown and taken apart.

A result is read in a terminal (`print`), in a notebook, by a program (`to_dict`) and in a data
frame (`to_pandas`). The reports stand on a floor above all results, so they are imported when one
of these is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame


class Shown:
    """A base for results: the same report as the command's, wherever they are looked at."""

    __slots__ = ()

    def __str__(self) -> str:
        """The report as its command prints it, in 80 columns without colours."""
        report = _report()
        said: str = report.terminal(report.document_of(self), 80)
        return said

    def _repr_html_(self) -> str:
        """The report's page in a frame, for a notebook. Raises MissingPartError without jinja2."""
        report = _report()
        page: str = report.framed(report.document_of(self))
        return page

    def to_dict(self) -> dict[str, object]:
        """Everything as plain JSON values: what the command prints with --json."""
        found: dict[str, object] = _report().to_dict(self)
        return found

    def to_pandas(self, key: str = "") -> DataFrame:
        """A table of the report as a data frame: the one called `key`, or the first.

        Raises UsageError where there is none, MissingPartError without pandas.
        """
        found: DataFrame = _report().to_pandas(self, key)
        return found


def _report() -> Any:
    return import_module("ropewalk.report")
