"""The report in a real browser: it draws, unpacks prompts, runs nothing foreign, calls nobody.

Skips, all of them here: no Chromium on this machine (see the fixture `dom`).
"""

from __future__ import annotations

import html as escaping
import re
from collections.abc import Callable

import pytest

from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Row
from ropewalk.proof.summary import RunSummary
from ropewalk.report.prompts import CellPrompt
from tests.report.proof_page import render_html

MakeSummary = Callable[..., RunSummary]
MakePrompts = Callable[..., list[CellPrompt]]
Dom = Callable[..., str]


def _prompt(document: str) -> str:
    found = re.search(r'<pre id="prompt"[^>]*>(.*?)</pre>', document, re.DOTALL)
    assert found
    return escaping.unescape(re.sub(r"<[^>]+>", "", found[1]))


def test_the_map_is_drawn_and_nothing_is_open_before_a_click(
    make_summary: MakeSummary, make_prompts: MakePrompts, dom: Dom
) -> None:
    summary = make_summary()
    page = render_html(summary, audit=None, audit_text="", prompts=make_prompts(summary))
    document = dom(page)
    assert document.count('<rect class="f share"') == 15
    assert '<div id="reader" hidden="">' in document


def test_a_link_to_a_trial_shows_its_exact_prompt(
    make_summary: MakeSummary, make_prompts: MakePrompts, dom: Dom
) -> None:
    summary = make_summary()
    prompts = make_prompts(summary, suffix=" naïve 日本 &amp; <b>")
    wanted = next(p for p in prompts if p.row.cell == Cell(12000, 0.75, 2))
    page = render_html(summary, audit=None, audit_text="", prompts=prompts)
    document = dom(page, "#cell=12000,0.75,2")
    assert '<div id="reader">' in document
    assert _prompt(document) == wanted.text
    assert f"<mark>{wanted.row.value}</mark>" in document
    assert f'<code id="show">{wanted.show}</code>' in document
    assert document.count('aria-current="true"') == 2


def test_a_click_on_a_field_and_an_arrow_key_open_the_right_prompts(
    make_summary: MakeSummary, make_prompts: MakePrompts, dom: Dom
) -> None:
    summary = make_summary()
    prompts = make_prompts(summary)
    page = render_html(summary, audit=None, audit_text="", prompts=prompts)
    script = """
      const field = document.querySelector('a[data-at="1,1"]');
      field.focus();
      const key = { key: "ArrowRight", bubbles: true, cancelable: true };
      field.dispatchEvent(new KeyboardEvent("keydown", key));
      document.activeElement.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    """
    wanted = next(p for p in prompts if p.row.cell == Cell(12000, 0.25, 0))
    assert _prompt(dom(page, script=script)) == wanted.text


def test_a_control_opens_by_its_name(make_summary: MakeSummary, dom: Dom) -> None:
    answer = Answer(Outcome.HIT, -0.1, "4711", 0.1)
    cell = Cell(2048, 0.5, 0, Control.NEEDLE_ONLY)
    row = Row(cell, 60, 0.5, "key", "4711", answer, "hash")
    prompts = [CellPrompt(row, "The code is 4711. The code is", "show it")]
    page = render_html(make_summary(), audit=None, audit_text="", prompts=prompts)
    link = re.search(r'href="(#cell=2048[^"]*needle-only)"', page)
    assert link
    assert _prompt(dom(page, link[1])) == prompts[0].text


def test_hostile_text_neither_runs_nor_calls(
    make_summary: MakeSummary, dom: Dom, asked: tuple[str, list[str]]
) -> None:
    address, paths = asked
    hostile = (
        f"</script></pre><script>document.title='ran'</script><img src={address}/x "
        "(.*+?^${}[]|\\-) onerror=\"document.title='ran'\">"
        "<svg onload=\"document.title='ran'\">\u202e\x1b[2J\x00"
    )
    answer = Answer(Outcome.MISS, None, hostile, 0.1)
    row = Row(Cell(2048, 0.0, 0), 2048, 0.0, hostile, hostile, answer, hostile)
    page = render_html(
        make_summary(facts={"model": hostile, hostile: hostile}, sentence=hostile),
        audit={hostile: hostile},
        audit_text=hostile,
        prompts=[CellPrompt(row, f"before {hostile} after", hostile)],
    )
    document = dom(page, "#cell=2048,0,0")
    assert "<title>ran</title>" not in document
    assert "<img" not in document
    assert _prompt(document).startswith("before </script></pre><script>document.title='ran'")
    assert _prompt(document).endswith("U+202EU+001B[2JU+0000 after")
    assert paths == []


@pytest.mark.parametrize("policy", [True, False])
def test_even_markup_put_into_the_page_by_force_is_stopped_by_its_policy(
    make_summary: MakeSummary, dom: Dom, asked: tuple[str, list[str]], policy: bool
) -> None:
    address, paths = asked
    page = render_html(make_summary(), audit=None, audit_text="", prompts=[])
    forced = f"<img src={address}/forced><script>document.title='ran'</script></body>"
    page = page.replace("</body>", forced)
    if not policy:
        page = page.replace("Content-Security-Policy", "x-none")
    document = dom(page)
    # Without the policy both happen: this test can fail.
    assert ("<title>ran</title>" in document) is not policy
    assert paths == ([] if policy else ["/forced"])
