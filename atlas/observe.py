"""What one type of model does with positions, from small instances of it."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

from atlas.hints import fed
from atlas.probe import Call, Seen, run, run_within
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
    radians per position; `amplitude` multiplies them, not a number where it does not show. `scale`
    is the softmax scale over channels^-0.5. `window` in tokens as it was passed on, 0 where none
    is passed on. `bias` is what is added to scores: "linear" in the distance, by `slopes` of each
    head, "other" for a bias by distance, "content" for one by the query too. `grown` multiplies
    the query at each of `POSITIONS`.
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
    slopes: tuple[float, ...] = ()
    grown: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """A type's text model: its layers that attend, and what tells positions before the first.

    `text` is its own type, `config` its default configuration as a file would state it,
    `absolute` "learned" or "sinusoidal" where its input tells positions, `rows` of that table, of
    which `first_row` is position 0's. `length` in tokens is that of the run.
    """

    text: str
    config: dict[str, Any]
    layers: tuple[LayerSeen, ...]
    length: int
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


def watched(config: Any, *, beyond: bool = False) -> Observation:
    """Watch a small instance of a configuration, `beyond` its claimed length where it has one."""
    stated = config.to_dict()
    claimed = next(
        (stated[k] for k in CLAIMED if isinstance(stated.get(k), int)),
        None,
    )
    at = list(POSITIONS) if beyond else positions_within(claimed)
    model = model_of(config)
    failed: ValueError | None = None
    for way in WAYS:
        seen = asked(model, at, way)
        twins = _twins(config, at, way) or seen.calls
        try:
            layers = [
                _layer(call, twin, number, seen.positions)
                for number, (call, twin) in enumerate(zip(seen.calls, twins, strict=True))
            ]
            break
        except ValueError as error:
            failed = error
    else:
        raise failed or ValueError("it cannot be asked")
    table = _table(model, claimed) if seen.absolute else ("", 0, 0)
    return Observation(config.model_type, stated, tuple(layers), seen.positions[-1] + 1, *table)


WAYS = ("given", "warm", "counted")
"""How positions are asked for: they are given; after more tokens at the first, for layers that mix
a token with those before it; by as many tokens as a model must count by itself."""


def asked(model: torch.nn.Module, at: list[int], way: str = "given") -> Seen:
    """What a model's attention is given at these positions, in one of `WAYS`."""
    given = fed(model.config)
    before = [0] * 8 if way == "warm" else []
    wanted = list(range(min(at[-1], 1000) + 1)) if way == "counted" else before + at
    seen = run(model, wanted, **given)
    if not seen.calls:
        run_within(model, seen, **given)
    elif any(isinstance(call.rest.get("position_bias"), torch.Tensor) for call in seen.calls):
        _place_bias(seen, run(model, wanted, token=11, **given))
    if way != "given":
        rows = [p for p in POSITIONS if p < seen.length] if way == "counted" else None
        places = rows or list(range(len(before), seen.length))
        for call in seen.calls:
            call.query = call.query[:, places]
        seen.positions = [seen.positions[p] for p in places]
    return seen


def _place_bias(seen: Seen, other: Seen) -> None:
    """Put a bias that is the same for another token where masks are: it goes by distance alone."""
    for call, there in zip(seen.calls, other.calls, strict=True):
        bias, else_ = call.rest.get("position_bias"), there.rest.get("position_bias")
        if bias is not None and else_ is not None and torch.equal(bias, else_):
            call.mask = bias.detach()
            del call.rest["position_bias"]


def _twins(config: Any, at: list[int], way: str) -> list[Call]:
    """The calls of the same model with every schedule plain; none where all are."""
    # Not every class has a rule for the plain one.
    for word in ("default", "linear"):
        plain = _unscaled(config, word)
        if plain is None:
            return []
        try:
            return asked(model_of(plain), at, way).calls
        except (RuntimeError, KeyError) as error:
            failed = error
    raise failed


def _unscaled(config: Any, word: str) -> Any:
    """The same configuration with every schedule plain, None where all are."""
    rope = getattr(config, "rope_parameters", None)
    if not isinstance(rope, dict):
        if not getattr(config, "rope_scaling", None):
            return None
        # Version 4: a dictionary of scaling alone.
        plain = copy.deepcopy(config)
        plain.rope_scaling = None
        return plain
    kinds = [rope] if "rope_type" in rope else [v for v in rope.values() if isinstance(v, dict)]
    if all(k.get("rope_type", "default") in ("default", "proportional") for k in kinds):
        return None
    plain = copy.deepcopy(config)
    for each in [plain.rope_parameters] if "rope_type" in rope else plain.rope_parameters.values():
        if isinstance(each, dict):
            each.update(rope_type=word, factor=1.0)
    return plain


def _layer(call: Call, twin: Call, number: int, at: list[int]) -> LayerSeen:
    bias = _bias(call)
    try:
        rotated = solve(call.query, at)
    except ValueError:
        if bias != "content":
            raise
        # Streams of tokens side by side, whose own positions are in the query.
        rotated = None
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
        # What was fitted to products in fp32 has six digits.
        scale=round(scale, 9) if call.module else float(f"{scale:.6g}"),
        softcap=None if softcap is None else float(softcap),
        sinks=sinks,
        window=0 if not call.module else window if isinstance(window, int) else None,
        bias=bias,
        slopes=_slopes(call),
        grown=() if rotated is None else rotated.grown,
    )
    if rotated is None or not rotated.width:
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
    beside = [c.query[:, 0].clone() for c in (call, twin)]
    for rest in beside:
        rest[:, span] = 0.0
    if float((beside[0] - beside[1]).abs().max()) > 1e-4 * float(call.query.abs().max()):
        # Channels that are not rotated differ too: the twin was given something else there.
        return math.nan
    return round(float(there / plain), 7)


def _bias(call: Call) -> str:
    """What is added to scores: "" for nothing, else as `LayerSeen.bias` says."""
    if call.rest.get("position_bias") is not None:
        return "content"
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


def _slopes(call: Call) -> tuple[float, ...]:
    """What a linear bias grows by for each token, of each head."""
    if _bias(call) != "linear" or call.mask is None:
        return ()
    row = call.mask[0, :, -1]
    return tuple(float(f"{x:.7g}") for x in row.diff(dim=-1)[:, 0].tolist())


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
    # Not a table of one row for each position: Reformer's are of two factors.
    trained = any(
        "position" in name and x.requires_grad and "layer" not in name
        for name, x in model.named_parameters()
    )
    return ("learned" if trained else "sinusoidal"), 0, 0


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
