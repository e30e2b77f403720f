"""Proofs made by hand, so that reports are tested without any model, and a real browser."""

from __future__ import annotations

import math
import os
import random
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ropewalk.proof.cells import Answer, Cell, Outcome, Row
from ropewalk.proof.summary import (
    CellSummary,
    ControlSummary,
    EffectiveLength,
    LengthSummary,
    RunSummary,
    Share,
)
from ropewalk.report.prompts import CellPrompt

MakeSummary = Callable[..., RunSummary]


def _share(hits: int, judged: int) -> Share:
    if not judged:
        return Share(0, 0, 0.0, 1.0)
    z, p = 1.959964, hits / judged
    middle = (p + z * z / (2 * judged)) / (1 + z * z / judged)
    half = z / (1 + z * z / judged) * math.sqrt(p * (1 - p) / judged + z * z / (4 * judged**2))
    return Share(hits, judged, max(0.0, middle - half), min(1.0, middle + half))


def _cell(length: int, depth: float, outcomes: Mapping[Outcome, int], planned: int) -> CellSummary:
    hits = outcomes.get(Outcome.HIT, 0)
    judged = hits + outcomes.get(Outcome.MISS, 0) + outcomes.get(Outcome.WRONG, 0)
    asked = sum(outcomes.values())
    log_probability = -0.25 if judged else None
    return CellSummary(
        length, depth, _share(hits, judged), outcomes, log_probability, asked, planned
    )


@pytest.fixture
def make_summary() -> MakeSummary:
    """Return a maker of summaries: hits are full up to `reach`, none beyond, unless overridden."""

    def make(
        lengths: Sequence[int] = (2048, 8000, 12000),
        depths: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
        trials: int = 4,
        reach: int = 8000,
        claimed: int | None = 8192,
        special: Mapping[tuple[int, float], Mapping[Outcome, int]] | None = None,
        facts: Mapping[str, str] | None = None,
        **effective: object,
    ) -> RunSummary:
        cells = []
        for length in lengths:
            for depth in depths:
                usual = {Outcome.HIT if length <= reach else Outcome.MISS: trials}
                cells.append(
                    _cell(length, depth, (special or {}).get((length, depth), usual), trials)
                )
        columns = []
        for length in lengths:
            own = [cell for cell in cells if cell.length == length and cell.share.judged]
            pooled = _share(sum(c.share.hits for c in own), sum(c.share.judged for c in own))
            worst = min(own, key=lambda c: c.share.value or 0.0, default=None)
            verdict = (
                "passes" if pooled.low > 0.8 else "fails" if pooled.high < 0.85 else "undecided"
            )
            columns.append(
                LengthSummary(
                    length,
                    pooled,
                    worst.depth if worst else None,
                    worst.share if worst else _share(0, 0),
                    verdict,
                )
            )
        within = [length for length in lengths if length <= reach]
        settled: dict[str, object] = {
            "certain": within[-1] if within else None,
            "possible": within[-1] if within else None,
            "threshold": 0.85,
            "threshold_rule": "0.85 of the score at 2,048",
            "more_trials": 0,
            "sentence": f"Reads {reach:,} of 8,192 claimed tokens.",
        }
        controls = (ControlSummary("needle-only", 2048, _share(4, 4), "The task is understood."),)
        return RunSummary(
            tuple(lengths),
            tuple(depths),
            trials,
            tuple(cells),
            tuple(columns),
            EffectiveLength(**(settled | effective)),  # type: ignore[arg-type]
            controls,
            claimed,
            "max_position_embeddings",
            claimed,
            facts
            if facts is not None
            else {
                "model": "SmolLM2-135M-Instruct",
                "schedule": "default, base 100000",
                "seed": "0",
                "tokens": "440,960",
                "seconds": "102",
                "versions": "ropewalk 0.1.0, torch 2.9.1, transformers 5.24.0",
                "command": "ropewalk prove smollm2 --lengths 2048,8000,12000 --trials 4 --seed 0",
            },
        )

    return make


MakePrompts = Callable[..., list[CellPrompt]]


_WORDS = ["".join(random.Random(i).choices("aeiounrstl", k=3 + i % 6)) for i in range(2000)]


@cache
def _sentences(seed: int, characters: int) -> tuple[str, ...]:
    """Return sentences of made-up words, at least `characters` long together."""
    chance = random.Random(seed)
    sentences: list[str] = []
    while characters > 0:
        sentences.append(" ".join(chance.choices(_WORDS, k=11)).capitalize() + ". ")
        characters -= len(sentences[-1])
    return tuple(sentences)


@pytest.fixture
def make_prompts() -> MakePrompts:
    """Return a maker of a prompt for each kept answer; `shared` haystacks differ by trial only."""

    def make(summary: RunSummary, *, shared: bool = True, suffix: str = "") -> list[CellPrompt]:
        prompts = []
        for number, cell in enumerate(summary.cells):
            outcomes = [o for o, count in cell.outcomes.items() for _ in range(count)]
            for trial, outcome in enumerate(outcomes):
                hay = [*_sentences(trial if shared else 1000 * number + trial, 4 * cell.length)]
                place = int(cell.depth * len(hay))
                key, value = f"key-{trial}", f"{4_000_000 + 1000 * number + trial}"
                hay.insert(place, f"The code of {key} is {value}. ")
                text = "".join(hay) + f"{suffix}\nThe code of {key} is"
                answer = Answer(outcome, -0.25, value if outcome == Outcome.HIT else "no", 0.5)
                where = Cell(cell.length, cell.depth, trial)
                row = Row(where, cell.length, cell.depth, key, value, answer, "0123456789abcdef")
                show = f"ropewalk show runs/x --cell {cell.length},{cell.depth!r},{trial}"
                prompts.append(CellPrompt(row, text, show))
        return prompts

    return make


_NAMES = ("chromium", "chromium-browser", "google-chrome")

_OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--virtual-time-budget=5000 --dump-dom"
).split()

Dom = Callable[..., str]


@pytest.fixture
def dom(tmp_path: Path) -> Dom:
    """Return a reader of the document that Chromium makes of a page, after its scripts ran.

    Skips where there is no Chromium: `apt-get install -y chromium` on Debian, or name one in the
    environment variable CHROMIUM.
    """
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if browser is None:
        pytest.skip("no Chromium here; `apt-get install -y chromium`, or set CHROMIUM")

    def read(page: str, fragment: str = "", *, script: str = "") -> str:
        path = tmp_path / "report.html"
        if script:
            # The policy forbids foreign scripts, so the page under a robot's finger has none.
            page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
            page = page.replace("</body>", f"<script>{script}</script></body>")
        path.write_text(page, encoding="utf-8")
        command = [browser, *_OPTIONS, f"--user-data-dir={tmp_path / 'profile'}"]
        done = subprocess.run(
            [*command, f"{path.as_uri()}{fragment}"],
            capture_output=True,
            check=True,
            timeout=120,
        )
        return done.stdout.decode()

    return read


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """Return the address of a local server and the list of paths that were asked of it."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", paths
    server.shutdown()
    thread.join()
    server.server_close()
