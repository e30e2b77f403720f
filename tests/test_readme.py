"""The README's figures and commands are those that committed commands print."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from transformers import LlamaConfig, LlamaForCausalLM
from typer.core import TyperGroup
from typer.testing import CliRunner

from ropewalk.cli.main import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAPS = (ROOT / "benchmarks" / "results" / "smollm2_maps.txt").read_text(encoding="utf-8")


def maps_in(text: str) -> list[list[str]]:
    """The lines of each fenced block that begins with a proof's command."""
    blocks = re.findall(r"```text\n(\$ ropewalk prove .*?)```", text, re.DOTALL)
    return [block.rstrip().splitlines() for block in blocks]


def test_every_heat_map_of_the_readme_stands_in_the_kept_result_line_for_line() -> None:
    kept = MAPS.splitlines()
    maps = maps_in(README)
    assert len(maps) == 3
    for block in maps:
        start = kept.index(block[0])
        assert kept[start : start + len(block)] == block


def test_the_story_of_the_readme_stands_in_its_kept_result() -> None:
    kept = (ROOT / "benchmarks" / "results" / "demo_full.txt").read_text(encoding="utf-8")
    (block,) = re.findall(r"```text\n(\$ ropewalk demo --full\n.*?)```", README, re.DOTALL)
    assert block in kept


def test_what_the_readme_says_of_an_extension_stands_in_its_kept_result() -> None:
    kept = (ROOT / "benchmarks" / "results" / "extend.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```text\n(\$ ropewalk extend .*?)```", README, re.DOTALL)
    for part in block.split("[...]\n"):
        assert part in kept
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
        f"{float(found[2]):.1f} times as fast as SDPA with the mask, forward and\n"
        f"backward, for 4,096 tokens in {found[1]} documents"
    )
    assert said in README
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


def test_the_input_path_of_the_readme_gives_what_its_comments_say() -> None:
    code = blocks()[0]
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
    exec(blocks()[1], names)  # noqa: S102  # our own words
    assert "2 LlamaAttention rotate by these kernels" in capsys.readouterr().out
    assert torch.allclose(names["logits"], model(ids).logits, atol=1e-5)


def test_the_table_of_the_readme_is_opened_and_two_rows_of_it_are_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names: dict[str, Any] = {}
    exec(blocks()[2], names)  # noqa: S102  # our own words
    assert names["rows"].shape == (2, 576)
    # A row of 576 numbers is 18 blocks of 32, in 34 bytes each.
    assert names["table"].bytes_read == 2 * 18 * 34
    assert "1,224" in capsys.readouterr().out


def test_what_the_readme_shows_of_a_table_is_what_the_command_prints() -> None:
    shown = re.findall(r"```text\n\$ ropewalk (table .*?)\n(.*?)```", README, re.DOTALL)
    assert shown
    for command, lines in shown:
        printed = CliRunner().invoke(app, shlex.split(command)).output
        for line in lines.splitlines():
            assert line in printed.splitlines(), line


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
