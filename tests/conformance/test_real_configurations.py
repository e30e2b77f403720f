"""Published configuration files, each audited to its figures and to the warnings it deserves.

The files are no part of this project: they lie in the folder that ROPEWALK_CONFIGS names, with
`expected.json` beside them, and where there is none these tests are skipped. The figures come
from that file; which warnings a file deserves, and what else must be said of it, stands here.
"""

from __future__ import annotations

import json
import os
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.hf import load_json, read_config
from ropewalk.findings import Audit, audit
from ropewalk.rope.spec import (
    AlibiSpec,
    IncompleteRotary,
    LearnedPositions,
    RelativeBuckets,
    RotarySpec,
)

FOLDER = Path(
    os.environ.get("ROPEWALK_CONFIGS")
    or Path(__file__).parents[2].parent / "shared" / "configs"  # beside the project
)

pytestmark = pytest.mark.skipif(
    not (FOLDER / "expected.json").is_file(),
    reason=f"no published configurations in {FOLDER}; ROPEWALK_CONFIGS names their folder",
)

WARNINGS: dict[str, set[str]] = {
    # The file contradicts itself on the length.
    "command-r-v01.json": {"lengths-disagree"},
    "odd-nomic-embed-text-v1.5.json": {"lengths-disagree"},
    # 20 x 4096 is not 65536.
    "odd-afm-4.5b.json": {"factor-lengths-disagree"},
    # Keys cached below 4096 tokens do not fit the factors above.
    "phi-3-mini-128k-instruct.json": {"depends-on-length"},
    "phi-3.5-vision-instruct.json": {"depends-on-length"},
    # Long factors that end at 1.23 cannot carry a stretch of 32.
    "phi-3.5-vision-instruct.second-source.json": {"depends-on-length", "long-factors-short"},
    # The base is not in the file, so none is printed.
    "phi-2.json": {"incomplete-rotary"},
    # Two keys of a file.
    "qwen2.5-yarn-edit.json": {"incomplete-rotary"},
    "llama-2-7b-longlora-100k-ft.partial.json": {"incomplete-rotary"},
    "odd-linear-on-extended.partial.json": {"incomplete-rotary"},
}
"""The warnings of each file; a file that is not here deserves none."""

NOTES: dict[str, set[str]] = {
    "llama-3.1-8b.json": {"llama3-claim"},
    "llama-3.2-1b.json": {"llama3-claim"},
    "llama-4-scout-17b-16e.json": {
        # Low and high frequency factor are equal, which leaves no blend.
        "llama3-hard-cut",
        "llama3-claim",
        "no-rope-list-means-rope",
        "window-below-claim",
    },
    "llama-4-scout-17b-16e.second-source.json": {
        "no-rope-list-filled",
        "temperature-from-library-default",
    },
    "mistral-7b-v0.1.json": {"window-below-claim"},
    "starcoder2-7b.json": {"window-below-claim"},
    "qwen2.5-7b-instruct.json": {"inert-window"},
    "qwen2.5-yarn-edit.json": {"static-yarn"},
    # The original length is there and transformers' linear scaling does not read it.
    "odd-linear-on-extended.partial.json": {"original-length-ignored"},
    "phi-3-mini-128k-instruct.json": {"short-factors-stretch", "inert-window"},
    "gemma-3n-e4b.reduced.json": {"shared-keys"},
    "glm-4-9b-chat.json": {"remote-code-model-type"},
    "internlm2.5-7b.json": {"depends-on-length"},
    "mpt-7b.json": {"learned-positions-leftover", "alibi-sets-no-limit"},
    "bloom.reduced.json": {"alibi-sets-no-limit"},
    "gpt2.json": {"hard-limit"},
    "bert-base-uncased.json": {"hard-limit"},
    "gpt-j-6b.reduced.json": {"hard-limit"},
    "smollm3-3b.from-report.json": {"no-rope-list-means-rope"},
    "modernbert-base.json": {"position-type-leftover", "window-both-ways"},
    "nomic-embed-text-v1.json": {"scaling-key-not-read", "depends-on-length"},
    "minicpm3-4b.json": {"short-factors-stretch"},
    "granite-4.0-h-small.json": {"unused-rope-keys"},
    "t5-v1_1-xxl.json": {"no-claimed-length"},
    "odd-afm-4.5b.json": {"mscale-ignored"},
    "odd-nemotron-super-49b-v1.json": {"remote-code-model-type", "llama3-claim"},
    "odd-nemotron-h-56b-base-8k.json": {"not-strict-json"},
    "odd-gpt-j-6b.mlc-preset.json": {"marker-not-a-scaling"},
    "odd-mistral4-tiny-both-keys.json": {"both-rope-keys"},
}
"""What has to be said of a file beside its figures, without a call to act."""

