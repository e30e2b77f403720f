"""What a model's files say of its own proof, and that a user's word goes before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ropewalk.errors import UsageError
from ropewalk.models.resolve import ModelFiles, resolve
from ropewalk.proof.settings import KEY, ProofSettings, Stated, as_stated, stated

TOLD = {"tasks": ["order"], "lengths": [256, 512]}


def files(folder: Path, told: object) -> ModelFiles:
    config = {"model_type": "llama"} | ({} if told is None else {KEY: told})
    (folder / "config.json").write_text(json.dumps(config))
    return ModelFiles("m", "m", "folder", folder)


def test_what_nobody_said_is_taken_from_the_files_and_told(tmp_path: Path) -> None:
    filled, said = as_stated(ProofSettings("m"), files(tmp_path, TOLD))
    assert (filled.all_tasks, filled.lengths) == (("order",), (256, 512))
    assert said == (
        "asked what its files (ropewalk_prove) say that it was trained on: the task order; --task "
        "asks otherwise",
        "asked at the lengths that its files name: 256 and 512; --lengths names others",
    )


def test_a_model_that_says_nothing_is_asked_as_ever(tmp_path: Path) -> None:
    settings = ProofSettings("m")
    assert as_stated(settings, files(tmp_path, None)) == (settings, ())
    assert settings.all_tasks == ("single",)
    gguf = ModelFiles("m", "m", "gguf", tmp_path / "m.gguf")
    assert as_stated(settings, gguf) == (settings, ())


def test_what_the_user_names_stays_and_what_was_not_trained_is_said(tmp_path: Path) -> None:
    named = ProofSettings("m", lengths=(64,), tasks=("variables", "order"))
    filled, said = as_stated(named, files(tmp_path, TOLD))
    assert filled == named
    assert said == (
        "by its files (ropewalk_prove) the model was not trained on the task variables",
    )


def test_what_would_have_been_asked_anyway_is_not_told(tmp_path: Path) -> None:
    single = files(tmp_path, {"tasks": ["single"]})
    filled, said = as_stated(ProofSettings("m", lengths=(64,)), single)
    assert (filled.all_tasks, said) == (("single",), ())


def test_own_documents_are_asked_about_as_ever(tmp_path: Path) -> None:
    own = ProofSettings(
        "m", tasks=("documents",), documents=tmp_path, questions=tmp_path / "q.jsonl", lengths=(64,)
    )
    filled, _ = as_stated(own, files(tmp_path, TOLD))
    assert filled.all_tasks == ("documents",)


@pytest.mark.parametrize(
    "told",
    [
        [],
        "single",
        {"tasks": "single"},
        {"tasks": ["no such task"]},
        {"tasks": [1]},
        {"lengths": 256},
        {"lengths": [0]},
        {"lengths": [True]},
        {"lengths": ["256"]},
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(tmp_path: Path, told: object) -> None:
    with pytest.raises(UsageError, match="correct it or take it out"):
        as_stated(ProofSettings("m"), files(tmp_path, told))


def test_parts_may_be_left_out(tmp_path: Path) -> None:
    assert stated(files(tmp_path, {})) == Stated()
    filled, said = as_stated(ProofSettings("m"), files(tmp_path, {"lengths": [99]}))
    assert (filled.lengths, len(said)) == ((99,), 1)


def test_the_embedded_model_says_what_it_learned_and_how_long_it_was_trained() -> None:
    assert stated(resolve("tiny")) == Stated(("single",), (256, 512, 1024, 2048))
