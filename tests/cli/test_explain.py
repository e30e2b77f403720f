"""`explain` as a user runs it: text in 80 columns, or one JSON document."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_explain_order_is_plain_text_in_80_columns(run: Run) -> None:
    done = run("explain", "order")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert max(map(len, done.stdout.splitlines())) <= 80
    for words in ("dog bites man / man bites dog", "16,000,000", "252,003.000", "-0.416"):
        assert words in done.stdout


def test_explain_scale_is_one_json_document(run: Run) -> None:
    done = run("explain", "scale", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["schema"] == "ropewalk.explain.scale/1"
    widths = [row["d_model"] for row in document["rows"]]
    assert widths == [64, 128, 256, 512, 1024, 2048, 4096]


def test_explain_encodings_prints_both_tables_in_80_columns(run: Run) -> None:
    done = run("explain", "encodings")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert max(map(len, done.stdout.splitlines())) <= 80
    words, figures = done.stdout.split("Three properties of each, measured")
    for name in ("sinusoidal", "learned", "RoPE", "ALiBi", "FIRE", "none", "raw index"):
        assert f"\n{name} " in words
        assert f"\n{name} " in figures


def test_explain_encodings_is_one_json_document(run: Run) -> None:
    done = run("explain", "encodings", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["schema"] == "ropewalk.explain.encodings/1"
    by_name = {row["description"]["name"]: row for row in document["rows"]}
    assert by_name["learned"]["description"]["beyond_trained_length"] == "impossible"
    figures = by_name["raw index"]["figures"]
    assert (figures["bounded"], figures["unique"], figures["relative_linear"]) == (
        False,
        True,
        False,
    )
