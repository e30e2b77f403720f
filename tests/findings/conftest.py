"""Specs of published models, written by hand from their configuration files, and all remedies."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Collection, Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest

import ropewalk
from ropewalk.findings import Audit
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.scaling import UNSCALED, Scaling
from ropewalk.rope.spec import (
    Encoding,
    Finding,
    LayerGroup,
    Length,
    PositionSpec,
    RotarySpec,
    SoftmaxRule,
    Window,
)

MakeSpec = Callable[..., PositionSpec]
Meant = Callable[[PositionSpec], bool]


@pytest.fixture
def make_spec() -> MakeSpec:
    """A spec with one group of layers."""

    def make(
        encoding: Encoding | None = None,
        *,
        scaling: Scaling = UNSCALED,
        base: float = 1e4,
        claimed: int | None = 4096,
        trained: int | None = None,
        model_type: str = "llama",
        dim: int = 128,
        window: int | None = None,
        softmax: float = 1.0,
        others: tuple[Length, ...] = (),
        remarks: tuple[Finding, ...] = (),
        more: tuple[LayerGroup, ...] = (),
    ) -> PositionSpec:
        group = LayerGroup(
            "all layers",
            (0, 1),
            encoding or RotarySpec(dim, dim, base, scaling=scaling),
            None if window is None else Window(window),
            SoftmaxRule(factor=softmax),
        )
        return PositionSpec(
            model_type,
            "written by hand",
            (group, *more),
            Length.unknown() if trained is None else Length(trained, "original length"),
            Length.unknown("no length key") if claimed is None else Length(claimed, "max length"),
            others,
            remarks,
        )

    return make


@pytest.fixture
def unfollowed() -> Callable[[bool, Collection[tuple[str, str]]], list[str]]:
    """unfollowed(files, tried): what is wrong with the tables of remedies, in sentences.

    Of every place in the source that makes a finding or a reader's remark, about GGUF files or
    about all else: a remedy that is neither among `tried` (code and printed remedy) nor in
    `by_hand.toml`, and a reason there for none.
    """
    return _unfollowed


@pytest.fixture
def remedy_of() -> Callable[[Audit, str], str]:
    """remedy_of(result, code): the remedy of the one finding of that code."""

    def find(result: Audit, code: str) -> str:
        (finding,) = (each for each in result.findings if each.code == code)
        return finding.remedy

    return find


@pytest.fixture
def followed() -> Callable[[Audit, Audit, str, Meant | None], None]:
    """followed(before, after, code, meant): asserts that following a remedy did what it should.

    The finding is gone, no warning has come, and the schedule is the one that was meant; without
    `meant` nothing that a schedule can be told by has changed.
    """

    def turned(spec: PositionSpec) -> list[object]:
        lengths = (None, 2048, spec.claimed.tokens)
        angles = [
            [frequencies(g, n).fingerprint() for n in lengths] for g, _ in spec.rotary_groups()
        ]
        return [spec.claimed.tokens, angles]

    def check(before: Audit, after: Audit, code: str, meant: Meant | None) -> None:
        assert code not in {each.code for each in after.findings}
        was, now = (
            {f.code for f in each.findings if f.severity == "warning"} for each in (before, after)
        )
        assert now <= was
        if meant is None:
            assert turned(after.spec) == turned(before.spec)
        else:
            assert meant(after.spec)

    return check


SOURCE = Path(ropewalk.__file__).parent
PLACES = ("findings", "dialects")
_REMARKS = {"note": 2, "warn": 2, "remark": 2, "Finding": 3}
"""Who makes one, and where its remedy stands among the arguments."""


@cache
def _sites(files: bool) -> frozenset[tuple[str, str]]:
    """(code, remedy) of every place, `{}` for what is filled in, and "" for no remedy."""
    found = set()
    for place in PLACES:
        for path in (SOURCE / place).rglob("*.py"):
            if files == ("gguf" in path.relative_to(SOURCE).parts):
                found |= set(_of(ast.parse(path.read_text(encoding="utf-8"))))
    return frozenset(found)


def _unfollowed(files: bool, tried: Collection[tuple[str, str]]) -> list[str]:
    table = tomllib.loads(Path(__file__).with_name("by_hand.toml").read_text(encoding="utf-8"))
    reasons = [
        (each["code"], each["begins"].lower()) for each in table["files" if files else "others"]
    ]
    problems, used = [], set()
    for code, template in sorted(_sites(files)):
        if not template or any(code == c and _matches(template, told) for c, told in tried):
            continue
        fitting = [r for r in reasons if r[0] == code and template.lower().startswith(r[1])]
        used.update(fitting)
        if not fitting:
            problems.append(f"{code}: nobody has followed {template!r}")
    return problems + [f"{code}: a reason for no remedy" for code, _ in set(reasons) - used]


def _matches(template: str, remedy: str) -> bool:
    """Whether a printed remedy is this one, with something filled in."""
    parts = [re.escape(part) for part in template.rstrip(".").split("{}")]
    # A report begins it with a capital letter.
    return (
        re.fullmatch(".+?".join(parts), remedy.rstrip("."), re.IGNORECASE | re.DOTALL) is not None
    )


def _of(module: ast.Module) -> Iterator[tuple[str, str]]:
    named = {
        target.id: node.value
        for node in ast.walk(module)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        place = _REMARKS.get(name)
        code = node.args[0] if node.args else None
        if place is None or not isinstance(code, ast.Constant) or not isinstance(code.value, str):
            continue
        given = [each.value for each in node.keywords if each.arg == "remedy"]
        remedy = given[0] if given else node.args[place] if len(node.args) > place else None
        texts = [""] if remedy is None else _templates(remedy, named)
        yield from ((code.value, text) for text in texts)


def _templates(node: ast.expr, named: dict[str, ast.expr]) -> list[str]:
    """Every text that an expression can be."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            parts = [_templates(each, named) for each in values]
            return ["".join(each) for each in product(*parts)]
        case ast.FormattedValue(value=ast.Name(id=name)) if _is_text(named.get(name)):
            return _templates(named[name], named)
        case ast.IfExp(body=body, orelse=orelse):
            return _templates(body, named) + _templates(orelse, named)
        case ast.BinOp(left=left, right=right, op=ast.Add()):
            both = product(_templates(left, named), _templates(right, named))
            return [a + b for a, b in both]
        case ast.Name(id=name) if name in named:
            return _templates(named[name], named)
        case _:
            return ["{}"]


def _is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
