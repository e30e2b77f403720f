"""AdamW, and how the learning rate goes up, and comes down."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ropewalk.extension.tune.training_settings import TuneSettings

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import AdamW

BETAS = (0.9, 0.95)


def adamw(model: nn.Module, settings: TuneSettings) -> AdamW:
    """AdamW over what is to be trained; matrices decay, norms and biases do not.

    AdamW of I. Loshchilov and F. Hutter, 1711.05101, with the betas of Llama 2 (2307.09288).
    """
    from torch.optim import AdamW

    trained = [each for each in model.parameters() if each.requires_grad]
    groups = [
        {
            "params": [each for each in trained if each.ndim >= 2],
            "weight_decay": settings.weight_decay,
        },
        {"params": [each for each in trained if each.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW([group for group in groups if group["params"]], lr=settings.lr, betas=BETAS)


def rate(step: int, settings: TuneSettings) -> float:
    """The learning rate of step `step`, from 0.

    Up in a straight line over `warmup` steps, the first of which is not 0; then constant, or down
    by a line or half a cosine, to `lr_end` times `lr` at the last step.
    """
    if step < settings.warmup:
        return settings.lr * (step + 1) / settings.warmup
    if settings.decay == "constant":
        return settings.lr
    falling = settings.steps - settings.warmup
    passed = (step - settings.warmup + 1) / falling
    left = 1 - passed if settings.decay == "linear" else (1 + math.cos(math.pi * passed)) / 2
    return settings.lr * (settings.lr_end + (1 - settings.lr_end) * left)
