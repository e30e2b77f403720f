"""Kept answers: one SQLite file a run folder, one row a trial, one writer at a time.

Every row is committed before the next prompt is asked (rollback journal, synchronous FULL): a
killed process loses at most the answer it was working on. The rollback journal is used rather
than a write-ahead log because it also works on network file systems and leaves one file. A
second process may read while one writes. An exclusive lock, held by the operating system for
the life of the writer, keeps a second writer out and vanishes with its process.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self

from ropewalk.errors import StoreError
from ropewalk.proof.cells import UNANSWERED, Row
from ropewalk.proof.export import COLUMNS, from_record, to_record
from ropewalk.proof.facts import IDENTITY, RunFacts, read, written
from ropewalk.proof.lock import FolderLock

DATABASE = "results.sqlite"
SCHEMA_VERSION: Final = 4
APPLICATION_ID: Final = 0x524F5045
"""The bytes "ROPE" in the file's header say whose file it is."""

_DOCUMENT = (
    ". A document holds the facts of all lengths and depths, so that with others its prompts are "
    "other prompts"
)

_SCHEMA = (
    "CREATE TABLE facts (record TEXT NOT NULL)",
    """
CREATE TABLE answers (
    prompt_hash TEXT PRIMARY KEY,
    length INTEGER NOT NULL, depth REAL NOT NULL, trial INTEGER NOT NULL, control TEXT NOT NULL,
    task TEXT NOT NULL,
    actual_length INTEGER NOT NULL, actual_depth REAL NOT NULL,
    key TEXT NOT NULL, value TEXT NOT NULL,
    outcome TEXT NOT NULL, log_probability REAL, printed TEXT NOT NULL, seconds REAL NOT NULL,
    details TEXT NOT NULL, sharing TEXT NOT NULL, tokens_read INTEGER NOT NULL,
    prompt_text TEXT NOT NULL,
    UNIQUE (length, depth, trial, control, task, sharing)
)
""",
)

_COLUMNS = ", ".join(COLUMNS)

# A cell has one prompt. Should it be laid out otherwise by now (by another version of something
# that no fact names), what was said to the older prompt is no answer to this one.
_DROP_OTHER = """
DELETE FROM answers WHERE length = ? AND depth = ? AND trial = ? AND control = ? AND task = ?
    AND sharing = ? AND prompt_hash <> ?
"""

_OPEN = ", ".join(f"'{outcome}'" for outcome in UNANSWERED)
# What is no answer may be replaced; an answer may not.
_ADD = f"""
INSERT INTO answers ({_COLUMNS}, prompt_text) VALUES ({", ".join("?" * (len(COLUMNS) + 1))})
ON CONFLICT (prompt_hash) DO UPDATE SET
    outcome = excluded.outcome, log_probability = excluded.log_probability,
    printed = excluded.printed, seconds = excluded.seconds, details = excluded.details,
    sharing = excluded.sharing, tokens_read = excluded.tokens_read,
    prompt_text = excluded.prompt_text
WHERE answers.outcome IN ({_OPEN})
"""  # noqa: S608 - only constants of this module


