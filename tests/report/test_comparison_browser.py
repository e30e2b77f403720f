"""The page of a comparison in a real browser, on a wide screen and in 390 pixels.

Skips, all of them here: no Chromium on this machine (see the fixture `dom`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from ropewalk.comparison.figures import (
    DecoderFigures,
    LayerProbe,
    PositionLoss,
    Recall,
    WindowLoss,
    WindowReading,
)
from ropewalk.comparison.presets import Settings, Variant, preset
from ropewalk.comparison.run import Comparison
from ropewalk.report import document_of, html

Dom = Callable[..., str]

LOOK = """
if (window === top) {
  const frame = document.createElement('iframe');
  frame.style.width = 'WIDTHpx';
  frame.srcdoc = document.documentElement.outerHTML;
  frame.onload = () => {
    const inside = frame.contentDocument;
    const box = each => { const b = each.getBoundingClientRect();
      return [b.left, b.top, b.right, b.bottom]; };
    const shown = [...inside.querySelectorAll('svg.chart')].filter(each => each.clientWidth > 0);
    const found = { width: inside.documentElement.scrollWidth, charts: shown.map(chart => ({
      frame: box(chart),
      size: getComputedStyle(chart.querySelector('text')).fontSize,
      scale: chart.clientWidth / chart.viewBox.baseVal.width,
      rules: [...chart.querySelectorAll(':scope > text[text-anchor=end]')].map(box),
      across: [...chart.querySelectorAll(':scope > text[text-anchor=middle]')].map(box),
      names: [...chart.querySelectorAll('g text')].map(box),
      points: chart.querySelectorAll('circle').length })) };
    document.title = 'LOOK' + JSON.stringify(found) + 'END';
  };
  document.body.append(frame);
}
"""


def _figures(settings: Settings, variant: Variant, level: float) -> DecoderFigures:
    """Everything at one level, so that all curves and names fall on each other."""
    windows = settings.windows[:1] if variant.position == "learned" else settings.windows
    losses = tuple(
        WindowLoss(kind, window, 16, 100, level + window / 1000, None, 0)
        for window in windows
        for kind in ("sliding", "non-overlapping")
    )
    recalls = tuple(
        Recall(window, distance, 50, 64)
        for window in windows
        for distance in (32, window - window // 8)
    )
    edges = (1, 16, 32, 64, 128, 256, 512)
    positions = tuple(PositionLoss(a, b, level) for a, b in pairwise(edges) if b <= windows[-1])
    probes = tuple(LayerProbe(layer, 0.5, 1.0) for layer in range(3))
    reading = WindowReading(losses, recalls, "64 positions" if len(windows) == 1 else "")
    schedules = {"yarn x4": reading} if variant.position == "rope" else {}
    return DecoderFigures(
        variant.name, 0, 1, 0, "", "", (), 0.0, reading, positions, probes, schedules
    )


@pytest.fixture(scope="module")
def page() -> str:
    """The page of all encodings, which stand as close together as can be."""
    settings = preset("lesson", seeds=(0,))
    kept = tuple(
        _figures(settings, each, 3.0 + 0.001 * number)
        for number, each in enumerate(settings.variants)
    )
    speeds = {each.name: 1000.0 for each in settings.variants}
    return html(document_of(Comparison(settings, kept, speeds, "a machine", 0)))


def _looked(document: str) -> Any:
    found = re.search(r"LOOK(\{.*?\})END", document)
    assert found, "the page was not laid out"
    return json.loads(found[1])


@pytest.mark.parametrize("width", [1280, 390])
def test_six_charts_are_drawn_in_letters_that_can_be_read(page: str, dom: Dom, width: int) -> None:
    look = _looked(dom(page, script=LOOK.replace("WIDTH", str(width))))
    assert look["width"] <= width
    assert len(look["charts"]) == 6
    for chart in look["charts"]:
        assert float(chart["size"].removesuffix("px")) * chart["scale"] >= 10.0
        assert len(chart["names"]) == 8
        assert chart["points"] >= 8
        left, top, right, bottom = chart["frame"]
        for box in (*chart["names"], *chart["rules"], *chart["across"]):
            assert left <= box[0] + 0.5
            assert box[2] <= right + 0.5
            assert top <= box[1] + 2.0
            assert box[3] <= bottom + 3.0
        heights = sorted((box[1] + box[3]) / 2 for box in chart["names"])
        assert all(b - a > 10.0 for a, b in pairwise(heights))
        across = sorted(chart["across"])
        assert all(a[2] < b[0] for a, b in pairwise(across))


def test_the_page_speaks_to_nobody_and_runs_nothing(page: str, dom: Dom) -> None:
    document = dom(page.replace("</body>", "<script>document.title='ran'</script></body>"))
    assert "<title>ran</title>" not in document
    assert not re.search(r"https?://(?!www\.w3\.org)", page)
