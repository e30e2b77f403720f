"""`near` and `similarity` as a user runs them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from ropewalk.cli.main import app, main
from ropewalk.errors import UsageError

Run = Callable[..., "CompletedProcess[str]"]

HOSTILE = '</script><b onclick="x">\x1b[2J\u202e'
PIECES = ["cat", "dog", "[PAD]", "bird", HOSTILE, "fish", "##s"]


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    """Nine rows, seven tokens: row 2 is zero, row 5 holds NaN, 0 and 3 point the same way."""
    torch.manual_seed(0)
    rows = torch.randn(9, 6)
    rows[3], rows[2], rows[5, 4] = rows[0] * 2, 0.0, float("nan")
    rows[7] = rows[1]
    folder = tmp_path / "animals"
    folder.mkdir()
    save_file({"model.embed_tokens.weight": rows}, folder / "model.safetensors")
    model = {
        "type": "WordPiece",
        "vocab": {piece: row for row, piece in enumerate(PIECES)},
        "unk_token": "[PAD]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    }
    (folder / "tokenizer.json").write_text(
        json.dumps({"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}, "model": model})
    )
    return folder


def shown(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["table", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def test_neighbours_are_listed_with_what_was_used_and_what_was_left_out(animals: Path) -> None:
    text = " ".join(shown(animals, "near", "cat", "-k", 4).split())
    assert re.search(r"1 bird 1\.0000 row 3", text)
    assert "cat row 0, as written" in text
    assert "2 rows without a token (--all-rows takes them in)" in text
    assert "1 of all zeros, which have no direction: 2" in text
    assert "1 of NaN or infinity, which have no direction: 5" in text
    assert "read 216 of the table's 216 bytes (1.00), 1 file of weights opened" in text
    assert "not its meaning in a sentence" in text


def test_rows_without_a_token_are_taken_in_when_asked_for(animals: Path) -> None:
    assert "<row 7: no token>" not in shown(animals, "near", "dog", "-k", 4)
    assert re.search(
        r"1  <row 7: no token> +1\.0000  row 7",
        shown(animals, "near", "dog", "--all-rows", "-k", 1),
    )
    assert re.search(r"1  dog +1\.0000  row 1", shown(animals, "near", "--id", 7, "-k", 1))


def test_several_questions_and_texts_are_answered_in_their_order(animals: Path) -> None:
    text = shown(animals, "near", "cat", "--id", 1, "--text", "dogs bird", "-k", 1)
    assert '"dogs bird"  the mean of 3 tokens: dog (1) ##s (6) bird (3)' in text
    assert text.index("cat  row 0") < text.index("dog  row 1") < text.index('"dogs bird"')


def test_an_analogy_leaves_its_inputs_out(animals: Path) -> None:
    for more in ((), ("--mul",)):
        text = shown(animals, "near", "cat", "--minus", "dog", "--plus", "bird", "-k", 2, *more)
        answers = re.findall(r"^ +\d  (\S+)", text, re.MULTILINE)
        assert len(answers) == 2
        assert not {"cat", "dog", "bird"} & set(answers)
        assert ("3CosMul" in text) is bool(more)


def test_json_holds_the_same(animals: Path) -> None:
    document = json.loads(shown(animals, "near", "cat", "-k", 2, "--json"))
    assert document["schema"] == "ropewalk.table.near/1"
    (answer,) = document["answers"]
    assert answer["neighbours"][0] == {"id": 3, "token": "bird", "score": 1.0}
    assert answer["question"]["of"]["spelling"]["bytes"] == b"cat".hex()
    assert document["left_out"] == {
        "without_token": 2,
        "zero": {"count": 1, "first": [2]},
        "not_finite": {"count": 1, "first": [5]},
    }


def test_a_hostile_token_is_shown_and_never_obeyed(animals: Path, tmp_path: Path) -> None:
    text = shown(animals, "near", "cat", "-k", 4)
    assert "\x1b" not in text
    assert "\u202e" not in text
    page = tmp_path / "map.html"
    text = shown(animals, "similarity", "cat", "dog", "--id", 4, "--html", page)
    assert "\x1b" not in text
    written = page.read_text(encoding="utf-8")
    assert "<b onclick" not in written.replace("␣", " ")
    assert "&lt;/script&gt;&lt;b␣onclick" in written
    assert "<script" not in written


def test_similarity_of_two_is_their_cosine_and_of_more_a_map(animals: Path) -> None:
    assert "cosine 1.0000" in shown(animals, "similarity", "cat", "bird")
    text = shown(animals, "similarity", "cat", "dog", "bird")
    rows = [
        re.findall(r"-?\d\.\d\d", line) for line in text.splitlines() if re.search("0 *$", line)
    ]
    assert [rows[0][0], rows[0][2]] == ["1.00"] * 2
    document = json.loads(shown(animals, "similarity", "cat", "dog", "bird", "--json"))
    assert document["cosines"][0][2] == pytest.approx(1.0)
    assert document["cosines"][0][1] == document["cosines"][1][0]


BAD = {
    "k is 0": (["near", "cat", "-k", "0"], "k is 0; ask for 1 or more"),
    "k below 0": (["near", "cat", "-k", "-2"], "k is -2; ask for 1 or more"),
    "k above the rows": (["near", "cat", "-k", "10"], "k is 10, and the table has 9 rows"),
    "k above what is left": (["near", "cat", "-k", "6"], "6 neighbours were asked for, and 5 rows"),
    "an empty word": (["near", ""], "the word is empty; give a word, or with --exact"),
    "an empty text": (["near", "--text", ""], "the text is empty"),
    "nothing": (["near"], "nothing was asked; give a WORD, --id N or --text TEXT"),
    "several tokens": (["near", "dogs"], "no single token; it is cut into dog ##s"),
    "an id behind the end": (["near", "--id", "9"], "it has 9 rows, 0 to 8"),
    "an id below 0": (["near", "--id", "-1"], "row -1 (number 1 of those asked for)"),
    "a zero row": (["near", "[PAD]", "-k", "1"], "row 2, [PAD], is all zeros: it has no direction"),
    "a row of NaN": (["near", "fish", "-k", "1"], "row 5, fish, holds NaN or infinity"),
    "no word behind --plus": (["near", "cat", "--plus", "dogs"], "'dogs' is no single token"),
    "two words and --plus": (["near", "cat", "dog", "--plus", "bird"], "2 were given"),
    "--mul alone": (["near", "cat", "--mul"], "--mul scores an analogy"),
    "one word": (["similarity", "cat"], "1 word was given; similarity takes two or more"),
    "control characters": (["near", "a\x1b[31mb"], r"'a\x1b[31mb' is no single token"),
    "no such positions": (["near", "cat", "--role", "positions"], "no tensor with a name"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(
    animals: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    case: str,
) -> None:
    arguments, said = BAD[case]
    monkeypatch.setattr(sys, "argv", ["ropewalk", "table", str(animals), *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, error = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert said in error
    assert error.count("\n") == 1
    assert "\x1b" not in error


def test_a_process_of_its_own_says_the_same(animals: Path, run: Run) -> None:
    done = run("table", animals, "near", "dogs")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no single token; it is cut into dog ##s" in done.stderr
    assert "Traceback" not in done.stderr


WITHOUT_TORCH = {
    "near": ("animals", "near", "cat", "-k", "2"),
    "an analogy": ("animals", "near", "cat", "--minus", "dog", "--plus", "bird", "-k", "1"),
    "by product": (
        "animals",
        "near",
        "cat",
        "--minus",
        "dog",
        "--plus",
        "bird",
        "--mul",
        "-k",
        "1",
    ),
    "similarity": ("animals", "similarity", "cat", "dog", "bird"),
    "the overview": ("animals",),
    "npy": ("rows.npy", "near", "--id", "3", "-k", "2"),
    "GGUF": ("gguf", "near", "dog", "-k", "2"),
}


def has_torch_after(*arguments: object) -> bool:
    """Whether a process of its own has imported torch once the command is done."""
    program = (
        "import sys, ropewalk.cli.main as m\n"
        "try: m.main()\n"
        "finally: print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "table", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    return done.stderr.splitlines()[-1] == "True"


@pytest.mark.parametrize("case", WITHOUT_TORCH)
def test_a_look_at_stored_rows_does_not_import_torch(
    animals: Path, smollm2_gguf: Path, case: str
) -> None:
    # The import would take longer than everything else that is done.
    name, *arguments = WITHOUT_TORCH[case]
    np.save(animals.parent / "rows.npy", np.random.default_rng(0).normal(size=(5, 3)))
    model = smollm2_gguf if name == "gguf" else animals.parent / name
    assert not has_torch_after(model, *arguments)


def test_a_file_of_torchs_is_read_by_torch(tmp_path: Path) -> None:
    torch.save({"embed_tokens.weight": torch.eye(4)}, tmp_path / "rows.pt")
    assert has_torch_after(tmp_path / "rows.pt", "near", "--id", "3", "-k", "2")


def test_a_page_that_cannot_be_written_leaves_nothing(animals: Path) -> None:
    page = animals / "none" / "map.html"
    done = CliRunner().invoke(
        app, ["table", str(animals), "similarity", "cat", "dog", "--html", str(page)]
    )
    assert isinstance(done.exception, UsageError)
    assert not page.parent.exists()