class Store:
    """The answers of one run folder. Open it with `Store.open` or `Store.read`, close it always.

    A context manager; every method raises StoreError when the file cannot do what is asked.
    """

    def __init__(
        self, folder: Path, connection: sqlite3.Connection, lock: FolderLock | None
    ) -> None:
        """Used by `open` and `read`; a store without a lock does not write."""
        self.folder = folder
        self._connection = connection
        self._lock = lock

    @classmethod
    def open(cls, folder: Path, facts: RunFacts) -> Self:
        """Open `folder` to write, making it if need be, and keep `facts` with the answers.

        Raises StoreError when the folder cannot be written, another process writes there, the
        file is damaged or of another version, or `facts` name another run (IDENTITY) than the
        one whose answers it holds.
        """
        with _explained(folder, "make the run folder"):
            folder.mkdir(parents=True, exist_ok=True)
        lock = FolderLock.take(folder)
        try:
            with _explained(folder, "open the results"):
                connection = sqlite3.connect(folder / DATABASE, timeout=30)
            store = cls(folder, connection, lock)
            try:
                if not store._begin(facts):
                    store._adopt(facts)
            except StoreError:
                connection.close()
                raise
        except StoreError:
            lock.release()
            raise
        return store

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Open the results of `folder` to read, also while a run writes there.

        Raises StoreError when there are none, or none yet, or the file is damaged or of another
        version.
        """
        path = folder / DATABASE
        if not path.is_file():
            raise StoreError(
                f"{folder} holds no results: there is no {DATABASE} in it; name the folder that "
                "was given to ropewalk prove --out."
            )
        with _explained(folder, "open the results"):
            # Not mode=ro: a reader must be able to roll back what a killed writer left.
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=30
            )
        store = cls(folder, connection, None)
        try:
            with _explained(folder, "read the results"):
                connection.execute("PRAGMA query_only = ON")
                if store._is_empty():
                    raise StoreError(
                        f"{folder} holds no results yet: its run has only just begun, or was "
                        "stopped before it had. The command that made the folder goes on with it."
                    )
                store._check_version()
        except StoreError:
            connection.close()
            raise
        return store

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close the file and let the next writer in. Closing twice does nothing."""
        self._connection.close()
        if self._lock is not None:
            self._lock.release()

    def done(self, prompt_hash: str) -> bool:
        """Whether this prompt has an answer, which UNANSWERED outcomes are not."""
        with _explained(self.folder, "read the results"):
            row = self._connection.execute(
                f"SELECT 1 FROM answers WHERE prompt_hash = ? AND outcome NOT IN ({_OPEN})",  # noqa: S608 - only constants
                (prompt_hash,),
            ).fetchone()
        return row is not None

    def add(self, row: Row, prompt_text: str) -> None:
        """Keep a row for good before returning; replaces what was no answer to the same prompt.

        An answer of the same cell and sharing to another prompt makes room for it. Raises
        StoreError when it cannot be written (then it is not done) or when the prompt has an
        answer already (then that one stays).
        """
        with (
            _explained(self.folder, "keep an answer", "; the answers before it are kept"),
            self._connection,
        ):
            cell = row.cell
            asked = (cell.length, cell.depth, cell.trial, cell.control.value, cell.task)
            self._connection.execute(_DROP_OTHER, (*asked, row.sharing.value, row.prompt_hash))
            changed = self._connection.execute(_ADD, (*to_record(row), prompt_text)).rowcount
        if changed != 1:
            raise StoreError(
                f"the prompt {row.prompt_hash} has an answer in {self.folder} already: ask "
                "done() before asking a model."
            )

    def rows(self) -> list[Row]:
        """Every kept row, ERRORs included, ordered by cell."""
        with _explained(self.folder, "read the results"):
            found = self._connection.execute(
                f"SELECT {_COLUMNS} FROM answers "  # noqa: S608 - only constants of this module
                "ORDER BY length, depth, trial, control, task, sharing, prompt_hash"
            ).fetchall()
            return [from_record(record) for record in found]

    def prompt_text(self, prompt_hash: str) -> str:
        """The exact prompt of a row. Raises StoreError when there is no such row."""
        with _explained(self.folder, "read the results"):
            row = self._connection.execute(
                "SELECT prompt_text FROM answers WHERE prompt_hash = ?", (prompt_hash,)
            ).fetchone()
        if row is None:
            raise StoreError(f"{self.folder} holds no prompt {prompt_hash}.")
        return str(row[0])

    def facts(self) -> RunFacts:
        """What is known of the run. Raises StoreError for what cannot be read."""
        with _explained(self.folder, "read the results"):
            (record,) = self._connection.execute("SELECT record FROM facts").fetchone()
        return read(record)

    def note(self, facts: RunFacts) -> None:
        """Keep what is known of the run by now, in the place of what was known before."""
        with _explained(self.folder, "keep the facts of the run"), self._connection:
            self._keep(facts)

    def _keep(self, facts: RunFacts) -> None:
        self._connection.execute("DELETE FROM facts")
        self._connection.execute(
            "INSERT INTO facts (record) VALUES (?)", (written(facts).decode(),)
        )

    def _begin(self, facts: RunFacts) -> bool:
        """Make the tables in a new file, with the facts; check the version of an old one.

        Whether it was new.
        """
        with _explained(self.folder, "open the results"):
            self._connection.execute("PRAGMA synchronous = FULL")
            if not self._is_empty():
                self._check_version()
                return False
            # One transaction: a reader, or a process killed here, finds an empty file or all of it.
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                for statement in (
                    *_SCHEMA,
                    f"PRAGMA application_id = {APPLICATION_ID}",
                    f"PRAGMA user_version = {SCHEMA_VERSION}",
                ):
                    self._connection.execute(statement)
                self._keep(facts)
            return True

    def _is_empty(self) -> bool:
        return not self._connection.execute("SELECT 1 FROM sqlite_master").fetchone()

    def _check_version(self) -> None:
        path = self.folder / DATABASE
        (owner,) = self._connection.execute("PRAGMA application_id").fetchone()
        if owner != APPLICATION_ID:
            raise StoreError(
                f"{path} is not a results file of ropewalk: choose another --out folder."
            )
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version != SCHEMA_VERSION:
            way_out = "update ropewalk, or choose" if version > SCHEMA_VERSION else "choose"
            raise StoreError(
                f"{path} is of format {version}, and this ropewalk reads format {SCHEMA_VERSION}: "
                f"{way_out} another --out folder."
            )

    def _adopt(self, facts: RunFacts) -> None:
        """Refuse the facts of another run; keep these alone.

        What an earlier command found out, its calibration among it, is not this one's.
        """
        known, given = self.facts().identity(), facts.identity()
        differing = [name for name in IDENTITY if known[name] != given[name]]
        if "sharing" in differing and "document" in differing:
            # That one has a document and the other none is said by then.
            differing.remove("document")
        if differing:
            said = "; ".join(
                f"{name} was {known[name] or 'not stated'} and is {given[name] or 'not stated'}"
                for name in differing
            )
            why = _DOCUMENT if "document" in differing else ""
            raise StoreError(
                f"{self.folder} holds the answers of another run: {said}{why}. Move it away, or "
                "choose another --out folder."
            )
        self.note(facts)


