"""A trained decoder beyond its trained length: loss, recall, and position read off its states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.comparison.figures import LayerProbe, PositionLoss, Recall, WindowLoss, WindowReading
from ropewalk.comparison.language import Streams
from ropewalk.comparison.presets import FAR, Settings
from ropewalk.comparison.readout import probe
from ropewalk.decoder import Decoder
from ropewalk.errors import PositionError
from ropewalk.proof.loss_by_position import windows
from ropewalk.rope.schedules import Linear, Ntk, Scaling, Yarn
from ropewalk.rope.spec import RotarySpec

TOKENS = 1 << 15
"""Tokens read in one call."""
EVALUATION, RECALL, PROBE = 11, 12, 13
"""Seeds of what is read; training has others."""

Told = Callable[[str], None]
"""Told in a few words what is being measured."""


def read_beyond(
    model: Decoder, settings: Settings, lengths: Sequence[int], told: Told = lambda _: None
) -> WindowReading:
    """Losses and recall in windows of `lengths`, ascending; nothing follows one that is refused."""
    streams = evaluation(settings)
    losses: list[WindowLoss] = []
    recalls: list[Recall] = []
    for window in lengths:
        told(f"reading windows of {window} tokens")
        try:
            losses += _both_ways(model, settings, streams, window)
            recalls += _recalls(model, settings, window)
        except PositionError as error:
            return WindowReading(tuple(losses), tuple(recalls), str(error))
    return WindowReading(tuple(losses), tuple(recalls))


def evaluation(settings: Settings) -> Streams:
    """Streams of twice the longest window: under every window the second half is scored, which
    has at least that much before it.
    """
    length = 2 * settings.windows[-1]
    return settings.language.streams((EVALUATION,), settings.streams, length)


def _both_ways(
    model: Decoder, settings: Settings, streams: Streams, window: int
) -> Iterator[WindowLoss]:
    first = streams.tokens.shape[1] // 2
    tokens = torch.from_numpy(streams.tokens).to(settings.device)
    trained = settings.trained_length
    distances = streams.distances[:, first:]
    far = torch.from_numpy((distances >= trained) & (distances < FAR * trained))
    for kind, stride in (("non-overlapping", window - 1), ("sliding", settings.stride)):
        each = losses_in_windows(model, tokens, window, stride, first)
        count = int(far.sum())
        yield WindowLoss(
            kind=kind,
            window=window,
            stride=stride,
            tokens=each.numel(),
            mean=float(each.mean()),
            far=float(each[far].mean()) if count else None,
            far_tokens=count,
        )


@torch.inference_mode()
def losses_in_windows(
    model: Any, tokens: Tensor, window: int, stride: int, first: int = 1
) -> Tensor:
    """The loss (rows, length - first), fp64, of the tokens (rows, length) from number `first` on.

    Each is read in the window that `ropewalk.proof.loss_by_position.windows` scores it in, from
    position 0. Raises LengthError as that does.
    """
    rows, length = tokens.shape
    found = torch.full((rows, length), torch.nan, dtype=torch.float64)
    spans = [
        (start, end, max(scored, first))
        for start, end, scored in windows(length, window, stride)
        if end > first
    ]
    many = max(1, TOKENS // (rows * min(window, length)))
    for begin in range(0, len(spans), many):
        part = spans[begin : begin + many]
        read = torch.cat([tokens[:, start:end] for start, end, _ in part])
        lost = _losses(model, read).view(len(part), rows, -1)
        for each, (start, end, scored) in zip(lost, part, strict=True):
            # Number i of a row of losses is that of token i + 1 of the window.
            found[:, scored:end] = each[:, scored - start - 1 :]
    return found[:, first:]


def _losses(model: Any, tokens: Tensor) -> Tensor:
    """The loss (rows, length - 1), fp64 on the CPU, of every token but the first."""
    logits = model(tokens).logits[:, :-1].float()
    lost = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return lost.view(len(tokens), -1).double().cpu()


def _recalls(model: Decoder, settings: Settings, length: int) -> Iterator[Recall]:
    """A fact half a trained length back, and one in the first eighth of the prompt."""
    for distance in (settings.trained_length // 2, length - length // 8):
        yield recall(model, settings, length, distance)


@torch.inference_mode()
def recall(model: Any, settings: Settings, length: int, distance: int) -> Recall:
    """Exact hits: the most likely of all tokens is the value that the name was told with."""
    asked = settings.language.asked((RECALL, length, distance), settings.prompts, length, distance)
    hits = 0
    many = max(1, TOKENS // length)
    for begin in range(0, settings.prompts, many):
        tokens = torch.from_numpy(asked.tokens[begin : begin + many]).to(settings.device)
        said = model(tokens, logits_to_keep=1).logits[:, -1].argmax(-1).cpu().numpy()
        hits += int(np.sum(said == asked.answers[begin : begin + many]))
    return Recall(length, distance, hits, settings.prompts)


def by_position(model: Decoder, settings: Settings) -> tuple[PositionLoss, ...]:
    """The loss by position in one reading of the longest window, as far as it is taken.

    A quarter of the trained length is the first part; each that follows is as long as all
    before it.
    """
    trained = settings.trained_length
    edges = [1, trained // 4, trained // 2, *settings.windows]
    streams = settings.language.streams((EVALUATION, 1), 2 * settings.streams, edges[-1])
    tokens = torch.from_numpy(streams.tokens).to(settings.device)
    for end in (edges[-1], trained):
        try:
            with torch.inference_mode():
                # A few rows at a time: a bias is a matrix of length x length for each head.
                lost = torch.cat([_losses(model, part) for part in tokens[:, :end].split(8)])
        except PositionError:
            continue
        return tuple(
            PositionLoss(a, b, float(lost[:, a - 1 : b - 1].mean()))
            for a, b in pairwise(edges)
            if b <= end
        )
    return ()


def probes(model: Decoder, settings: Settings) -> tuple[LayerProbe, ...]:
    """Position at each layer, within the trained length; half of the streams fit, half score."""
    length = settings.trained_length
    drawn = settings.language.streams((PROBE,), 2 * settings.prompts, length)
    tokens = torch.from_numpy(drawn.tokens).to(settings.device)
    with torch.inference_mode():
        states = model(tokens, output_hidden_states=True).hidden_states
    return tuple(probe(layer, each.double().cpu().numpy()) for layer, each in enumerate(states))


def schedules(settings: Settings) -> dict[str, Scaling]:
    """The schedules under which a trained rotary decoder is read again, without training."""
    return {
        f"linear x{FAR}": Linear(FAR),
        f"ntk x{FAR}": Ntk(FAR),
        f"yarn x{FAR}": Yarn(FAR, settings.trained_length),
    }


def rescaled(model: Decoder, settings: Settings, scaling: Scaling) -> WindowReading:
    """The reading under another schedule; the decoder turns by its own again afterwards."""
    config = settings.config(settings.variants[0])
    own = RotarySpec(config.head_dim, config.head_dim, config.rope_theta)
    model.set_rotary(replace(own, scaling=scaling), FAR * settings.trained_length)
    try:
        return read_beyond(
            model, settings, (settings.trained_length, FAR * settings.trained_length)
        )
    finally:
        model.set_rotary(own)
