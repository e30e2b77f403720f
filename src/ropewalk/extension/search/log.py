"""What a search has tried, a line of JSON each: whole after a kill at any moment.

The first line says which search it is. A line is written in one call and reaches the disk before
the next candidate is tried; a last line that was cut off is taken away when the file is opened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ropewalk.errors import StoreError
from ropewalk.extension.search.candidate import DivisorCandidate
from ropewalk.proof.lock import FolderLock
from ropewalk.short import short

SEARCH_LOG = "search.jsonl"


@short
@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate and what it scored. `source` is a method's name, or "child".

    `score` is the mean log-probability of the needles in nats, `loss` that of short text.
    """

    candidate: DivisorCandidate
    score: float
    loss: float
    source: str


class SearchLog:
    """The tries of one search, oldest first; one process at a time. A context manager."""

    def __init__(self, folder: Path, identity: Mapping[str, object]) -> None:
        """Raises StoreError where it cannot be written, is damaged, or is another search's."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot(folder, error) from error
        self._lock = FolderLock.take(folder)
        self._path = folder / SEARCH_LOG
        self.tried: list[Tried] = []
        try:
            self._open(json.loads(json.dumps(identity)))
        except BaseException:
            self._lock.release()
            raise

    def add(self, tried: Tried) -> None:
        """Keep a try. Raises StoreError when it cannot be kept; the file is then as before."""
        self._append(
            {
                "divisors": list(tried.candidate.divisors),
                "amplitude": tried.candidate.amplitude,
                "score": tried.score,
                "loss": tried.loss,
                "source": tried.source,
            }
        )
        self.tried.append(tried)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def _open(self, identity: object) -> None:
        try:
            held = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise _cannot(self._path, error) from error
        whole, end, _ = held.rpartition(b"\n")
        lines = whole.split(b"\n") if end else []
        if not lines:
            self._cut(0)
            self._append({"search": identity})
            return
        try:
            first, *rest = [json.loads(line) for line in lines]
            if first.get("search") != identity:
                raise StoreError(
                    f"{self._path} holds another search (another model, length, seed or prompts); "
                    "name another --work folder"
                )
            self.tried = [_read(each) for each in rest]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StoreError(
                f"{self._path} is damaged ({error}); remove it to begin the search anew"
            ) from error
        self._cut(len(whole) + 1)

    def _cut(self, size: int) -> None:
        """Take away what was written behind the last whole line."""
        try:
            with self._path.open("ab") as file:
                file.truncate(size)
        except OSError as error:
            raise _cannot(self._path, error) from error

    def _append(self, values: Mapping[str, object]) -> None:
        line = json.dumps(values, allow_nan=False).encode() + b"\n"
        try:
            with self._path.open("ab", buffering=0) as file:
                before = file.tell()
                try:
                    if file.write(line) != len(line):
                        raise OSError(28, "no space left on device")
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(before)
                    raise
        except OSError as error:
            raise _cannot(self._path, error) from error


def _read(values: Mapping[str, object]) -> Tried:
    """Raises KeyError, TypeError or ValueError for a line that is none."""
    divisors = values["divisors"]
    if not isinstance(divisors, list):
        raise TypeError("divisors are a list")
    score, loss, amplitude = (float(str(values[key])) for key in ("score", "loss", "amplitude"))
    candidate = DivisorCandidate(tuple(float(each) for each in divisors), amplitude)
    return Tried(candidate, score, loss, str(values["source"]))


def _cannot(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {error.strerror or error}; free some space, or name another "
        "--work folder"
    )
