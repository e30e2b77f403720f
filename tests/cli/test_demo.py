"""What a newcomer reads at the beginning and at the end of the demo."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ropewalk.cli import demo, main
from ropewalk.models import resolve
from ropewalk.models.resolve import KnownModel, ModelFiles
from ropewalk.proof import prove


def demonstrate(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["ropewalk", "demo"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_without_its_model_the_demo_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = KnownModel("no_such_package", "x.gguf", "pip install no-such-package", "Toy")
    monkeypatch.setitem(resolve.KNOWN, "smollm2", known)
    assert demonstrate(monkeypatch) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "ropewalk: Toy ('smollm2') is not installed here; get it with: "
        "pip install no-such-package\n"
    )


def test_the_demo_ends_with_its_map_its_report_and_what_to_try_next(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    tiny_model: Path,
) -> None:
    monkeypatch.setattr(demo, "LENGTHS", (300, 700))
    monkeypatch.setattr(demo, "DEPTHS", 3)
    files = ModelFiles("smollm2", "Tiny", "folder", tiny_model)
    for module in (resolve, prove):
        monkeypatch.setattr(module, "resolve", lambda _: files)
    monkeypatch.chdir(tmp_path)
    assert demonstrate(monkeypatch) == 0
    out, err = capsys.readouterr()
    audit, proof = out.split("$ ropewalk prove ")
    assert "$ ropewalk audit smollm2" in audit
    assert "claimed length  4096" in audit
    assert "all depths" in proof
    assert "Traceback" not in err
    report = re.search(r"^report: (.+)$", out, re.MULTILINE)
    assert report is not None
    assert (tmp_path / report[1]).is_file()
    lines = out.splitlines()
    assert "  ropewalk demo --full" + " " * 45 + "a small model stretched and tuned" in lines
    assert all(f"  {command} " in out for command, _ in demo.NEXT)
