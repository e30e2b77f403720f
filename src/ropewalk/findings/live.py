"""A loaded transformers module against what its configuration says, table by table.

Configurations are promises; the buffers are what rotates the queries. Importing this module does
not import torch; calling it needs the module, and so torch, to be there already.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ropewalk.findings.diagnosis import Case, differences, explain
from ropewalk.rope.diagnostics import alibi_slopes
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.schedules import UnknownScaling
from ropewalk.rope.spec import (
    AlibiSpec,
    GroupKeys,
    LayerGroup,
    LearnedPositions,
    PositionSpec,
    RotarySpec,
)
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
class LiveCheck:
    """Whether a live module does what its configuration says, part by part.

    `verdict` is "unchecked" when the module holds nothing that can be compared.
    """

    tables: tuple[TableCheck, ...]
    parts: tuple[PartCheck, ...]
    verdict: Verdict
    sentence: str


def compare_live(
    module: torch.nn.Module, spec: PositionSpec, length: int | None = None
) -> LiveCheck:
    """Compare what a transformers module holds with `spec`, which its configuration says.

    `length` in tokens is the prompt length whose schedule the tables should hold; None is a short
    one.
    """
    tables = tuple(compare_tables(module, spec, length))
    parts = (*_position_rows(module, spec), *_slopes(module, spec))
    verdict, sentence = _judge(module, tables, parts)
    return LiveCheck(tables, parts, verdict, sentence)


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
    encodings = [g.encoding for g in spec.groups if isinstance(g.encoding, AlibiSpec)]
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


TOLERANCE = 1e-5
"""Relative. Tables built in fp32 agree with fp64 to about 1e-6; bf16 differs by 4e-3."""

_NOT_TABLES = ("original_inv_freq", "long_inv_freq", "short_inv_freq")
_OTHER_TOWERS = ("vision", "visual", "audio", "speech")


@short
@dataclass(frozen=True, slots=True)
class TableCheck:
    """One live table beside the schedule it should hold.

    `path` is the module's name, `table` the buffer's. `max_relative_difference` is over all pairs
    (infinite where the shapes differ or a value is not finite), `first_different_pair` the first
    beyond the tolerance. `phase_error` is the largest wrong angle in radians at the length
    compared at, None without one. `code` is agrees, shape, half-precision, unscaled,
    default-base, interpolated, other-mode, uninitialised, amplitude or different.
    """

    path: str
    table: str
    group: str
    dtype: str
    max_relative_difference: float
    first_different_pair: int | None
    phase_error: float | None
    attention_factor: float | None
    expected_attention_factor: float
    code: str
    sentence: str

    @property
    def agrees(self) -> bool:
        """Whether the live table is the schedule, frequencies and amplitude."""
        return self.code == "agrees"


def compare_tables(
    module: torch.nn.Module,
    spec: PositionSpec,
    length: int | None = None,
    *,
    tolerance: float = TOLERANCE,
) -> list[TableCheck]:
    """A check for each live rotary table of `module`, in the module's order.

    `length` in tokens chooses the schedule where it depends on the length; None is a short
    prompt, which is what a freshly loaded module holds. A table is compared with the group of
    its layer type, and where there is none with the closest one. An empty list means
    that nothing could be compared. Raises ScheduleError for a spec no schedule can be built from.
    """
    groups = [
        each for each in spec.keyed_groups() if not isinstance(each[1].scaling, UnknownScaling)
    ]
    if not groups:
        return []
    return [
        _check(path, name, table, owner, _candidates(groups, name), length, tolerance)
        for path, name, table, owner in live_tables(module)
    ]


def live_tables(
    module: torch.nn.Module,
) -> Iterator[tuple[str, str, torch.Tensor, torch.nn.Module]]:
    """Path, buffer name, buffer and owner of every rotary table of the text model."""
    for path, owner in module.named_modules():
        if any(tower in path for tower in _OTHER_TOWERS):
            continue
        for name, table in owner.named_buffers(recurse=False):
            if name.endswith("inv_freq") and not name.endswith(_NOT_TABLES):
                yield path, name, table, owner


def _candidates(
    groups: Sequence[tuple[LayerGroup, RotarySpec, GroupKeys]], table: str
) -> list[tuple[LayerGroup, RotarySpec]]:
    """The groups that a table can be of, by the layer type in its name where it has one."""
    layer_type = table.removesuffix("inv_freq").rstrip("_")
    named = [(g, r) for g, r, keys in groups if layer_type and keys.layer_type == layer_type]
    return named or [(group, rotary) for group, rotary, _ in groups]


def _check(
    path: str,
    name: str,
    table: torch.Tensor,
    owner: torch.nn.Module,
    candidates: Sequence[tuple[LayerGroup, RotarySpec]],
    length: int | None,
    tolerance: float,
) -> TableCheck:
    live = () if table.is_meta else tuple(table.detach().cpu().double().flatten().tolist())
    built = [(group, rotary, schedule(rotary, length)) for group, rotary in candidates]
    group, rotary, expected = min(
        built, key=lambda b: max(differences(live, b[2].inv_freq), default=math.inf)
    )
    apart = differences(live, expected.inv_freq)
    largest = max(apart, default=math.inf)
    scale = getattr(owner, name.removesuffix("inv_freq") + "attention_scaling", None)
    amplitude = float(scale) if isinstance(scale, int | float) else None
    case = Case(f"{path or 'the module'}.{name}", live, rotary, expected.inv_freq, length)
    if largest <= tolerance:
        code, sentence = _judge_amplitude(case.where, amplitude, expected.attention_factor)
    elif table.is_meta:
        code = "uninitialised"
        sentence = f"{case.where} is on the meta device and holds no values."
    else:
        code, sentence = explain(case)
    wrong = [abs(a - b) for a, b in zip(live, expected.inv_freq, strict=False)]
    return TableCheck(
        path=path,
        table=name,
        group=group.name,
        dtype=str(table.dtype).removeprefix("torch."),
        max_relative_difference=largest,
        first_different_pair=next((i for i, d in enumerate(apart) if not d <= tolerance), None),
        phase_error=None if length is None else max(wrong, default=0.0) * length,
        attention_factor=amplitude,
        expected_attention_factor=expected.attention_factor,
        code=code,
        sentence=sentence,
    )


def _judge_amplitude(where: str, amplitude: float | None, expected: float) -> tuple[str, str]:
    if amplitude is None or math.isclose(amplitude, expected, rel_tol=TOLERANCE):
        return "agrees", f"{where} agrees with the configuration."
    return "amplitude", (
        f"{where} has the right frequencies, but cos and sin are multiplied by {amplitude:.6g} "
        f"instead of {expected:.6g}."
    )
