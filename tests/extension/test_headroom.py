"""Schedules made for more than they claim: which is measured, and how an audit tells of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ropewalk.dialects.hf import load_json, read_config
from ropewalk.extension.checkpoint import write_folder
from ropewalk.extension.headroom import Headrooms, headrooms
from ropewalk.extension.methods import CLOSED_FORMS, NAMES, Stretches, extended
from ropewalk.extension.score import SHIPPED, Candidate
from ropewalk.findings import audit
from ropewalk.models.resolve import read_spec, resolve

SaveFolder = Callable[..., Path]


@pytest.mark.parametrize("name", ["yarn", "linear"])
def test_a_factor_with_headroom_is_a_note_as_long_as_the_record_explains_it(
    folder: SaveFolder, tmp_path: Path, name: str
) -> None:
    source = folder()
    method = next(each for each in CLOSED_FORMS if each.name == name)
    after = extended(read_config(load_json(source / "config.json")), 2048, method, 1.5)
    out = write_folder(source, after, tmp_path / "longer", place="link", card="").path
    found = {f.code: f for f in audit(read_spec(resolve(str(out)))).findings}
    assert "factor-lengths-disagree" not in found
    assert found["made-for-longer"].severity == "note"
    assert "Factor 6 x trained 512 = 3072, and 2048 is claimed" in found["made-for-longer"].text
    path = out / "config.json"
    config = json.loads(path.read_text())
    config["max_position_embeddings"] = 2560
    path.write_text(json.dumps(config))
    changed = {f.code: f for f in audit(read_spec(resolve(str(out)))).findings}
    assert changed["factor-lengths-disagree"].severity == "warning"
    assert "made-for-longer" not in changed


# SmolLM2-135M at 16,384 tokens, as it was measured: nats over gaps, and what short text costs.
MEASURED = {
    "linear": ((-20.05, 0.21), (-20.16, 0.31), (-20.03, 0.37), (-23.91, 0.42)),
    "ntk": ((-8.04, 0.006), (-4.54, 0.009), (-4.19, 0.011), (-0.45, 0.017)),
    "ntk-by-parts": ((-4.11, 0.018), (-0.81, 0.025), (-0.48, 0.032), (-0.57, 0.041)),
    "yarn": ((-4.66, 0.006), (-2.73, 0.009), (-0.89, 0.011), (-1.35, 0.016)),
    "llama3": ((-3.78, 0.011), (-0.56, 0.015), (-0.69, 0.017), (-0.96, 0.021)),
    "longrope": ((-4.18, -0.002), (-0.47, -0.002), (-1.31, -0.002), (-1.04, -0.001)),
    "base": ((-4.18, 0.011), (-0.41, 0.018), (-0.87, 0.023), (-0.66, 0.034)),
}
ROOMS = (1.0, 1.25, 1.5, 2.0)


class Bench:
    """Stands for a loaded model; a score takes as many of the clock's seconds as `slow` says."""

    model = None

    def __init__(self, spec: Any, slow: float = 0.0) -> None:
        self.spec = spec
        self.slow = slow
        self.now = 0.0

    def _of(self, candidate: Candidate) -> tuple[float, float]:
        assert candidate.stretch is not None
        room = ROOMS.index(candidate.stretch.headroom)
        return MEASURED[candidate.stretch.method.name][room]

    def short_loss(self, candidate: Candidate) -> float:
        return 4.0 if candidate.name == SHIPPED else 4.0 * (1 + self._of(candidate)[1])

    def gaps(self, candidate: Candidate, target: int) -> float:
        assert target == 16_000
        self.now += self.slow
        return self._of(candidate)[0]


@pytest.fixture
def chosen(folder: SaveFolder, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Headrooms]:
    """chosen(deadline, slow): what is measured of SmolLM2 by a clock of our own."""
    monkeypatch.setattr("ropewalk.extension.headroom.why_not", lambda *_: None)
    spec = read_config(load_json(folder(max_position_embeddings=8192) / "config.json"))

    def choose(deadline: float | None = None, slow: float = 0.0) -> Headrooms:
        bench: Any = Bench(spec, slow)
        clock = SimpleNamespace(monotonic=lambda: bench.now)
        monkeypatch.setattr("ropewalk.extension.headroom.time", clock)
        return headrooms(bench, Stretches(spec, 16_384), 16_000, 0.02, deadline, lambda _: None)

    return choose


def test_of_each_method_the_best_over_gaps_that_keeps_short_text_is_measured(
    chosen: Callable[..., Headrooms],
) -> None:
    found = chosen()
    assert len(found.tried) == 28
    assert [each.name for each in found.chosen] == [
        "linear", "ntk x2", "ntk-by-parts", "yarn x1.5", "llama3 x1.25", "longrope x1.25",
        "base x1.25",
    ]  # fmt: skip


@pytest.mark.parametrize(("minutes", "rooms"), [(1, 1), (8, 2), (60, 4)])
def test_a_deadline_leaves_three_quarters_of_the_time_to_whole_documents(
    chosen: Callable[..., Headrooms], minutes: float, rooms: int
) -> None:
    """Seven methods at 8 seconds each are most of a minute for a headroom."""
    found = chosen(60.0 * minutes, 8.0)
    assert {each.stretch.headroom for each in found.tried} == set(ROOMS[:rooms])
    assert [each.method.name for each in found.chosen] == list(NAMES)
