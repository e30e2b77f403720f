"""How long rows are: as the checkpoint claims unless told otherwise, and what is said of it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.errors import LengthError
from ropewalk.extension.tune import length
from ropewalk.extension.tune.session import tune
from ropewalk.extension.tune.training_settings import TuneSettings, parse_mix
from ropewalk.listener import Listener

Settings = Callable[..., TuneSettings]


def test_rows_are_as_long_as_the_checkpoint_claims_where_nothing_is_said(checkpoint: Path) -> None:
    assert length.claimed_mix(str(checkpoint)) == parse_mix("512")


def test_a_checkpoint_that_claims_nothing_asks_for_a_length(
    checkpoint: Path, tmp_path: Path
) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    bloom = {"model_type": "bloom", "n_head": 4, "hidden_size": 48, "n_layer": 2}
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": config["vocab_size"], **bloom}))
    with pytest.raises(LengthError, match="claims no length that rows could have; say how long"):
        length.claimed_mix(str(tmp_path))


def test_what_rows_take_is_said_before_training_and_is_a_bound(
    settings: Settings, checkpoint: Path
) -> None:
    """By hand: two layers of 48 channels; 16 bytes a weight."""
    from transformers import AutoModelForCausalLM

    notes: list[str] = []
    tune(settings(mix=parse_mix("512"), steps=2), Listener(note=notes.append))
    model: Any = AutoModelForCausalLM.from_pretrained(checkpoint)
    weights = 16 * sum(each.numel() for each in model.parameters())
    rows = 512 * 2 * 48 * 4
    (said,) = [each for each in notes if "rows of" in each]
    assert said == (
        "rows of 512 tokens, as long as the checkpoint claims to read; --length makes them "
        f"shorter. They take at least {(weights + rows) / 2**20:.4g} MiB of memory, "
        f"{rows / 2**10:.4g} KiB of it for 1 row at once"
    )


def test_rows_in_half_precision_take_half_of_what_they_take_in_full(settings: Settings) -> None:
    import torch
    from transformers import LlamaConfig

    config, cpu = (
        LlamaConfig(num_hidden_layers=2, hidden_size=48, num_attention_heads=4),
        torch.device("cpu"),
    )
    full, half = (
        length.Memory.of(config, (10, 10), settings(mix=parse_mix("512"), dtype=word), cpu).rows
        for word in ("fp32", "bf16")
    )
    assert (full, half) == (512 * 2 * 48 * 4, 512 * 2 * 48 * 2)


def test_rows_that_surely_do_not_fit_are_refused_before_anything_is_measured(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(length, "memory_of", lambda _device: 1 << 20)
    asked = settings(mix=parse_mix("512"))
    with pytest.raises(LengthError, match=r"and here are 1 MiB; give a shorter --length"):
        tune(asked)
    assert not (asked.out / "run.json").exists()


def test_the_memory_of_this_machine_is_what_the_system_says() -> None:
    import torch

    found = length.memory_of(torch.device("cpu"))
    assert found is not None
    said = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    assert said is not None
    assert 0 < found <= int(said[1]) * 1024
    assert length.memory_of(torch.device("meta")) is None


def test_a_length_beyond_the_claim_is_reached_by_the_command_that_is_named(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advice is followed to the letter, with less asked of the measurement alone."""
    from typer.testing import CliRunner

    from ropewalk.cli.main import app

    monkeypatch.chdir(tmp_path)
    with pytest.raises(LengthError, match="give --length 512 or less, or write") as caught:
        tune(settings(mix=parse_mix("1024")))
    words = shlex.split(str(caught.value).rpartition(": ")[2])
    assert words[:2] == ["ropewalk", "extend"]
    less = ["--trials", "1", "--depths", "0.5", "--device", "cpu"]
    done = CliRunner().invoke(app, [*words[1:], *less], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    tuned = tune(settings(model="FOLDER", mix=parse_mix("1024"), steps=2, rows=1))
    assert tuned is not None


@pytest.mark.parametrize(
    ("scaling", "why"),
    [
        ({"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}, "is scaled already: linear"),
        ({"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}, "is scaled already: yarn"),
    ],
)
def test_nobody_is_sent_to_an_extension_that_refuses(
    settings: Settings, checkpoint: Path, tmp_path: Path, scaling: dict[str, Any], why: str
) -> None:
    folder = tmp_path / "scaled"
    shutil.copytree(checkpoint, folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.pop("rope_theta", None)
    path.write_text(json.dumps({**config, "rope_parameters": scaling}))
    with pytest.raises(LengthError) as caught:
        tune(settings(model=str(folder), mix=parse_mix("8192")))
    said = str(caught.value)
    assert "ropewalk extend" not in said
    assert f"It cannot be extended as it is: this model {why}" in said
    # What is named instead is taken.
    allowed = re.search(r"give --length (\d+) or less", said)
    assert allowed is not None
    found = settings(model=str(folder), mix=parse_mix(allowed[1]), rows=1, steps=2)
    assert tune(found) is not None
