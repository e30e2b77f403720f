"""The verbs: what a command prints is what its function gives back, from whatever it is given."""

from __future__ import annotations

import doctest
import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import ropewalk
from ropewalk.cli.main import app
from ropewalk.errors import LengthError, RopewalkError, ScheduleError, UsageError
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.rope.spec import Source

TERMINAL = {"as_json", "html", "open_page", "help"}
"""Options of every command that say how a result is printed."""
ONLY_PRINTED = {"audit": {"pairs"}, "prove": {"csv"}}
"""Those of one command."""
ONLY_CALLED = {"listener", "command", "name", "tokenizer", "length"}
"""Parameters of functions: who is told, and what goes with a loaded model."""
VERBS = ("audit", "convert", "prove", "extend", "tune", "compare", "trace", "window")


def printed(*arguments: object) -> dict[str, Any]:
    """What a command prints with --json."""
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def plain(document: object) -> Any:
    """A document as it comes back from JSON."""
    return json.loads(json.dumps(document))


def called(option: Any) -> str:
    """An option's name as a Python name: --base-url is base_url, and --for, a word of Python's
    own, for_engine.
    """
    name = str(next((each for each in option.opts if each.startswith("--")), option.name))
    name = name.lstrip("-").replace("-", "_")
    return "for_engine" if name == "for" else name


@pytest.mark.parametrize("verb", VERBS)
def test_a_function_takes_what_its_command_takes(verb: str) -> None:
    group: Any = typer.main.get_command(app)
    options = {
        called(each): each
        for each in group.commands[verb].params
        if each.name not in TERMINAL | ONLY_PRINTED.get(verb, set())
    }
    parameters = dict(inspect.signature(getattr(ropewalk, verb)).parameters)
    for name in ONLY_CALLED - options.keys():
        parameters.pop(name, None)
    assert parameters.keys() == options.keys()
    for name, parameter in parameters.items():
        default = options[name].default
        if parameter.default is inspect.Parameter.empty:
            assert options[name].required, name
        elif parameter.default is None:
            assert default is None, name
        else:
            assert str(default) == str(parameter.default), name


@pytest.mark.parametrize("verb", [*VERBS, "open_table"])
def test_an_editor_shows_what_a_verb_takes_gives_and_raises(verb: str) -> None:
    function = getattr(ropewalk, verb)
    told = inspect.getdoc(function) or ""
    assert "Raises" in told
    for name, parameter in inspect.signature(function).parameters.items():
        assert parameter.annotation is not inspect.Parameter.empty, name
        assert parameter.kind is not inspect.Parameter.VAR_KEYWORD, name


def test_an_audit_is_what_its_command_prints() -> None:
    assert plain(ropewalk.audit("tiny").to_dict()) == printed("audit", "tiny")
    with_engines = ropewalk.audit("tiny", engines=True)
    assert plain(with_engines.to_dict()) == printed("audit", "tiny", "--engines")


def test_an_audit_takes_a_name_a_path_a_spec_a_configuration_and_a_live_model() -> None:
    files = resolve("tiny")
    named = ropewalk.audit("tiny")
    config = json.loads(files.config_path.read_text())
    given: tuple[Any, ...] = (files.path, files.config_path, read_spec(files), config)
    for model in given:
        assert ropewalk.audit(model).rotary == named.rotary
    model, _ = loaded()
    live = ropewalk.audit(model)
    assert live.rotary == named.rotary
    assert live.live is not None
    assert live.live.verdict == "agrees"
    assert live.to_dict()["live"]
    assert ropewalk.audit(model.config).live is None


def test_a_data_frame_holds_the_figures_of_the_plain_values() -> None:
    pandas = pytest.importorskip("pandas")
    found = ropewalk.audit("tiny")
    given: Any = found.to_dict()
    pairs = given["groups"][0]["rotary"]["pairs"]
    frame = found.to_pandas("pairs")
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) > 2
    for row in frame.to_dict("records"):
        whole = pairs[row["pair"]]
        for column, name in (
            ("rad/token", "unscaled"), ("scaled", "inv_freq"), ("wavelength", "wavelength"),
            ("divisor", "divisor"), ("rotations", "rotations"), ("new", "unseen"),
        ):  # fmt: skip
            assert row[column] == whole[name], (column, row)
    # The first table where none is named; the first and the last pair are always shown.
    assert found.to_pandas().equals(frame)
    assert list(frame["pair"])[:: len(frame) - 1] == [0, len(pairs) - 1]


