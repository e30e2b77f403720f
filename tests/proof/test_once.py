"""In a whole run each haystack is laid out once, and each prompt is built once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ropewalk.proof.cells import Calibrate, Cell, Prompt, Sharing
from ropewalk.proof.endpoint.replies import Reply
from ropewalk.proof.endpoint.subject import EndpointSettings
from ropewalk.proof.endpoint.tokenizers import Estimate
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.prove import Proof, prove
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.statistics.verdicts import AbsoluteThreshold

TASKS = ("single", "contradiction")
DEPTHS = (0.0, 0.5)
"""Without depth 1, which is then a control."""


class Counted:
    """How often each haystack was laid out and each prompt built, in one or alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.documents: Counter[str] = Counter()
        self.prompts: Counter[tuple[str, Cell]] = Counter()
        lay_out, finish = GappedMaker._lay_out, GappedMaker._finish
        make = PromptMaker.__call__

        def counted_haystack(maker: GappedMaker, trial: int, number: int) -> Any:
            self.documents[f"{trial}/{number}"] += 1
            return lay_out(maker, trial, number)

        def counted_branch(maker: GappedMaker, cell: Cell, *rest: Any) -> Prompt:
            self.prompts["branches", cell] += 1
            return finish(maker, cell, *rest)

        def counted_single(maker: PromptMaker, cell: Cell) -> Prompt:
            self.prompts["alone", cell] += 1
            return make(maker, cell)

        monkeypatch.setattr(GappedMaker, "_lay_out", counted_haystack)
        monkeypatch.setattr(GappedMaker, "_finish", counted_branch)
        monkeypatch.setattr(PromptMaker, "__call__", counted_single)

    def check(self, proof: Proof) -> None:
        """Once each, and all that were asked."""
        again = {what: times for what, times in self.prompts.items() if times > 1}
        assert not again
        assert all(times == 1 for times in self.documents.values()), self.documents
        assert {row.cell for row in proof.rows} <= {cell for _, cell in self.prompts}


class FakeClient:
    """A server that counts as we estimate, offers no tokenizer, and finds nothing."""

    def __init__(self, url: str, *_: Any, **__: Any) -> None:
        self.url = url

    def get(self, path: str) -> Any:
        return {"data": [{"id": "fake", "max_model_len": 4096}]} if path == "models" else None

    def post(self, *_: Any) -> None:
        return None

    def ask(self, _api: str, body: dict[str, Any], *_: Any, **__: Any) -> Reply:
        read = len(Estimate()(body["prompt"])["input_ids"])
        return Reply(" nothing.", finish="stop", prompt_tokens=read)

    def close(self) -> None:
        pass


WAYS: list[tuple[Sharing, dict[str, Any]]] = [
    (Sharing.NONE, {}),
    (Sharing.PREFIX, {}),
    (Sharing.BRANCHES, {"calibrate": Calibrate.SHORT}),
    (Sharing.BRANCHES, {"calibrate": Calibrate.FULL, "trials": 4}),
    (Sharing.BRANCHES, {"calibrate": Calibrate.OFF, "until_certain": True, "most_trials": 4}),
]


@pytest.mark.parametrize(("sharing", "more"), WAYS)
def test_a_model_that_is_run_here(
    sharing: Sharing, more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    asked: dict[str, Any] = {"trials": 2, "tasks": TASKS} | more
    settings = ProofSettings(
        "tiny", lengths=(260, 330), depths=DEPTHS, sharing=sharing, out=tmp_path, **asked
    )
    counted.check(prove(settings))
    assert bool(counted.documents) is (sharing is Sharing.BRANCHES)


@pytest.mark.parametrize("sharing", [Sharing.PREFIX, Sharing.NONE])
def test_a_model_at_a_server(
    sharing: Sharing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.proof.served.Client", FakeClient)
    counted = Counted(monkeypatch)
    settings = ProofSettings(
        "openai:fake",
        lengths=(500, 700),
        depths=DEPTHS,
        trials=2,
        tasks=TASKS,
        sharing=sharing,
        until_certain=True,
        most_trials=3,
        threshold=AbsoluteThreshold(0.01),
        out=tmp_path,
        endpoint=EndpointSettings(("http://127.0.0.1:1/v1",)),
    )
    proof = prove(settings)
    counted.check(proof)
    assert {row.sharing for row in proof.rows} == {sharing}
    # After the planned two trials the same servers are asked a third.
    assert {row.cell.trial for row in proof.rows} == {0, 1, 2}
