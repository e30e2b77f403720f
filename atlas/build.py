"""Observe every type of the installed transformers and write what the reader takes from it.

    python -m atlas.build [TYPE ...] [--check]

Without a type all of them, some minutes on one core: `src/ropewalk/dialects/hf/atlas/RELEASE.json`
is written anew and what changed is printed. With types their records alone are made anew. `--check`
writes nothing and exits with 1 where something changed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PLACE = Path(__file__).parents[1] / "src" / "ropewalk" / "dialects" / "hf" / "atlas"
SECONDS = 300
MEMORY = 8 << 30
MORE = (
    *("albert", "distilbert", "embedding_gemma2", "longformer", "longt5", "mobilebert"),
    *("modernbert", "moonshine", "moonshine_streaming", "mt5", "nomic_bert", "pop2piano"),
    *("switch_transformers", "t5", "umt5"),
)
"""Encoders, and encoders with a decoder, that the reader knows beside those of `all_types`."""


def all_types() -> list[str]:
    """Every model type with a causal or an image-text model."""
    from transformers.models.auto import modeling_auto as auto

    return sorted(
        {
            *auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
            *auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
        }
    )


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise TimeoutError where the body computes for longer."""

    def late(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s of computing")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def text_type(model_type: str) -> str:
    """The type of a type's text model; the type itself where its class does not say."""
    from atlas.shapes import text_of

    try:
        found: str = text_of(model_type).model_type
    except Exception:  # noqa: BLE001 - what does not build is told by its record
        return model_type
    return found


def record(model_type: str) -> dict[str, Any]:
    """What the reader takes of one type, or why there is nothing."""
    from atlas.facts import facts, nested, older
    from atlas.observe import observe
    from atlas.reads import unread
    from atlas.shapes import text_of

    found: dict[str, Any] = {}
    try:
        with limited(SECONDS):
            text = text_of(model_type)
            found.update(facts(text, observe(model_type)))
            if found.get("encoding") == "rotary":
                found["nested"] = nested(text, model_type)
                if (outcome := older(text)).startswith("base "):
                    found["older"] = outcome
            if still := unread(text):
                found["unread"] = still
    except Exception as error:  # noqa: BLE001 - whatever a class does is an observation
        # What is half seen is not told.
        found = {"unseen": f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"}
    return found


def build(types: list[str], *, say: bool = True) -> dict[str, Any]:
    """The records of these types by text type, and the text type of every outer one."""
    from transformers import CONFIG_MAPPING

    outer = {model_type: text_type(model_type) for model_type in types}
    # The parts of a whole type may have defaults of their own; a type speaks for itself.
    asked = {t: t if t in CONFIG_MAPPING else model_type for model_type, t in outer.items()}
    found: dict[str, Any] = {}
    for text, model_type in sorted(asked.items()):
        found[text] = record(model_type)
        whole = next((t for t in types if outer[t] == text and t != text), None)
        if "unseen" in found[text] and whole is not None:
            # Some parts are only built with what their whole hands on.
            found[text] = record(whole)
        if say:
            print(text, json.dumps(found[text]), flush=True)
    return {"types": found, "text": {k: v for k, v in outer.items() if k != v}}


def changes(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """A line for each field of each record that is another one now."""
    for name in sorted({*old, *new}):
        one, other = ({**r, **r.pop("facts", {})} for r in (_copied(old, name), _copied(new, name)))
        for key in sorted({*one, *other}):
            if one.get(key) != other.get(key):
                there, here = (json.dumps(each.get(key)) for each in (one, other))
                yield f"{name}: {key}: {there} -> {here}"


def _copied(records: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(records.get(name, {})))
    return found


def main() -> int:
    """Build, compare and write. Exit code 1 where `--check` finds a change."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("types", nargs="*")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.filterwarnings("ignore")
    import torch
    import transformers

    from atlas.probe import register

    # A class whose defaults cannot be shrunk ends in an error, not in the machine's memory.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    register()
    made = build(options.types or [*all_types(), *MORE])
    release = ".".join(transformers.__version__.split(".")[:2])
    path = PLACE / f"{release}.json"
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"types": {}}
    if options.types:
        made = {
            "types": dict(sorted({**old["types"], **made["types"]}.items())),
            "text": {**old.get("text", {}), **made["text"]},
        }
    for line in changes(old["types"], made["types"]):
        print(line)
    if options.check:
        return 1 if old["types"] != made["types"] else 0
    PLACE.mkdir(exist_ok=True)
    rows = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in made["types"].items()]
    whole = (
        f'{{"release": {json.dumps(transformers.__version__)},\n'
        f'"text": {json.dumps(made["text"])},\n'
        '"types": {\n' + ",\n".join(rows) + "\n}}\n"
    )
    path.write_text(whole, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
