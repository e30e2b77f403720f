import csv
import io
import json

import pytest

from ropewalk.proof.cells import Answer, Cell, Outcome, Row
from ropewalk.proof.export import COLUMNS, rows_to_csv, run_to_json
from ropewalk.proof.statistics import RelativeThreshold, summarise


def a_row(printed: str = "said", log_probability: float | None = -0.5) -> Row:
    answer = Answer(Outcome.HIT, log_probability, printed, 1.25)
    return Row(Cell(64, 0.25, 0), 63, 0.26, "key", "value", answer, "hash")


def test_a_csv_reader_finds_every_row_as_it_was() -> None:
    printed = 'two\r\nlines, "quoted", and é'
    read = list(csv.DictReader(io.StringIO(rows_to_csv([a_row(printed), a_row("x", None)]), "")))
    assert len(read) == 2
    assert list(read[0]) == list(COLUMNS)
    assert read[0]["printed"] == printed
    assert float(read[0]["log_probability"]) == -0.5
    assert (read[0]["length"], read[0]["depth"], read[0]["control"]) == ("64", "0.25", "none")
    assert read[1]["log_probability"] == ""


@pytest.mark.parametrize("printed", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_of_a_model_is_a_formula_in_a_spreadsheet(printed: str) -> None:
    (read,) = csv.DictReader(io.StringIO(rows_to_csv([a_row(printed)]), ""))
    assert read["printed"] == f"'{printed}"


def test_json_holds_texts_as_they_were_and_what_the_summary_says() -> None:
    rows = [a_row("=1+1"), a_row("x", float("-inf"))]
    summary = summarise(
        rows,
        lengths=[64],
        depths=[0.25],
        trials=1,
        threshold=RelativeThreshold(),
        facts={"model": "m"},
    )
    out = json.loads(json.dumps(run_to_json(summary, rows), allow_nan=False))
    assert out["rows"][0]["printed"] == "=1+1"
    assert out["rows"][1]["log_probability"] == "-inf"
    assert out["summary"]["cells"][0]["outcomes"] == {"HIT": 2}
    assert out["summary"]["columns"][0]["pooled"]["value"] == 1.0
    assert out["summary"]["effective"]["sentence"] == summary.effective.sentence
    assert out["summary"]["facts"] == {"model": "m"}


def test_what_a_server_said_beside_an_answer_is_an_object_in_the_rows() -> None:
    answer = Answer(Outcome.HIT, None, "5", 1.0, '{"cached_tokens": 3}')
    rows = [Row(Cell(64, 0.25, 0), 63, 0.26, "key", "value", answer, "hash"), a_row()]
    summary = summarise(
        rows, lengths=[64], depths=[0.25], trials=1, threshold=RelativeThreshold(), facts={}
    )
    out = json.loads(json.dumps(run_to_json(summary, rows)))
    assert out["rows"][0]["details"] == {"cached_tokens": 3}
    assert "details" not in out["rows"][1]
