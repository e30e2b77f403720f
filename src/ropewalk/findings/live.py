"""A loaded transformers module against what its configuration says, table by table.

Configurations are promises; the buffers are what turns the queries. Importing this module does
not import torch; calling it needs the module, and so torch, to be there already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ropewalk.dialects.hf import read_config
from ropewalk.errors import UsageError
from ropewalk.findings.assemble import audit
from ropewalk.findings.result import Audit
from ropewalk.findings.tables import TableCheck, compare_tables, live_tables
from ropewalk.rope.diagnostics import alibi_slopes
from ropewalk.rope.spec import Alibi, LearnedPositions, PositionSpec
from ropewalk.short import short

if TYPE_CHECKING:
    import torch

Verdict = Literal["agrees", "differs", "unchecked"]

_POSITION_TABLES = ("wpe", "position_embeddings", "position_embedding", "embed_positions")
_SLOPES = ("slopes", "alibi_slopes")


@short
@dataclass(frozen=True, slots=True)
class PartCheck:
    """A position table's rows, or ALiBi's slopes: found in the module, and as configured."""

    path: str
    agrees: bool
    sentence: str


@short
@dataclass(frozen=True, slots=True)
class LiveAudit:
    """What the configuration says, and whether the live module does it.

    `verdict` is "unchecked" when the module holds nothing that can be compared.
    """

    audit: Audit
    tables: tuple[TableCheck, ...]
    parts: tuple[PartCheck, ...]
    verdict: Verdict
    sentence: str


def audit_module(module: torch.nn.Module, length: int | None = None) -> LiveAudit:
    """Audit a transformers module by its `config`, and compare its tables with the audit.

    `length` in tokens is the prompt length whose schedule the tables should hold; None is a short
    one. Raises UsageError for a module without a configuration, ConfigError for one whose
    configuration cannot be read.
    """
    config = getattr(module, "config", None)
    to_dict = getattr(config, "to_dict", None)
    if not callable(to_dict):
        raise UsageError(
            f"{type(module).__name__} has no transformers configuration to compare with; pass the "
            "whole model, or call compare_tables with a spec"
        )
    spec = read_config(to_dict(), where=f"{type(module).__name__}.config")
    tables = tuple(compare_tables(module, spec, length))
    parts = (*_position_rows(module, spec), *_slopes(module, spec))
    verdict, sentence = _judge(module, tables, parts)
    name = str(getattr(config, "_name_or_path", "") or type(module).__name__)
    return LiveAudit(audit(spec, name=name), tables, parts, verdict, sentence)


def _judge(
    module: torch.nn.Module, tables: tuple[TableCheck, ...], parts: tuple[PartCheck, ...]
) -> tuple[Verdict, str]:
    wrong = [c.sentence for c in tables if not c.agrees] + [
        c.sentence for c in parts if not c.agrees
    ]
    if wrong:
        more = f" ({len(wrong) - 1} more like it or worse)" if len(wrong) > 1 else ""
        return "differs", wrong[0] + more
    count = len(tables) + len(parts)
    if count == 1:
        return "agrees", "The one position table found agrees with the configuration."
    if count:
        return "agrees", f"All {count} position tables found agree with the configuration."
    if any(live_tables(module)):
        return "unchecked", (
            "The module has rotary tables, and the configuration gives no schedule to compare them "
            "with."
        )
    return "unchecked", "The module holds no position table that could be compared."


def _position_rows(module: torch.nn.Module, spec: PositionSpec) -> Iterator[PartCheck]:
    """Learned tables: their rows against the configured ones."""
    wanted = {
        group.encoding.rows + group.encoding.offset
        for group in spec.groups
        if isinstance(group.encoding, LearnedPositions) and group.encoding.rows is not None
    }
    if not wanted:
        return
    for path, part in module.named_modules():
        rows = getattr(part, "num_embeddings", None)
        if path.rsplit(".", 1)[-1] not in _POSITION_TABLES or not isinstance(rows, int):
            continue
        agrees = rows in wanted
        said = " or ".join(str(count) for count in sorted(wanted))
        sentence = f"{path} has {rows} rows" + (
            ", as configured." if agrees else f" where the configuration says {said}."
        )
        yield PartCheck(path, agrees, sentence)


def _slopes(module: torch.nn.Module, spec: PositionSpec) -> Iterator[PartCheck]:
    """ALiBi slopes that a module keeps as a buffer; many compute them in each forward."""
    encodings = [g.encoding for g in spec.groups if isinstance(g.encoding, Alibi)]
    if not encodings:
        return
    for path, buffer in module.named_buffers():
        if path.rsplit(".", 1)[-1] not in _SLOPES or buffer.is_meta:
            continue
        live = buffer.detach().cpu().double().flatten().tolist()
        right = alibi_slopes(encodings[0].heads or len(live), encodings[0].max_bias)
        agrees = len(live) == len(right) and all(
            abs(a - b) <= 1e-6 * b for a, b in zip(live, right, strict=True)
        )
        said = "are those of the reference" if agrees else "are not those of the reference code"
        yield PartCheck(path, agrees, f"{path}: the slopes of {len(live)} heads {said}.")
