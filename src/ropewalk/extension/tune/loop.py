"""One step of training after another, and what each one cost.

A step's loss is the mean over all tokens of its rows on all processes: each row's sum is divided
by the step's number of tokens before it goes backwards, so that rows with much padding weigh no
more than they hold, and neither the number of processes nor how many rows go through at once
changes anything but rounding.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropewalk.errors import TrainingError, UsageError
from ropewalk.extension.tune.attention import handing
from ropewalk.extension.tune.data import StepRows, documents_words
from ropewalk.extension.tune.inputs import to_device
from ropewalk.extension.tune.loss import LossModel, predicted
from ropewalk.extension.tune.optimiser import rate
from ropewalk.extension.tune.training_settings import TuneSettings
from ropewalk.extension.tune.world import World
from ropewalk.packing.pack import PackedRow, stack
from ropewalk.short import short

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.optim import Optimizer


@short
@dataclass(frozen=True, slots=True)
class StepResult:
    """What step `step`, from 1, was and cost.

    `loss` is in nats per token, `tokens` counts those with a loss, `read` all of the rows, `norm`
    is the length of the gradient before it was clipped, `seconds` how long the step took.
    """

    step: int
    loss: float
    tokens: int
    read: int
    length: int
    rows: int
    rate: float
    norm: float
    seconds: float


class Trainer:
    """Takes steps. `model` may be sharded; `optimiser` belongs to it.

    `changing()` is called when a step is about to change weights: up to there nothing has been.
    """

    def __init__(
        self,
        model: LossModel,
        optimiser: Optimizer,
        rows: StepRows,
        settings: TuneSettings,
        world: World,
        changing: Callable[[], None] = lambda: None,
    ) -> None:
        self._changing = changing
        self.model, self.optimiser, self.rows = model, optimiser, rows
        self._settings, self._world = settings, world
        self._handing = handing(model.causal, settings)
        self._config = model.causal.config.get_text_config()
        self._trained = [each for each in model.parameters() if each.requires_grad]

    def step(self) -> StepResult:
        """Take the next step.

        Raises TrainingError, before any weight is changed, for a loss or a gradient that is not
        finite: with the step, the rows and their documents.
        """
        import torch

        begun = time.perf_counter()
        number = self.rows.step
        rows = self.rows.next()
        total = sum(predicted(row.labels()[None]) for row in rows)
        if not total:
            raise UsageError(
                f"no row of step {number + 1} has a document of 2 tokens or more, so there is "
                "nothing to predict; give longer documents"
            )
        losses = self._backward(rows, total)
        loss = self._checked(number, rows, losses) / total
        norm = torch.nn.utils.clip_grad_norm_(self._trained, self._settings.clip)
        length = float(_whole(norm))
        if not math.isfinite(length):
            raise self._not_finite(number, f"its gradient is {length:g}", list(enumerate(rows)))
        used = rate(number, self._settings)
        for group in self.optimiser.param_groups:
            group["lr"] = used
        self._changing()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return StepResult(
            step=number + 1,
            loss=loss,
            tokens=total,
            read=sum(len(row.token_ids) for row in rows),
            length=rows[0].layout.length,
            rows=len(rows),
            rate=used,
            norm=length,
            seconds=time.perf_counter() - begun,
        )

    def _backward(self, rows: Sequence[PackedRow], total: int) -> list[tuple[list[int], float]]:
        """Gradients of this process's rows; each batch's row numbers beside its sum of losses."""
        mine = list(range(self._world.rank, len(rows), self._world.size))
        found = []
        at_once = self._settings.at_once
        for start in range(0, len(mine), at_once):
            numbers = mine[start : start + at_once]
            batch = to_device(
                stack([rows[n] for n in numbers], self._settings.positions), self._world.device
            )
            given = self._handing.of(batch, self._config)
            # FSDP casts by itself.
            kind = "fp32" if self._world.several else self._settings.dtype
            with precision(self._world.device, kind):
                summed = self.model(labels=batch.labels, **given)
            # FSDP takes the mean over the processes, and the step is a mean over tokens.
            (summed * (self._world.size / total)).backward()
            found.append((numbers, summed.detach()))
        return [(numbers, float(summed)) for numbers, summed in found]

    def _checked(
        self, number: int, rows: Sequence[PackedRow], losses: list[tuple[list[int], float]]
    ) -> float:
        """The sum of all processes' losses."""
        everyone = [pair for part in self._world.gather(losses) for pair in part]
        bad = [(n, loss) for numbers, loss in everyone if not math.isfinite(loss) for n in numbers]
        if bad:
            named = [(n, rows[n]) for n, _ in sorted(bad)]
            raise self._not_finite(number, f"its loss is {bad[0][1]:g}", named)
        return math.fsum(loss for _, loss in everyone)

    def _not_finite(
        self, number: int, what: str, rows: Sequence[tuple[int, PackedRow]]
    ) -> TrainingError:
        self.optimiser.zero_grad(set_to_none=True)
        named = "; ".join(f"row {n} with {documents_words(row)}" for n, row in rows[:4])
        more = f"; and {len(rows) - 4} more rows" if len(rows) > 4 else ""
        return TrainingError(
            f"step {number + 1} was not taken, because {what} ({named}{more}; rows count from 0 "
            "in the step, documents in the data); look at these documents, or lower --lr"
        )


def precision(device: torch.device, dtype: str) -> AbstractContextManager[Any]:
    """Within it a model of float32 weights computes in `dtype`, fp32 or bf16."""
    import torch

    if dtype == "bf16":
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def _whole(norm: Tensor) -> Tensor:
    full = getattr(norm, "full_tensor", None)
    found: Tensor = norm if full is None else full()
    return found