def test_a_data_frame_of_a_trace_has_a_row_per_token() -> None:
    pytest.importorskip("pandas")
    found = ropewalk.trace("tiny", "The cat sat")
    given: Any = plain(found.to_dict())
    frame = found.to_pandas("ids")
    assert frame["id"].tolist() == given["ids"]
    assert frame["piece"].tolist() == given["pieces"]
    for step in given["steps"]:
        if step["shape"] is not None:
            shown = found.to_pandas(step["name"])
            assert shown["|x|"].tolist() == step["norms"]
            assert shown["x[0]"].tolist() == [values[0] for values in step["values"]]


def test_a_data_frame_of_no_table_is_refused_with_the_name_that_was_asked_for() -> None:
    pytest.importorskip("pandas")
    with pytest.raises(UsageError, match="holds no table called distances"):
        ropewalk.audit("tiny").to_pandas("distances")


def test_what_is_no_model_is_refused_with_what_is_one() -> None:
    wrong: Any = 7
    said = r"int is no model.*a \.gguf file.*PositionSpec"
    with pytest.raises(UsageError, match=said):
        ropewalk.audit(wrong)
    with pytest.raises(UsageError, match=said):
        ropewalk.convert(wrong, "hf5")
    spec: Any = read_spec(resolve("tiny"))
    with pytest.raises(UsageError, match="works on a model's files"):
        ropewalk.extend(spec, "1k")
    with pytest.raises(UsageError, match="works on a model's files"):
        ropewalk.tune(spec, data="x", steps=1, out="y")
    with pytest.raises(UsageError, match="with its tokenizer="):
        ropewalk.trace(spec, "The cat sat")
    with pytest.raises(UsageError, match="and its tokenizer="):
        ropewalk.prove(loaded()[0])
    with pytest.raises(UsageError, match="give one with a loaded model alone"):
        ropewalk.prove("tiny", tokenizer=object())
    with pytest.raises(UsageError, match="length goes with a loaded model"):
        ropewalk.audit("tiny", length=8)


@pytest.mark.parametrize("to", ["hf4", "hf5", "vllm", "llamacpp"])
def test_a_conversion_is_what_its_command_prints(to: Any) -> None:
    found = ropewalk.convert("tiny", to, rope=["none", "yarn:2"])
    shown = printed("convert", "tiny", "--to", to, "--rope", "none", "--rope", "yarn:2")
    assert plain(found.to_dict()) == shown
    assert "<iframe" in found._repr_html_()


def test_a_conversion_takes_a_spec_and_a_live_model_as_far_as_they_go() -> None:
    spec = read_spec(resolve("tiny"))
    flags = ropewalk.convert("tiny", "llamacpp", rope="yarn:2").options
    assert ropewalk.convert(spec, "llamacpp", rope="yarn:2").options == flags
    model, _ = loaded()
    assert ropewalk.convert(model, "hf5").config is not None
    # What was read stays with the spec.
    assert ropewalk.convert(spec, "hf5").config == ropewalk.convert("tiny", "hf5").config
    with pytest.raises(UsageError, match=r"a spec alone has no config\.json"):
        ropewalk.convert(replace(spec, source=Source()), "hf5")
    with pytest.raises(UsageError, match="none was given"):
        ropewalk.convert(spec, "gguf")
    with pytest.raises(UsageError, match="choose one of vllm"):
        ropewalk.convert("tiny", "mlx")  # type: ignore[arg-type]


def test_a_trace_is_what_its_command_prints_and_a_live_model_gives_the_same() -> None:
    found = ropewalk.trace("tiny", "The cat sat")
    assert plain(found.to_dict()) == printed("trace", "tiny", "The cat sat")
    model, tokenizer = loaded()
    live = ropewalk.trace(model, "The cat sat", tokenizer=tokenizer, name=found.name)
    assert live.steps == found.steps


