"""The two tables of encodings: their words as published, their figures by another computation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from ropewalk.explain.encodings import EncodingRow, every_encoding, explain_encodings
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.fire import Fire
from ropewalk.positions.kerple import KerpleLog, KerplePower
from ropewalk.positions.learned import Learned
from ropewalk.positions.t5 import T5Bias

Values = Callable[[int], list[float]]

WORDS = {
    "sinusoidal": (
        "0",
        "input embedding",
        "absolute (relative recoverable)",
        "defined, degrades",
        "the original transformer",
    ),
    "learned": ("max_len x d", "input embedding", "absolute only", "impossible", "GPT-2, BERT"),
    "RoPE": (
        "0",
        "q and k, every layer",
        "relative directly",
        "accepted, degrades quickly, extendable by rescaling plus brief long-context training",
        "Llama, Mistral, Qwen",
    ),
    "ALiBi": (
        "0",
        "attention scores",
        "relative distance penalty",
        "extrapolates well",
        "BLOOM, MPT",
    ),
}
"""The comparison that textbooks print, row for row."""

# Bounded, every position unique, relative offsets linear: by what each definition says.
ANSWERS = {
    "sinusoidal": (True, True, True),
    "learned": (True, True, False),
    "RoPE": (True, True, True),
    "RoPE, 2-D axial": (True, True, True),
    "XPos": (False, True, True),
    "ALiBi": (False, True, True),
    "T5 bias": (True, False, False),
    "Kerple (log)": (False, True, False),
    "Kerple (power)": (False, True, False),
    "FIRE": (True, True, False),
    "none": (True, False, False),
    "raw index": (False, True, False),
}


@pytest.fixture(scope="module")
def rows() -> dict[str, EncodingRow]:
    return {row.description.name: row for row in explain_encodings()}


def test_every_encoding_has_a_row_and_so_has_the_raw_index(rows: dict[str, EncodingRow]) -> None:
    assert list(rows) == list(ANSWERS)


@pytest.mark.parametrize("name", WORDS)
def test_words_are_those_of_the_published_comparison(
    name: str, rows: dict[str, EncodingRow]
) -> None:
    row = rows[name].description
    parameters = row.parameters.replace("1024 x 64", "max_len x d")
    assert (
        parameters,
        row.applied_to,
        row.encodes,
        row.beyond_trained_length,
        row.typical_users,
    ) == WORDS[name]


@pytest.mark.parametrize("name", ANSWERS)
def test_the_three_answers_follow_from_each_definition(
    name: str, rows: dict[str, EncodingRow]
) -> None:
    figures = rows[name].figures
    assert (figures.bounded, figures.unique, figures.relative_linear) == ANSWERS[name]


@pytest.mark.parametrize("encoding", every_encoding(), ids=lambda e: type(e).__name__)
def test_the_parameters_a_row_states_are_as_many_as_the_module_has(
    encoding: PositionEncoding,
) -> None:
    stated = encoding.describe().parameters.replace(" x ", " * ")
    sizes = {name: getattr(encoding, name) for name in ("heads", "buckets") if name in stated}
    if isinstance(encoding, Fire):
        sizes["width"] = encoding.hidden.out_features
    count = eval(stated, {"__builtins__": {}}, sizes)  # noqa: S307  # our own words
    assert count == sum(parameter.numel() for parameter in encoding.parameters())


def by_hand() -> dict[str, Values]:
    """Each encoding's values at a position, from its paper and in plain floats."""
    torch.manual_seed(0)
    drawn = {type(encoding): encoding for encoding in every_encoding()}
    turns = [10_000.0 ** (-2 * i / 64) for i in range(32)]
    # Each half of the channels has the frequencies of a head half as wide.
    halves = [10_000.0 ** (-2 * i / 32) for i in range(16)] * 2
    log, power, fire = drawn[KerpleLog], drawn[KerplePower], drawn[Fire]
    learned, t5 = drawn[Learned], drawn[T5Bias]
    assert isinstance(learned, Learned)
    assert isinstance(t5, T5Bias)
    assert isinstance(log, KerpleLog)
    assert isinstance(power, KerplePower)
    assert isinstance(fire, Fire)

    # A query of ones and a key of ones are one vector: both stand in the values.
    def ones_turned(p: int, at: list[float]) -> list[float]:
        angles = [p * f for f in at]
        return [math.cos(a) - math.sin(a) for a in angles] + [
            math.cos(a) + math.sin(a) for a in angles
        ]

    def decays(p: int) -> list[float]:
        zeta = [((2 * i / 64 + 0.4) / 1.4) ** (p / 512) for i in range(32)] * 2
        both = list(zip(ones_turned(p, turns), zeta, strict=True))
        return [x * z for x, z in both] + [x / z for x, z in both]

    def bucket(p: int) -> int:
        return p if p < 16 else min(31, 16 + int(math.log(p / 16) / math.log(8) * 16))

    def network(p: int) -> list[float]:
        # A key p positions behind the query at 1023.
        share = torch.tensor([math.log1p(0.1 * p) / math.log1p(0.1 * 1023)])
        out: list[float] = fire.out(torch.relu(fire.hidden(share))).tolist()
        return out

    return {
        "sinusoidal": lambda p: [wave(p * f) for f in turns for wave in (math.sin, math.cos)],
        "learned": lambda p: learned.weight[p].tolist(),
        "RoPE": lambda p: 2 * ones_turned(p, turns),
        "RoPE, 2-D axial": lambda p: 2 * ones_turned(p, halves),
        "XPos": decays,
        "ALiBi": lambda p: [-(2.0**-h) * p for h in range(1, 9)],
        "T5 bias": lambda p: t5.weight[bucket(p)].tolist(),
        "Kerple (log)": lambda p: [
            -a * math.log(1 + b * p) for a, b in zip(log.r1.tolist(), log.r2.tolist(), strict=True)
        ],
        "Kerple (power)": lambda p: [
            -a * p**b for a, b in zip(power.r1.tolist(), power.r2.tolist(), strict=True)
        ],
        "FIRE": network,
        "none": lambda _p: [0.0],
        "raw index": lambda p: [float(p)],
    }


@pytest.mark.parametrize("name", ANSWERS)
@torch.no_grad()
def test_the_figures_are_those_of_loops_from_the_papers(
    name: str, rows: dict[str, EncodingRow]
) -> None:
    figures, values = rows[name].figures, by_hand()[name]
    near = np.array([values(p) for p in range(1024)])
    distances = np.sqrt(((near[:, None, :] - near[None]) ** 2).sum(-1))
    closest = distances[np.triu_indices(1024, 1)].min()
    # FIRE's bias is fp32, whose roundings a distance of 1e-4 shows.
    assert figures.smallest_distance == pytest.approx(closest, rel=1e-2, abs=1e-12)
    # FIRE was given the last of 1024 as its query; at the farthest position its share is 1.
    far = 1023 if name in ("FIRE", "learned") else figures.farthest
    # Of a wave the last position need not be the peak.
    reached = max(abs(x) for p in range(far - 7, far + 1) for x in values(p))
    largest = max(reached, float(np.abs(near).max()))
    assert figures.largest == pytest.approx(largest, rel=2e-3)
    # A map fitted over an offset that was not among those measured, on all positions.
    before, after = near[:-5], near[5:]
    if name not in ("raw index", "none"):
        before = np.hstack([before, np.ones((len(before), 1))])
    fitted = np.linalg.lstsq(before, after, rcond=None)[0]
    error = float(np.abs(before @ fitted - after).max()) / max(float(np.abs(near).max()), 1e-300)
    assert (error < 1e-6) == (figures.relative_linear or name == "none")
