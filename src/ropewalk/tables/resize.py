"""A table made longer or shorter, with everything that hangs on it, and a report of each row.

What goes wrong elsewhere, and is refused or reported here: an untied head that starts anew, a
tied one that comes apart, trained rows behind the tokenizer's last id that vanish, padded rows
that drag the mean, new rows that were to be sampled and are all the mean.

New rows come from one of three rules. The mean of the trained rows keeps the model's predictions
close to what they were (Hewitt, "Initializing New Word Embeddings for Pretrained Language Models",
2021): a new token then takes at most its even share of the probability. Sampling around the mean
tells new tokens apart. The mean of the pieces into which the old tokenizer cuts the new token
keeps what the model knows of them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from ropewalk.errors import UsageError
from ropewalk.short import short

_NOTHING = range(0)


@short
@dataclass(frozen=True, slots=True)
class TableChange:
    """One parameter before and after; the SHA-256 are of the rows that were to be kept."""

    name: str
    rows_before: int
    rows_after: int
    kept: int
    hash_before: str
    hash_after: str


@short
@dataclass(frozen=True, slots=True)
class Resized:
    """What `resize` did: each parameter, the origin of each row that is new, the rows that went.

    `tokens` rows belong to tokens and the rows behind them, if any, to none. `dropped` rows held
    values, and were cut off or given to a new token. `tied` is whether the head shares the table,
    None where none was given. An optimizer that holds the old parameters has to be made anew.
    """

    tokens: int
    tables: tuple[TableChange, ...]
    origins: tuple[RowOrigin, ...]
    dropped: tuple[int, ...]
    tied: bool | None


@dataclass(frozen=True, slots=True)
class _Plan:
    """Row numbers of the change.

    The `kept` first rows belong to tokens and stay, `fresh` ones are made, those of `behind` belong
    to no token and stay, and rows from its end up to `rows` are padding. `lost` held values.
    """

    kept: int
    fresh: range
    behind: range
    rows: int
    lost: tuple[int, ...]

    @property
    def padding(self) -> range:
        """Rows that are new and belong to no token."""
        return range(max(self.behind.stop, self.fresh.stop), self.rows)


def resize(
    table: nn.Embedding,
    tokens: int,
    *,
    old_tokens: int | None = None,
    rows: int | None = None,
    multiple: int = 1,
    new_rows: NewRows | None = None,
    dropping: range = _NOTHING,
    head: nn.Linear | None = None,
) -> Resized:
    """Give `table`, in place, rows for `tokens` tokens.

    - `old_tokens`: how many of its rows belong to tokens; all unless given. Rows behind them belong
      to none: they never enter a mean, new tokens may take them, and the others stay as they are.
      (Rows that are all 0, and that of `padding_idx`, never enter a mean either.)
    - `rows`: how many rows in all; unless given, as many as there are, or as the tokens need.
      `multiple` rounds that up, for kernels are quicker on round sizes. Rows without a token that
      come so are the mean: zeros would have the logit 0, and win where all others are negative.
    - `new_rows`: `Mean()` unless given, `MeanCovariance()` or `FromPieces(...)`.
    - `dropping`: the rows that may be cut off, where any row with values is.
    - `head`: an output layer (rows, width), changed alike; one that shares the table shares it
      afterwards. A bias, the head's or the table's own, gets the mean of the trained ones for
      new tokens, and the smallest for padding.

    Parameters are new objects of the same dtype, device and requires_grad. Raises UsageError for
    sizes that make no table, a head of other rows, a table spread over devices, values that are no
    numbers, rows that would be cut off unasked, and sampled rows that rounding makes equal; nothing
    is changed then.
    """
    plan = _plan(table, tokens, old_tokens, rows, multiple, dropping)
    tied = None if head is None else head.weight is table.weight
    pairs: list[tuple[str, nn.Module, str]] = [("table", table, "weight")]
    if head is not None:
        _check_head(table, head)
        if not tied:
            pairs.append(("head", head, "weight"))
    for name, module in (("table", table), ("head", head)):
        if module is not None and getattr(module, "bias", None) is not None:
            pairs.append((f"{name}.bias", module, "bias"))
    trained = _trained(table, plan.kept if old_tokens is None else old_tokens)
    way = new_rows or Mean()
    changes: list[tuple[nn.Module, str, nn.Parameter]] = []
    reports: list[TableChange] = []
    origins: list[RowOrigin] = []
    for name, owner, key in pairs:
        old: nn.Parameter = getattr(owner, key)
        new, told = _changed(name, old, plan, trained, way)
        changes.append((owner, key, nn.Parameter(new, requires_grad=old.requires_grad)))
        reports.append(_report(name, old, new, plan.kept))
        origins = origins or told
    for owner, key, parameter in changes:
        setattr(owner, key, parameter)
    table.num_embeddings = plan.rows
    if head is not None:
        head.out_features = plan.rows
        if tied:
            head.weight = table.weight
    origins += [RowOrigin(r, f"padding, the mean of {len(trained)} rows") for r in plan.padding]
    return Resized(tokens, tuple(reports), tuple(origins), plan.lost, tied)


def _plan(
    table: nn.Embedding,
    tokens: int,
    old_tokens: int | None,
    rows: int | None,
    multiple: int,
    dropping: range,
) -> _Plan:
    if hasattr(table.weight, "placements"):
        raise UsageError(
            "the table's rows are spread over devices; resize it before it is spread, and spread "
            "the longer one"
        )
    before = table.num_embeddings
    owned = before if old_tokens is None else old_tokens
    if tokens < 1 or multiple < 1 or not 1 <= owned <= before:
        raise UsageError(
            f"tokens is {tokens}, multiple {multiple}, old_tokens {owned} of {before} rows; each "
            "must be 1 or more, and old_tokens at most the rows that there are"
        )
    if rows is not None and rows < tokens:
        raise UsageError(f"{rows} rows were asked for, and the {tokens} tokens need {tokens}")
    kept = min(owned, tokens)
    grows = tokens >= owned
    least = rows or (max(tokens, before) if grows else tokens)
    total = -(-least // multiple) * multiple
    behind = range(tokens, max(tokens, min(before, total) if grows else tokens))
    held = (table.weight.detach()[kept:] != 0).any(1).nonzero().flatten().tolist()
    lost = tuple(row for row in (kept + at for at in held) if row not in behind)
    cut = [row for row in lost if row not in dropping and (not grows or row >= total)]
    if cut:
        norms = ", ".join(f"{float(table.weight[r].detach().norm()):.3g}" for r in cut[:4])
        raise UsageError(
            f"resizing {before} rows to {tokens} tokens would lose {len(cut)} rows that hold "
            f"values, {cut[0]} to {cut[-1]} (norms {norms}{'...' * (len(cut) > 4)}); "
            f"models train rows behind the tokenizer's last id too. To let them go, pass "
            f"dropping=range({cut[0]}, {cut[-1] + 1}), on the command line --drop"
        )
    padding = table.padding_idx
    if padding is not None and padding >= kept:
        raise UsageError(
            f"the padding row {padding} is not among the {kept} rows that are kept; keep it, or "
            "set padding_idx to None first"
        )
    return _Plan(kept, range(kept, tokens), behind, total, lost)


def _check_head(table: nn.Embedding, head: nn.Linear) -> None:
    if head.weight.shape != table.weight.shape:
        raise UsageError(
            f"the head has shape {tuple(head.weight.shape)} and the table "
            f"{tuple(table.weight.shape)}; they are resized together and must agree"
        )


def _trained(table: nn.Embedding, owned: int) -> Tensor:
    """The numbers of rows that hold values and belong to tokens, int64 on the CPU."""
    weight = table.weight.detach()[:owned]
    strange = (~weight.isfinite()).any(1).nonzero().flatten().tolist()
    if strange:
        raise UsageError(
            f"row {strange[0]} of the table holds values that are no finite numbers "
            f"({len(strange)} such rows); every new row made from them would be NaN: mend them "
            "first"
        )
    holds = (weight != 0).any(1)
    if table.padding_idx is not None and table.padding_idx < owned:
        holds[table.padding_idx] = False
    return holds.nonzero().flatten().cpu()


def _changed(
    name: str, old: nn.Parameter, plan: _Plan, trained: Tensor, way: NewRows
) -> tuple[Tensor, list[RowOrigin]]:
    """The new values of one parameter: kept rows, made rows, padding."""
    values = old.detach()
    new = values.new_zeros((plan.rows, *values.shape[1:]))
    for part in (range(plan.kept), plan.behind):
        new[part.start : part.stop] = values[part.start : part.stop]
    padding = slice(plan.padding.start, plan.padding.stop)
    if values.dim() == 1:
        if len(trained):
            known = values[trained.to(values.device)]
            new[plan.fresh.start : plan.fresh.stop] = known.double().mean().to(values.dtype)
            new[padding] = known.min()
        return new, []
    if plan.padding:
        new[padding] = mean_row(values, trained).to(values.device, values.dtype)
    if not plan.fresh:
        return new, []
    made, origins = way.make(values, trained, plan.fresh)
    rounded = made.to(values.dtype)
    if isinstance(way, MeanCovariance) and len(rounded.unique(dim=0)) < len(rounded):
        raise UsageError(
            f"rows drawn for the {name} with {way.share:g} of the covariance are equal once "
            f"rounded to {values.dtype}; take a larger share"
        )
    new[plan.fresh.start : plan.fresh.stop] = rounded.to(values.device)
    return new, origins


def _report(name: str, old: Tensor, new: Tensor, kept: int) -> TableChange:
    return TableChange(
        name, len(old), len(new), kept, _hash(old.detach()[:kept]), _hash(new[:kept])
    )


def _hash(rows: Tensor) -> str:
    flat = rows.contiguous().cpu().flatten()
    return hashlib.sha256(flat.view(torch.uint8).numpy().data).hexdigest()


TILE_ROWS = 8192
"""Rows that are widened at a time: no second copy of the table is made."""


@short
@dataclass(frozen=True, slots=True)
class RowOrigin:
    """What one row of a resized table was made from: the rows `sources`, or `made` in words."""

    row: int
    made: str
    sources: tuple[int, ...] = ()


class NewRows(Protocol):
    """A way to make rows."""

    def make(self, table: Tensor, trained: Tensor, ids: range) -> tuple[Tensor, list[RowOrigin]]:
        """Rows for `ids` from `table` (rows, width) in fp64 (ids, width), and their origins.

        `trained` are the row numbers that statistics may use, int64, ascending.
        """
        ...


@short
@dataclass(frozen=True, slots=True)
class Mean:
    """Every new row is the mean of the trained rows."""

    def make(self, table: Tensor, trained: Tensor, ids: range) -> tuple[Tensor, list[RowOrigin]]:
        """As NewRows says. Raises UsageError where there is nothing to average."""
        made = f"the mean of {len(trained)} rows"
        rows = mean_row(table, trained).expand(len(ids), -1)
        return rows.clone(), [RowOrigin(row, made) for row in ids]


@short
@dataclass(frozen=True, slots=True)
class MeanCovariance:
    """Each new row is drawn from N(mean, share x covariance) of the trained rows.

    Drawn along the covariance's own axes, so that fewer rows than channels (a covariance of
    lower rank) draw as well as any; nothing falls back to the mean. A `share` as small as 1e-9
    is lost when rows are rounded to bfloat16: whether they still differ is refused or granted
    by `resize`, after rounding. `seed` makes the draw repeatable on one machine.
    """

    share: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.share) and self.share > 0.0):
            raise UsageError(
                f"share is {self.share}; it multiplies the covariance and must be a number above "
                "0. For no spread at all use Mean()"
            )

    def make(self, table: Tensor, trained: Tensor, ids: range) -> tuple[Tensor, list[RowOrigin]]:
        """As NewRows says. Raises UsageError for fewer than two trained rows that differ."""
        mean = mean_row(table, trained)
        covariance = torch.zeros(table.shape[1], table.shape[1], dtype=torch.float64)
        for tile in _tiles(table, trained):
            centred = tile - mean
            covariance += centred.T @ centred
        values, axes = torch.linalg.eigh(covariance / max(len(trained) - 1, 1))
        # What rounding leaves of the directions that the rows do not span.
        spans = values > values[-1] * table.shape[1] * torch.finfo(torch.float64).eps
        if not bool(values[-1] > 0):
            raise UsageError(
                f"the {len(trained)} trained rows do not differ, and have no covariance to draw "
                "from; use Mean()"
            )
        draw = torch.Generator().manual_seed(self.seed)
        rank = int(spans.sum())
        steps = torch.randn(len(ids), rank, generator=draw, dtype=torch.float64)
        rows = mean + steps * (self.share * values[spans]).sqrt() @ axes[:, spans].T
        made = (
            f"drawn around the mean of {len(trained)} rows with {self.share:g} of their "
            f"covariance (rank {rank}, seed {self.seed})"
        )
        return rows, [RowOrigin(row, made) for row in ids]


@short
@dataclass(frozen=True, slots=True)
class FromPieces:
    """Each new row is the mean of the rows into which the old tokenizer cut the new token.

    `pieces` maps every new row to its old token ids; one piece alone is copied, which is how a
    token that stood elsewhere before keeps its row.
    """

    pieces: Mapping[int, Sequence[int]]

    def make(self, table: Tensor, trained: Tensor, ids: range) -> tuple[Tensor, list[RowOrigin]]:
        """As NewRows says. Raises UsageError for rows without pieces and pieces without rows."""
        usable = set(trained.tolist())
        rows: list[Tensor] = []
        origins: list[RowOrigin] = []
        for row in ids:
            sources = tuple(self.pieces.get(row, ()))
            if not sources:
                raise UsageError(f"new row {row} has no pieces; give at least one old token id")
            strange = [piece for piece in sources if piece not in usable]
            if strange:
                raise UsageError(
                    f"new row {row} is to be made from row {strange[0]}, which is no trained row "
                    f"of this table ({len(usable)} of its {table.shape[0]} rows are)"
                )
            rows.append(mean_row(table, torch.tensor(sources)))
            made = "a copy of a row" if len(sources) == 1 else f"the mean of {len(sources)} pieces"
            origins.append(RowOrigin(row, made, sources))
        return torch.stack(rows), origins


def mean_row(table: Tensor, chosen: Tensor) -> Tensor:
    """The mean of the rows `chosen`, fp64 (width,). Raises UsageError for none."""
    if not len(chosen):
        raise UsageError("the table has no trained row to make new rows from; all of it is 0")
    total = torch.zeros(table.shape[1], dtype=torch.float64)
    for tile in _tiles(table, chosen):
        total += tile.sum(0)
    return total / len(chosen)


def _tiles(table: Tensor, chosen: Tensor) -> Iterator[Tensor]:
    """The rows `chosen` in fp64 on the CPU, some thousands at a time."""
    for part in chosen.split(TILE_ROWS):
        yield table[part.to(table.device)].to("cpu", torch.float64)
