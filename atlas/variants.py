"""Every key that bears on position, varied on every type: what class and reader make of it.

    python -m atlas.variants [TYPE ...] [--rows FILE]

A file that differs from the default in one key is given to the class, whose small model is then
watched, and to the reader. The table goes to benchmarks/results/variants.md. `--rows` keeps the
rows of these types in a file instead; `--join FILE ...` writes the table from such files.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "variants.md"
SECONDS = 60
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 1024,
}
ROPE: dict[str, dict[str, Any]] = {
    "rope_theta": {"rope_theta": 54_321.0},
    "partial_rotary_factor": {"partial_rotary_factor": 0.5},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": YARN,
    "yarn, betas": YARN | {"beta_fast": 16.0, "beta_slow": 2.0},
    "yarn, attention_factor": YARN | {"attention_factor": 1.5},
    "yarn, truncate": YARN | {"truncate": False},
    "yarn, mscale": YARN | {"mscale": 0.7, "mscale_all_dim": 0.9},
    "yarn, mscale alone": YARN | {"mscale": 0.7},
    "yarn, no original": {"rope_type": "yarn", "factor": 4.0},
    "longrope": {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 1024},
    "longrope, attention_factor": {
        "rope_type": "longrope",
        "factor": 4.0,
        "attention_factor": 1.25,
        "original_max_position_embeddings": 1024,
    },
    "llama3": LLAMA3,
}
"""What is laid over the rope dictionary, or over each of those by kind of layer."""

KEYS: dict[str, Any] = {
    "rope_theta": 54_321.0,
    "rotary_emb_base": 54_321.0,
    "rope_local_base_freq": 54_321.0,
    "global_rope_theta": 54_321.0,
    "local_rope_theta": 54_321.0,
    "swa_rope_theta": 54_321.0,
    "compress_rope_theta": 54_321.0,
    "partial_rotary_factor": 0.5,
    "rotary_pct": 0.5,
    "rotary_dim": 32,
    "rope_interleave": False,
    "sliding_window": 96,
    "attention_chunk_size": 96,
    "local_attention": 96,
    "sliding_window_pattern": 3,
    "no_rope_layers": [1, 0, 1, 0, 1, 0, 1, 0],
    "no_rope_layer_interval": 2,
    "attention_multiplier": 0.2,
    "query_pre_attn_scalar": 100.0,
    "attn_logit_softcapping": 30.0,
    "attention_scale": 0.2,
    "floor_scale": 100,
}
"""A value of each key at the top that is given to the classes that have it, `ALWAYS` to all."""

ALWAYS = ("rope_theta", "partial_rotary_factor")
WORDS = {
    "equal": "=",
    "equal, read by neither": ".",
    "told by the engine's row": "by row",
    "differs": "differs",
    "read by the reader alone": "reader alone",
    "read by the class alone": "class alone",
    "the class stops": "stops",
    "the reader refuses": "refused",
}

AMISS = tuple(WORDS)[3:6] + tuple(WORDS)[7:]


def files(base: dict[str, Any], seen: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Files that differ from `base` in one thing, each with its name."""
    rope = base.get("rope_parameters") or {}
    kinds = [kind for kind, each in rope.items() if isinstance(each, dict)]
    for name, change in ROPE.items():
        laid = {kind: _laid(rope[kind], change, seen, base, kind) for kind in kinds}
        whole = laid or _laid(rope, change, seen, base, "")
        longer = (
            {"max_position_embeddings": 2048} if name in ("dynamic", "yarn, no original") else {}
        )
        longer = longer if "max_position_embeddings" in base else {}
        yield f"rope_parameters: {name}", {**base, "rope_parameters": whole, **longer}
        if name in ("linear", "dynamic", "yarn", "longrope", "llama3"):
            bare = {k: v for k, v in base.items() if k != "rope_parameters"}
            flat = _laid({}, change, seen, base, "")
            theta = {"rope_theta": 54_321.0}
            yield f"rope_scaling: {name}", {**bare, **theta, "rope_scaling": flat, **longer}
    for key, value in KEYS.items():
        if key in ALWAYS:
            bare = {k: v for k, v in base.items() if k != "rope_parameters"}
            yield key, {**bare, key: value}
        elif key in base:
            yield key, {**base, key: value}
    words = base.get("layer_types")
    if isinstance(words, list) and len(set(words)) > 1:
        yield "layer_types, turned round", {**base, "layer_types": words[::-1]}
    if "use_sliding_window" in base:
        on = {"use_sliding_window": True, "sliding_window": 96, "max_window_layers": 2}
        bare = {k: v for k, v in base.items() if k != "layer_types"}
        yield "use_sliding_window", {**bare, **on}


def _laid(
    rope: dict[str, Any], change: dict[str, Any], seen: Any, base: dict[str, Any], kind: str
) -> dict[str, Any]:
    made = {**rope, **change}
    if change.get("rope_type") == "longrope":
        words = base.get("layer_types") or []
        pairs = next(
            (
                each.width // 2
                for each in seen.layers
                if each.width and (not kind or kind not in words or words[each.layer] == kind)
            ),
            seen.layers[0].channels // 2,
        )
        made["short_factor"] = [1.0 + i / 64 for i in range(pairs)]
        made["long_factor"] = [2.0 + i / 16 for i in range(pairs)]
    return made


