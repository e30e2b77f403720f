"""Reprs that a person can read: bounded for whatever a value holds, of every public class."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import ropewalk
from ropewalk.explain.trace import trace
from ropewalk.proof.cells import Sharing
from ropewalk.proof.loss_run import LossSettings, measure
from ropewalk.short import MOST, short, short_with
from ropewalk.tables.health.check import HealthOptions, check_health
from ropewalk.tables.movement import compare as compare_tables
from ropewalk.tables.principal import project


def public_dataclasses() -> Iterator[type]:
    for found in pkgutil.walk_packages(ropewalk.__path__, "ropewalk."):
        if found.name.startswith("ropewalk.cli") or found.name.endswith(("__main__", "_native")):
            continue
        for name, held in vars(importlib.import_module(found.name)).items():
            if not isinstance(held, type) or held.__module__ != found.name or name.startswith("_"):
                continue
            # A configuration of transformers' is a dataclass by its base, and prints as JSON.
            foreign = any(c.__module__.startswith("transformers.") for c in held.__mro__)
            if dataclasses.is_dataclass(held) and not foreign and not inspect.isabstract(held):
                yield held


CLASSES = sorted(public_dataclasses(), key=lambda c: f"{c.__module__}.{c.__qualname__}")


class Colour(Enum):
    RED = "r" * 1000


@short
@dataclass(frozen=True, slots=True)
class Held:
    a: Any
    b: Any = 0


def deep(levels: int) -> Any:
    return Held(deep(levels - 1), [deep(levels - 1)]) if levels else "end"


FILLINGS: dict[str, Any] = {
    "nothing": None,
    "text": "word " * 100_000,
    "lines": "a\nb\t\x1b" * 1000,
    "bytes": bytes(10_000),
    "path": Path("/".join(["folder"] * 500)),
    "number": 10**4000,
    "floats": (0.1,) * 100_000,
    "texts": ["word " * 1000] * 3,
    "mapping": {str(i): "x" * 1000 for i in range(1000)},
    "few": {"a": "x" * 1000, "b": ("y" * 1000,) * 2},
    "set": frozenset(range(1000)),
    "tensor": torch.zeros(300, 300),
    "array": np.zeros((300, 300), np.float32),
    "module": nn.Linear(3, 3),
    "enum": Colour.RED,
    "function": deep,
    "values": deep(8),
    "many values": (Held(1, 2),) * 1000,
}


def filled(made: type, value: Any) -> Any:
    """An instance with every field set to `value`, whatever its constructor would say."""
    one: Any = object.__new__(made)
    for field in dataclasses.fields(made):
        object.__setattr__(one, field.name, value)
    return one


@pytest.mark.parametrize("made", CLASSES, ids=lambda c: f"{c.__module__}.{c.__qualname__}")
def test_the_repr_of_every_public_class_is_one_short_line_whatever_it_holds(
    made: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {f.name for f in dataclasses.fields(made)}
    # Properties are worked out of real values.
    plain = tuple(n for n in getattr(made, "_told_first", ()) if n in fields)
    monkeypatch.setattr(made, "_told_first", plain, raising=False)
    for name, value in FILLINGS.items():
        said = repr(filled(made, value))
        assert len(said) <= MOST, (name, len(said))
        assert said.startswith(f"{made.__qualname__}("), said
        assert "\n" not in said


def test_what_is_short_is_written_as_a_dataclass_writes_itself() -> None:
    @dataclass(frozen=True)
    class Plain:
        a: Any
        b: Any = 0

    for a in (
        1,
        2.5,
        "it's",
        None,
        True,
        (1, 2, 3),
        [1, [2]],
        {"a": 1},
        (1,),
        (),
        {},
        "two\nlines",
    ):
        assert repr(Held(a)) == repr(Plain(a)).replace(Plain.__qualname__, "Held")
    assert repr(Held(tuple(range(40)))) == f"Held(a={tuple(range(40))!r}, b=0)"


def test_long_things_are_said_by_kind_and_size() -> None:
    assert repr(Held((0.5,) * 4000, torch.zeros(4, 5))) == (
        "Held(a=<4,000 float>, b=<Tensor 4 x 5 float32>)"
    )
    assert "<9 items>" in repr(Held(("x" * 190, 1, 2, 3, 4, 5, 6, 7, 8), "y" * 190))
    said = repr(Held("x" * 1000, Path("/home/" + "a" * 500 + "/model.gguf")))
    assert "a='xxxxx" in said
    assert said.endswith("/model.gguf')")


def test_what_matters_comes_first() -> None:
    @short_with("verdict", "c")
    @dataclass
    class Judged:
        a: str
        c: int

        @property
        def verdict(self) -> str:
            return "fine"

    assert repr(Judged("x" * 2000, 3)).startswith(
        f"{Judged.__qualname__}(verdict='fine', c=3, a='xxx"
    )


def reached(value: Any, seen: set[int]) -> Iterator[Any]:
    """All values of dataclasses that hang on a value, itself too."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield value
        for field in dataclasses.fields(value):
            yield from reached(getattr(value, field.name), seen)
    elif isinstance(value, Mapping):
        for item in list(value.values())[:200]:
            yield from reached(item, seen)
    elif isinstance(value, tuple | list):
        for item in value[:200]:
            yield from reached(item, seen)


