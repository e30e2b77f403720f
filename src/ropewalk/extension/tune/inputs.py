"""What a model of transformers is handed for packed rows, so that documents stay apart or do not.

Attention that takes documents one at a time (`attention.packed`) is handed their offsets. Else
transformers (from 4.56 on) finds packed documents by itself where positions begin again, if it is
given positions, no mask and no cache; every kind of attention then keeps them apart, sliding
windows included. That is how the usual case goes. Where it would find too little (positions that
run on) or too much (positions that begin again, without a mask), the mask is handed over whole,
one for each kind of layer, since a mask that is handed over replaces the window of a sliding
layer too.

Which of them a model takes, and whether it keeps documents apart, is tried on it: `check_apart`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropewalk.errors import ModelFileError, UsageError
from ropewalk.packing.layout import Counting, Layout
from ropewalk.packing.pack import PackedBatch, PackedRow, stack
from ropewalk.short import short

if TYPE_CHECKING:
    from torch import Tensor

PROBE = 8
"""Tokens of each of the two documents that are tried."""


@short
@dataclass(frozen=True, slots=True)
class Handing:
    """How rows are handed over: documents kept apart or not, how their tokens count, and whether
    the model's attention takes offsets.
    """

    mask: bool = True
    positions: Counting = "reset"
    offsets: bool = False

    @property
    def by_positions(self) -> bool:
        """Whether positions alone say all that the model is to know."""
        return self.mask == (self.positions == "reset") and self.positions != "document"

    def of(self, batch: PackedBatch, config: Any) -> dict[str, Any]:
        """Keyword arguments of a causal model for `batch`, on its device.

        `input_ids` and `position_ids` (batch, length); `attention_mask` only where positions do
        not say it: bool (batch, 1, length, length), True where a query sees a key, by itself or
        in a dictionary by the kind of layer.

        Raises UsageError for kinds of layers that no mask is known for.
        """
        if self.offsets:
            apart = batch.varlen.transformers() if self.mask else {}
            return {"input_ids": batch.input_ids, "position_ids": batch.position_ids, **apart}
        positions = batch.position_ids
        if self.by_positions and not self.mask:
            # The padding behind the last document must not look like a document either.
            positions = _counting_through(positions)
        given: dict[str, Any] = {"input_ids": batch.input_ids, "position_ids": positions}
        if not self.by_positions:
            given["attention_mask"] = _masks(batch.segment_ids, config, apart=self.mask)
        return given


def _counting_through(positions: Tensor) -> Tensor:
    import torch

    rows, length = positions.shape
    return torch.arange(length, device=positions.device).expand(rows, length)


def _masks(segment_ids: Tensor, config: Any, *, apart: bool) -> Tensor | dict[str, Tensor]:
    """For every kind of layer that `config` names, which key each query sees."""
    import torch

    length = segment_ids.shape[1]
    order = torch.arange(length, device=segment_ids.device)
    seen = (order[:, None] >= order[None, :])[None]
    if apart:
        seen = seen & (segment_ids[:, :, None] == segment_ids[:, None, :])
    seen = seen.expand(segment_ids.shape[0], length, length)[:, None]
    window = getattr(config, "sliding_window", None)
    if not getattr(config, "use_sliding_window", True):
        window = None
    usual = "sliding_attention" if window else "full_attention"
    kinds = sorted(set(getattr(config, "layer_types", None) or [usual]))
    masks = {}
    for kind in kinds:
        if kind == "full_attention":
            masks[kind] = seen
        elif kind == "sliding_attention" and window:
            masks[kind] = seen & (order[:, None] - order[None, :] < window)
        else:
            raise UsageError(
                f"the model has layers of {kind}, for which only --mask with --positions reset is "
                "known"
            )
    return masks[kinds[0]] if len(kinds) == 1 else masks


def check_apart(model: Any, handing: Handing, vocabulary: int) -> None:
    """Try on the model itself that a document's tokens reach the next one, or do not.

    Two documents share a row; the first is changed. Raises ModelFileError where the second's
    logits do what they should not, or the model takes no such arguments.
    """
    import torch

    batch = to_device(stack(probe(vocabulary), handing.positions), model.device)
    try:
        with torch.inference_mode():
            logits = model(**handing.of(batch, model.config.get_text_config()), use_cache=False)
    except (TypeError, ValueError, RuntimeError, AttributeError) as error:
        said = " ".join(str(error).split())[:200]
        raise ModelFileError(
            f"{type(model).__name__} cannot be handed packed rows: {said}; try another --attention"
        ) from error
    first, second = logits.logits[:, PROBE:].float()
    # Expert layers may round a little differently; a leak is far beyond this.
    leaks = float((first - second).abs().max()) > 0.02 * float(first.std())
    if leaks and handing.mask:
        raise ModelFileError(
            f"{type(model).__name__} lets the tokens of a document reach the next one in its row "
            "(tried on two documents), so they cannot be kept apart; give --no-mask to train so "
            "on purpose, or data whose documents fill whole rows"
        )
    if not leaks and not handing.mask:
        raise ModelFileError(
            f"{type(model).__name__} keeps the documents of a row apart (tried on two documents) "
            "whatever it is told, so --no-mask cannot be done; leave it out"
        )


def probe(vocabulary: int, size: int = PROBE) -> list[PackedRow]:
    """Two rows of the same two documents of `size` tokens, but for the tokens of the first."""
    import torch

    layout = Layout.of([size, size])
    one = torch.arange(2 * size) * (vocabulary // (2 * PROBE + 1) or 1) % vocabulary
    other = one.clone()
    other[:size] = (one[:size] + vocabulary // 2) % vocabulary
    return [PackedRow(ids.numpy().astype("int32"), layout) for ids in (one, other)]


def to_device(batch: PackedBatch, device: Any) -> PackedBatch:
    """The batch with its tensors on a device."""
    return PackedBatch(
        input_ids=batch.input_ids.to(device),
        position_ids=batch.position_ids.to(device),
        labels=batch.labels.to(device),
        segment_ids=batch.segment_ids.to(device),
        varlen=batch.varlen,
        layouts=batch.layouts,
    )
