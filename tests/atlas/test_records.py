"""The committed records are what small models of the installed transformers do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from atlas.build import PLACE, record
from atlas.census import compare
from atlas.observe import observe
from atlas.probe import register
from atlas.reads import unread
from atlas.shapes import text_of
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


@pytest.mark.parametrize(
    ("model_type", "slopes"), [("bloom", (2.0**-4, 2.0**-8)), ("mpt", (2.0**-4, 2.0**-8))]
)
def test_a_bias_is_seen_in_attention_that_a_class_computes_itself(
    model_type: str, slopes: tuple[float, ...]
) -> None:
    # 2108.12409, section 3: 2^(-8h/n), here of two heads.
    seen = observe(model_type)
    assert {layer.bias for layer in seen.layers} == {"linear"}
    assert all(layer.slopes == pytest.approx(slopes, rel=1e-5) for layer in seen.layers)
    assert {layer.scale for layer in seen.layers} == {1.0}


def test_a_rotation_is_seen_in_a_class_that_counts_positions_itself() -> None:
    seen = observe("roformer")
    for layer in seen.layers:
        assert (layer.width, layer.layout) == (64, "interleaved")
        # 2104.09864, section 3.2.2.
        for pair, angle in enumerate(layer.inv_freq):
            assert angle == pytest.approx(10_000.0 ** (-2 * pair / 64), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("model_type", ["xlnet", "inkling_text"])
def test_a_bias_that_goes_by_the_query_is_told_from_one_by_distance(model_type: str) -> None:
    assert {layer.bias for layer in observe(model_type).layers} == {"content"}
    assert {layer.bias for layer in observe("cpmant").layers} == {"other"}


def test_a_class_that_only_carries_a_state_is_seen_to_attend_nowhere() -> None:
    assert observe("mamba").layers == ()
    assert observe("llama").layers


def test_a_key_that_a_class_does_not_ask_for_is_found() -> None:
    # Its documentation says that it rotates so many channels of a head.
    assert "rotary_dim" in unread(text_of("minimax_m3_vl_text"))
    assert "rotary_dim" not in unread(text_of("minimax_m2"))


def test_every_record_makes_facts_or_has_a_reason() -> None:
    for model_type, made in COMMITTED["types"].items():
        assert (measured_facts(model_type) is not None) != ("unseen" in made), model_type