def rows(model_type: str) -> Iterator[tuple[str, str, str]]:
    """(what is varied, outcome, why) of each variant of a type that rotates."""
    from atlas.census import told
    from atlas.observe import watched
    from atlas.shapes import small, text_of

    text = text_of(model_type)
    config = small(text)
    base = {k: v for k, v in config.to_dict().items() if k not in ("per_layer_config",)}
    seen = watched(copy.deepcopy(config))
    plain = told(base)
    if not any(layer.width for layer in seen.layers):
        return
    for name, file in files(base, seen):
        try:
            there = watched(type(text)(**copy.deepcopy(file)), beyond="dynamic" in name)
        except Exception as error:  # noqa: BLE001 - what a class refuses is a row of the table
            yield name, "the class stops", f"{type(error).__name__}: {_line(error)}"
            continue
        yield (name, *_outcome(file, there, seen, plain))


def _outcome(file: dict[str, Any], there: Any, seen: Any, plain: Any) -> tuple[str, str]:
    from atlas.census import differences, told
    from ropewalk.dialects.engines.transformers import TRANSFORMERS_5
    from ropewalk.dialects.engines.views import as_computed
    from ropewalk.errors import RopewalkError, ScheduleError

    try:
        spec = told(file)
    except RopewalkError as error:
        return "the reader refuses", _line(error)
    wrong = list(dict.fromkeys(differences(spec, there)))
    if wrong:
        # What a class does in its own way is in the row of transformers.
        try:
            by_row = as_computed(TRANSFORMERS_5, spec, served=there.length)
        except ScheduleError as error:
            return "differs", f"told to stop: {_line(error)}"
        if not list(differences(by_row, there)):
            return "told by the engine's row", ""
    theirs, ours = there.layers != seen.layers, spec.groups != plain.groups
    if not wrong:
        return ("equal" if theirs else "equal, read by neither"), ""
    if ours and not theirs:
        return "read by the reader alone", "; ".join(wrong[:2])
    if theirs and not ours:
        return "read by the class alone", "; ".join(wrong[:2])
    return "differs", "; ".join(wrong[:2])


def _line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    # A validator's own sentence stands below the name of it.
    return (lines[1] if len(lines) > 1 and "validat" in lines[0] else lines[0]).strip()[:140]


def table(found: dict[str, list[list[str]]]) -> str:
    """The rows of all types as Markdown: by key, then what is not equal by type."""
    import transformers

    names = list(dict.fromkeys(name for each in found.values() for name, *_ in each))
    count = Counter(outcome for each in found.values() for _, outcome, _ in each)
    total = ", ".join(f"{n} {outcome}" for outcome, n in count.most_common())
    lines = [
        "# Keys that bear on position, varied on the types of transformers "
        + transformers.__version__,
        "",
        f"{len(found)} types, {sum(count.values())} files: {total}. Printed by "
        "`python -m atlas.variants`.",
        "",
        "| varied | " + " | ".join(WORDS) + " |",
        "|---|" + "---:|" * len(WORDS),
    ]
    for name in names:
        one = Counter(o for each in found.values() for n, o, _ in each if n == name)
        lines.append(f"| {name} | " + " | ".join(str(one[word] or "") for word in WORDS) + " |")
    lines += ["", "What is neither equal nor refused by the class:", ""]
    lines += ["| type | varied | outcome | why |", "|---|---|---|---|"]
    for model_type, each in found.items():
        for name, outcome, why in each:
            if outcome in AMISS:
                lines.append(f"| {model_type} | {name} | {outcome} | {why.replace('|', '/')} |")
    lines += ["", "What stops a class:", "", "| type | varied | why |", "|---|---|---|"]
    for model_type, each in found.items():
        stops: dict[str, list[str]] = {}
        for name, outcome, why in each:
            if outcome == "the class stops":
                stops.setdefault(why, []).append(name)
        for why, which in stops.items():
            lines.append(f"| {model_type} | {', '.join(which)} | {why.replace('|', '/')} |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Vary, print, write. Exit code 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("types", nargs="*")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--join", type=Path, nargs="+")
    options = parser.parse_args()
    if options.join:
        found: dict[str, Any] = {}
        for path in options.join:
            found |= json.loads(path.read_text(encoding="utf-8"))
        RESULT.write_text(table(dict(sorted(found.items()))), encoding="utf-8")
        return 0
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.filterwarnings("ignore")
    import torch
    import transformers

    from atlas.build import MEMORY, all_types, limited
    from atlas.probe import register
    from ropewalk.dialects.hf.measured import text_type

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    register()
    found = {}
    for model_type in options.types or list(dict.fromkeys(map(text_type, all_types()))):
        made: list[list[str]] = []
        try:
            with limited(SECONDS):
                made.extend(list(each) for each in rows(model_type))
        except Exception as error:  # noqa: BLE001 - a type that is not built has no variants
            print(f"{model_type}: {type(error).__name__}: {_line(error)}", flush=True)
        if not made:
            continue
        found[model_type] = made
        if options.rows:
            options.rows.write_text(json.dumps(found), encoding="utf-8")
        count = Counter(outcome for _, outcome, _ in found[model_type])
        print(model_type, dict(count), flush=True)
    if not options.types:
        RESULT.write_text(table(found), encoding="utf-8")
    elif not options.rows:
        print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
