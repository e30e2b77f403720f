"""The inverse frequencies a live module really holds, against a spec: equal, or how they differ.

A table is any buffer whose name ends in `inv_freq`, as transformers' rotary modules have it:
`inv_freq`, or `{layer_type}_inv_freq` where layer types differ. Towers for images and sound are
left out: the spec describes the text model alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.findings.diagnosis import Case, differences, explain
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.schedules import UnknownScaling
from ropewalk.rope.spec import LayerGroup, PositionSpec, RotarySpec
from ropewalk.short import short

if TYPE_CHECKING:
    import torch

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
    its layer type, and where no group has that name with the closest one. An empty list means
    that nothing could be compared. Raises ScheduleError for a spec no schedule can be built from.
    """
    groups = [
        (group, rotary)
        for group, rotary in spec.rotary_groups()
        if not isinstance(rotary.scaling, UnknownScaling)
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
    groups: Sequence[tuple[LayerGroup, RotarySpec]], table: str
) -> list[tuple[LayerGroup, RotarySpec]]:
    layer_type = table.removesuffix("inv_freq").rstrip("_")
    named = [pair for pair in groups if pair[0].name.replace(" ", "_") == layer_type]
    return named or list(groups)


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
