"""What an audit says of an extended folder: by which method and tool, from what to what."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ropewalk
from ropewalk.cli.main import app
from ropewalk.dialects.hf import load_json, read_config
from ropewalk.extension.checkpoint import write_folder
from ropewalk.extension.methods import CLOSED_FORMS, Method, SearchedFactors, extended
from ropewalk.findings import audit
from ropewalk.models.resolve import read_spec, resolve

SaveFolder = Callable[..., Path]
SEARCHED = SearchedFactors((1.0, 1.0, 1.2, 2.0, 2.0, 2.4), 1.03)

# The folder is trained on 512 tokens at base 10,000, and every method stretches it by 4.
ORIGINS = {
    "linear": ("position-interpolation", "Position interpolation by 4;"),
    "ntk": ("ntk", "NTK-aware base, the slowest pair divided by 4: raised from 10,000 to "),
    "ntk-by-parts": ("ntk-by-parts", "NTK by parts (factor 4 from 512 tokens);"),
    "yarn": ("yarn", "YaRN (factor 4 from 512 tokens);"),
    "llama3": ("llama3", "llama3 rule: slow pairs divided by 4, reference length 512;"),
    "longrope": ("longrope", "longrope: a divisor for each pair past 512 tokens;"),
    "base": ("larger-base", "Larger base: raised from 10,000 to "),
    "search": ("searched-divisors", "A divisor for each pair, found by a search;"),
}


def config_of(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config


@pytest.mark.parametrize("method", [*CLOSED_FORMS, SEARCHED], ids=lambda each: each.name)
def test_the_origin_of_an_extended_folder_is_named_and_outlives_transformers(
    folder: SaveFolder, tmp_path: Path, method: Method
) -> None:
    from transformers import AutoConfig

    source = folder()
    after = extended(read_config(load_json(source / "config.json")), 2048, method)
    out = write_folder(source, after, tmp_path / "longer", place="link", card="").path
    code, words = ORIGINS[method.name]
    origin = audit(read_spec(resolve(str(out)))).origin
    assert origin.code == code
    assert origin.sentence.startswith(words)
    tool = f"ropewalk {ropewalk.__version__} (method {method.name}), as the file records"
    assert f"extended from 512 to 2,048 tokens, by {tool}" in origin.sentence
    again = tmp_path / "again"
    AutoConfig.from_pretrained(out).save_pretrained(again)
    assert audit(read_spec(resolve(str(again)))).origin == origin


def test_the_base_before_and_after_are_those_of_the_two_files(tmp_path: Path) -> None:
    out = tmp_path / "longer"
    command = ["extend", "tiny", "--to", "1024", "--method", "base", "--out", str(out)]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    base = config_of(out)["rope_parameters"]["rope_theta"]
    assert base > 10_000
    shown = CliRunner().invoke(app, ["audit", str(out)], catch_exceptions=False).output
    words = f"Larger base: raised from 10,000 to {base:,.10g}; extended from 256 to 1,024 tokens"
    assert words in " ".join(shown.split())


def test_what_was_changed_since_is_told_and_not_believed(
    folder: SaveFolder, tmp_path: Path
) -> None:
    source = folder()
    base = next(each for each in CLOSED_FORMS if each.name == "base")
    after = extended(read_config(load_json(source / "config.json")), 2048, base)
    out = write_folder(source, after, tmp_path / "longer", place="link", card="").path
    config = config_of(out)
    config["rope_parameters"]["rope_theta"] *= 2
    origin = audit(read_config(config)).origin
    assert origin.code == "unknown"
    assert "extended it to 2,048 tokens (method base); its schedule or its" in origin.sentence
    config = config_of(out)
    config["max_position_embeddings"] = 4096
    assert "was changed since" in audit(read_config(config)).origin.sentence


@pytest.mark.parametrize(
    "record", ["yes", {}, {"tool": "x"}, {"tool": 3}, {"tool": "x", "trained_tokens": -1}]
)
def test_a_record_of_another_kind_is_a_remark_and_no_error(
    folder: SaveFolder, record: object
) -> None:
    config = {**config_of(folder()), "ropewalk_extend": record}
    spec = read_config(config)
    assert spec.extended is None
    assert "record-not-read" in [remark.code for remark in spec.findings]
    assert audit(spec).origin.code == "as-trained"
