"""A whole comparison: alike at the start, kept, resumed, shown; and its decoders put to use."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.comparison.presets import parse_seeds, parse_variants, preset
from ropewalk.comparison.run import _Pace, compare
from ropewalk.comparison.train import batches, fresh, shared_hash
from ropewalk.errors import StoreError, UsageError
from ropewalk.report import document_of, terminal, to_dict
from ropewalk.report import html as page_of
from tests.comparison.conftest import Heard, small


def test_every_encoding_starts_from_the_same_weights() -> None:
    settings = small(*(each.name for each in preset("lesson").variants))
    hashes = {shared_hash(fresh(settings, each, 5)) for each in settings.variants}
    assert len(hashes) == 1
    assert shared_hash(fresh(settings, settings.variants[0], 6)) not in hashes


def test_rows_grow_and_the_tokens_of_a_step_stay_as_many() -> None:
    settings = small("rope", steps=10, trained_length=32, growing=0.5)
    shapes = [tuple(tokens.shape) for tokens, _ in batches(settings, 0)]
    assert shapes == [(16, 8)] * 3 + [(8, 16)] * 2 + [(4, 32)] * 5


def test_a_comparison_is_trained_once_kept_and_shown(tmp_path: Path, heard: Heard) -> None:
    settings = small("rope", "alibi", "sinusoidal+every", seeds=(0, 1))
    found = compare(settings, tmp_path, heard.listener)
    assert found.trained == 6
    trained = [each for each in heard.phases if each.startswith("training")]
    assert trained[0] == "training rope, seed 0 (1 of 6)"
    assert trained[-1].startswith("training sinusoidal+every, seed 1 (6 of 6")
    again = compare(settings, tmp_path)
    assert (again.trained, again.figures, again.speeds) == (0, found.figures, found.speeds)
    for seed in (0, 1):
        of_seed = [each for each in found.figures if each.seed == seed]
        assert len({(each.shared_weights, each.data) for each in of_seed}) == 1
        drawn = b"".join(x.numpy().tobytes() for pair in batches(settings, seed) for x in pair)
        assert of_seed[0].data == hashlib.sha256(drawn).hexdigest()
    text = terminal(document_of(found), 100)
    assert text.isascii()
    for width in (40, 60, 80, 100, 200):
        assert max(map(len, terminal(document_of(found), width).splitlines())) <= min(width, 100)
    assert "stride 4" in text
    assert "NOT MEASURED" in text
    assert "ALiBi with windows of 16" in text
    document = json.loads(json.dumps(to_dict(found), allow_nan=False))
    assert len(document["decoders"]) == 6
    html = page_of(document_of(found))
    assert "sinusoidal, every layer" in html
    assert "extendable by rescaling" in html
    assert not re.search(r"<script|https?://", html)
    with pytest.raises(StoreError, match="other sizes, steps or data"):
        compare(small("rope", steps=4), tmp_path)


def test_a_kept_decoder_is_a_model_of_transformers(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    from ropewalk.models.load import load
    from ropewalk.models.resolve import resolve

    compare(small("alibi"), tmp_path)
    folder = tmp_path / "alibi-0"
    model = load(resolve(str(folder)), device=torch.device("cpu"), dtype=torch.float32).model
    tokenizer = AutoTokenizer.from_pretrained(folder)
    given = tokenizer("ba deba 3", return_tensors="pt")["input_ids"]
    assert given.shape[1] == 3
    said = model.generate(given, max_new_tokens=4, do_sample=False, pad_token_id=0)
    assert said.shape == (1, 7)


def test_what_was_finished_before_a_kill_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    program = (
        "import sys, time; from pathlib import Path\n"
        "from ropewalk.comparison import run, train\n"
        "from tests.comparison.conftest import small\n"
        "whole = train.train\n"
        "def slow(settings, variant, seed, told):\n"
        "    if variant.position == 'alibi': print('there', flush=True); time.sleep(600)\n"
        "    return whole(settings, variant, seed, told)\n"
        "run.train.train = slow\n"
        f"run.compare(small('rope', 'alibi'), Path({str(folder)!r}))\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        with pytest.raises(StoreError, match="another run"):
            compare(small("rope"), folder)
        process.send_signal(signal.SIGKILL)
    begun = (folder / "rope-0" / "figures.json").stat().st_mtime_ns
    (folder / ".alibi-0.left").mkdir()
    found = compare(small("rope", "alibi"), folder)
    assert found.trained == 1
    assert len(found.figures) == 2
    assert (folder / "rope-0" / "figures.json").stat().st_mtime_ns == begun < time.time_ns()
    assert not (folder / ".alibi-0.left").exists()


def test_damaged_figures_are_said_to_be_damaged(tmp_path: Path) -> None:
    settings = small("none")
    compare(settings, tmp_path)
    path = tmp_path / "none-0" / "figures.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(StoreError, match="cannot be read"):
        compare(settings, tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_trainer_of_transformers_trains_it_and_accumulates_rightly(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    settings = small("rope")
    tokens = torch.from_numpy(settings.language.streams((1,), 8, 16).tokens)
    rows: Any = [{"input_ids": row, "labels": row} for row in tokens]
    weights = []
    for batch, accumulated in ((8, 1), (2, 4)):
        model = fresh(settings, settings.variants[0], 0)
        arguments = TrainingArguments(
            output_dir=str(tmp_path), max_steps=2, per_device_train_batch_size=batch,
            gradient_accumulation_steps=accumulated, report_to=[], save_strategy="no",
            use_cpu=True, optim="sgd", learning_rate=0.1, max_grad_norm=0.0,
            lr_scheduler_type="constant", disable_tqdm=True, logging_strategy="no",
        )  # fmt: skip
        Trainer(model=model, args=arguments, train_dataset=rows).train()
        weights.append(model.embed_tokens.weight.detach())
    untouched = fresh(settings, settings.variants[0], 0).embed_tokens.weight
    assert (weights[0] - untouched).abs().max() > 1e-4
    torch.testing.assert_close(weights[0], weights[1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("words", "message"),
    [("rope,magic", "'magic' is not known"), ("rope+every", "'rope"), ("", "'' is not known")],
)
def test_an_encoding_that_is_none_is_refused(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_variants(words)


def test_seeds_are_a_number_of_them_or_a_list() -> None:
    assert parse_seeds("3") == (0, 1, 2)
    assert parse_seeds("4, 7") == (4, 7)
    for wrong in ("x", "-1", "1,", "101"):
        with pytest.raises(UsageError, match="--seeds"):
            parse_seeds(wrong)
    for wrong in ("0", "1,1"):
        with pytest.raises(UsageError, match="seeds are named once"):
            preset("minute", seeds=parse_seeds(wrong))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_the_paper_preset_says_that_it_needs_a_gpu(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="trains on a GPU"):
        compare(preset("paper"), tmp_path)
    with pytest.raises(UsageError, match="choose minute, lesson or paper"):
        preset("hour")
    with pytest.raises(UsageError, match="choose cpu or cuda"):
        preset("paper", device="gpu")


def test_the_time_for_the_rest_follows_from_what_was_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([100.0, 400.0])
    monkeypatch.setattr("ropewalk.comparison.run.time.perf_counter", lambda: next(clock))
    pace = _Pace(7)
    assert pace.words() == "1 of 7"
    pace.done = 2
    # 300 seconds for two of them: five more take 750.
    assert pace.words() == "3 of 7, about 12 min for the rest"


def test_the_paper_preset_starts_on_a_cpu_where_it_is_told_to_and_goes_on(tmp_path: Path) -> None:
    chosen = parse_variants("learned")
    first = preset("paper", variants=chosen, seeds=(0,), steps=1, device="cpu")
    assert (first.trained_length, first.hidden, first.layers) == (256, 256, 4)
    # Its length and its layers, but narrow, a single row, and the learned table, which refuses the
    # long windows: this is to start and to go on, not to take a CPU minutes.
    first = replace(first, rows=1, streams=1, prompts=1, hidden=32)
    assert compare(first, tmp_path).trained == 1
    both = compare(replace(first, seeds=(0, 1)), tmp_path)
    assert both.trained == 1
    for each in both.figures:
        assert {x.window for x in each.reading.losses} == {256}
        assert "256 positions" in each.reading.refusal
        assert 5.0 < each.curve[0] < 20.0  # untrained: no less than chance among 689 tokens
