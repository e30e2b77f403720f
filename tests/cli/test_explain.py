"""`explain` as a user runs it: text in 80 columns, or one JSON document."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

SLOWLY = "computing ...\n"
"""On a busy machine it takes long enough to be said."""


def test_explain_order_is_plain_text_in_80_columns(run: Run) -> None:
    done = run("explain", "order")
    assert done.returncode == 0
    assert done.stderr in ("", SLOWLY)
    assert done.stdout.isascii()
    assert max(map(len, done.stdout.splitlines())) <= 80
    for words in ("dog bites man / man bites dog", "16,000,000", "252,003.000", "-0.416"):
        assert words in done.stdout


def test_explain_scale_is_one_json_document(here: Run) -> None:
    done = here("explain", "scale", "--json")
    assert done.returncode == 0
    assert done.stderr in ("", SLOWLY)
    document = json.loads(done.stdout)
    assert document["schema"] == "ropewalk.explain.scale/1"
    widths = [row["d_model"] for row in document["rows"]]
    assert widths == [64, 128, 256, 512, 1024, 2048, 4096]


def test_explain_encodings_prints_both_tables_in_80_columns(here: Run) -> None:
    done = here("explain", "encodings")
    assert done.returncode == 0
    assert done.stderr in ("", SLOWLY)
    assert done.stdout.isascii()
    assert max(map(len, done.stdout.splitlines())) <= 80
    words, figures = done.stdout.split("Three properties of each, measured")
    for name in ("sinusoidal", "learned", "RoPE", "ALiBi", "FIRE", "none", "raw index"):
        assert f"\n{name} " in words
        assert f"\n{name} " in figures


def test_explain_encodings_is_one_json_document(here: Run) -> None:
    done = here("explain", "encodings", "--json")
    assert done.returncode == 0
    assert done.stderr in ("", SLOWLY)
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


WAYS = ["nothing between", "boundary token", "positions reset", "mask"]


def test_explain_join_names_the_four_ways_in_80_columns_and_says_that_the_mask_alone_holds(
    run: Run,
) -> None:
    done = run("explain", "join", "tiny", "--pairs", "2")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    table = [line for line in done.stdout.splitlines() if " of 2 " in line]
    # The first figure stands in column 19 at the earliest.
    assert [line[:18].strip() for line in table] == ["B alone", *WAYS]
    assert "Nothing but the mask keeps A out of B" in " ".join(done.stdout.split())


def test_explain_join_as_json_has_no_leak_with_the_mask_and_one_in_each_other_way(
    here: Run,
) -> None:
    texts = "The harbour lay still at noon.", "The miller keeps a white horse."
    done = here("explain", "join", "tiny", *texts, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["schema"], document["model"]) == ("ropewalk.explain.join/1", "ropewalk-tiny")
    nothing, *between, mask = document["readings"]
    assert [each["way"] for each in (nothing, *between, mask)] == WAYS
    assert mask["mean"] < 1e-5
    assert mask["most"] < 1e-4
    assert mask["loss"] == pytest.approx(document["alone"]["loss"], abs=1e-5)
    for each in (nothing, *between):
        assert each["most"] > each["mean"] > 0.1
        assert abs(each["loss"] - document["alone"]["loss"]) > 0.1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["./none.gguf"], "there is no model './none.gguf'"),
        (["nosuch"], "there is no model 'nosuch'"),
        (["tiny", "one text"], "one document was given; give two"),
        (["tiny", "", "a text"], "one of the two documents is empty"),
        (["tiny", "a text", ""], "one of the two documents is empty"),
        (["tiny", "river " * 400, "a text"], "and this model takes 256; give shorter ones"),
        (["tiny", "--pairs", "0"], "0 pairs were asked for; at least 1 is needed"),
        (["tiny", "--dtype", "float8"], "float8"),
        (["tiny", "--device", "abacus"], "abacus"),
    ],
)
def test_what_cannot_be_joined_is_one_sentence(here: Run, arguments: list[str], words: str) -> None:
    done = here("explain", "join", *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    sentence = done.stderr.splitlines()[-1]
    assert sentence.startswith("ropewalk: ")
    assert words in sentence
