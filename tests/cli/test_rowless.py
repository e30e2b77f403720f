"""A token that the tokenizer knows and the model has no row for, in every command that reads text.

It is named with its id, its text, its place and the number of rows; and it harms nothing where no
text holds it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ropewalk.proof.haystack import GeneratedHaystack

Run = Callable[..., subprocess.CompletedProcess[str]]

ROWS = 800
SAID = "has no row in the model's table: it has 800 rows, for ids 0 to 799"
PAD = "token 800 ('<pad>'), number "


@pytest.fixture(scope="module")
def padded(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model with a padding token that was added to its tokenizer alone."""
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("padded") / "tiny"
    shutil.copytree(tiny_model, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == ROWS
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    tokenizer.save_pretrained(folder)
    assert AutoTokenizer.from_pretrained(folder).pad_token_id == ROWS
    return folder


def _text(count: int, *, with_pad: bool) -> str:
    sentences = GeneratedHaystack(Random(2)).sentences()
    held = [next(sentences) for _ in range(count)]
    if with_pad:
        held[count // 2] = held[count // 2].replace(" ", " <pad> ", 1)
    return " ".join(held)


def _files(folder: Path, *, with_pad: bool) -> None:
    """What the commands read: a long text, documents in JSON lines, and a folder of one's own."""
    (folder / "long.txt").write_text(_text(400, with_pad=with_pad))
    lines = [_text(6, with_pad=with_pad and number == 7) for number in range(40)]
    (folder / "documents.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in lines))
    clean = [json.dumps({"text": line.replace("<pad> ", "")}) + "\n" for line in lines]
    (folder / "clean.jsonl").write_text("".join(clean))
    own = folder / "own"
    own.mkdir(exist_ok=True)
    (own / "one.txt").write_text(f"The harbour master is called Borin. {_text(3, with_pad=False)}")
    (own / "two.txt").write_text(_text(300, with_pad=with_pad))
    asked = {"question": "What is the harbour master called?", "answer": "Borin"}
    (folder / "asked.jsonl").write_text(json.dumps(asked) + "\n")


PROVE = ["--lengths", "256", "--depths", "0.5", "--trials", "1", "--controls", "0", "--seed", "1"]
PROVE += ["--device", "cpu"]
TRAIN = ["--data", "documents.jsonl", "--steps", "1", "--length", "32", "--rows", "2"]
TRAIN += ["--device", "cpu"]
CLEAN = ["--data", "clean.jsonl", *TRAIN[2:]]
EXTEND = ["--lengths", "256", "--depths", "0.5", "--trials", "1", "--device", "cpu"]
COMMANDS: dict[str, tuple[list[str], str]] = {
    "loss": (
        ["loss", "MODEL", "long.txt", "--length", "140", "--window", "40", "--stride", "20"],
        "tokens of long.txt",
    ),
    "prove": (["prove", "MODEL", "--haystack", "long.txt", *PROVE], "of long.txt"),
    "prove own": (
        ["prove", "MODEL", "--documents", "own", "--questions", "asked.jsonl", *PROVE],
        "of the document two.txt",
    ),
    "tune": (["tune", "MODEL", *TRAIN, "--out", "tuned"], "tokens of documents.jsonl, line 8"),
    "tune --gate-text": (
        ["tune", "MODEL", *CLEAN, "--out", "gated", "--gate-text", "long.txt"],
        "tokens of long.txt",
    ),
    "pack": (
        ["pack", "documents.jsonl", "--tokenizer", "MODEL", "--length", "64", "--out", "p.parquet"],
        "tokens of documents.jsonl, line 8",
    ),
    "extend": (
        ["extend", "MODEL", "--to", "8192", "--text", "long.txt", *EXTEND],
        "tokens of long.txt",
    ),
}


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_token_without_a_row_is_named_with_its_place_before_the_model_is_asked(
    here: Run, padded: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import LlamaForCausalLM

    _files(tmp_path, with_pad=True)
    asked: list[int] = []
    forward = LlamaForCausalLM.forward

    def noted(self: Any, input_ids: Any, *args: Any, **given: Any) -> Any:
        asked.append(input_ids.shape[-1])
        return forward(self, input_ids, *args, **given)

    monkeypatch.setattr(LlamaForCausalLM, "forward", noted)
    words, place = COMMANDS[command]
    done = here(*(str(padded) if word == "MODEL" else word for word in words))
    assert done.returncode == 2, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert PAD in last
    assert SAID in last
    assert place in last
    # Loading tries a model on 8 tokens, and tuning its attention on 16; no text reaches it.
    assert set(asked) <= {8, 16}


@pytest.mark.parametrize("command", ["loss", "prove", "prove own", "tune --gate-text", "pack"])
def test_a_token_without_a_row_that_no_text_holds_stops_nothing(
    here: Run, padded: Path, tmp_path: Path, command: str
) -> None:
    _files(tmp_path, with_pad=False)
    words, _ = COMMANDS[command]
    done = here(*(str(padded) if word == "MODEL" else word for word in words))
    assert done.returncode == 0, done.stderr


CONTEXT = ["context", "harbour", "The harbour is still.", "A <pad> harbour is deep."]


@pytest.mark.parametrize(
    ("before", "behind", "place"),
    [
        (["trace"], ["The <pad> harbour lay still."], "tokens of the text"),
        (["table"], CONTEXT, "tokens of sentence 2"),
        (
            ["explain", "join"],
            ["The harbour lay still.", "The <pad> harbour lay still."],
            "tokens of document B of pair 1",
        ),
    ],
)
def test_a_sentence_that_is_looked_into_names_the_token_too(
    here: Run, padded: Path, before: list[str], behind: list[str], place: str
) -> None:
    done = here(*before, padded, *behind)
    assert done.returncode == 2, done.stderr
    assert PAD in done.stderr
    assert f"{place}, {SAID}" in done.stderr
    clean = here(*before, padded, *(word.replace("<pad> ", "") for word in behind))
    assert clean.returncode == 0, clean.stderr


def test_a_chat_template_that_spells_the_token_is_named_as_what_holds_it(
    here: Run, padded: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "chat"
    shutil.copytree(padded, folder)
    template = "{% for m in messages %}<s>{{ m.content }}<pad>{% endfor %}"
    (folder / "chat_template.jinja").write_text(template)
    done = here("prove", folder, "--chat", *PROVE)
    assert done.returncode == 2, done.stderr
    assert "tokens of the model's chat template, has no row" in done.stderr
    assert PAD in done.stderr


def test_the_two_remedies_that_are_named_are_followed(
    here: Run, padded: Path, tmp_path: Path
) -> None:
    """The token is given a row as it is said, or taken out of the text."""
    from transformers import AutoModelForCausalLM

    _files(tmp_path, with_pad=True)
    words, _ = COMMANDS["loss"]
    refused = here(*(str(padded) if word == "MODEL" else word for word in words))
    assert "model.resize_token_embeddings(801) of transformers" in refused.stderr
    resized = tmp_path / "resized"
    shutil.copytree(padded, resized)
    model: Any = AutoModelForCausalLM.from_pretrained(padded)
    model.resize_token_embeddings(801)
    model.save_pretrained(resized)
    done = here(*(str(resized) if word == "MODEL" else word for word in words))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "long.txt").read_text()
    (tmp_path / "long.txt").write_text(text.replace("<pad> ", ""))
    done = here(*(str(padded) if word == "MODEL" else word for word in words))
    assert done.returncode == 0, done.stderr
