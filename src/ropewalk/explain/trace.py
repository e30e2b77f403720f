"""A text followed into a real model: ids, rows, scale, position, the input of the first block.

Each step is computed by our own `InputPath` and `RotarySpec`, and compared with what the model
itself shows through hooks. For rotary models the first layer of each schedule shows q and k
before and after rotation, and one score at two places with the same gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ropewalk.dialects.hf import read_config
from ropewalk.dialects.values import Section
from ropewalk.errors import ModelFileError, PositionError, UsageError
from ropewalk.explain.rotated import Rotation, follow_rotation
from ropewalk.explain.steps import TraceStep, rounding, step
from ropewalk.explain.watch import Parts, Seen, find_parts, watch
from ropewalk.inputs import InputPath, InputSteps, RoundedScale
from ropewalk.models.rotary_tables import install
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.learned import Learned
from ropewalk.positions.nope import NoPosition
from ropewalk.rope.diagnostics import alibi_slopes
from ropewalk.rope.spec import (
    AlibiSpec,
    LearnedPositions,
    PositionSpec,
    RotarySpec,
    SinusoidalSpec,
    SourceKind,
)
from ropewalk.short import short
from ropewalk.shown import Shown
from ropewalk.tables.as_used import scale_of


@short
@dataclass(frozen=True, slots=True)
class Trace(Shown):
    """A text's way into a model. `steps` in order; `rotations` one for each rotary schedule."""

    name: str
    model_type: str
    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    steps: tuple[TraceStep, ...]
    rotations: tuple[Rotation, ...]

    @property
    def agrees(self) -> bool:
        """Whether the model and our own computation agree wherever both are known."""
        said = [step.agrees for step in self.steps]
        for rotation in self.rotations:
            said += [step.agrees for step in rotation.steps]
            said += [score.agrees for score in rotation.scores]
        return False not in said


def trace(
    model: Any, tokenizer: Any, text: str, *, name: str, spec: PositionSpec | None = None
) -> Trace:
    """Follow `text` through a transformers model in eval mode on the CPU.

    `spec` replaces what the model's own configuration says of position.
    Raises UsageError for a text without tokens, RowError for a token without a row,
    PositionError for a text that is longer than a learned table, ModelFileError for models whose
    input path cannot be followed.
    """
    own = model.config.to_dict()
    spec = spec or read_config(own, where=f"{name}: config", kind=SourceKind.MODULE)
    parts = find_parts(model, name)
    ids = torch.tensor([int(i) for i in tokenizer(text)["input_ids"]])
    if not len(ids):
        raise UsageError("the text has no tokens; give one with at least a word")
    parts.check_rows(ids.tolist(), tokenizer, "the text")
    pieces = tuple(str(piece) for piece in tokenizer.convert_ids_to_tokens(ids.tolist()))
    path = _path(model, parts, spec, name)
    with torch.inference_mode():
        # Ours first: an id or a position without a row is refused here, with its place.
        own = _own_steps(path, ids, name)
        seen = watch(model, parts, ids[None])
        steps = tuple(_steps(path, parts, spec, own, seen, pieces))
    return Trace(
        name=name,
        model_type=spec.model_type,
        text=text,
        ids=tuple(ids.tolist()),
        pieces=pieces,
        steps=steps,
        rotations=tuple(follow_rotation(model, parts, spec, ids, seen, pieces)),
    )


def trace_gguf(model: Any, tokenizer: Any, text: str, *, name: str, spec: PositionSpec) -> Trace:
    """As `trace`, for a model loaded from a GGUF file of which `spec` was read.

    transformers pairs channels as its own configuration has it, whatever the file's layout, and
    does not read a schedule that lies in a tensor: it is installed, as it is to prove a model.
    Raises ScheduleMismatchError where that cannot be done.
    """
    install(model, spec, len(tokenizer(text)["input_ids"]) or None)
    own = read_config(model.config.to_dict(), where=f"{name}: config", kind=SourceKind.MODULE)
    layouts = {rotary.layout for _, rotary in own.rotary_groups()}
    groups = tuple(
        replace(group, encoding=replace(group.encoding, layout=layout))
        if isinstance(group.encoding, RotarySpec)
        else group
        for layout in (layouts or {"half"})
        for group in spec.groups
    )
    return trace(model, tokenizer, text, name=name, spec=replace(spec, groups=groups))


def _own_steps(path: InputPath, ids: Tensor, name: str) -> InputSteps:
    """What our path makes of the ids. Raises PositionError for those the model cannot take."""
    try:
        return path.steps(ids, torch.arange(len(ids)))
    except PositionError as error:
        raise PositionError(
            f"the text has {len(ids)} tokens, and {name} cannot take them all: {error}"
        ) from None


def _path(model: Any, parts: Parts, spec: PositionSpec, name: str) -> InputPath:
    """Our own input path over the model's own tables."""
    weight = parts.tokens.weight
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        raise ModelFileError(f"{name} has no plain table of token vectors that could be looked up")
    table = nn.Embedding.from_pretrained(weight.detach(), freeze=True)
    encoding: PositionEncoding = NoPosition()
    for group in spec.groups:
        match group.encoding:
            case LearnedPositions(offset=offset):
                encoding = _learned(parts, offset, name)
            case SinusoidalSpec():
                raise ModelFileError(
                    f"{name} adds sinusoids, of which its code has a variant of its own; models "
                    "with learned, rotary, ALiBi or no positions are traced"
                )
            case _:
                pass
    config = model.config.get_text_config()
    values = Section(config.to_dict(), name)
    scale = scale_of(str(config.model_type), values, int(config.hidden_size))
    return InputPath(table, encoding, scale)


