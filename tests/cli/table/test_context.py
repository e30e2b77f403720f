"""`ropewalk table MODEL context` as a user meets it, on a model small enough to run here."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from ropewalk.cli.main import app
from ropewalk.errors import ConfigError, ModelFileError, UsageError

SENTENCES = ("The river is long and dry", "A dog sat by the river")


def call(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, ["table", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_two_sentences_are_a_line_a_layer_in_80_columns(tiny_model: Path) -> None:
    lines = call(tiny_model, "context", "river", *SENTENCES).splitlines()
    assert max(map(len, lines)) <= 80
    named = [line.split("  ")[0] for line in lines]
    assert [n for n in named if n in {"table", "layer 0", "block 1", "final norm"}] == [
        "table", "layer 0", "block 1", "final norm",
    ]  # fmt: skip
    assert "[river]" in lines[1]


def test_model_and_command_may_change_places(tiny_model: Path) -> None:
    one = call(tiny_model, "context", "river", *SENTENCES, "--json")
    assert call("context", tiny_model, "river", *SENTENCES, "--json") == one


def test_groups_show_within_and_across_and_the_pairs(tiny_model: Path) -> None:
    shown = call(
        tiny_model, "context", "river", *SENTENCES, "No river here", "--groups", "wet,dry,wet"
    )
    assert "within" in shown
    assert "1 wet  The [river]" in shown
    assert "Cosines at" in shown


def test_json_holds_every_layer_and_names_its_schema(tiny_model: Path) -> None:
    held = json.loads(call(tiny_model, "context", "river", *SENTENCES, "--json"))
    assert held["schema"] == "ropewalk.table.context/1"
    assert [layer["name"] for layer in held["layers"]] == [
        "table", "layer 0", "block 1", "final norm",
    ]  # fmt: skip
    assert held["layers"][0]["cosines"][0][1] == pytest.approx(1.0)
    assert held["occurrences"][0]["text"] == SENTENCES[0]


def test_the_page_is_well_formed_draws_every_layer_and_escapes_the_sentences(
    tiny_model: Path, tmp_path: Path
) -> None:
    page = tmp_path / "river.html"
    call(tiny_model, "context", "river", "a <script>alert(1)</script> river \u202e", SENTENCES[1],
         "--html", page)  # fmt: skip
    text = page.read_text()
    assert "<script" not in text
    assert "\u202e" not in text
    svg = re.findall(r'<svg class="chart broad".*?</svg>', text, re.DOTALL)
    plot = ET.fromstring(svg[0])  # noqa: S314
    # Four layers, each with a cosine and what others have.
    assert len(plot.findall(".//circle")) == 8


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bank", *SENTENCES), "'bank' is not in sentence 1"),
        (("river", SENTENCES[0]), "found 1 time in all"),
        (("river", SENTENCES[0], ""), "sentence 2 is empty"),
        (("river", *SENTENCES, "--groups", "a"), "1 groups were given for 2"),
        (("river", *SENTENCES, "--occurrence", "0"), "give 1, 2, ... or all"),
        (("river", *SENTENCES, "--occurrence", "x"), "give 1, 2, ... or all"),
    ],
)
def test_bad_input_is_a_sentence(tiny_model: Path, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        call(tiny_model, "context", *arguments)


def test_a_table_without_its_model_cannot_be_run(tmp_path: Path) -> None:
    alone = tmp_path / "table.safetensors"
    save_file({"embed_tokens.weight": torch.ones(4, 2)}, alone)
    with pytest.raises(UsageError, match=r"holds tensors and no model to run; give the folder"):
        call(alone, "context", "river", *SENTENCES)


def test_a_folder_without_the_blocks_weights_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((tiny_model / name).read_bytes())
    with pytest.raises((ModelFileError, ConfigError), match="no weights"):
        call(tmp_path, "context", "river", *SENTENCES)
    save_file({"model.embed_tokens.weight": torch.ones(800, 32)}, tmp_path / "model.safetensors")
    with pytest.raises(ModelFileError, match=r"weights of .* are not in its files"):
        call(tmp_path, "context", "river", *SENTENCES)


def test_a_page_that_cannot_be_written_is_a_sentence(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="make it first"):
        call(tiny_model, "context", "river", *SENTENCES, "--html", tmp_path / "no" / "p.html")
