"""What one type of model does with positions, from small instances of it."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

from atlas.probe import Call, run
from atlas.rotation import Rotated, layout_before, solve
from atlas.shapes import CLAIMED, model_of, small, text_of

POSITIONS = (0, 1, 17, 100, 1000, 4000)
WINDOW_KEYS = (
    "sliding_window",
    "attention_chunk_size",
    "local_attention",
    "window_size",
    "attention_window_size",
    "sliding_window_size",
)


@dataclass(frozen=True, slots=True)
class LayerSeen:
    """What a layer's attention was given.

    `channels` per head; the rotated ones are `width` from `start` on in `layout`, by `inv_freq`
    radians per position; `amplitude` multiplies them. `scale` is the softmax scale over
    channels^-0.5. `window` in tokens as it was passed on.
    """

    layer: int
    channels: int
    start: int = 0
    width: int = 0
    layout: str = ""
    inv_freq: tuple[float, ...] = ()
    amplitude: float = 1.0
    scale: float = 1.0
    softcap: float | None = None
    sinks: bool = False
    window: int | None = None
    bias: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """A type's text model: its layers that attend, and what tells positions before the first.

    `text` is its own type, `config` its default configuration as a file would state it,
    `absolute` "learned" or "sinusoidal" where its input tells positions, `rows` of that table, of
    which `first_row` is position 0's.
    """

    text: str
    config: dict[str, Any]
    layers: tuple[LayerSeen, ...]
    absolute: str = ""
    rows: int = 0
    first_row: int = 0


def positions_within(claimed: object) -> list[int]:
    """Positions to ask at that a table of that many rows has."""
    limit = claimed if isinstance(claimed, int) and claimed > 1 else POSITIONS[-1] + 1
    return [p for p in POSITIONS if p < limit]


def observe(model_type: str, **changes: Any) -> Observation:
    """Build a small instance of a type with these changes to its default and watch it."""
    config = small(text_of(model_type), **changes)
    return watched(config)


def watched(config: Any) -> Observation:
    """Watch a small instance of a configuration."""
    stated = config.to_dict()
    claimed = next(
        (stated[k] for k in CLAIMED if isinstance(stated.get(k), int)),
        None,
    )
    at = positions_within(claimed)
    model = model_of(config)
    seen = run(model, at)
    plain = _unscaled(config)
    twins = run(model_of(plain), at).calls if plain is not None else seen.calls
    layers = [
        _layer(call, twin, number, at)
        for number, (call, twin) in enumerate(zip(seen.calls, twins, strict=True))
    ]
    table = _table(model, claimed) if seen.absolute else ("", 0, 0)
    return Observation(config.model_type, stated, tuple(layers), *table)


def _unscaled(config: Any) -> Any:
    """The same configuration with every schedule plain, None where all are."""
    rope = getattr(config, "rope_parameters", None)
    if not isinstance(rope, dict):
        return None
    kinds = [rope] if "rope_type" in rope else [v for v in rope.values() if isinstance(v, dict)]
    if all(k.get("rope_type", "default") in ("default", "proportional") for k in kinds):
        return None
    plain = copy.deepcopy(config)
    for each in [plain.rope_parameters] if "rope_type" in rope else plain.rope_parameters.values():
        each["rope_type"] = "default"
    return plain


def _layer(call: Call, twin: Call, number: int, at: list[int]) -> LayerSeen:
    rotated = solve(call.query, at)
    channels = call.query.shape[-1]
    window = call.rest.get("sliding_window")
    sinks = any(call.rest.get(name) is not None for name in ("s_aux", "sinks"))
    softcap = call.rest.get("softcap")
    scale = 1.0 if call.scaling is None else call.scaling * math.sqrt(channels)
    # Of the twin: an amplitude multiplies the query too.
    scale *= _scaled_before(twin)
    found = LayerSeen(
        layer=number if call.layer is None else call.layer,
        channels=channels,
        scale=round(scale, 9),
        softcap=None if softcap is None else float(softcap),
        sinks=sinks,
        window=window if isinstance(window, int) else None,
        bias=_bias(call),
    )
    if rotated is None:
        return found
    return LayerSeen(
        **{
            **asdict(found),
            "start": rotated.start,
            "width": rotated.width,
            "layout": layout_before(rotated, twin.query[0, 0], twin.before),
            "inv_freq": rotated.inv_freq,
            "amplitude": _amplitude(call, twin, rotated),
        }
    )


def _scaled_before(call: Call) -> float:
    """What a query was multiplied by between its projection and attention, where that shows."""
    query = call.query[0, 0]
    for output in reversed(call.before):
        first = output[: len(query)]
        if len(first) == len(query) and float(first.abs().max()) > 0:
            ratio = float(query @ first / (first @ first))
            if float((query - ratio * first).abs().max()) < 1e-5 * float(query.abs().max()):
                return ratio
    return 1.0


def _amplitude(call: Call, twin: Call, rotated: Rotated) -> float:
    span = slice(rotated.start, rotated.start + rotated.width)
    there, plain = (c.query[:, 0, span].norm() for c in (call, twin))
    return round(float(there / plain), 7)


def _bias(call: Call) -> str:
    """What the mask adds to scores: "" for nothing, "linear" in the distance, else "other"."""
    mask = call.mask
    if mask is None or not mask.is_floating_point():
        return ""
    # What is below is hidden.
    row = mask[0, :, -1]
    seen = row[:, row.amin(dim=0) > -1e4]
    if seen.shape[-1] < 3 or float(seen.abs().max()) == 0.0:
        return ""
    steps = seen.diff(dim=-1)
    return "linear" if float((steps - steps[:, :1]).abs().max()) < 1e-6 else "other"


def _table(model: torch.nn.Module, claimed: int | None) -> tuple[str, int, int]:
    """What kind of table gave the first layer's input its positions, its rows, and the row of
    position 0.
    """
    for module in model.modules():
        if not isinstance(module, torch.nn.Embedding) or claimed is None:
            continue
        rows = module.num_embeddings
        if claimed <= rows <= claimed + 8:
            fixed = "sinusoidal" in type(module).__name__.lower()
            fixed = fixed or not module.weight.requires_grad
            return ("sinusoidal" if fixed else "learned"), rows, _first_row(model, module, claimed)
    return "sinusoidal", 0, 0


def _first_row(model: torch.nn.Module, table: torch.nn.Embedding, claimed: int) -> int:
    """The row of position 0 where the model counts positions itself."""
    asked: list[list[int]] = []

    def note(_: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], torch.Tensor) and not args[0].is_floating_point():
            asked.append(args[0].flatten()[:4].tolist())

    hook = table.register_forward_pre_hook(note)
    try:
        with torch.no_grad():
            model(input_ids=torch.full((1, 4), 5))
    except Exception:  # noqa: BLE001 - what does not run says nothing of its rows
        return table.num_embeddings - claimed
    finally:
        hook.remove()
    rows = asked[0] if asked else []
    # Some modules are given tokens, and count by themselves.
    counted = rows == list(range(rows[0], rows[0] + 4)) if rows else False
    return max(rows[0] if counted else 0, table.num_embeddings - claimed)
