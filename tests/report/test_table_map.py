"""The map of a table in a real browser: drawn, searched, walked, with hostile names in it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ropewalk.report.table_map_html import map_html
from ropewalk.tables.clusters import cluster
from ropewalk.tables.open import EmbeddingTable, open_table
from ropewalk.tables.principal import nearest, project

Dom = Callable[..., str]
Asked = tuple[str, list[str]]

READY = """
  const wait = () => {
    if (document.documentElement.dataset.ready !== "yes") return setTimeout(wait, 20);
    const at = (id) => document.getElementById(id);
    const type = (words) => {
      at("words").value = words;
      at("words").dispatchEvent(new Event("input"));
    };
    const key = (name, node = at("map")) =>
      node.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
    const note = (name, value) => document.body.setAttribute(`data-${name}`, String(value));
    ACT
  };
  wait();
"""


def _table(folder: Path, words: list[str], rows: torch.Tensor) -> EmbeddingTable:
    save_file({"embed_tokens.weight": rows}, folder / "model.safetensors")
    tokenizer = {
        "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}},
        "added_tokens": [],
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return open_table(folder)


def _page(table: EmbeddingTable) -> str:
    shown = project(table)
    return map_html(table, shown, near=nearest(table, shown, 2), clusters=cluster(table, 2))


@pytest.fixture
def page(tmp_path: Path) -> str:
    """A square of rows, two on each side of its middle, 'cat' nearest to 'cats', then 'dog'."""
    rows = torch.tensor([[9.0, 1, 0], [9, 1.2, 0], [9, 2.5, 0], [-9, 1, 1], [-9, 2, -1]])
    return _page(_table(tmp_path, ["cat", "cats", "dog", "car", "cart"], rows))


def _said(document: str, name: str) -> str:
    found = re.search(rf'data-{name}="([^"]*)"', document)
    assert found, name
    return html.unescape(found[1])


def test_a_search_marks_lists_and_chooses_and_neighbours_are_walked(page: str, dom: Dom) -> None:
    act = """
      type("ca");
      note("count", at("count").textContent);
      note("listed", [...at("found").querySelectorAll("span")].map((s) => s.textContent));
      at("find").requestSubmit();
      note("chosen", at("name").textContent);
      note("near", [...at("near").querySelectorAll("button")].map((b) => b.innerText.trim()));
      at("near").querySelectorAll("button")[1].click();
      note("next", at("name").textContent);
      note("hash", location.hash);
      key("Escape", at("words"));
      note("left", at("chosen").hidden);
    """
    document = dom(page, script=READY.replace("ACT", act))
    assert _said(document, "count") == "4 rows, marked on the map"
    assert _said(document, "listed") == "cat,cats,car,cart"
    assert _said(document, "chosen") == "cat"
    assert re.findall(r"[a-z]+", _said(document, "near")) == ["cats", "dog"]
    assert _said(document, "next") == "dog"
    assert _said(document, "hash") == "#id=2"
    assert _said(document, "left") == "true"


def test_an_id_is_found_and_a_link_opens_its_row(page: str, dom: Dom) -> None:
    act = """
      type("#3");
      note("listed", at("found").textContent);
      note("chosen", at("name").textContent);
    """
    document = dom(page, "#id=4", script=READY.replace("ACT", act))
    assert _said(document, "listed") == "car#3"
    assert _said(document, "chosen") == "cart"


def test_keys_zoom_move_and_choose_and_colours_change_what_is_painted(page: str, dom: Dom) -> None:
    act = """
      const paint = (then) => setTimeout(then, 60);
      const look = () => {
        const m = at("map"), d = m.getContext("2d").getImageData(0, 0, m.width, m.height).data;
        let sum = 0, other = 0;
        for (let i = 0; i < d.length; i += 4) {
          if (d[i] === d[0] && d[i + 2] === d[2]) continue;
          other++;
          sum += d[i] * 3 + d[i + 2];
        }
        return [other, sum];
      };
      const first = look();
      document.querySelector("[value=cluster]").click();
      paint(() => {
        const second = look();
        note("coloured", first[0] > 100 && second[0] > 100 && first[1] !== second[1]);
        at("legend").querySelector("button").click();
        paint(() => {
          note("fewer", look()[0] < second[0]);
          note("legend", at("legend").querySelectorAll("button").length);
          key("+"); key("ArrowLeft"); key("0"); key("Enter");
          note("chosen", at("name").textContent !== "");
        });
      });
    """
    # A browser that nobody looks at draws few frames; here each is drawn when it is asked for.
    timer = "<script>window.requestAnimationFrame = (f) => setTimeout(() => f(1e9), 0);</script>"
    page = page.replace("<script>", f"{timer}<script>", 1)
    document = dom(page, script=READY.replace("ACT", act))
    assert _said(document, "coloured") == "true"
    assert _said(document, "fewer") == "true"
    assert _said(document, "legend") == "2"
    assert _said(document, "chosen") == "true"


def test_pointing_at_a_row_tells_its_name(page: str, dom: Dom) -> None:
    act = """
      const m = at("map"), box = m.getBoundingClientRect();
      let told = new Set();
      for (let x = 0; x < box.width; x += 8)
        for (let y = 0; y < box.height; y += 8) {
          const place = { clientX: box.left + x, clientY: box.top + y, pointerId: 1 };
          m.dispatchEvent(new PointerEvent("pointermove", place));
          if (!at("tip").hidden) told.add(at("tip").querySelector("b").textContent);
        }
      note("told", [...told].sort());
    """
    document = dom(page, script=READY.replace("ACT", act))
    assert _said(document, "told") == "car,cart,cat,cats,dog"


def test_hostile_names_neither_run_nor_call(tmp_path: Path, dom: Dom, asked: Asked) -> None:
    address, paths = asked
    hostile = f"</script><img src={address}/x onerror=\"document.title='ran'\"><!--"
    words = ["cat", hostile, "\x1b[2J", "\u202egnp"]
    table = _table(tmp_path, words, torch.tensor([[1.0, 0, 0], [1, 0.1, 0], [0, 1, 0], [0, 1, 1]]))
    page = _page(table)
    assert "<img" not in page
    assert "\u202e" not in page
    document = dom(page, "#id=1")
    assert "<title>ran</title>" not in document
    assert "<img" not in document
    # It stands there, as text.
    shown = re.search(r'<h2 id="name">(.*?)</h2>', document)
    assert shown
    assert html.unescape(shown[1]).startswith("</script><img␣src=")
    assert paths == []


def test_what_is_shown_and_left_out_stands_in_the_page(tmp_path: Path) -> None:
    rows = torch.randn(60, 8, generator=torch.Generator().manual_seed(0))
    rows[5] = torch.nan
    table = _table(tmp_path, [f"w{i}" for i in range(50)], rows)
    shown = project(table, most=20, seed=3)
    page = map_html(table, shown)
    assert "20 of 50 rows with a token, drawn without preference, none twice, seed 3" in page
    assert "10 rows without a token are left out" in page
    assert "of the variance" in page
    whole = map_html(table, project(table))
    assert "1 rows hold NaN, infinity" in whole
    assert 'value="cluster"' not in whole
