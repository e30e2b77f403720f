"""The HTML report is small, closed, escaped, and whole without JavaScript."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from ropewalk.errors import MissingPartError, StoreError
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Row
from ropewalk.proof.summary import ControlSummary, Reason, RunSummary
from ropewalk.report.prompts import SIZE_LIMIT, CellPrompt
from ropewalk.report.scale import contrast
from tests.report.proof_page import render_html

MakeSummary = Callable[..., RunSummary]
MakePrompts = Callable[..., list[CellPrompt]]

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "]]><!-- -->",
    "\"' onmouseover='alert(1)",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202edesrever\u2066",
    "nul \x00 nul",
    "{{ 7 * 7 }}{% include 'x' %}",
    "x" * 100_000,
]


class Page(HTMLParser):
    """Elements with their attributes, the text of each kind of element, and all visible text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {}
        self.text = ""
        self._open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in {"script", "style", "title", "td", "dd", "pre"}:
            self.inside.setdefault(tag, []).append("")
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inside[self._open[-1]][-1] += data
        if not self._open or self._open[-1] not in {"script", "style"}:
            self.text += data


def _data(html: str) -> tuple[list[dict[str, Any]], bytes]:
    """Return the answers and the pool that the script unpacks."""
    packed = json.loads(Page(html).inside["script"][0])
    rows, pool = (zlib.decompress(base64.b64decode(packed[k]), -15) for k in ("rows", "pool"))
    return json.loads(rows), pool


def _text(row: dict[str, Any], pool: bytes) -> str:
    runs = row["runs"]
    assert isinstance(runs, list)
    return b"".join(pool[start : start + size] for start, size in runs if start >= 0).decode()


def test_every_exact_prompt_of_an_ordinary_run_is_in_the_page(
    make_summary: MakeSummary, make_prompts: MakePrompts
) -> None:
    summary = make_summary()
    prompts = make_prompts(summary)
    html = render_html(summary, audit=None, audit_text="", prompts=prompts)
    assert len(html.encode()) < SIZE_LIMIT
    rows, pool = _data(html)
    kept = {(row["length"], row["depth"], row["trial"]): row for row in rows}
    assert len(kept) == len(prompts) == 60
    for prompt in prompts:
        cell = prompt.row.cell
        row = kept[cell.length, cell.depth, cell.trial]
        assert row["kind"] == 2
        assert _text(row, pool) == prompt.text


@pytest.mark.parametrize(("shared", "trials"), [(True, 10), (False, 3)])
def test_a_large_run_stays_small_and_shows_something_of_every_field(
    make_summary: MakeSummary, make_prompts: MakePrompts, shared: bool, trials: int
) -> None:
    summary = make_summary(
        lengths=(1024, 2048, 4096, 8192, 12288, 16384, 24576, 32768),
        depths=tuple(i / 10 for i in range(11)),
        trials=trials,
        reach=12288,
    )
    prompts = make_prompts(summary, shared=shared)
    html = render_html(summary, audit={}, audit_text="audit", prompts=prompts)
    assert 200_000 < len(html.encode()) < SIZE_LIMIT
    rows, pool = _data(html)
    assert len(rows) == 88 * trials
    assert {(row["length"], row["depth"]) for row in rows if row["kind"]} == {
        (cell.length, cell.depth) for cell in summary.cells
    }
    exact = {p.row.cell: p for p in prompts}
    for row in rows:
        prompt = exact[Cell(row["length"], row["depth"], row["trial"])]
        assert row["show"] == prompt.show
        if row["kind"] == 2:
            assert _text(row, pool) == prompt.text
        if row["kind"] == 1:
            assert f"The code of {prompt.row.key} is {prompt.row.value}." in _text(row, pool)
    # The first prompts to be kept whole are failures.
    whole = [row["outcome"] for row in rows if row["kind"] == 2]
    assert whole[0] == "MISS"


@pytest.mark.parametrize("size", [12, 24, 34])
def test_a_huge_map_gives_up_table_and_tips_before_the_limit(
    make_summary: MakeSummary, size: int
) -> None:
    summary = make_summary(
        lengths=tuple(range(512, 512 * (size + 1), 512)),
        depths=tuple(i / size for i in range(size)),
    )
    html = render_html(summary, audit=None, audit_text="", prompts=[])
    assert len(html.encode()) < SIZE_LIMIT
    fields = [a for tag, a in Page(html).elements if tag == "a" and "data-at" in a]
    assert len(fields) == size * size