def all_short(value: Any) -> None:
    found = list(reached(value, set()))
    assert found
    for each in found:
        if type(each).__module__.startswith("ropewalk."):
            assert len(repr(each)) <= MOST, repr(each)[:400]


def test_a_table_says_its_name_role_shape_and_storage() -> None:
    table = ropewalk.open_table("smollm2")
    assert table.vocabulary is not None
    all_short(table)
    all_short(table.vocabulary)
    said = repr(table)
    for fact in ("token_embd.weight", "'input'", "(49152, 576)", "'Q8_0'", "'raw'"):
        assert fact in said
    assert "<49,152 Token>" in repr(table.vocabulary)
    assert "SmolLM2" in repr(table.tables)


def test_an_audit_says_its_model_origin_lengths_and_findings() -> None:
    audit = ropewalk.audit_spec(ropewalk.read_spec(ropewalk.resolve("smollm2")), name="smollm2")
    all_short(audit)
    said = repr(audit)
    for fact in ("'smollm2'", "'larger-base'", "tokens=8192", "Finding>"):
        assert fact in said


def test_a_proof_and_a_loss_say_what_was_found(tmp_path: Path) -> None:
    settings = ropewalk.ProofSettings(
        "tiny", lengths=(150, 200), depths=(0.0, 1.0), trials=1, sharing=Sharing.NONE
    )
    proof = ropewalk.prove_model(dataclasses.replace(settings, out=tmp_path / "run"))
    all_short((proof, settings))
    for fact in ("EffectiveLength(certain=", "possible=", "RunResult("):
        assert fact in repr(proof)
    assert "lengths=(150, 200)" in repr(proof.summary)
    assert "CellSummary" in repr(proof.summary) or "cells" not in repr(proof.summary)
    report = measure(LossSettings("tiny", length=128, window=64, stride=32, device="cpu"))
    all_short(report)
    assert "Evaluation" in repr(report)


def test_what_is_measured_of_a_table_is_short(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"model.embed_tokens.weight": torch.randn(200, 8)}, path)
    table = ropewalk.open_table(path)
    health = check_health(table, HealthOptions(sample=50))
    for measured in (health, project(table), compare_tables(table, table), table.tables):
        all_short(measured)
    assert repr(health).startswith("Health(rows=200, width=8, tokens=None, counted=200, ")


def test_a_trace_is_short(
    tiny_model: Callable[..., Any], tiny_tokenizer: Callable[[str], Any]
) -> None:
    traced = trace(tiny_model("llama"), tiny_tokenizer("bare"), "the king and", name="tiny")
    all_short(traced)
    assert repr(traced).startswith("Trace(name='tiny', model_type='llama', text='the king and'")
