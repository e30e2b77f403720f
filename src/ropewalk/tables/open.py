"""Open the embedding tables of a checkpoint without loading the model.

    table = open_table("smollm2")            # the input table, as stored
    table[[5, 17]]                           # two rows, and no other byte of the table
    table.label(5), table.line()             # the token of row 5; what this is and what was read
    open_tables(PATH).tie.sentence           # is the head tied?

Only the shard that holds a table is opened, and only rows that are asked for are read.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ropewalk.dialects.hf.ties import UNKNOWN
from ropewalk.errors import MissingPartError, ModelFileError, UsageError
from ropewalk.kernels.arrays import Array, as_array, as_tensor
from ropewalk.models.resolve import resolve
from ropewalk.short import short_with
from ropewalk.tables.as_used import Transform, transforms_of
from ropewalk.tables.formats.find import is_tables_file, open_checkpoint
from ropewalk.tables.formats.gguf import GgufCheckpoint
from ropewalk.tables.formats.npy import NpyCheckpoint, NpzCheckpoint
from ropewalk.tables.formats.shards import Checkpoint
from ropewalk.tables.index import Index, chosen, within
from ropewalk.tables.roles import (
    ROLES,
    PossibleTable,
    Role,
    TableFacts,
    Tie,
    candidates,
    choose,
    facts_of_config,
    facts_of_gguf,
    named,
    packed_head,
)
from ropewalk.tables.stored import Matrix, Way, check_rows, gather
from ropewalk.tables.vocabulary import Vocabulary
from ropewalk.tables.vocabulary_files import find_vocabulary, from_gguf

if TYPE_CHECKING:
    import torch
    from torch import Tensor

View = Literal["raw", "as_used"]
"""Rows as the file stores them, or as the model uses them."""

TILE_ROWS = 8192


@short_with("name", "role", "shape", "storage", "view")
@dataclass(frozen=True)
class EmbeddingTable:
    """One table: rows (rows, width) by token id, or by position.

    `view` and `transforms` say what was done to the rows that are handed out: nothing in "raw".
    `vocabulary` is None for positions, and where no tokenizer lies beside the table. Tables do
    not change; `as_used` gives another object that reads the same file.

    Rows come as tensors, or, from `take`, `array_tiles` and `pages`, as arrays, which need no
    torch to be imported; the numbers are the same.
    """

    matrix: Matrix
    role: Role
    tables: ModelTables
    view: View = "raw"
    transforms: tuple[Transform, ...] = ()

    @property
    def name(self) -> str:
        """The tensor's name in its file."""
        return self.matrix.name

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and width."""
        return self.matrix.rows, self.matrix.width

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.matrix.rows

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return self.matrix.width

    @property
    def storage(self) -> str:
        """How the file keeps a row: "BF16", "Q6_K"."""
        return self.matrix.storage

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows that are handed out: as stored; float32 for quantised storage."""
        return self.matrix.dtype

    @property
    def size(self) -> int:
        """Bytes of the whole table in its file."""
        return self.matrix.size

    @property
    def bytes_read(self) -> int:
        """Bytes of the table that were read so far; more than `size` once rows are read again."""
        return self.matrix.reads.of(self.name)

    @property
    def vocabulary(self) -> Vocabulary | None:
        """What the rows stand for; None for positions, and without a tokenizer."""
        return None if self.role == "positions" else self.tables.vocabulary

    @property
    def tokens(self) -> int | None:
        """How many tokens the vocabulary has, by its highest id; None without one."""
        return None if self.vocabulary is None else len(self.vocabulary)

    def __len__(self) -> int:
        """How many rows there are."""
        return self.matrix.rows

    def __getitem__(self, index: Index) -> Tensor:
        """As `tensor[index]` of torch: a row (width,), rows (..., width), or numbers of them.

        Integers, negative ones from the end, slices, masks with one bool for each row, and
        integers of any shape and width in tensors, arrays and lists; nested lists as one tensor.
        Only rows that are named are read. Raises RowError, an IndexError, for rows and columns
        that are not there and masks of another length, UsageError for anything else.
        """
        asked = chosen(index, self.shape, self._called)
        return within(as_tensor(self._through(gather(self.matrix, asked.ids))), asked, self._called)

    def __iter__(self) -> Iterator[Tensor]:
        """The rows (width,) in their order, read once from end to end."""
        for _, tile in self.tiles():
            yield from tile

    def take(self, ids: Iterable[int]) -> Array:
        """The rows of several ids (n, width), each from 0 on. Raises RowError, UsageError."""
        return self._through(gather(self.matrix, check_rows(ids, self.rows, self._called)))

    def tiles(self, rows: int = TILE_ROWS) -> Iterator[tuple[int, Tensor]]:
        """The whole table from end to end: the number of a first row, and up to `rows` rows.

        Raises UsageError for fewer than one row.
        """
        for start, tile in self.array_tiles(rows):
            yield start, as_tensor(tile)

    def array_tiles(self, rows: int = TILE_ROWS) -> Iterator[tuple[int, Array]]:
        """As `tiles`."""
        if rows < 1:
            raise UsageError(f"a tile of {rows} rows was asked for; it has 1 or more")
        for start in range(0, self.rows, rows):
            yield start, self._through(self.matrix.read(start, min(start + rows, self.rows)))

    def whole(self, way: Way = "mmap") -> Tensor:
        """All rows (rows, width). Mapped plain floats are the file's own pages and take no memory
        of their own; "stream" reads once from end to end, which network disks need.
        """
        return as_tensor(self._through(self.matrix.whole(way)))

    def pages(self) -> Array | None:
        """All rows as the file's own pages, where it holds the very numbers that are handed out:
        plain floats, not transformed. None for any other table.
        """
        return self.matrix.whole() if self.matrix.plain and not self.transforms else None

    def as_used(self) -> EmbeddingTable:
        """The rows as the model uses them: scaled, or normed, where it does so after the lookup.

        Raises UsageError where the configuration does not say, and for tables other than the
        input's, which are used as they are.
        """
        if self.role != "input":
            raise UsageError(
                f"the {self.role} table is used as it is stored; only the input table is scaled "
                "or normed after the lookup"
            )
        made = transforms_of(self.tables.facts, self.tables.checkpoint)
        return replace(self, view="as_used", transforms=made)

    def label(self, row: int) -> str:
        """What a row stands for, in a form that no other row of the table has."""
        check_rows([row], self.rows, self._called)
        if self.role == "positions":
            position = row - self.position_offset
            return f"<row {row}: no position>" if position < 0 else f"position {position}"
        return f"<id {row}>" if self.vocabulary is None else self.vocabulary.label(row)

    def kind(self, row: int) -> str:
        """text, byte, special, unused or "no token"; "position" or "row" without a vocabulary."""
        if self.vocabulary is None:
            return "position" if self.role == "positions" else "row"
        token = self.vocabulary.token(row)
        return "no token" if token is None else token.kind.value

    def with_token(self) -> Array | None:
        """(rows,) bool: rows that stand for a token, or a position; None where all may."""
        if self.role == "positions":
            return np.arange(self.rows) >= self.position_offset
        if self.vocabulary is None:
            return None
        tokens = self.vocabulary.tokens[: self.rows]
        known = np.zeros(self.rows, np.bool_)
        known[: len(tokens)] = [token is not None for token in tokens]
        return known

    @property
    def position_offset(self) -> int:
        """Rows before that of position 0, in a table of positions."""
        facts = self.tables.facts
        return 0 if facts is None or self.role != "positions" else facts.position_offset

    def coverage(self) -> str:
        """Rows against tokens, in words: rows without a token, tokens without a row."""
        if self.vocabulary is None:
            return f"{self.rows:,} rows, no vocabulary"
        more = len(self.vocabulary) - self.rows
        if more > 0:
            return f"{self.rows:,} rows, {len(self.vocabulary):,} tokens, {more:,} without a row"
        bare = self.rows - sum(t is not None for t in self.vocabulary.tokens)
        return f"{self.rows:,} rows, {self.rows - bare:,} tokens, {bare:,} rows without a token"

    def line(self) -> str:
        """What this is and what it has read so far, in one line."""
        done = (
            ", ".join(t.name for t in self.transforms)
            or "as stored, for nothing in the configuration changes rows"
        )
        view = self.view if self.view == "raw" else f"as used: {done}"
        rows, width = self.shape
        return (
            f"{self.role} table {self.name}, {rows:,} x {width:,} {self.storage}, {view}; "
            f"{self.matrix.reads.line(self.name, self.size)}"
        )

    @property
    def _called(self) -> str:
        return f"the {self.role} table {self.name!r}"

    def _through(self, rows: Array) -> Array:
        for transform in self.transforms:
            rows = as_array(transform.apply(as_tensor(rows)))
        return rows


