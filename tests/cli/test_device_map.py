"""A model that is spread over devices answers as it does in one piece."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Prove

GRID = ("--lengths", "300", "--depths", "0,100", "--trials", "2")


@pytest.mark.parametrize(
    "places",
    ['{"": "cpu"}', '{"model.embed_tokens": "cpu", "model.layers": "disk", "model.norm": "cpu", '
     '"model.rotary_emb": "cpu", "lm_head": "cpu"}', "auto"],
    ids=["one device", "layers on disk", "auto"],
)  # fmt: skip
def test_a_spread_model_gives_the_answers_of_the_whole_one(
    places: str, prove: Prove, tiny_model: Path
) -> None:
    whole = prove(tiny_model, *GRID, name="whole")
    spread = prove(tiny_model, *GRID, "--device-map", places, name="spread")
    assert "auto" not in places or spread.facts()["device"] == "by auto"
    one = {(row.cell, row.sharing): row.answer for row in whole.rows()}
    other = {(row.cell, row.sharing): row.answer for row in spread.rows()}
    assert one.keys() == other.keys()
    for key, answer in one.items():
        assert other[key].outcome is answer.outcome
        assert other[key].log_probability == pytest.approx(answer.log_probability, abs=1e-4)
