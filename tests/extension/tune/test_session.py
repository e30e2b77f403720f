"""Whole runs on a small model, from files to a tuned folder."""

from __future__ import annotations

import json
import math
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.errors import LengthError, ModelFileError, StoreError, TrainingError, UsageError
from ropewalk.extension.tune.loss import LossModel
from ropewalk.extension.tune.session import Tuned, tune
from ropewalk.extension.tune.training_settings import TuneSettings, parse_mix

Settings = Callable[..., TuneSettings]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path, documents: Path) -> Tuned:
    """Six steps without a stop."""
    out = tmp_path_factory.mktemp("plain") / "out"
    done = tune(six(checkpoint, documents, out))
    assert done is not None
    return done


def six(checkpoint: Path, documents: Path, out: Path, **changes: Any) -> TuneSettings:
    usual: dict[str, Any] = {
        "model": str(checkpoint),
        "data": (documents,),
        "steps": 6,
        "out": out,
        "mix": parse_mix("64"),
        "rows": 2,
        "lr": 1e-3,
        "warmup": 2,
        "every": 2,
        "device": "cpu",
        "tensorboard": False,
    }
    return TuneSettings(**(usual | changes))


def losses(done: Tuned) -> list[float]:
    return [each.loss for each in done.steps]


def test_the_tuned_model_loads_with_its_configuration_as_it_was(
    plain: Tuned, checkpoint: Path
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    for name in ("config.json", "tokenizer.json"):
        assert (plain.model / name).read_bytes() == (checkpoint / name).read_bytes()
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        plain.model, output_loading_info=True, dtype="auto"
    )
    model, report = loaded
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert model.lm_head.weight is model.model.embed_tokens.weight
    before: Any = AutoModelForCausalLM.from_pretrained(checkpoint)
    changed = [
        name
        for (name, a), (_, b) in zip(
            model.named_parameters(), before.named_parameters(), strict=True
        )
        if not torch.equal(a, b)
    ]
    assert len(changed) == len(list(model.named_parameters()))
    assert len(AutoTokenizer.from_pretrained(plain.model)) == 1200
    assert plain.gate.before != plain.gate.after
    assert not list(plain.folder.glob(".*"))


def test_another_run_in_the_same_folder_is_refused(
    plain: Tuned, checkpoint: Path, documents: Path
) -> None:
    with pytest.raises(StoreError, match=r"another run \(lr 0.001 there and 0.002 here\)"):
        tune(six(checkpoint, documents, plain.folder, lr=2e-3))


@contextmanager
def poisoned(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The loss of the first row of step `step`, from 1, becomes NaN; two rows make a step."""
    forward = LossModel.forward
    calls = 0

    def bad(self: LossModel, *args: Any, **given: Any) -> Any:
        nonlocal calls
        calls += 1
        loss = forward(self, *args, **given)
        return loss * math.nan if calls == 2 * step - 1 else loss

    with monkeypatch.context() as patch:
        patch.setattr(LossModel, "forward", bad)
        yield


def test_a_loss_that_is_not_a_number_stops_and_keeps_the_checkpoint_before_it(
    plain: Tuned,
    checkpoint: Path,
    documents: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = six(checkpoint, documents, tmp_path / "out")
    with poisoned(4, monkeypatch), pytest.raises(TrainingError) as caught:
        tune(asked)
    said = str(caught.value)
    assert "step 4 was not taken, because its loss is nan (row 0 with document" in said
    assert "row 1" not in said
    assert "the checkpoint of step 2 is kept in" in said
    kept = tmp_path / "out" / "checkpoints"
    assert [each.name for each in kept.iterdir()] == ["step-00000002"]
    # The run goes on from there to what it would have been.
    done = tune(asked)
    assert done is not None
    assert losses(done) == pytest.approx(losses(plain), abs=1e-6)


def test_a_full_disk_leaves_nothing_half_written(
    plain: Tuned, checkpoint: Path, documents: Path, tmp_path: Path
) -> None:
    """The largest file that may be written holds the log, and no checkpoint."""
    out = tmp_path / "out"
    shutil.copytree(plain.folder, out)
    shutil.rmtree(out / "model")
    shutil.rmtree(out / "checkpoints")
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, usual[1]))
    try:
        with pytest.raises(StoreError, match="cannot write the checkpoint of step 2 in"):
            tune(six(checkpoint, documents, out))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert not list((out / "checkpoints").iterdir())
    assert not (out / "model").exists()


def test_a_time_that_is_up_ends_training_and_the_model_is_written(
    plain: Tuned, checkpoint: Path, documents: Path, tmp_path: Path
) -> None:
    """One step is taken in any case; the same command shows the run, and takes no other."""
    from ropewalk.report import document_of, terminal

    said = "the time given ended training at step 1 of 6, where the rate was 5.00e-04"
    for _ in range(2):
        done = tune(six(checkpoint, documents, tmp_path / "out", seconds=1e-6))
        assert done is not None
        assert losses(done) == pytest.approx(losses(plain)[:1], abs=1e-6)
        assert (done.model / "model.safetensors").exists()
        assert said in terminal(document_of(done))
    kept = tmp_path / "out" / "checkpoints"
    assert [each.name for each in kept.iterdir()] == ["step-00000001"]
    assert "the time given" not in terminal(document_of(plain))


def test_a_gate_that_fails_keeps_the_model_apart(
    checkpoint: Path, documents: Path, tmp_path: Path
) -> None:
    """A rate that ruins the model: short text costs more afterwards."""
    done = tune(six(checkpoint, documents, tmp_path / "out", lr=3.0, gate=0.02))
    assert done is not None
    assert not done.gate.passed
    assert done.gate.share > 0.02
    assert done.model == tmp_path / "out" / "model-failed-gate"
    assert (done.model / "config.json").exists()
    assert not (tmp_path / "out" / "model").exists()
    assert "--gate 0.02 (2 %) fails" in done.gate.sentence


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"mix": parse_mix("1024")}, LengthError, "ropewalk extend .* --to 1024"),
        ({"data": (Path("/nowhere.txt"),)}, UsageError, "there is no file /nowhere.txt"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_loaded(
    settings: Settings, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    asked = settings(**changes)
    with pytest.raises(error, match=words):
        tune(asked)
    assert not asked.out.exists()


def test_a_vocabulary_that_goes_beyond_the_table_is_refused_and_an_added_token_is_not(
    settings: Settings, checkpoint: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    shutil.copytree(checkpoint, folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["added_tokens"].append(
        {**tokenizer["added_tokens"][0], "id": 1200, "content": "<more>"}
    )
    path.write_text(json.dumps(tokenizer))
    done = tune(settings(model=str(folder), steps=2))
    assert done is not None
    del tokenizer["added_tokens"][-1]
    tokenizer["model"]["vocab"]["zzzz"] = 1200
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(ModelFileError, match=r"gives ids up to 1200, and the model has 1200 rows"):
        tune(settings(model=str(folder), out=tmp_path / "refused"))
