"""The terminal heat map is readable in 80 columns, without colour, and in any encoding."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from ropewalk.proof.cells import Outcome
from ropewalk.proof.summary import Reason, RunSummary
from ropewalk.report import as_json, html, proof, proof_map
from ropewalk.report.lines import print_blocks, text_lines

MakeSummary = Callable[..., RunSummary]

LONG = (512, 1024, 2048, 4096, 8192, 12000, 16384, 32768)


def heatmap_lines(summary: RunSummary, *, width: int = 80, in_ascii: bool = False) -> list[str]:
    return text_lines([proof_map.heat_map(summary)], width, in_ascii=in_ascii)


def proof_lines(summary: RunSummary) -> list[str]:
    return text_lines(proof.document(summary).blocks, 80)


def _line(lines: list[str], start: str) -> str:
    return next(line for line in lines if line.strip().startswith(start))


def _printed(summary: RunSummary, encoding: str, **options: object) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    console = Console(file=file, width=80, **options)  # type: ignore[arg-type]
    print_blocks(console, proof.document(summary).blocks, 80)
    file.flush()
    return raw.getvalue().decode(encoding)


def test_the_map_comes_out_as_drawn_here(make_summary: MakeSummary) -> None:
    assert heatmap_lines(make_summary())[:16] == [
        "                 claimed 8,192 ┆",
        "depth           2,048    8,000 ┆ 12,000",
        "    0 %        ██ 4/4   ██ 4/4 ┆ ·· 0/4",
        "   25 %        ██ 4/4   ██ 4/4 ┆ ·· 0/4",
        "   50 %        ██ 4/4   ██ 4/4 ┆ ·· 0/4",
        "   75 %        ██ 4/4   ██ 4/4 ┆ ·· 0/4",
        "  100 %        ██ 4/4   ██ 4/4 ┆ ·· 0/4",
        "                               ┆",
        "all depths      20/20    20/20 ┆   0/20",
        "  interval    84-100%  84-100% ┆  0-16%",
        "worst depth       0 %      0 % ┆    0 %",
        "  hits            4/4      4/4 ┆    0/4",
        "  interval    51-100%  51-100% ┆  0-49%",
        "verdict        passes   passes ┆  fails",
        "certain       ═════════════════╡",
        "possible      ─────────────────┤",
    ]


@pytest.mark.parametrize("width", [40, 64, 80, 120])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_no_line_of_the_map_is_wider_than_asked(
    make_summary: MakeSummary, width: int, ascii_only: bool
) -> None:
    summary = make_summary(lengths=LONG, depths=tuple(i / 10 for i in range(11)), trials=100)
    lines = heatmap_lines(summary, width=width, in_ascii=ascii_only)
    assert max(map(len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)
    assert not ascii_only or all(line.isascii() for line in lines)


def test_lengths_that_do_not_fit_go_on_in_a_further_block(make_summary: MakeSummary) -> None:
    headers = [line for line in heatmap_lines(make_summary(lengths=LONG)) if line[:5] == "depth"]
    assert len(headers) > 1
    assert " ".join(headers).replace("depth", "").replace("┆", "").split() == [
        f"{length:,}" for length in LONG
    ]


@pytest.mark.parametrize(
    ("claimed", "before", "after"),
    [(1024, "depth", "2,048"), (8192, "8,000", "12,000"), (8000, "8,000", "12,000")],
)
def test_the_claimed_length_is_a_line_between_the_columns_it_parts(
    make_summary: MakeSummary, claimed: int, before: str, after: str
) -> None:
    lines = heatmap_lines(make_summary(claimed=claimed))
    header = _line(lines, "depth")
    left, right = header.split("┆")
    assert left.split()[-1] == before
    assert right.split()[0] == after
    places = {line.index("┆") for line in lines[: len(lines) - 3] if "┆" in line}
    assert places == {header.index("┆")}
    assert f"claimed {claimed:,}" in lines[0]


def test_a_claim_beyond_every_column_stands_at_the_end(make_summary: MakeSummary) -> None:
    assert _line(heatmap_lines(make_summary(claimed=131072)), "depth").endswith("12,000 ┆")


@pytest.mark.parametrize("claimed", [1, 600, 4096, 9000, 12000, 40000])
def test_the_claim_is_drawn_once_however_the_map_wraps(
    make_summary: MakeSummary, claimed: int
) -> None:
    for width in (40, 80, 200):
        lines = heatmap_lines(make_summary(lengths=LONG, claimed=claimed), width=width)
        assert sum(f"claimed {claimed:,}" in line for line in lines) == 1
        assert sum("┆" in line for line in lines if line.startswith("depth")) == 1


def test_no_line_is_drawn_for_an_unknown_claim(make_summary: MakeSummary) -> None:
    lines = proof_lines(make_summary(claimed=None))
    assert "┆" not in "".join(lines)
    assert _line(lines, "claimed").split()[1] == "unknown"


def test_the_bars_end_with_the_certain_and_the_possible_column(make_summary: MakeSummary) -> None:
    lines = heatmap_lines(make_summary(claimed=None, certain=2048, possible=8000))
    header = _line(lines, "depth")
    certain, possible = _line(lines, "certain"), _line(lines, "possible")
    assert header.index("2,048") + len("2,048") < len(certain) <= header.index("8,000")
    assert header.index("8,000") + len("8,000") < len(possible) <= header.index("12,000")
    assert certain.endswith("╡")
    assert possible.endswith("┤")


def test_no_certain_length_leaves_its_bar_empty_and_is_said(make_summary: MakeSummary) -> None:
    lines = proof_lines(make_summary(certain=None, possible=8000))
    assert _line(lines, "certain") == "certain"
    assert "[none, 8,000] tokens" in _line(lines, "effective")


def test_fields_that_are_no_share_have_their_own_words_and_legend(
    make_summary: MakeSummary,
) -> None:
    special = {
        (2048, 0.0): {Outcome.ERROR: 4},
        (2048, 0.25): {Outcome.OVERFLOW: 4},
        (2048, 0.5): {},
        (2048, 0.75): {Outcome.HIT: 3, Outcome.ERROR: 1},
        (2048, 1.0): {Outcome.HIT: 3, Outcome.OVERFLOW: 1},
    }
    lines = heatmap_lines(make_summary(lengths=(2048,), claimed=None, special=special))
    assert _line(lines, "0 %").split()[2:] == ["ERR"]
    assert _line(lines, "25 %").split()[2:] == ["OVER"]
    assert _line(lines, "50 %").split()[2:] == ["?"]
    assert _line(lines, "75 %").split()[2:] == ["██", "!3/3"]
    assert _line(lines, "100 %").split()[2:] == ["██", "^3/3"]
    legend = " ".join(lines[-5:])
    for words in ("not asked yet", "does not fit", "broke and will", "! some", "^ some"):
        assert words in legend


def test_the_legend_of_an_ordinary_run_names_no_failures(make_summary: MakeSummary) -> None:
    text = " ".join(heatmap_lines(make_summary()))
    assert "ERR" not in text
    assert "OVER" not in text


@pytest.mark.parametrize("encoding", ["ascii", "cp437", "cp1252", "latin-1", "utf-8"])
def test_hostile_text_prints_in_every_encoding(make_summary: MakeSummary, encoding: str) -> None:
    summary = make_summary(
        facts={
            "model": "\x1b[2J\x1b]0;owned\x07 日本 \u202e evil \x00",
            "[bold]key[/]": "[red]not markup[/red] :smile:",
            "long": "x" * 100_000,
        },
        sentence="\x1b[5m ‖ done",
    )
    out = _printed(summary, encoding)
    assert "\x1b" not in out
    assert "\x00" not in out
    assert "\u202e" not in out
    assert "\\x1b[2J" in out
    assert "[red]not markup[/red] :smile:" in out
    assert "(98,000 more characters)" in out
    assert ("██" in out) == (encoding == "utf-8")


def test_a_pipe_gets_no_escape_and_a_terminal_gets_the_scale(make_summary: MakeSummary) -> None:
    summary = make_summary()
    assert _printed(summary, "utf-8").splitlines() == proof_lines(summary)
    coloured = _printed(summary, "utf-8", force_terminal=True, color_system="truecolor")
    assert "48;2;31;98;163" in coloured
    plain = _printed(summary, "utf-8", force_terminal=True, no_color=True)
    assert "48;2" not in plain
    assert "38;2" not in plain


def test_result_controls_and_facts_follow_the_map(make_summary: MakeSummary) -> None:
    lines = proof_lines(make_summary())
    text = "\n".join(lines)
    assert "8,192 tokens (max_position_embeddings)" in text
    assert "needle-only   2,048   4/4   51-100%  The task is understood." in text
    assert _line(lines, "seconds:").endswith("102")
    # A command stays on one line, to be copied whole.
    assert _line(lines, "command:").endswith("--trials 4 --seed 0")


def test_answers_that_were_not_judged_have_words_of_their_own(make_summary: MakeSummary) -> None:
    special = {
        (2048, 0.0): {Outcome.TRUNCATED: 3, Outcome.EMPTY: 1},
        (2048, 0.25): {Outcome.REFUSED: 4},
        (2048, 0.5): {Outcome.EMPTY: 4},
        (2048, 0.75): {Outcome.HIT: 3, Outcome.REFUSED: 1},
        (2048, 1.0): {Outcome.THINKING: 4},
        (1024, 1.0): {Outcome.THROTTLED: 4},
    }
    lines = heatmap_lines(make_summary(lengths=(2048,), claimed=None, special=special))
    assert _line(lines, "0 %").split()[2:] == ["CUT"]
    assert _line(lines, "25 %").split()[2:] == ["REF"]
    assert _line(lines, "50 %").split()[2:] == ["NONE"]
    assert _line(lines, "75 %").split()[2:] == ["██", "~3/3"]
    assert "~ some were cut, refused, empty or still thinking" in " ".join(lines[-5:])


def test_a_length_that_falls_short_has_a_likely_reason_beside_it(make_summary: MakeSummary) -> None:
    likely = ("18 of 64 rotary pairs turn to new angles", "distances are rare")
    found = (Reason(8000, 0.0, likely), Reason(12000, 0.5, ()))
    text = " ".join(" ".join(proof_lines(replace(make_summary(), reasons=found))).split())
    assert (
        "8,000 tokens, worst at 0 %, likely because 18 of 64 rotary pairs turn to new angles; "
        "distances are rare."
    ) in text
    assert "12,000 tokens, worst at 50 %: nothing in the schedule speaks against it." in text


@pytest.mark.parametrize(
    ("limit", "columns"), [(None, 0), (100, 0), (2048, 1), (8192, 2), (12000, 3), (99999, 3)]
)
def test_a_limit_stands_behind_the_lengths_it_covers(limit: int | None, columns: int) -> None:
    assert proof_map.covered((2048, 8000, 12000), limit) == columns


def test_hashes_stand_beside_names_and_what_is_shown_elsewhere_is_left_out() -> None:
    facts = {
        "asked": "6 prompts",
        "chat": "base prompt",
        "claimed": "8192",
        "claimed_source": "max_position_embeddings",
        "command": "ropewalk prove smollm2",
        "date": "2026-01-01",
        "depths": "0.0,1.0",
        "device": "cpu",
        "dtype": "fp32",
        "haystack": "generated",
        "lengths": "2048",
        "model": "b179c952",
        "name": "SmolLM2-135M-Instruct",
        "recipe": "1, distractors 0",
        "rope": "yarn:2",
        "schedule": "03fdab54",
        "seed": "0",
        "threshold": "relative:0.85",
        "tokenizer": "5d5d5d5d",
        "trained": "8192",
        "trials": "4",
        "versions": "ropewalk 0.1.0",
    }
    assert list(proof.readable_facts(facts).items()) == [
        ("model", "SmolLM2-135M-Instruct (weights b179c952)"),
        ("schedule", "yarn:2 (fingerprint 03fdab54)"),
        ("prompts", "base prompt, layout 1, distractors 0"),
        ("ran on", "cpu, fp32"),
        ("haystack", "generated"),
        ("seed", "0"),
        ("asked", "6 prompts"),
        ("versions", "ropewalk 0.1.0"),
        ("date", "2026-01-01"),
        ("command", "ropewalk prove smollm2"),
    ]


def test_facts_that_are_not_known_pass_and_missing_ones_leave_no_trace() -> None:
    assert proof.readable_facts({"model": "toy", "mood": "calm"}) == {
        "model": "toy",
        "mood": "calm",
    }
    assert proof.readable_facts({}) == {}


def test_a_further_line_of_the_report_is_one_line_of_the_list(
    make_summary: MakeSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its value is the summary's; that it is shown, and where, is said once."""
    further = ("misses", lambda column: str(column.pooled.judged - column.pooled.hits), "")
    monkeypatch.setattr(proof_map, "BELOW", (*proof_map.BELOW, further))
    made = proof.document(make_summary())
    assert _line(text_lines(made.blocks, 80), "misses").split() == ["misses", "0", "0", "┆", "20"]
    assert re.search(r">misses</th>.*?>20<", html(made))
    (found,) = (part for part in as_json(made)["parts"] if "map" in part)  # type: ignore[attr-defined]
    assert found["below"][-1] == {"name": "misses", "texts": ["0", "0", "20"]}
