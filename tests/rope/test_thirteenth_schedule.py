"""A new schedule: mypy names what has to decide about it, and nothing tells lies about it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

FOO = '''
"""A schedule of tomorrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ropewalk.rope.schedules.rescaling import (
    OriginWords,
    Rescaled,
    Rescaling,
    Rotates,
    SpelledAs,
    plain,
)
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Foo(Rescaling):
    """Every frequency to the power of `strength`."""

    kind: ClassVar[str] = "foo"
    spelled: ClassVar[SpelledAs] = SpelledAs(hf5="foo", rope="foo", method="foo")
    origin: ClassVar[OriginWords] = OriginWords("foo", "Foo of strength {strength:g}")

    strength: float

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:
        """Slower, and slow pairs more so."""
        return tuple(f**self.strength for f in plain(rotary)), ("to the power of the strength",)

    @classmethod
    def asked(cls, number: float, trained: int | None, claimed: int | None) -> Foo:
        """By its strength."""
        return cls(number)
'''

MUST_DECIDE = {
    "dialects/engines/transformers.py",
    "dialects/engines/vllm.py",
    "dialects/engines/mlx.py",
    "dialects/engines/llamacpp.py",
    "dialects/engines/lmdeploy.py",
    "dialects/engines/sglang.py",
    "dialects/hf/terms.py",
    "dialects/gguf/write.py",
    "dialects/llamacpp.py",
}

COPY = """
import sys
# An editable installation answers for the package before PYTHONPATH is asked.
sys.meta_path[:] = [f for f in sys.meta_path if f.__module__.startswith("_frozen_importlib")]
"""
TELL = """
from ropewalk.dialects.hf import read_config
from ropewalk.extension.card import schedule_lines
from ropewalk.extension.methods import CLOSED_FORMS, extended
from ropewalk.findings import audit
from ropewalk.findings.json_form import to_json
from ropewalk.report.audit import document
from ropewalk.report.lines import terminal
from ropewalk.rope.override import override

spec = read_config({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
                    "num_hidden_layers": 2, "max_position_embeddings": 2048,
                    "rope_theta": 10000.0})
asked = override(spec, "foo:1.5")
longer = extended(spec, 8192, next(form for form in CLOSED_FORMS if form.name == "foo"))
for each in (asked, longer):
    result = audit(each, name="tomorrow")
    print("ORIGIN", result.origin.sentence)
    print(terminal(document(result), 200))
    print(to_json(result)["groups"][0]["encoding"]["scaling"])
print(*schedule_lines(spec, longer), sep="\\n")
for text in ("linear:2", "oops:2"):
    try:
        override(asked, text)
    except Exception as error:
        print("REFUSED", error)
"""


@pytest.fixture(scope="module")
def tomorrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources with a file for Foo, and its name in the union."""
    copy = tmp_path_factory.mktemp("tomorrow") / "src"
    kept = shutil.ignore_patterns("__pycache__", "*.so", "_native*")
    shutil.copytree(SOURCE / "ropewalk", copy / "ropewalk", ignore=kept)
    schedules = copy / "ropewalk" / "rope" / "schedules"
    (schedules / "foo.py").write_text(FOO)
    registry = schedules / "__init__.py"
    text = registry.read_text()
    line = "from ropewalk.rope.schedules.foo import Foo\n"
    text = text.replace(
        "from ropewalk.rope.schedules.larger", line + "from ropewalk.rope.schedules.larger"
    )
    changed = text.replace("    | UnknownScaling\n)", "    | UnknownScaling\n    | Foo\n)")
    assert changed != text
    registry.write_text(changed)
    return copy


def test_mypy_names_every_engine_and_writer_that_has_to_decide(tomorrow: Path) -> None:
    pytest.importorskip("mypy")
    files = [str(Path("ropewalk", each)) for each in sorted(MUST_DECIDE)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--no-error-summary",
         "--no-site-packages",
         "--config-file", os.devnull, "--cache-dir", str(tomorrow / "cache"), *files],
        cwd=tomorrow, capture_output=True, text=True, check=False,
    )  # fmt: skip
    named = re.findall(r'^ropewalk/(\S+?):\d+: error: .*"Foo".*expected "Never"', done.stdout, re.M)
    assert {*named} == MUST_DECIDE, done.stdout + done.stderr
    assert "Cannot instantiate" not in done.stdout


def test_what_is_told_of_it_is_what_it_says_of_itself(tomorrow: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COPY + TELL], env={**os.environ, "PYTHONPATH": str(tomorrow)},
        cwd=tomorrow, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = done.stdout
    assert "ORIGIN Foo of strength 1.5. The file does not say whether the model was" in told
    assert "ORIGIN Foo of strength 4; extended from 2,048 to 8,192 tokens" in told
    assert "foo: strength 1.5" in told
    assert "'strength': 1.5, 'type': 'foo', 'name': 'foo'" in told
    assert "all layers: foo;" in told
    assert "would stand on top of foo scaling" in told
    assert "foo:FACTOR" in told
    assert not re.search("unknown|not known|default", told, re.IGNORECASE), told
