"""Put what probes read into `tests/published/engines.json`, and print what that changes:

`python -m atlas.engines.collect ENGINE=ANSWERS.json ...`.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from atlas.engines.measured import MEASURED, NEAR

Json = dict[str, Any]


def plain(answer: Json, vectors: list[list[float]]) -> Json:
    """An answer with its frequencies in place of their numbers in the file."""
    if "rotations" not in answer:
        return answer
    turns = [
        {**turn, "inv_freq": vectors[turn["inv_freq"]]}
        if isinstance(turn["inv_freq"], int)
        else turn
        for turn in answer["rotations"]
    ]
    return {**answer, "rotations": turns}


def same(a: Json, b: Json) -> bool:
    """Whether two answers are one, to the precision of tables in fp32."""
    if "error" in a or "error" in b:
        return "error" in a and "error" in b
    if len(a["rotations"]) != len(b["rotations"]) or a.get("softmax") != b.get("softmax"):
        return False
    return all(any(_near(one, other) for other in b["rotations"]) for one in a["rotations"])


def _near(a: Json, b: Json) -> bool:
    if len(a["inv_freq"]) != len(b["inv_freq"]) or abs(a["factor"] - b["factor"]) > NEAR:
        return False
    both = zip(a["inv_freq"], b["inv_freq"], strict=True)
    return all(math.isclose(x, y, rel_tol=NEAR, abs_tol=1e-9) for x, y in both)


def merge(found: Json, engine: str, answers: Json) -> list[str]:
    """Take the answers of one engine in; the names of the files whose answer is another now."""
    vectors = found["inv_freq"]
    kept = found["measured"].setdefault(engine, {})
    changed = []
    for name, answer in answers.items():
        if "left out" in answer:
            continue
        before = kept.get(name)
        if before is not None and same(plain(before, vectors), answer):
            continue
        changed.append(name)
        kept[name] = _numbered(answer, vectors)
    return changed


def _numbered(answer: Json, vectors: list[list[float]]) -> Json:
    if "rotations" not in answer:
        return answer
    turns = []
    for turn in answer["rotations"]:
        if turn["inv_freq"] not in vectors:
            vectors.append(turn["inv_freq"])
        turns.append({**turn, "inv_freq": vectors.index(turn["inv_freq"])})
    return {**answer, "rotations": turns}


def write(found: Json) -> None:
    """A line a file and a line a list of frequencies."""

    def block(values: Json) -> str:
        return ",\n".join(f"  {json.dumps(name)}: {json.dumps(v)}" for name, v in values.items())

    engines = ",\n".join(
        f" {json.dumps(name)}: {{\n{block(files)}\n }}" for name, files in found["measured"].items()
    )
    vectors = ",\n".join("  " + json.dumps(v, separators=(",", ":")) for v in found["inv_freq"])
    text = (
        f'{{\n "configs": {{\n{block(found["configs"])}\n }},\n "measured": {{\n{engines}\n }},\n'
        f' "inv_freq": [\n{vectors}\n ]\n}}\n'
    )
    MEASURED.write_text(text, "utf-8")


def main() -> None:
    """Merge each file that is named."""
    found = json.loads(MEASURED.read_text("utf-8"))
    for each in sys.argv[1:]:
        engine, _, path = each.partition("=")
        changed = merge(found, engine, json.loads(Path(path).read_text("utf-8")))
        print(f"{engine}: {', '.join(changed) or 'as before'}")
    write(found)


if __name__ == "__main__":
    main()
