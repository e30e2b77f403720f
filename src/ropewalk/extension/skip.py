"""A cheap stand-in for long prompts: a short one with a gap in its positions.

The needle stands in the first block, the question in the second, and the positions of the second
begin as far away as they would in a prompt of the full length (the training of PoSE, 2309.10400,
used as a test). It asks whether a schedule turns queries and keys right over that distance, for
about a thousand tokens. What it cannot show is how a needle drowns among many thousand tokens, so
that it has to be compared with whole prompts before it is trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropewalk.errors import ModelFileError
from ropewalk.proof.cells import Cell, Prompt
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.subjects.calls import ModelCalls
from ropewalk.rope.spec import NoPositionSpec, PositionSpec, RotarySpec
from ropewalk.short import short

if TYPE_CHECKING:
    import torch

PROMPT = 448
"""Tokens of a prompt; the question and a few sentences before it are the second block."""
SECOND = 112
DEPTHS = (0.0, 0.25, 0.5, 0.75)
"""Of a needle in a prompt of the full length; each gives a distance."""
PLACE = 0.3
"""Where in the short prompt the needle stands: before the gap, and not at its edge."""


@short
@dataclass(frozen=True, slots=True)
class Gap:
    """The needle's log-probability over one gap, in nats, for one trial.

    `depth` None: no gap, the prompt as it is.
    """

    trial: int
    depth: float | None
    log_probability: float


class SkipProbe:
    """Scores the schedule that a live model turns by, at `target` tokens.

    One pass a trial: the first block once, and behind it the second at every distance. Raises
    ModelFileError for a model that cannot be told positions, or has layers with a window, which
    would see over the gap what they never see in a long prompt.
    """

    def __init__(
        self, model: Any, maker: PromptMaker, spec: PositionSpec, target: int,
        depths: Sequence[float] = DEPTHS,
    ) -> None:  # fmt: skip
        reason = why_not(model, spec)
        if reason is not None:
            raise ModelFileError(
                f"positions with a gap say nothing of this model: {reason}; use --method auto, "
                "which asks whole prompts"
            )
        self._calls = ModelCalls(model)
        self._maker = maker
        self._target = target
        self._depths = tuple(depths)
        self._kept: dict[int, Prompt] = {}

    @property
    def tokens(self) -> int:
        """Tokens that one trial reads, about."""
        return PROMPT + SECOND * len(self._depths)

    def __call__(self, trials: Sequence[int]) -> list[Gap]:
        """Every gap of every trial, without a gap first."""
        return [gap for trial in trials for gap in self._trial(trial)]

    def _trial(self, trial: int) -> list[Gap]:
        import torch

        prompt = self._prompt(trial)
        ids = (*prompt.token_ids, *prompt.value_ids)
        first = len(prompt.token_ids) - SECOND
        branch = ids[first:]
        gaps = [0, *(self._gap(prompt, depth) for depth in self._depths)]
        device = self._calls.device
        laid = torch.tensor([*ids[:first], *branch * len(gaps)], device=device)
        places = [*range(first)]
        keep: list[int] = []
        for number, gap in enumerate(gaps):
            places += range(first + gap, first + gap + len(branch))
            begin = first + number * len(branch) + SECOND - 1
            keep += range(begin, begin + len(prompt.value_ids))
        with torch.inference_mode():
            logits, _ = self._calls.call(
                laid[None],
                None,
                torch.tensor(keep, device=device),
                attention_mask=_mask(first, len(branch), len(gaps), self._calls.model),
                position_ids=torch.tensor([places], device=device),
            )
        told = logits.float().log_softmax(-1).view(len(gaps), len(prompt.value_ids), -1)
        value = torch.tensor(prompt.value_ids, device=device).expand(len(gaps), -1)
        sums = told.gather(2, value[..., None]).sum((1, 2)).tolist()
        names = [None, *self._depths]
        return [Gap(trial, name, each) for name, each in zip(names, sums, strict=True)]

    def _gap(self, prompt: Prompt, depth: float) -> int:
        """How many positions to leave out so that the needle is as far as in the long prompt."""
        here = prompt.length - prompt.needle_start
        there = round((1.0 - depth) * self._target)
        longest = self._target - prompt.length
        return max(0, min(there - here, longest))

    def _prompt(self, trial: int) -> Prompt:
        if trial not in self._kept:
            self._kept[trial] = self._maker(Cell(PROMPT, PLACE, trial))
        return self._kept[trial]


def why_not(model: Any, spec: PositionSpec) -> str | None:
    """Why a model cannot be probed by a gap in its positions, or None."""
    if any(group.window is not None for group in spec.groups):
        return "some of its layers see a window only, and would see over the gap"
    if not all(isinstance(group.encoding, (RotarySpec, NoPositionSpec)) for group in spec.groups):
        return "its layers are not rotary throughout"
    calls = ModelCalls(model)
    if not (calls.takes("position_ids") and calls.takes("attention_mask")):
        return "its forward takes no positions"
    if getattr(model.config.get_text_config(), "_attn_implementation", "") not in ("sdpa", "eager"):
        return "its attention takes no mask of one's own"
    return None


def _mask(first: int, branch: int, count: int, model: Any) -> torch.Tensor:
    """(1, 1, tokens, tokens), added to the scores: a branch sees the first block and itself."""
    import torch

    total = first + branch * count
    owner = torch.full((total,), -1)
    for number in range(count):
        owner[first + number * branch : first + (number + 1) * branch] = number
    order = torch.arange(total)
    seen = (owner[None] == -1) | (owner[None] == owner[:, None])
    seen &= order[None] <= order[:, None]
    mask = torch.zeros(total, total, dtype=model.dtype)
    mask.masked_fill_(~seen, torch.finfo(model.dtype).min)
    return mask[None, None].to(model.device)