def test_a_map_too_large_for_any_page_is_refused_with_a_way_out(make_summary: MakeSummary) -> None:
    summary = make_summary(
        lengths=tuple(range(512, 512 * 101, 512)), depths=tuple(i / 50 for i in range(50))
    )
    with pytest.raises(StoreError, match=r"100 lengths by 50 depths .* CSV"):
        render_html(summary, audit=None, audit_text="", prompts=[])


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_stays_text_wherever_it_comes_from(
    make_summary: MakeSummary, hostile: str
) -> None:
    plain = make_summary(facts={"model": "m", "command": "c"})
    summary = replace(
        make_summary(
            facts={"model": hostile, hostile[:40]: hostile, "command": hostile},
            sentence=hostile[:400],
            threshold_rule=hostile[:400],
        ),
        claimed_source=hostile[:400],
        controls=(ControlSummary(hostile[:40], 2048, plain.controls[0].share, hostile[:400]),),
    )
    answer = Answer(Outcome.MISS, float("-inf"), hostile, 0.1)
    row = Row(Cell(2048, 0.0, 0), 2048, 0.0, hostile[:99], hostile[:99], answer, hostile[:12])
    html = render_html(
        summary,
        audit={hostile: hostile},
        audit_text=hostile,
        prompts=[CellPrompt(row, hostile, hostile)],
    )
    assert len(html.encode()) < SIZE_LIMIT
    page = Page(html)
    assert [a.get("type") for tag, a in page.elements if tag == "script"] == [
        "application/json",
        None,
    ]
    known = {
        tag
        for tag, _ in Page(render_html(plain, audit={"a": 1}, audit_text="a", prompts=[])).elements
    }
    assert {tag for tag, _ in page.elements} <= known
    attributes = {name for _, attrs in page.elements for name in attrs}
    assert not {name for name in attributes if name.startswith("on") or name == "style"}
    assert not set("\x00\x1b\x07\u202e\u2066") & set(html)
    if hostile.isprintable() and len(hostile) < 100:
        assert hostile in page.text
        assert any(hostile in pre for pre in page.inside["pre"])
    rows, pool = _data(html)
    assert rows[0]["log_probability"] == "-inf"
    assert _text(rows[0], pool) in hostile


def test_the_page_names_no_other_place_and_allows_only_itself(
    make_summary: MakeSummary, make_prompts: MakePrompts
) -> None:
    summary = make_summary()
    html = render_html(summary, audit={}, audit_text="x", prompts=make_prompts(summary))
    page = Page(html)
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    style, script = page.inside["style"][0], page.inside["script"][1]
    assert not re.search(r"url\(|@import|https?:|//[a-z]", style)
    assert not re.search(r"fetch\(|XMLHttp|import\(|https?:|innerHTML|eval\(", script)
    policy = next(a["content"] for _, a in page.elements if "http-equiv" in a)
    hashes = [
        base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in (style, script)
    ]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )


def test_text_and_marks_have_contrast_in_light_and_in_dark(make_summary: MakeSummary) -> None:
    html = render_html(make_summary(), audit=None, audit_text="", prompts=[])
    schemes = re.findall(r":root\{([^}]*)\}", Page(html).inside["style"][0])
    assert len(schemes) == 2
    for scheme in schemes:
        named = dict(re.findall(r"--(\w+):(#[0-9a-f]+)", scheme))
        colours = {
            k: v if len(v) == 7 else "#" + v[1:].replace("f", "ff") for k, v in named.items()
        }
        for ground in ("bg", "card", "empty"):
            for ink in ("ink", "soft", "blue", "orange"):
                assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground, scheme)


def test_map_numbers_audit_versions_and_command_need_no_script(make_summary: MakeSummary) -> None:
    html = render_html(
        make_summary(certain=2048, possible=8000, more_trials=12),
        audit={"base": 100000.0},
        audit_text="base 100,000",
        prompts=[],
    )
    text = Page(html).text
    for words in (
        "SmolLM2-135M-Instruct",
        "Reads 8,000 of 8,192 claimed tokens.",
        "claimed 8,192",
        "20/20",
        "84-100%",
        "4 of 4 hits, 95 % interval 51-100%",
        "12,000 tokens, worst depth 0 %: 0 of 4 hits",
        "about 12 more trials a cell would make the next length certain, if it goes on so",
        "The task is understood.",
        "base 100,000",
        "transformers 5.24.0",
        "ropewalk prove smollm2 --lengths 2048,8000,12000 --trials 4 --seed 0",
    ):
        assert words in text, words


def test_the_table_says_what_the_map_says(make_summary: MakeSummary) -> None:
    special = {(2048, 0.5): {Outcome.HIT: 1, Outcome.MISS: 3}, (8000, 0.0): {}}
    html = render_html(make_summary(special=special), audit=None, audit_text="", prompts=[])
    cells = [cell.split()[0] for cell in Page(html).inside["td"]]
    assert cells[:9] == ["4/4", "-", "0/4", "4/4", "4/4", "0/4", "1/4", "4/4", "0/4"]


def test_prompts_that_were_not_laid_out_leave_their_command(make_summary: MakeSummary) -> None:
    answer = Answer(Outcome.HIT, -0.1, "4711", 0.1)
    cell = Cell(2048, 1.0, 0, Control.END)
    row = Row(cell, 2048, 1.0, "key", "4711", answer, "hash")
    html = render_html(
        make_summary(), audit=None, audit_text="", prompts=[CellPrompt(row, None, "show it")]
    )
    (kept,), pool = _data(html)
    assert kept["control"] == "end"
    assert (kept["show"], kept["kind"], kept["runs"], kept["task"]) == ("show it", 0, [], "single")
    assert pool == b""


def test_without_jinja2_the_error_says_what_to_install(
    make_summary: MakeSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingPartError, match=r'pip install "ropewalk\[prove\]"'):
        render_html(make_summary(), audit=None, audit_text="", prompts=[])


def test_a_length_that_falls_short_has_a_likely_reason_beside_it(make_summary: MakeSummary) -> None:
    found = replace(make_summary(), reasons=(Reason(12000, 0.0, ("angles <new>",)),))
    html = render_html(found, audit=None, audit_text="", prompts=[])
    assert "12,000 tokens, worst at 0 %, likely because angles &lt;new&gt;." in html
