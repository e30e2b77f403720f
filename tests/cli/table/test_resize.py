"""`ropewalk table MODEL resize` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ropewalk.cli.main import app
from ropewalk.errors import UsageError


def test_the_report_says_what_each_row_was_made_from_and_json_says_the_same(
    tmp_path: Path,
) -> None:
    (tmp_path / "tokens.txt").write_text("<one>\n\n<two>\n", encoding="utf-8")
    command = ["table", "tiny", "resize", "--tokens", str(tmp_path / "tokens.txt")]
    command += ["--add", "<three>", "--multiple", "32", "--out"]
    shown = CliRunner().invoke(app, [*command, str(tmp_path / "a")])
    assert shown.exit_code == 0, shown.output
    said = " ".join(shown.output.split())
    assert "ropewalk-tiny: 1,536 -> 1,568 rows" in said
    assert "1,539 tokens, 29 rows without one; new rows: row 1536 <three>: the mean of 1536" in said
    assert "rows 1539 to 1567: padding, the mean of 1536 rows" in said
    told = CliRunner().invoke(app, [*command, str(tmp_path / "b"), "--json"])
    held = json.loads(told.stdout)
    assert held["rows"] == {"before": 1536, "after": 1568}
    assert [row["token"] for row in held["new_rows"][:4]] == ["<three>", "<one>", "<two>", None]
    (table,) = held["tables"]
    assert table["name"] == "model.embed_tokens.weight"
    assert table["sha256_before"] == table["sha256_after"]
    # The example of the help shows the new tokens afterwards.
    near = CliRunner().invoke(app, ["table", str(tmp_path / "a"), "near", "--exact", "<two>"])
    assert near.exit_code == 0, near.output


def test_a_file_without_tokens_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokens.txt").write_text(" \n", encoding="utf-8")
    command = ["table", "tiny", "resize", "--out", str(tmp_path / "a"), "--tokens"]
    with pytest.raises(UsageError, match=r"tokens\.txt holds no token; give one on each line"):
        CliRunner().invoke(app, [*command, str(tmp_path / "tokens.txt")], catch_exceptions=False)
    with pytest.raises(UsageError, match="cannot be read as UTF-8 text"):
        CliRunner().invoke(app, [*command, str(tmp_path / "none")], catch_exceptions=False)
