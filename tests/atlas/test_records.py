"""The committed records are what small models of the installed transformers do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from atlas.build import PLACE, record
from atlas.census import compare
from atlas.probe import register
from ropewalk.dialects.hf.measured import RELEASE, measured_facts

transformers = pytest.importorskip("transformers")

SAMPLE = (
    *("afmoe", "bart", "cohere2", "deepseek_v3", "ernie4_5_moe", "exaone_moe", "gpt2"),
    *("granite", "hyperclovax", "marian", "modernbert-decoder", "roberta"),
)
COMMITTED: dict[str, Any] = json.loads((PLACE / f"{RELEASE}.json").read_text(encoding="utf-8"))

pytestmark = [
    pytest.mark.skipif(
        not transformers.__version__.startswith(RELEASE),
        reason=f"the records are those of transformers {RELEASE}",
    ),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(autouse=True, scope="module")
def _watched() -> None:
    register()


@pytest.mark.parametrize("model_type", SAMPLE)
def test_a_record_is_what_its_class_does_today(model_type: str) -> None:
    made = json.loads(json.dumps(record(model_type)))
    assert made == COMMITTED["types"][model_type]


@pytest.mark.parametrize("model_type", SAMPLE)
def test_the_reader_tells_what_the_model_does(model_type: str) -> None:
    verdict, why = compare(model_type)
    assert verdict == "equal", why


def test_every_record_makes_facts_or_has_a_reason() -> None:
    for model_type, made in COMMITTED["types"].items():
        assert (measured_facts(model_type) is not None) != ("unseen" in made), model_type