@short_with("title")
@dataclass(frozen=True)
class ModelTables:
    """The tables of one checkpoint. `facts` is what its configuration says, None without one."""

    title: str
    checkpoint: Checkpoint
    facts: TableFacts | None

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary inside a GGUF, or in the folder of the table; None for none."""
        path = self.checkpoint.path
        if isinstance(self.checkpoint, GgufCheckpoint):
            return from_gguf(path)
        return find_vocabulary(path if path.is_dir() else path.parent)

    @cached_property
    def tie(self) -> Tie:
        """Whether the head is the input table. Raises UsageError for several heads."""
        names = self.checkpoint.names()
        head = choose(self.checkpoint, "output", self.facts) or packed_head(names)
        said = UNKNOWN if self.facts is None else self.facts.tying
        gguf = isinstance(self.checkpoint, GgufCheckpoint)
        return Tie(said, head, gguf, alone=head is not None and not named(names, "input"))

    def candidates(self, role: Role = "input") -> list[PossibleTable]:
        """Every tensor that may be this table; reads headers."""
        return candidates(self.checkpoint, role, self.facts)

    def table(self, role: Role = "input", tensor: str | None = None) -> EmbeddingTable:
        """The table with this role, or the tensor of this name in it.

        Of two that are tied, one is enough in the file: by the configuration, or by the default
        of the family. Raises UsageError that lists what may be meant where names do not decide,
        ModelFileError for a shard or a head that is missing.
        """
        if role not in ROLES:
            raise UsageError(f"the table's role is {role!r}; choose one of {', '.join(ROLES)}")
        if tensor is None:
            tensor = self._only(role)
        return EmbeddingTable(self.checkpoint.matrix(tensor), role, self)

    def _only(self, role: Role) -> str:
        names = self.checkpoint.names()
        if isinstance(self.checkpoint, NpyCheckpoint | NpzCheckpoint) and len(names) == 1:
            return names[0]
        found = self.tie.head if role == "output" else choose(self.checkpoint, role, self.facts)
        if found is not None:
            return found
        if role == "input" and self.tie.alone and self.tie.said.tied and self.tie.head:
            return self.tie.head
        if role == "output" and named(self.checkpoint.names(), "input"):
            try:
                tied = self.tie.tied
            except ModelFileError as error:
                raise ModelFileError(f"{self.checkpoint.path}: {error}") from error
            if tied:
                return self._only("input")
            remedy = (
                "put the model's config.json beside it"
                if self.facts is None
                else f"write tie_word_embeddings into {self.facts.where}"
            )
            raise UsageError(
                f"{self.checkpoint.path}: {self.tie.sentence}, so its output table is not known; "
                f"{remedy}, or choose a tensor with tensor=NAME"
            )
        listed = self.candidates(role)
        fitting = (
            f"; by their shape these fit: {', '.join(map(str, listed[:12]))}" if listed else ""
        )
        raise UsageError(
            f"{self.checkpoint.path} has no tensor with a name that is known for the {role} table"
            f"{fitting}. Choose one with tensor=NAME"
        )


def open_tables(name: str | Path) -> ModelTables:
    """The tables of a file, a folder, a known model or a hub id in the local cache.

    Reads headers and the configuration. Raises UnknownModelError, ConfigError and ModelFileError
    for what is not there or cannot be used, MissingPartError without torch.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingPartError(
            'reading tables needs torch, which is not installed: pip install "ropewalk[prove]"'
        )
    path = _own_path(name)
    if path is not None:
        title = path.resolve().name if path.is_dir() else path.stem
    else:
        files = resolve(str(name))
        path, title = files.path, files.title
        if path.name == "config.json":
            path = path.parent
    checkpoint = open_checkpoint(path)
    return ModelTables(title, checkpoint, _facts(path, checkpoint))


