"""Windows of servers that refuse, or cut the beginning (as Ollama) or the middle (LM Studio)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

import ropewalk
from ropewalk.cli.main import app
from ropewalk.proof.endpoint.cuts import CutPart
from tests.proof.endpoint.fake import Asked, Fake, keep_ends, keep_head, keep_tail, length_error

REFUSAL = length_error(
    400, lambda _, m: {"error": {"message": f"{m} tokens, and 1500 is the most"}}
)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ropewalk.proof.endpoint.policy.FIRST_PAUSE", 0.002)


@pytest.mark.parametrize(
    ("cut", "lost"),
    [
        (keep_tail, CutPart.BEGINNING),
        (keep_head, CutPart.END),
        (keep_ends, CutPart.MIDDLE),
    ],
)
@pytest.mark.parametrize("window", [700, 2048])
def test_a_silent_cut_is_found_with_its_end_to_a_hundredth(
    cut: Callable[..., list[str]], lost: CutPart, window: int
) -> None:
    with Fake(window, cut=cut, tokenizer=False) as fake:
        found = ropewalk.window(fake.url, most=8000)
    assert found.reads == pytest.approx(window, rel=0.01)
    assert (found.cut, found.counts, found.refuses) == (lost, "after the cut", False)
    assert found.requests == len(fake.bodies) <= 12


def before_the_cut(asked: Asked, document: dict[str, Any]) -> dict[str, Any]:
    document["usage"]["prompt_tokens"] = len(asked.pieces)
    return document


def test_a_cut_that_is_counted_whole_is_seen_by_its_answers() -> None:
    with Fake(700, cut=keep_tail, fault=before_the_cut, tokenizer=False) as fake:
        found = ropewalk.window(fake.url, most=8000)
    assert (found.cut, found.counts) == (CutPart.BEGINNING, "before the cut")
    assert found.reads is not None
    assert found.fails is not None
    # Our tokens are estimated here, and no count helps.
    assert 0.9 * found.reads <= 700 <= 1.1 * found.fails
    assert found.requests <= 12


def test_a_window_that_is_stated_or_named_in_a_refusal_is_made_sure_of() -> None:
    for says in ({"max_model_len": 1500}, {}):
        with Fake(1500, too_long=REFUSAL, says=says, tokenizer=False) as fake:
            found = ropewalk.window(fake.url, most=8000)
        assert found.refuses
        # Our tokens are estimated, of words that differ from run to run.
        assert found.reads == pytest.approx(1500, rel=0.06)
        assert found.requests <= 12


def test_a_server_without_an_end_is_read_to_the_longest_that_was_sent() -> None:
    with Fake(100_000, tokenizer=False) as fake:
        done = CliRunner().invoke(app, ["window", fake.url, "--most", "2000", "--json"])
    found = json.loads(done.stdout)
    assert found["reads"] == pytest.approx(2000, rel=0.05)
    assert found["fails"] is None
    assert found["schema"] == "ropewalk.window/1"
    with Fake(700, cut=keep_tail, tokenizer=False) as fake:
        done = CliRunner().invoke(app, ["window", fake.url, "--most", "4000"])
    assert "Reads 700 tokens, to 1 %" in " ".join(done.stdout.split())
