"""A real model's prefill with and without the rotary kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import ropewalk
from benchmarks.cpu_timing import Reach, Row, Times
from ropewalk.models.load import load

WITHOUT, WITH = "as transformers has it", "accelerate_rotary"
IN_PLACE = "accelerate_rotary(in_place=True)"


def prefill(tokens: int, rounds: int) -> Row:
    """SmolLM2-135M over `tokens` tokens: seconds each way, logits compared."""
    import time

    model: Any = load(
        ropewalk.resolve("smollm2"), device=torch.device("cpu"), dtype=torch.float32
    ).model
    ids = torch.randint(100, 40000, (1, tokens), generator=torch.Generator().manual_seed(0))
    seconds: dict[str, list[float]] = {WITHOUT: [], WITH: [], IN_PLACE: []}

    def run() -> Tensor:
        with torch.no_grad():
            logits: Tensor = model(ids, use_cache=False, logits_to_keep=8).logits
        return logits

    expected = run()
    for number in range(rounds):
        for name in list(seconds)[:: -1 if number % 2 else 1]:
            handle = None
            if name != WITHOUT:
                handle = ropewalk.accelerate_rotary(model, in_place=name == IN_PLACE)
            start = time.perf_counter()
            logits = run()
            seconds[name].append(time.perf_counter() - start)
            assert float((logits - expected).norm() / expected.norm()) < 1e-5
            if handle is not None:
                handle.undo()
    times = Times(seconds)
    return Row(
        f"SmolLM2-135M prefill of {tokens:,} tokens",
        {name: times.median(name) for name in seconds},
        (
            Reach("times as fast as without", times.ratio(WITHOUT, WITH), 1.0, at_least=True),
            Reach("times, in place", times.ratio(WITHOUT, IN_PLACE), 1.0, at_least=True),
        ),
        "attention and the matrix products, which take most of a prefill",
    )
