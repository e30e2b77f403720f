"""The inverse frequencies of a live transformers model, replaced by a schedule and checked.

Rotary modules of transformers keep one table, `inv_freq`, or one for each layer type,
`full_attention_inv_freq`; the amplitude stands beside it as `attention_scaling`. Both are
written from the spec, in fp32 rounded once from fp64, and the module's type is set to
"default", so that no forward pass recomputes them.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from ropewalk.errors import ScheduleMismatchError
from ropewalk.findings.live import compare_tables, live_tables
from ropewalk.rope.angles import Schedule
from ropewalk.rope.frequencies import frequencies, schedule
from ropewalk.rope.frequencies import schedule_fingerprint as schedule_fingerprint
from ropewalk.rope.spec import IncompleteRotary, PositionSpec, RotarySpec

if TYPE_CHECKING:
    import torch


def install(model: Any, spec: PositionSpec, length: int | None) -> None:
    """Make every rotary module of `model` turn by `spec` at `length` tokens, and verify it.

    `length` matters to schedules that depend on it; None is a sequence no longer than they were
    trained on. Raises ScheduleMismatchError when the spec leaves out what a table needs, when
    the model shows no table to write, or when a table differs from the spec afterwards.
    """
    for group in spec.groups:
        if isinstance(group.encoding, IncompleteRotary):
            raise ScheduleMismatchError(
                f"the model's files leave out {' and '.join(group.encoding.missing)}, so the "
                "schedule its layers turn by is not known; complete the configuration first"
            )
    if not any(spec.rotary_groups()):
        return
    if hasattr(model, "set_rotary"):
        # Our own decoder computes its angles from the spec itself, and keeps no table.
        model.set_rotary(_only_rotary(spec), length)
        return
    tables = list(live_tables(model))
    if not tables:
        raise ScheduleMismatchError(
            f"{type(model).__name__} keeps its rotary angles where they can be neither seen nor "
            "set, so nothing shows that it turns as its files say; it cannot be proved here"
        )
    for path, name, table, owner in tables:
        wanted = schedule(_rotary_for(name, model, spec), length)
        if table.numel() != len(wanted.inv_freq):
            raise ScheduleMismatchError(
                f"{path}.{name} holds {table.numel()} pairs where the model's files turn "
                f"{len(wanted.inv_freq)}: head_dim or partial_rotary_factor is read differently"
            )
        _write(path, name, table, owner, wanted)
    for check in compare_tables(model, spec, length):
        if not check.agrees:
            raise ScheduleMismatchError(check.sentence)


def _write(path: str, name: str, table: torch.Tensor, owner: Any, wanted: Schedule) -> None:
    """Put one table and its amplitude into the module that reads them."""
    import torch

    # Always fp32: a model cast as a whole carries its table in half precision.
    setattr(owner, name, torch.tensor(wanted.inv_freq, dtype=torch.float32, device=table.device))
    prefix = name.removesuffix("inv_freq")
    amplitude = f"{prefix}attention_scaling"
    if hasattr(owner, amplitude):
        setattr(owner, amplitude, wanted.attention_factor)
    elif wanted.attention_factor != 1.0:
        raise ScheduleMismatchError(
            f"cos and sin are to be multiplied by {wanted.attention_factor:g}, and {path} "
            "has no place for that; the schedule cannot be proved with this model's code"
        )
    if isinstance(getattr(owner, "rope_type", None), dict):
        owner.rope_type[prefix.rstrip("_")] = "default"
    elif hasattr(owner, "rope_type"):
        owner.rope_type = "default"


def as_loaded(model: Any, spec: PositionSpec) -> str:
    """In words, whether the tables that transformers built are those of the model's files.

    To be asked before `install`, with the spec as it was read: it tells the user of a schedule
    that the loader has dropped.
    """
    checks = compare_tables(model, spec)
    if not checks:
        return "none that could be compared"
    wrong = next((check.sentence for check in checks if not check.agrees), None)
    return f"mended after loading: {wrong}" if wrong else "loaded as the model's files say"


def schedule_at(spec: PositionSpec, length: int) -> str:
    """16 hex digits for the schedules of all rotary groups at one length."""
    digest = hashlib.sha256()
    for group, _ in spec.rotary_groups():
        digest.update(f"{group.layers} {frequencies(group, length).fingerprint()}".encode())
    return digest.hexdigest()[:16]


def _only_rotary(spec: PositionSpec) -> RotarySpec:
    """The one rotary encoding of all layers."""
    encodings = {encoding for _, encoding in spec.rotary_groups()}
    if len(encodings) != 1:
        raise ScheduleMismatchError(
            f"{len(encodings)} schedules are given for a decoder that turns all layers alike"
        )
    return encodings.pop()


def _rotary_for(table: str, model: Any, spec: PositionSpec) -> RotarySpec:
    """The encoding of the layers that use a table: by the layer type in its name, if it has one."""
    rotary = list(spec.rotary_groups())
    layer_type = table.removesuffix("inv_freq").rstrip("_")
    types = getattr(model.config.get_text_config(), "layer_types", None)
    if layer_type and types:
        layers = {index for index, each in enumerate(types) if each == layer_type}
        rotary = [pair for pair in rotary if layers & set(pair[0].layers)]
    encodings = {encoding for _, encoding in rotary}
    if len(encodings) != 1:
        raise ScheduleMismatchError(
            f"the table {table} serves layers for which the model's files give "
            f"{len(encodings)} schedules; it has room for one"
        )
    return encodings.pop()
