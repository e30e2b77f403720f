"""What the GPU tuning run has measured so far, kept so that a run that is cut off leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.closing import Row, closing_line


class Report:
    """Lines and figures so far, in a file that is whole after every part."""

    def __init__(self, path: Path) -> None:
        self.path, self._lines = path, list[str]()
        self.figures: dict[str, Any] = {}

    def add(self, lines: Sequence[str], **figures: Any) -> None:
        """Print, and keep."""
        for line in lines:
            print(line, flush=True)
        self._lines += lines
        self.figures |= figures
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = [*self._lines, self.last()]
        self.path.write_text("\n".join(whole) + "\n", encoding="utf-8")

    def last(self) -> str:
        """The line of JSON: what was found before and after, and how fast it trained."""
        rows = [
            Row(f"pass keys at {int(length):,}, {when}", each["hits"], f"of {each['asked']}")
            for when in ("before", "after")
            for length, each in self.figures.get(when, {}).items()
        ]
        if "tuned" in self.figures:
            rows.append(Row("training", self.figures["tuned"]["tokens_a_second"], "tokens/s"))
        return closing_line("gpu_tune", rows, **self.figures)