def test_a_proof_is_what_its_command_prints(tmp_path: Path) -> None:
    found = ropewalk.prove("tiny", lengths=[128, 160], depths=[50], trials=1, out=tmp_path / "a")
    shown = printed(
        "prove", "tiny", "--lengths", "128,160", "--depths", "50%", "--trials", 1, "--out",
        tmp_path / "b",
    )  # fmt: skip
    assert untimed(plain(found.to_dict())) == untimed(shown)


def test_a_live_model_is_proved_by_its_own_weights(tmp_path: Path) -> None:
    model, tokenizer = loaded()
    asked: dict[str, Any] = {"lengths": 128, "depths": "50%", "trials": 1, "sharing": "none"}
    live = ropewalk.prove(model, tokenizer=tokenizer, out=tmp_path / "a", **asked)
    named = ropewalk.prove("tiny", out=tmp_path / "b", **asked)
    answers = [[row.answer.printed for row in each.rows] for each in (live, named)]
    assert answers[0] == answers[1]


def test_an_extension_is_what_its_command_prints(tmp_path: Path) -> None:
    found = ropewalk.extend("tiny", 1024, method="yarn", out=tmp_path / "a")
    shown = printed("extend", "tiny", "--to", "1k", "--method", "yarn", "--out", tmp_path / "b")
    assert plain(found.to_dict()).keys() == shown.keys()
    for part in ("schedule", "why", "warnings", "method"):
        assert plain(found.to_dict())[part] == shown[part]
    with pytest.raises(LengthError, match="--to"):
        ropewalk.extend("tiny", "1x")
    with pytest.raises(ScheduleError, match="scaled already"):
        ropewalk.extend(tmp_path / "a", "2k", method="yarn")


def test_a_tuned_model_is_what_its_command_prints(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("The old mill by the river turned slowly in the rain. " * 40)
    found = ropewalk.tune("tiny", data=texts, steps=1, out=tmp_path / "a", length=64, rows=1)
    shown = printed(
        "tune", "tiny", "--data", texts, "--steps", 1, "--out", tmp_path / "b", "--length", 64,
        "--rows", 1,
    )  # fmt: skip
    assert found is not None
    assert plain(found.to_dict()).keys() == shown.keys()
    assert plain(found.to_dict())["gate"] == shown["gate"]


def test_a_comparison_is_what_its_command_prints(tmp_path: Path) -> None:
    small: dict[str, Any] = {"preset": "minute", "encodings": ["rope"], "steps": 1, "seeds": [0]}
    found = ropewalk.compare(**small, out=tmp_path)
    assert [each.seed for each in found.figures] == [0]
    shown = printed(
        "compare", "--preset", "minute", "--encodings", "rope", "--steps", 1, "--out", tmp_path
    )
    assert plain(found.to_dict()) == shown


def untimed(document: dict[str, Any]) -> dict[str, Any]:
    """A proof's document without what differs from run to run."""
    rows = [{k: v for k, v in row.items() if "seconds" not in k} for row in document["rows"]]
    return {"rows": rows, "effective": document.get("effective")}


def loaded() -> tuple[Any, Any]:
    """tiny as transformers loads it, and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = resolve("tiny").path
    return AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(
        folder
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ropewalk.prove("tiny", lengths="12x"), "12x"),
        (lambda: ropewalk.prove("tiny", sharing="both"), "choose one of none, prefix, branches"),  # type: ignore[arg-type]
        (lambda: ropewalk.prove("tiny", device_map={"": True}), "a device is a number or a name"),
        (lambda: ropewalk.prove("tiny", base_url="http://x/v1"), "goes with a model at a server"),
        (lambda: ropewalk.prove("tiny", minutes=0), "--minutes 0 is impossible"),
        (lambda: ropewalk.compare(encodings=["rope", "ropes"]), "'ropes' is not known"),
        (lambda: ropewalk.audit("no-such-model"), "no-such-model"),
    ],
)
def test_what_cannot_be_is_an_error_of_ours(call: Callable[[], object], words: str) -> None:
    with pytest.raises(RopewalkError) as caught:
        call()
    assert words in str(caught.value)


def test_the_examples_of_the_page_run() -> None:
    page = Path(__file__).parents[1] / "docs" / "python.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.failed == 0
    assert found.attempted >= 6