BASES: dict[str, set[float]] = {
    "glm-4-9b-chat.json": {5e6},  # 10000 x rope_ratio
    "gemma-3-27b-it.minimal.json": {1e6, 1e4},
    "granite-4.0-h-small.json": set(),  # a base is there, and nothing turns
}
"""Where `expected.json` has words and no number; elsewhere no base is to be told."""

NAMES = {"none": "default", "mrope": "default", "base": "default", '"gptj"': "default"} | {
    "su": "longrope"
}
"""The first word of `scaling` in `expected.json`, where it is not our name of the scaling."""

SOFTMAX = {"deepseek-v2-lite.json": 1.58963, "deepseek-v3.json": 1.87385}
SECTIONS = {"qwen2-vl-2b.json": (16, 24, 24)}


@lru_cache(maxsize=1)
def _expected() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(
        (FOLDER / "expected.json").read_text(encoding="utf-8")
    )
    return found


FILES = sorted(_expected()) if (FOLDER / "expected.json").is_file() else []


@cache
def _audit(name: str) -> Audit:
    return audit(read_config(load_json(FOLDER / name)), name=name)


@pytest.mark.parametrize("name", FILES)
def test_the_lengths_are_those_that_the_file_states(name: str) -> None:
    found, expected = _audit(name).spec, _expected()[name]
    assert found.trained.tokens == expected["trained_length"]
    assert found.claimed.tokens == expected["claimed_length"]


@pytest.mark.parametrize("name", FILES)
def test_bases_and_rotary_dimension_are_those_of_the_file(name: str) -> None:
    expected = _expected()[name]
    parts = [
        group.encoding
        for group in _audit(name).spec.groups
        if isinstance(group.encoding, RotarySpec | IncompleteRotary)
    ]
    told = expected["bases"]
    bases = BASES.get(name, {None}) if told is None else set(told)
    assert {part.rope_theta for part in parts} == bases
    if name != "granite-4.0-h-small.json" and bases:
        assert {part.rotary_dim for part in parts} == {expected["rotary_dim"]}


@pytest.mark.parametrize("name", FILES)
def test_scaling_factor_and_amplitude_are_those_of_the_file(name: str) -> None:
    expected = _expected()[name]
    groups = _audit(name).spec.groups
    parts = [g.encoding for g in groups if isinstance(g.encoding, RotarySpec | IncompleteRotary)]
    if expected["attention_factor"] is None:
        assert not parts
        kinds = {"ALiBi": AlibiSpec, "learned": LearnedPositions, "relative": RelativeBuckets}
        kind = kinds.get(expected["scaling"].split()[0])
        assert kind is None or all(isinstance(group.encoding, kind) for group in groups)
        return
    scaled = max(parts, key=lambda part: part.scaling.name != "default")
    word = expected["scaling"].replace(",", "").split()[0]
    assert scaled.scaling.name == NAMES.get(word, word)
    if name != "glm-4-9b-chat.json":  # its factor is in the base
        assert getattr(scaled.scaling, "factor", None) == expected["factor"]
    assert round(scaled.scaling.amplitude()[0], 5) == expected["attention_factor"]
    if "full layers only" in expected["scaling"]:
        by_name = {g.name: p.scaling.name for g, p in zip(groups, parts, strict=True)}
        assert by_name == {"full attention": "linear", "sliding attention": "default"}


@pytest.mark.parametrize("name", FILES)
def test_the_softmax_scale_takes_what_cos_and_sin_leave(name: str) -> None:
    factors = {round(g.softmax.factor, 5) for g, _ in _audit(name).spec.rotary_groups()}
    if name in SOFTMAX:
        assert factors == {SOFTMAX[name]}
    sections = {rotary.sections for _, rotary in _audit(name).spec.rotary_groups()}
    assert sections <= {SECTIONS.get(name, ())}


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_the_warnings_it_deserves_and_no_others(name: str) -> None:
    findings = _audit(name).findings
    warned = {finding.code for finding in findings if finding.severity == "warning"}
    assert warned == WARNINGS.get(name, set())
    assert NOTES.get(name, set()) <= {finding.code for finding in findings}


def test_every_statement_here_is_about_a_file_that_is_there() -> None:
    assert set(WARNINGS) | set(NOTES) | set(BASES) <= set(FILES)
