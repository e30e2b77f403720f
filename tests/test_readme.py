"""The README's figures and commands are those that committed commands print."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from transformers import LlamaConfig, LlamaForCausalLM
from typer.core import TyperGroup

from benchmarks.readme import DOCUMENTS, RESULT, Transcript, printed, shown, transcripts
from ropewalk.cli.main import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_has_at_most_130_lines() -> None:
    assert len(README.splitlines()) <= 130


QUICK = [
    block
    for document in DOCUMENTS
    for block in transcripts(document.read_text(encoding="utf-8"))
    if not block.slow
]


@pytest.mark.parametrize("block", QUICK, ids=lambda block: block.command)
def test_a_quick_transcript_is_what_its_command_prints(block: Transcript) -> None:
    assert block.body == shown(printed(block.command), block)


def test_a_slow_transcript_stands_in_the_kept_output_of_its_command() -> None:
    kept = RESULT.read_text(encoding="utf-8")
    slow = [
        block
        for document in DOCUMENTS
        for block in transcripts(document.read_text(encoding="utf-8"))
        if block.slow
    ]
    assert len(slow) == 2
    for block in slow:
        output = kept.partition(f"$ {block.command}\n")[2]
        assert output
        assert block.body in output


def test_what_the_readme_says_of_an_extension_stands_in_its_kept_result() -> None:
    kept = (ROOT / "benchmarks" / "results" / "extend.md").read_text(encoding="utf-8")
    last = json.loads(kept.splitlines()[-1])
    rows = {row["name"]: row for row in last["rows"]}
    assert rows["facts found at 16,000, extended"]["value"] == 1.0
    assert rows["facts found at 16,000, as shipped"]["value"] == 0.0
    for kind, most in (("F32", 0.0005), ("F16", 0.003)):
        apart = [row["value"] for name, row in rows.items() if name.startswith(f"{kind} served")]
        assert len(apart) == 3
        assert max(apart) < most


def test_what_is_said_of_packed_rows_stands_in_the_kept_results() -> None:
    packing = (ROOT / "benchmarks" / "results" / "packing.md").read_text(encoding="utf-8")
    row = r"4096 tokens in (\d) documents, with gradients: SDPA with the mask, times ours"
    found = re.search(rf"\| attention, {row} \| ([\d.]+) ", packing)
    assert found is not None
    said = (
        f"{float(found[2]):.1f} times as fast as SDPA with the mask, forward and "
        f"backward, for 4,096 tokens in {found[1]} documents"
    )
    assert said in " ".join(README.split())
    tune = (ROOT / "benchmarks" / "results" / "tune-tiny.md").read_text(encoding="utf-8")
    kept, twice = re.findall(r"activations \w+: tune's tokens a second .*\| ([\d.]+) ", tune)
    words = (
        f"{float(kept):.2f} times its\ntokens a second with activations kept and "
        f"{float(twice):.2f} times without"
    )
    assert words in (ROOT / "docs" / "tune.md").read_text(encoding="utf-8")


def test_the_readme_names_the_two_commands_first() -> None:
    first_screen = "\n".join(README.splitlines()[:20])
    assert "make demo" in first_screen
    assert "make test" in first_screen


def test_every_file_the_readme_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def blocks() -> list[str]:
    """The Python of the README."""
    return re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_verbs_of_the_readme_give_what_its_comments_say(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(blocks()[0], names)  # noqa: S102  # our own words
    assert capsys.readouterr().out.splitlines()[0] == "256"
    assert [column.length for column in names["proof"].summary.columns] == [256, 512]


def test_the_input_path_of_the_readme_gives_what_its_comments_say() -> None:
    code = blocks()[1]
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102  # our own words
    table, x = names["table"].weight, names["x"]
    assert x.shape == (3, 512)
    # 512 ** 0.5 is the 22.6 of the comment; at position 0 sines are 0 and cosines 1.
    scaled = table[464] * 512**0.5
    assert x[0, ::2].tolist() == pytest.approx(scaled[::2].tolist(), abs=1e-5)
    assert x[0, 1::2].tolist() == pytest.approx((scaled[1::2] + 1).tolist(), abs=1e-5)


def test_the_acceleration_of_the_readme_says_what_changed_and_keeps_the_logits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = LlamaConfig(
        hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=257,
    )  # fmt: skip
    torch.manual_seed(0)
    model, ids = LlamaForCausalLM(config).eval(), torch.arange(24)[None]
    names: dict[str, Any] = {"model": model, "ids": ids}
    exec(blocks()[2], names)  # noqa: S102  # our own words
    assert "2 LlamaAttention rotate by these kernels" in capsys.readouterr().out
    assert torch.allclose(names["logits"], model(ids).logits, atol=1e-5)


def commands(group: Any, before: str = "ropewalk") -> Iterator[str]:
    """Every command as it is typed."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, f"{before} {name}")
        else:
            yield f"{before} {name}"


def test_every_command_is_in_the_readme_and_in_the_changelog() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    typed = list(commands(typer.main.get_command(app)))
    assert "ropewalk audit" in typed
    assert "ropewalk table near" in typed
    for command in typed:
        *group, name = command.split()
        asked = command.replace("ropewalk table", "ropewalk table MODEL")
        assert re.search(rf"`{asked}[ `]", changes), command
        # Of a group's commands the README may name the last word alone, beside one of them.
        short = f"|{name}" if group[1:] else ""
        assert re.search(rf"`(?:{asked}|{command}{short})[ `]", README), command
