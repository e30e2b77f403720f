"""Training one decoder: the same weights to begin with and the same rows under every encoding."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.comparison.language import VALUE
from ropewalk.comparison.presets import Settings, Variant
from ropewalk.decoder import Decoder
from ropewalk.errors import RopewalkError

WARM_UP = 50
"""Steps until the rate is full."""
FALLING = 0.4
"""Share of the steps at the end in which it falls to a twentieth."""
CHUNK = 64
"""Steps whose rows are drawn at once."""

Told = Callable[[int, int], None]
"""Told how many steps of how many are done."""


def fresh(settings: Settings, variant: Variant, seed: int) -> Decoder:
    """An untrained decoder; what is not the encoding's own is equal under every encoding."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = Decoder(settings.config(variant))
        moved: Decoder = model.to(settings.device)
        return moved


def shared_hash(model: Decoder) -> str:
    """SHA-256 of all weights but the encoding's own, by name, type, shape and bytes."""
    digest = hashlib.sha256()
    for name, held in sorted(model.state_dict().items()):
        if not name.startswith("position."):
            digest.update(f"{name} {held.dtype} {tuple(held.shape)}".encode())
            digest.update(held.cpu().numpy().tobytes())
    return digest.hexdigest()


def batches(settings: Settings, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Tokens (rows, length) and the weight of each as something to predict; `steps` of them.

    The encoding has no part in it. Early steps have more and shorter rows of the same tokens.
    """
    rows, length = settings.rows, settings.trained_length
    for step in range(settings.steps):
        if step % CHUNK == 0:
            many = min(CHUNK, settings.steps - step) * rows
            drawn = settings.language.streams((seed, 1, step), many, length)
            weights = 1.0 + (settings.answer_weight - 1.0) * (drawn.kinds == VALUE)
        here = slice(step % CHUNK * rows, (step % CHUNK + 1) * rows)
        size = piece(settings, step)
        yield (
            torch.from_numpy(drawn.tokens[here]).reshape(-1, size),
            torch.from_numpy(weights[here]).float().reshape(-1, size),
        )


def piece(settings: Settings, step: int) -> int:
    """Tokens of the rows at a step: a quarter, then half, then all of the trained length.

    All of it from the start where it cannot be cut so, or pieces would be too short to recall in.
    """
    length, part = settings.trained_length, step / settings.steps
    if part >= settings.growing or length % 4 or length < 32:
        return length
    return length // 4 if part < 0.6 * settings.growing else length // 2


def rate_at(settings: Settings, step: int) -> float:
    """The learning rate: it rises, stays, and falls."""
    left = (settings.steps - step) / settings.steps
    return settings.rate * min(1.0, (step + 1) / WARM_UP, max(0.05, left / FALLING))


class DecoderTrainer:
    """AdamW on one decoder, a step at a time."""

    def __init__(self, settings: Settings, model: Decoder) -> None:
        """`model` is trained in place."""
        self.settings, self.model = settings, model
        self.optimiser = torch.optim.AdamW(
            model.parameters(), lr=settings.rate, betas=(0.9, 0.98), weight_decay=0.01
        )

    def step(self, number: int, tokens: Tensor, weights: Tensor) -> float:
        """One step on rows of tokens; the weighted loss. Raises RopewalkError where it is NaN."""
        device = self.settings.device
        tokens, weights = tokens.to(device), weights.to(device)
        for group in self.optimiser.param_groups:
            group["lr"] = rate_at(self.settings, number)
        logits = self.model(tokens).logits[:, :-1].flatten(0, 1).float()
        each = functional.cross_entropy(logits, tokens[:, 1:].flatten(), reduction="none")
        share = weights[:, 1:].flatten()
        loss = (each * share).sum() / share.sum()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        found = float(loss.detach())
        if found != found:
            raise RopewalkError(
                f"the loss under {self.model.config.position} is NaN at step {number}; nothing of "
                "this run is kept, and the same command trains it again"
            )
        return found


def train(
    settings: Settings, variant: Variant, seed: int, told: Told = lambda _done, _total: None
) -> tuple[Decoder, tuple[float, ...], str]:
    """A trained decoder, its loss at every step, and SHA-256 of all tokens and weights it saw.

    Raises RopewalkError for a loss of NaN.
    """
    model = fresh(settings, variant, seed)
    trainer, losses, seen = DecoderTrainer(settings, model), [], hashlib.sha256()
    for number, (tokens, weights) in enumerate(batches(settings, seed)):
        losses.append(trainer.step(number, tokens, weights))
        seen.update(tokens.numpy().tobytes())
        seen.update(weights.numpy().tobytes())
        told(number + 1, settings.steps)
    return model.eval(), tuple(losses), seen.hexdigest()  # type: ignore[no-untyped-call]


def speeds(
    settings: Settings, variants: Sequence[Variant], rounds: int = 7, steps: int = 3
) -> dict[str, float]:
    """Tokens a second in training under each encoding, measured in turns.

    Every round trains `steps` steps under each in turn, so that what else the machine does falls
    on all alike; the median of the rounds counts. Full rows; fresh weights.
    """
    trainers: dict[str, Any] = {
        each.name: DecoderTrainer(settings, fresh(settings, each, 0)) for each in variants
    }
    drawn = settings.language.streams((0, 2), settings.rows, settings.trained_length)
    tokens = torch.from_numpy(drawn.tokens)
    weights = torch.ones(tokens.shape)
    took: dict[str, list[float]] = {name: [] for name in trainers}
    for number in range(rounds + 1):
        for name, trainer in trainers.items():
            begun = time.perf_counter()
            for _ in range(steps):
                trainer.step(number, tokens, weights)  # ends by reading the loss off the device
            if number:  # the first round warms up
                took[name].append(time.perf_counter() - begun)
    count = tokens.numel() * steps
    return {name: count / statistics.median(each) for name, each in took.items()}
