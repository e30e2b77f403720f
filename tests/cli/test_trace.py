"""`trace` as a user runs it: any kind of model, one JSON document, exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_a_trace_of_a_model_agrees_with_it(run: Run, tiny_model: Path) -> None:
    done = run("trace", tiny_model, "The cat sat")
    assert done.returncode == 0, done.stderr
    assert "DIFFERS" not in done.stdout
    assert "equal to rounding wherever both are known" in done.stdout
    assert all(line.endswith(" ...") for line in done.stderr.splitlines())


def test_a_trace_as_json_holds_every_token(here: Run, tiny_model: Path) -> None:
    done = here("trace", tiny_model, "The cat sat", "--json", "--dtype", "bf16")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "ropewalk.trace/1"
    assert document["agrees"] is True
    count = len(document["ids"])
    assert count == len(document["pieces"]) == len(document["steps"][0]["norms"])
    assert document["steps"][0]["dtype"] == "bfloat16"
    near, there = document["rotations"][0]["scores"]
    assert near["query"] - near["key"] == there["query"] - there["key"] == count - 1


def test_a_trace_of_a_model_that_is_not_causal_is_possible(here: Run, tmp_path: Path) -> None:
    done = here("trace", bert(tmp_path / "bert"), "aaa bbb")
    assert done.returncode == 0, done.stderr
    assert "[CLS]" in done.stdout
    assert "rows 0 to 3 of a learned table are added" in " ".join(done.stdout.split())


def bert(folder: Path) -> Path:
    """A folder with a random BERT of two words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "aaa"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=5,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
    )
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def place(tmp_path: Path, tiny_model: Path) -> Path:
    shutil.copytree(tiny_model, tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    shutil.copy(tiny_model / "config.json", tmp_path / "config.json")
    shutil.copytree(tiny_model, tmp_path / "whole")
    return tmp_path


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nosuch", "text"), 2, "there is no model 'nosuch'"),
        (("config.json", "text"), 1, "without weights"),
        (("cut", "text"), 1, "damaged or incomplete"),
        (("whole", ""), 2, "no tokens"),
    ],
)
def test_what_cannot_be_traced_is_one_sentence(
    here: Run, arguments: tuple[str, str], code: int, words: str
) -> None:
    done = here("trace", *arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "Traceback" not in done.stderr
    sentence = done.stderr.splitlines()[-1]
    assert sentence.startswith("ropewalk: ")
    assert words in sentence