def open_table(
    model: str | Path,
    role: Role = "input",
    *,
    tensor: str | None = None,
    view: View = "raw",
) -> EmbeddingTable:
    """One embedding table of a model, opened lazily: `input`, `output` or `positions`.

    `model` is a file (safetensors, GGUF, npy, npz, torch state_dict), an index, a folder, a known
    model or a cached hub id. `tensor` names the tensor where several fit. `view` "as_used"
    applies the model's scale or norm to every row that is handed out.

    Raises UsageError for what cannot be done as asked, with the candidates listed,
    UnknownModelError for a name without files, ModelFileError for files that are damaged,
    missing, or pickles.
    """
    if view not in ("raw", "as_used"):
        raise UsageError(f"the view is {view!r}; choose 'raw' or 'as_used'")
    table = open_tables(model).table(role, tensor)
    return table.as_used() if view == "as_used" else table


def _own_path(name: str | Path) -> Path | None:
    """The folder or the file of tables that a name is; None for what `resolve` must find."""
    if not str(name).strip():
        return None
    try:
        path = Path(name).expanduser()
        return path if path.is_dir() or (path.is_file() and is_tables_file(path)) else None
    except (OSError, ValueError, RuntimeError):
        # Too long a name, a null byte, a home of nobody: `resolve` says what is wrong.
        return None


def _facts(path: Path, checkpoint: Checkpoint) -> TableFacts | None:
    if isinstance(checkpoint, GgufCheckpoint):
        return facts_of_gguf(checkpoint.header)
    config = (path if path.is_dir() else path.parent) / "config.json"
    return facts_of_config(config) if config.is_file() else None