@contextmanager
def _explained(folder: Path, doing: str, kept: str = "") -> Iterator[None]:
    """Turn an error of SQLite or the operating system into one sentence."""
    try:
        yield
    except (sqlite3.Error, OSError, ValueError) as error:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_FULL" or getattr(error, "errno", None) == errno.ENOSPC:
            way_out = "make room on the disk, and the same command goes on"
        elif isinstance(error, UnicodeEncodeError):
            way_out = "a text that is not valid Unicode cannot be kept"
        elif name in ("SQLITE_NOTADB", "SQLITE_CORRUPT") or isinstance(error, ValueError):
            way_out = f"{DATABASE} is damaged: move it away, or choose another --out folder"
        else:
            way_out = "check that the folder can be written, or choose another --out folder"
        raise StoreError(f"cannot {doing} in {folder} ({error}){kept}; {way_out}.") from error


def try_folder(folder: Path) -> None:
    """Refuse, while it is cheap, a folder that cannot be written or that another run holds.

    Nothing is held or left here: the store takes the folder for good once it knows which run
    this is.
    """
    try:
        if folder.is_dir():
            FolderLock.take(folder).release()
            return
        above = next(parent for parent in folder.absolute().parents if parent.exists())
        with TemporaryDirectory(prefix=".ropewalk-", dir=above):
            pass
    except OSError as error:
        raise StoreError(
            f"cannot make the run folder {folder} ({error.strerror}); choose another --out folder"
        ) from error
    if folder.exists():
        raise StoreError(f"the run folder {folder} is a file; choose another --out folder")
