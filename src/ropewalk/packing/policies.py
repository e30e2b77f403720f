"""Which row a document goes into: a type for each way, no flags.

`InOrder` keeps the order of the stream; `BestFit` puts each document where it leaves the least
room, among the rows that are still open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from ropewalk.errors import UsageError
from ropewalk.short import short


class OpenRows(Protocol):
    """The open rows, by number, and the room in each. What a row holds is the caller's matter."""

    def find(self, size: int) -> int | None:
        """An open row for a piece of `size` tokens, None where it needs a new one."""

    def roomiest(self) -> int | None:
        """The open row with the most room, None where no row is open."""

    def set(self, row: int, room: int) -> None:
        """Open a row, or note what room is left in an open one."""

    def remove(self, row: int) -> None:
        """A row is closed."""

    def surplus(self) -> int | None:
        """The row to close before another is opened, None while there may be one more."""


class Policy(Protocol):
    """A way to choose rows."""

    def open_rows_of(self, length: int) -> OpenRows:
        """A set of open rows of `length` tokens, empty."""


@short
@dataclass(frozen=True, slots=True)
class InOrder:
    """One row is open at a time; a document that does not fit closes it."""

    def open_rows_of(self, length: int) -> OpenRows:
        """The one open row."""
        return _ByRoom(length, 1)


@short
@dataclass(frozen=True, slots=True)
class BestFit:
    """Each document goes into the open row that it fills best, or into a new one.

    At most `open_rows` are open, which bounds memory; opening one more closes the fullest. Rows
    come out in another order than documents came in. Raises UsageError below 1.
    """

    open_rows: int = 1024

    def __post_init__(self) -> None:
        if self.open_rows < 1:
            raise UsageError(f"{self.open_rows} open rows are impossible: at least 1 is needed")

    def open_rows_of(self, length: int) -> OpenRows:
        """The open rows, found by their room."""
        return _ByRoom(length, self.open_rows)


@dataclass(slots=True)
class _ByRoom:
    """Rows by the room in them. Bit n of `_bits` says that some row has room for n tokens, so
    that the tightest one is found by shifts instead of a walk over thousands of rows.
    """

    length: int
    most: int
    _rooms: dict[int, int] = field(default_factory=dict)
    _rows: dict[int, dict[int, None]] = field(default_factory=dict)
    _bits: int = 0

    def find(self, size: int) -> int | None:
        fitting = self._bits >> size
        if not fitting:
            return None
        return next(iter(self._rows[size + (fitting & -fitting).bit_length() - 1]))

    def roomiest(self) -> int | None:
        return next(iter(self._rows[self._bits.bit_length() - 1])) if self._bits else None

    def set(self, row: int, room: int) -> None:
        if row in self._rooms:
            self.remove(row)
        self._rooms[row] = room
        self._rows.setdefault(room, {})[row] = None
        self._bits |= 1 << room

    def remove(self, row: int) -> None:
        room = self._rooms.pop(row)
        same = self._rows[room]
        del same[row]
        if not same:
            del self._rows[room]
            self._bits &= ~(1 << room)

    def surplus(self) -> int | None:
        return self.find(0) if len(self._rooms) >= self.most else None
