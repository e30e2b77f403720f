"""What acts on positions beside the encoding of a model's layers."""

from __future__ import annotations

from dataclasses import dataclass, field

from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class DualChunk:
    """Dual chunk attention (Qwen2.5-1M, 2501.15383; 2402.17463): beyond the original length,
    distances are folded into what was trained, chunk by chunk.

    Lengths in tokens, None where the file does not say; `keys` are those of the file.
    """

    chunk_size: int | None
    local_size: int | None
    original: int | None
    keys: tuple[str, ...] = field(default=(), compare=False)


@short
@dataclass(frozen=True, slots=True)
class AxisDealing:
    """Positions on several axes, dealt out over the channels in a way of a family's own.

    `sections` counts pairs for each axis, in the file's order. `dealing` says in words which
    channels take which axis. For text all axes are equal.
    """

    sections: tuple[int, ...]
    dealing: str
    keys: tuple[str, ...] = field(default=(), compare=False)
