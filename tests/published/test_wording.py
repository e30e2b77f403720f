"""No number hangs on a sentence: with every display text reworded, all that is computed stays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.engines import as_computed, engine_views
from ropewalk.dialects.engines.given import Effect
from ropewalk.dialects.engines.llamacpp import LLAMACPP
from ropewalk.dialects.engines.views import remarks_on
from ropewalk.dialects.hf import read_config
from ropewalk.dialects.hf.family import config_source
from ropewalk.dialects.hf.write import write_config
from ropewalk.dialects.llamacpp import write_flags
from ropewalk.dialects.vllm import write_overrides
from ropewalk.errors import RopewalkError
from ropewalk.extension.methods import CLOSED_FORMS, extended
from ropewalk.findings import Origin, audit, to_json
from ropewalk.findings.json_form import engines_json
from ropewalk.rope.angles import Schedule
from ropewalk.rope.override import override
from ropewalk.rope.schedules import SCHEDULES, OriginWords
from ropewalk.rope.spec import (
    Finding,
    IncompleteRotary,
    Length,
    PositionSpec,
    RotarySpec,
    SoftmaxRule,
)

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "configs.json").read_text(encoding="utf-8")
)

SENTENCES: dict[type, tuple[str, ...]] = {
    SoftmaxRule: ("rule",),
    Length: ("source",),
    Finding: ("text", "remedy"),
    IncompleteRotary: ("reason",),
    RotarySpec: ("rope_theta_source", "rotary_dim_source", "scaling_source"),
    PositionSpec: ("format",),
    Schedule: ("attention_rule", "rules"),
    Effect: ("rules",),
    Origin: ("sentence",),
}
"""Every field that is for people alone."""


def computed(config: dict[str, Any]) -> Iterator[Any]:
    """All numbers that come of a configuration."""
    spec = read_config(config)
    document = {**to_json(audit(spec)), "engines": engines_json(engine_views(spec))}
    yield without_sentences(document)
    for schedule in (None, "yarn:2"):
        try:
            wanted = spec if schedule is None else override(spec, schedule)
        except RopewalkError as error:
            yield type(error)
            continue
        for write in writers(spec, wanted):
            try:
                yield write()
            except RopewalkError as error:
                yield type(error)

    for form in CLOSED_FORMS:
        try:
            yield without_sentences(to_json(audit(extended(spec, 1 << 22, form))))
        except RopewalkError as error:
            yield type(error)


def writers(spec: PositionSpec, wanted: PositionSpec) -> Iterator[Callable[[], object]]:
    """What writes `wanted` in the place of `spec`."""
    source = config_source(spec)
    yield lambda: config_source(write_config(wanted, source, 5)).config
    yield lambda: config_source(write_config(wanted, source, 4)).config
    yield lambda: write_overrides(wanted, source)
    yield lambda: write_flags(wanted, as_computed(LLAMACPP, spec))
    yield lambda: list(remarks_on(wanted, source, write_config(wanted, source, 5).source))


def without_sentences(value: Any) -> Any:
    """A document without what is for people alone."""
    display = {name for names in SENTENCES.values() for name in names}
    if isinstance(value, dict):
        return {k: without_sentences(v) for k, v in value.items() if k not in display}
    return [without_sentences(each) for each in value] if isinstance(value, list) else value


@pytest.fixture
def reworded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sentence that is made from here on says the same thing, which is nothing."""
    for made, names in SENTENCES.items():
        first = vars(made)["__init__"]

        def begin(
            self: Any, *given: Any, _names: Any = names, _begin: Any = first, **named: Any
        ) -> None:
            _begin(self, *given, **named)
            for name in _names:
                held = getattr(self, name)
                nothing = ("Nothing.",) * len(held) if isinstance(held, tuple) else "Nothing."
                object.__setattr__(self, name, nothing if held else held)

        monkeypatch.setattr(made, "__init__", begin)
    for record in SCHEDULES:
        words = OriginWords(record.origin.code, "Nothing", "Nothing.")
        monkeypatch.setattr(record, "origin", words)


BEFORE: dict[str, list[Any]] = {}


@pytest.fixture(scope="module", autouse=True)
def before() -> None:
    """What is computed with the sentences as they stand."""
    BEFORE.update({case["model"]: list(computed(case["config"])) for case in CASES})


@pytest.mark.usefixtures("reworded")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["model"])
def test_rewording_every_sentence_changes_no_number(case: dict[str, Any]) -> None:
    assert read_config(case["config"]).format == "Nothing."
    assert list(computed(case["config"])) == BEFORE[case["model"]]
