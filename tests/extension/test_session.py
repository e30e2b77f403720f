"""Whole extensions of small models: measured, searched, written, gone on with, refused."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.hf import load_json, read_config
from ropewalk.errors import LengthError, ModelFileError, ScheduleError, UsageError
from ropewalk.extension.methods import NAMES
from ropewalk.extension.session import Extension, extend
from ropewalk.extension.settings import ExtendSettings
from ropewalk.report import document_of, terminal, to_dict
from ropewalk.rope.schedules import LongRope

SaveFolder = Callable[..., Path]
TARGET = 1024


def settings(source: Path, work: Path, **more: Any) -> ExtendSettings:
    given: dict[str, Any] = {
        "method": "auto", "depths": (0.0, 0.5), "trials": 1, "device": "cpu", "work": work,
    }  # fmt: skip
    return ExtendSettings(str(source), TARGET, **(given | more))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("measured")


@pytest.fixture(scope="module")
def measured(shared_folder: Path, home: Path) -> Extension:
    """Every method on one model, measured once for the tests that read it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROPEWALK_CACHE", str(home / "cache"))
        return extend(settings(shared_folder, home / "work", out=home / "longer"))


@pytest.mark.filterwarnings("ignore:.*rope.*")
def test_auto_measures_every_method_on_the_same_prompts_and_writes_the_best(
    measured: Extension, home: Path
) -> None:
    names = [score.name for score in measured.scores]
    assert [name.split(" x")[0] for name in names] == ["as shipped", *NAMES, "self-extend"]
    prompts = {tuple((row.cell, row.key, row.value) for row in s.rows) for s in measured.scores}
    assert len(prompts) == 1
    assert all(score.asked == 2 and math.isfinite(score.short) for score in measured.scores)
    assert measured.scores[0].change == 0.0
    assert measured.after is not None
    assert measured.written is not None
    assert measured.method.split(" x")[0] in NAMES
    text = terminal(document_of(measured))
    assert all(name in text for name in names)
    assert "self-extend" in text
    assert "not to be written" in text
    options = (*measured.options, *measured.written.serving)
    served = {f"  {line}" for each in options for line in (*each.steps, each.line)}
    for width in (40, 60, 80, 120):
        lines = [
            line
            for line in terminal(document_of(measured), width).splitlines()
            if line not in served
        ]
        assert max(map(len, lines)) <= min(width, 80)
    assert json.loads(json.dumps(to_dict(measured)))["method"] == measured.method
    card = (home / "longer" / "README.md").read_text()
    score = next(s for s in measured.scores if s.name == measured.method)
    assert f"{score.hits} of 2 hidden facts found at 1,024 tokens" in card
    assert f"loss of short text {score.short:.4f}" in card
    config = read_config(load_json(home / "longer" / "config.json"))
    assert (config.trained.tokens, config.claimed.tokens) == (512, TARGET)
    # What Self-Extend measured is not what the model does by itself.
    by_name = {score.name: score.log_probability for score in measured.scores}
    assert by_name["self-extend"] != by_name["as shipped"]
    (answers,) = (home / "work").glob("yarn*/results.sqlite")
    with sqlite3.connect(answers) as kept:
        assert kept.execute("SELECT count(*) FROM answers").fetchone() == (2,)


def test_every_method_is_made_for_longer_contexts_too_and_the_best_over_gaps_is_measured(
    measured: Extension,
) -> None:
    rooms = measured.headrooms
    assert rooms is not None
    assert [(t.stretch.method.name, t.stretch.headroom) for t in rooms.tried] == [
        (name, room) for name in NAMES for room in (1.0, 1.25, 1.5, 2.0)
    ]
    for stretch in rooms.chosen:
        own = [t for t in rooms.tried if t.stretch.method == stretch.method]
        intact = [t for t in own if t.change <= 0.02] or [min(own, key=lambda t: t.change)]
        assert max(intact, key=lambda t: t.gaps).stretch == stretch
    assert [s.name for s in measured.scores[1:-1]] == [each.name for each in rooms.chosen]
    text = terminal(document_of(measured)).splitlines()
    (head,) = (i for i, line in enumerate(text) if line.split() == ["x1", "x1.25", "x1.5", "x2"])
    rows = text[head + 1 : head + 1 + len(NAMES)]
    assert [row.split()[0] for row in rows] == list(NAMES)
    assert all(row.count("*") == 1 for row in rows)
    assert max(map(len, rows)) <= 80


def test_a_named_method_with_headroom_is_the_schedule_of_the_longer_context(
    folder: SaveFolder, tmp_path: Path
) -> None:
    """Factor 4 where 2 would do: Qwen2.5's own advice for a length within its reach."""
    found = extend(
        settings(folder(), tmp_path, method="yarn", headroom=2.0, out=tmp_path / "longer")
    )
    assert found.method == "yarn x2"
    config: Any = load_json(tmp_path / "longer" / "config.json")
    scaling = config.get("rope_parameters") or config["rope_scaling"]
    assert scaling["factor"] == 4.0
    assert scaling["original_max_position_embeddings"] == 512
    assert config["max_position_embeddings"] == TARGET
    card = (tmp_path / "longer" / "README.md").read_text()
    assert "by the method `yarn x2`" in card