def _learned(parts: Parts, offset: int, name: str) -> Learned:
    rows = getattr(parts.positions, "weight", None)
    if not isinstance(rows, Tensor):
        raise ModelFileError(
            f"{name} is said to learn its positions, and no table of them stands before its blocks"
        )
    encoding = Learned(len(rows) - offset, rows.shape[1], offset)
    encoding.weight = nn.Parameter(rows.detach(), requires_grad=False)
    return encoding


def _steps(
    path: InputPath,
    parts: Parts,
    spec: PositionSpec,
    own: InputSteps,
    seen: Seen,
    pieces: tuple[str, ...],
) -> Iterator[TraceStep]:
    looked_up = _row(seen.outputs.get("tokens"))
    # Gemma scales inside its table's module, so that the bare rows are never seen.
    inside = type(parts.tokens).forward is not nn.Embedding.forward
    yield step(
        "rows",
        f"one row each of a table of {path.table.num_embeddings:,} x {path.table.embedding_dim}",
        own.rows,
        pieces,
        model=None if inside else looked_up,
    )
    if path.scale is None:
        yield TraceStep("scale", "none: the rows go on as they are")
    else:
        yield step(
            "scale", _scale_words(path), own.scaled, pieces, model=looked_up if inside else None
        )
    x = own.placed
    yield _position(path, spec, own, seen, pieces)
    if isinstance(parts.types, nn.Embedding):
        row = parts.types.weight[0].expand_as(x)
        sentence = "row 0 of the token types is added to every token"
        yield step("types", sentence, row, pieces, model=_row(seen.outputs.get("types")))
        x = x + row
    if isinstance(parts.norm, nn.LayerNorm):
        x = _normed(x, parts.norm)
        sentence = "a layer norm before the first block"
        model = _row(seen.outputs.get("norm"))
        yield step("norm", sentence, x, pieces, model=model, allowed=rounding(x.dtype))
    sentence, model = "what the first block receives", _row(seen.inputs[0])
    yield step("block 1", sentence, x, pieces, model=model, allowed=rounding(x.dtype))
    yield from _bias(spec, seen, len(pieces))


def _scale_words(path: InputPath) -> str:
    """The factor, and for one that is rounded to the activations' dtype also what it becomes."""
    factor = path.scale.factor if path.scale else 1.0
    words = f"x {factor:.6g}"
    if abs(factor * factor - path.table.embedding_dim) < 1e-6:
        words = f"x sqrt({path.table.embedding_dim}) = {factor:.6g}"
    if isinstance(path.scale, RoundedScale):
        dtype = path.table.weight.dtype
        rounded = float(torch.tensor(factor, dtype=dtype))
        words += f", in {str(dtype).removeprefix('torch.')} {rounded:.6g}"
    return words


def _position(
    path: InputPath, spec: PositionSpec, own: InputSteps, seen: Seen, pieces: tuple[str, ...]
) -> TraceStep:
    """What position adds at the input, or why it adds nothing."""
    if isinstance(path.encoding, Learned):
        at = torch.arange(len(pieces))
        first = path.encoding.offset
        rows = path.encoding.table(at, own.scaled.dtype)
        sentence = f"rows {first} to {first + len(pieces) - 1} of a learned table are added"
        return step("position", sentence, rows, pieces, model=_row(seen.outputs.get("positions")))
    kinds = {type(group.encoding) for group in spec.groups}
    if RotarySpec in kinds:
        return TraceStep("position", "nothing is added: q and k are rotated inside the blocks")
    if AlibiSpec in kinds:
        return TraceStep("position", "nothing is added: ALiBi lowers the scores inside the blocks")
    return TraceStep("position", "nothing is added")


def _bias(spec: PositionSpec, seen: Seen, count: int) -> Iterator[TraceStep]:
    """ALiBi: what the last token's scores lose, by head, as the model hands it to block 1."""
    encodings = [g.encoding for g in spec.groups if isinstance(g.encoding, AlibiSpec)]
    if not encodings or encodings[0].heads is None:
        return
    heads = encodings[0].heads
    slopes = torch.tensor(alibi_slopes(heads, encodings[0].max_bias))
    own = -slopes[:, None] * torch.arange(count - 1, -1, -1.0)
    model, allowed = None, 0.0
    if seen.bias is not None:
        allowed = rounding(seen.bias.dtype)
        # Models leave out what is the same for all keys of a query: it changes no softmax.
        last = seen.bias.reshape(heads, -1, seen.bias.shape[-1])[:, -1, -count:].float()
        model = last - last[:, -1:]
    yield step(
        "scores",
        f"slope x distance is taken from each score; here for token {count} and each key",
        own,
        [f"head {head}" for head in range(heads)],
        model=model,
        allowed=allowed,
    )


def _normed(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """The layer norm of `x` (sequence, d_model) in fp64, rounded once."""
    wide = x.double()
    centred = wide - wide.mean(dim=-1, keepdim=True)
    spread = (centred.square().mean(dim=-1, keepdim=True) + norm.eps).sqrt()
    shift = 0.0 if norm.bias is None else norm.bias.double()
    return (centred / spread * norm.weight.double() + shift).to(x.dtype)


def _row(seen: Tensor | None) -> Tensor | None:
    """The one row (sequence, d_model) of a batch of one; some modules leave the batch out."""
    if seen is None:
        return None
    return seen[0] if seen.dim() == 3 else seen
