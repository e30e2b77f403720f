"""The audit in the terminal: complete, narrow enough, and safe to print."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from ropewalk.findings import audit
from ropewalk.report.audit import (
    document,
    encoding_words,
    layers_words,
    scaling_words,
    softmax_words,
)
from ropewalk.report.lines import print_blocks, text_lines
from ropewalk.rope.log_rule import LogRule
from ropewalk.rope.schedules import UNSCALED, Llama3, LongRope, PairDivisors, UnknownScaling, Yarn
from ropewalk.rope.spec import (
    AlibiSpec,
    ContentBias,
    Encoding,
    Finding,
    IncompleteRotary,
    LayerGroup,
    LearnedPositions,
    Length,
    NoPositionSpec,
    PositionSpec,
    Recurrent,
    RelativeBuckets,
    RotarySpec,
    SinusoidalSpec,
    SoftmaxRule,
    Window,
)


def llama_3_1(remarks: tuple[Finding, ...] = (), source: str = "rope_theta") -> PositionSpec:
    rotary = RotarySpec(
        128, 128, 5e5, scaling=Llama3(8.0, 1.0, 4.0, 8192), rope_theta_source=source
    )
    return PositionSpec(
        "llama",
        "written by hand",
        (LayerGroup("all layers", tuple(range(32)), rotary),),
        Length(8192, "original_max_position_embeddings"),
        Length(131072, "max_position_embeddings"),
        findings=remarks,
    )


STEPS = LogRule("in steps", start=8192.0, scale=0.1, first=1)


def every_encoding() -> PositionSpec:
    rotary = RotarySpec(128, 64, 1e6, "interleaved", sections=(8, 12, 12))
    encodings: tuple[Encoding, ...] = (
        rotary, IncompleteRotary(("rope_theta",)), AlibiSpec(None), LearnedPositions(512, 2),
        SinusoidalSpec(None), RelativeBuckets(32, 128), ContentBias(1024, 16), NoPositionSpec(),
        Recurrent("mamba"),
    )  # fmt: skip
    soft = SoftmaxRule(1.5, "a rule", 50.0, STEPS, sinks=True)
    groups = tuple(
        LayerGroup(f"group {i}", (i,), encoding, Window(1024), soft)
        for i, encoding in enumerate(encodings)
    )
    return PositionSpec(
        "odd", "written by hand", groups, Length.unknown(), Length.unknown(), (Length(7, "x"),)
    )


def shown(spec: PositionSpec, width: int = 80, name: str = "model", **options: object) -> list[str]:
    pairs = "all" if options.get("all_pairs") else "digest"
    made = document(audit(spec, name=name), pairs="all" if pairs == "all" else "digest")
    return text_lines(made.blocks, width)


def pair_rows(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines if re.match(r" *\d+ \d\.\d{4}e", line)]


@pytest.mark.parametrize("width", [80, 72, 60, 48, 40, 120])
@pytest.mark.parametrize("spec", [llama_3_1(), every_encoding()], ids=["llama", "odd"])
def test_no_line_is_wider_than_the_terminal(spec: PositionSpec, width: int) -> None:
    for all_pairs in (False, True):
        assert max(map(len, shown(spec, width, all_pairs=all_pairs))) <= width


def test_llama_3_1_prints_its_published_numbers() -> None:
    text = "\n".join(shown(llama_3_1()))
    for fact in ("131072 (max_position_embeddings)", "8192 (original_max", "500,000 (rope_theta)",
                 "70 of 128 channels", "85133 tokens", "29 of 64 pairs", "Notes (2)"):  # fmt: skip
        assert fact in text


def test_the_digest_holds_the_ends_the_ramp_and_the_critical_pair() -> None:
    # Llama 3.1 keeps pairs 0-28, divides 35-63 by 8; d_extra 70 makes pair 35 critical.
    rows = pair_rows(shown(llama_3_1()))
    assert {"0", "28", "34", "35", "36", "63"} <= {row[0] for row in rows}
    assert len(rows) == 8
    by_index = {row[0]: row for row in rows}
    assert by_index["34"][4] == "5.2573"
    assert by_index["35"][6] == "yes"
    assert by_index["28"][-2:] == ["ramp", "begins"]


def test_all_pairs_are_printed_when_asked_for() -> None:
    rows = pair_rows(shown(llama_3_1(), all_pairs=True))
    assert [int(row[0]) for row in rows] == list(range(64))


def test_warnings_come_before_notes() -> None:
    lines = shown(llama_3_1((Finding("odd", "warning", "something is odd", "look at it"),)))
    assert lines.index("Warnings (1)") < lines.index("Notes (2)")
    assert "  ! Something is odd." in lines
    assert "    -> Look at it." in lines


def test_text_from_files_can_neither_paint_nor_mark_up() -> None:
    evil = "\x1b[31m[bold]x[/bold]\u202e"
    spec = llama_3_1((Finding("odd", "note", evil, evil),), source=evil)
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=False, color_system=None)
    print_blocks(console, document(audit(spec, name=evil)).blocks, 80)
    text = stream.getvalue()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]x[/bold]" in text
    assert "\\x1b[31m" in text


def test_without_colour_the_console_prints_the_same_lines() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80, color_system=None)
    print_blocks(console, document(audit(llama_3_1(), name="m")).blocks, 80)
    assert stream.getvalue().splitlines() == shown(llama_3_1(), name="m")


def test_an_ascii_terminal_gets_ascii() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=stream, width=80, color_system=None)
    print_blocks(console, document(audit(llama_3_1(), name="Ünïcode 模型")).blocks, 80)
    stream.flush()


def test_layers_are_ranges_and_many_ranges_are_cut() -> None:
    assert layers_words(()) == "layers not stated"
    assert layers_words((0, 1, 2, 5)) == "layers 0-2, 5 (4 in all)"
    assert layers_words(tuple(range(3, 36, 4))) == "layers 3, 7, 11, ..., 35 (9 in all)"


def test_which_channels_rotate_by_which_axis_is_said() -> None:
    dealt = RotarySpec(128, 128, 5e6, sections=(24, 20, 20), section_layout="interleaved")
    assert encoding_words(dealt).endswith("half layout, sections 24, 20, 20 in turns")
    latent = RotarySpec(192, 64, 1e4, "interleaved", placement="last")
    assert encoding_words(latent) == "rotary, the last 64 of 192 channels, interleaved layout"


def test_each_encoding_is_named_with_its_numbers() -> None:
    words = [encoding_words(group.encoding) for group in every_encoding().groups]
    assert words[0] == "rotary, 64 of 128 channels, interleaved layout, sections 8, 12, 12"
    assert words[1] == "rotary, incomplete: the file leaves out rope_theta"
    assert words[2] == "ALiBi, heads not stated, largest bias 8"
    assert words[3] == "learned table, 512 positions behind 2 reserved rows"
    assert words[5] == "relative, 32 buckets up to distance 128"


def test_scalings_name_their_parameters_and_no_empty_ones() -> None:
    assert scaling_words(UNSCALED) == "none"
    yarn = scaling_words(Yarn(4.0, 32768, truncate=False))
    assert "original max position embeddings 32768" in yarn
    assert "truncate no" in yarn
    assert "mscale" not in yarn
    longrope = scaling_words(LongRope((1.0, 2.0), (1.0, 64.8), 4096, 32.0))
    assert "long factor 2 values from 1 to 64.8" in longrope
    assert scaling_words(PairDivisors((1.0, 8.0))) == "pair divisors: 2 values from 1 to 8"
    unknown = UnknownScaling("telescope", (("factor", "4"),))
    assert scaling_words(unknown) == "telescope (unknown): factor 4"


def test_everything_that_shapes_the_scores_is_said() -> None:
    words = softmax_words(SoftmaxRule(1.5, "a rule", 50.0, STEPS, sinks=True))
    for part in (
        "x 1.5 (a rule)",
        "capped at 50",
        "queries x 1 + 0.1 ln(1 + floor((position + 1) / 8192))",
        "sink",
    ):
        assert part in words