def test_the_same_command_asks_nothing_again(
    measured: Extension, shared_folder: Path, home: Path
) -> None:
    first = measured
    assert [*(home / "work").glob("yarn*/results.sqlite")]
    again = extend(settings(shared_folder, home / "work"))
    assert [s.rows for s in first.scores] == [s.rows for s in again.scores]
    assert all(
        a.answer.seconds == b.answer.seconds
        for one, other in zip(first.scores, again.scores, strict=True)
        for a, b in zip(one.rows, other.rows, strict=True)
    )


def test_a_search_that_does_not_beat_the_closed_form_leaves_it(
    folder: SaveFolder, tmp_path: Path
) -> None:
    source = folder()
    given = settings(source, tmp_path / "work", method="search", tries=30, depths=(0.0, 0.25, 0.5))
    found = extend(given)
    assert found.found is not None
    verdict = found.found.verdict
    assert verdict.agreement.cells == (0.0, 0.25, 0.5)
    assert verdict.gaps.count == 10
    # A model of random weights finds nothing: no schedule can be shown to be better.
    assert verdict.wins is (found.method == "search")
    assert found.found.tries == 30
    lines = (tmp_path / "work" / "search.jsonl").read_text().splitlines()
    assert len(lines) == 31
    assert "held-out" in terminal(document_of(found))
    forced = extend(replace(given, force=True))
    assert forced.method == "search"
    assert forced.after is not None
    (_, rotary), *_ = forced.after.rotary_groups()
    assert isinstance(rotary.scaling, LongRope)
    assert rotary.scaling.long_factor == found.found.best.candidate.divisors
    assert (tmp_path / "work" / "search.jsonl").read_text().splitlines() == lines


@pytest.mark.parametrize(
    ("more", "error", "told"),
    [
        ({"method": "best"}, UsageError, "'best' is not known; choose one of linear"),
        ({"method": "search"}, UsageError, "give --minutes or --tries"),
        ({"method": "yarn", "rope_theta": 1e6}, UsageError, "--rope-theta goes with --method base"),
        ({"method": "auto", "tries": 3}, UsageError, "--tries goes with --method search"),
        ({"lengths": (4096,)}, LengthError, "--lengths 4096 is beyond --to 1024"),
        ({"headroom": 2.0}, UsageError, "--headroom 2 goes with a method that is named: auto"),
        ({"method": "ntk", "headroom": 0.5}, UsageError, "--headroom 0.5 is impossible: from 1"),
        (
            {"method": "base", "rope_theta": 1e6, "headroom": 2.0},
            UsageError,
            "--factors and --rope-theta give the numbers",
        ),
        ({"trials": 0}, LengthError, "--trials 0 is impossible"),
        ({"numbers": "F16"}, UsageError, "--gguf needs --out FILE.gguf"),
        ({"out": Path("new.gguf")}, UsageError, "is no GGUF file, of which one could be written"),
        ({"method": "base", "rope_theta": 0.5}, ScheduleError, "above 1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_loaded(
    folder: SaveFolder, tmp_path: Path, more: dict[str, Any], error: type[Exception], told: str
) -> None:
    source = folder()
    with pytest.raises(error, match=told):
        extend(settings(source, tmp_path / "work", **more))
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1.0, 2.0", "holds no JSON"),
        ("{}", "holds no list of numbers"),
        ('[1.0, "2"]', "holds no list of numbers"),
        ("[1.0, 2.0]", "holds 2 divisors for 6 rotary pairs"),
        ("[1.0, 2.0, 3.0, -1.0, 2.0, 2.0]", "holds the divisor -1.0 for pair 3"),
    ],
)
def test_a_file_of_factors_that_is_none_is_named(
    folder: SaveFolder, tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "factors.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=told):
        extend(settings(folder(), tmp_path / "work", method="longrope", factors=path))


def test_a_file_of_factors_is_taken_as_it_is(folder: SaveFolder, tmp_path: Path) -> None:
    path = tmp_path / "factors.json"
    path.write_text('{"long_factor": [1.0, 1.1, 1.4, 2.0, 2.2, 2.5]}')
    found = extend(settings(folder(), tmp_path / "work", method="longrope", factors=path))
    assert found.after is not None
    (_, rotary), *_ = found.after.rotary_groups()
    assert isinstance(rotary.scaling, LongRope)
    assert rotary.scaling.long_factor == (1.0, 1.1, 1.4, 2.0, 2.2, 2.5)


def test_a_tokenizer_of_another_model_is_refused(folder: SaveFolder, tmp_path: Path) -> None:
    source = folder(vocab_size=700)
    with pytest.raises(ModelFileError, match=r"gives ids up to \d+, and the model has 700 rows"):
        extend(settings(source, tmp_path / "work", method="yarn"))
