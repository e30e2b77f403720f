"""Steps against a training loop written out by hand with torch alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from ropewalk.extension.tune.session import tune
from ropewalk.extension.tune.training_settings import TuneSettings, parse_mix

Settings = Callable[..., TuneSettings]


def by_hand(checkpoint: Path, rows: list[list[list[list[int]]]], rates: list[float]) -> list[float]:
    """AdamW on documents that are read one at a time, without packing, chunks or checkpoints.

    `rows[step][row]` holds the documents of a row. The losses of the steps.
    """
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1.0, betas=(0.9, 0.95), weight_decay=0.0)
    found = []
    for step, used in zip(rows, rates, strict=True):
        documents = [torch.tensor(ids) for row in step for ids in row if len(ids) > 1]
        tokens = sum(len(ids) - 1 for ids in documents)
        total = torch.zeros(())
        for ids in documents:
            logits = model(ids[None], use_cache=False).logits[0, :-1]
            total = total + cross_entropy(logits, ids[1:], reduction="sum")
        loss = total / tokens
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.param_groups[0]["lr"] = used
        optimiser.step()
        found.append(float(loss.detach()))
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"at_once": 2, "activation_checkpoints": False, "mix": "64:1,32:1"},
        {"attention": "sdpa"},
        {"attention": "eager"},
    ],
)
def test_losses_are_those_of_a_plain_loop_over_separate_documents(
    settings: Settings,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
) -> None:
    from ropewalk.extension.tune.data import StepRows

    taken: list[list[list[list[int]]]] = []
    following = StepRows.next

    def noted(self: StepRows) -> Any:
        rows = following(self)
        taken.append(
            [
                [
                    row.token_ids[start : start + size].tolist()
                    for start, size in zip(row.layout.starts, row.layout.seq_lens, strict=True)
                ]
                for row in rows
            ]
        )
        return rows

    monkeypatch.setattr(StepRows, "next", noted)
    if "mix" in changes:
        changes = {**changes, "mix": parse_mix(changes["mix"])}
    done = tune(settings(**changes))
    assert done is not None
    rates = [each.rate for each in done.steps]
    assert rates[:2] == [5e-4, 1e-3]
    wanted = by_hand(checkpoint, taken, rates)
    assert [each.loss for each in done.steps] == pytest.approx(wanted, abs=2e-5)
    assert wanted[-1] < wanted[0]
    kept = [json.loads(line) for line in (done.folder / "losses.jsonl").read_text().splitlines()]
    assert [each["loss"] for each in kept] == [each.loss for each in done.steps]


def test_bfloat16_keeps_weights_in_float32_and_comes_near(settings: Settings) -> None:
    exact = tune(settings())
    assert exact is not None
    half = tune(settings(dtype="bf16", out=exact.folder.parent / "half"))
    assert half is not None
    losses = [each.loss for each in exact.steps]
    rounded = [each.loss for each in half.steps]
    assert rounded != losses
    assert rounded == pytest.approx(losses, rel=0.01)
