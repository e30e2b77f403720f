"""The story of the embedded model, told on a small scale; and its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropewalk.errors import ModelFileError
from ropewalk.extension.story import StoryListener, StorySize, drifted, ropes, tell
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.report import document_of, html, terminal

SMALL = StorySize(
    lengths=(256, 512, 768),
    target=512,
    depths=(0.25, 0.75),
    trials=1,
    steps=3,
    rows=2,
    documents=12,
)


@pytest.mark.model
def test_the_story_is_measured_on_the_spot_from_proof_to_proof(tmp_path: Path) -> None:
    begun: list[str] = []
    story = tell(tmp_path / "story", SMALL, StoryListener(begin=begun.append))
    assert [each.split(",")[0] for each in begun[:2]] == ["as shipped", "linear:2"]
    # At its trained length it finds what it was told; divided positions it cannot read untrained.
    assert story.shipped.share(256).hits == 2
    linear = story.untrained[0]
    assert linear.share(512).hits == 0
    assert [step.step for step in story.steps] == [1, 2, 3]
    assert story.tuned.share(256).judged == 2
    lines = terminal(document_of(story), 100).splitlines()
    assert lines[1].startswith("as shipped")
    assert lines[1].split()[2] == "2/2"
    page = html(document_of(story))
    assert page.count('<svg class="map') == 6
    assert "stretched and tuned" in page
    assert "http" not in page.replace("http-equiv", "")


def test_schedules_stretch_by_the_ratio_of_the_lengths() -> None:
    spec = read_spec(resolve("tiny"))
    # The base is b * s^(d/(d-2)) with b = 10,000, d = 32 and s = 8: 91,895.9.
    assert ropes(spec, 256, 1024) == ("linear:4", "ntk:4", "yarn:4", "base:91896")


def test_the_recipes_log_holds_the_cosines_before_and_after(tmp_path: Path) -> None:
    figure = drifted(resolve("tiny").path)
    assert abs(figure.before_within) < 0.05
    assert figure.after_within > figure.after_across + 0.2
    with pytest.raises(ModelFileError, match="no training log"):
        drifted(tmp_path)
