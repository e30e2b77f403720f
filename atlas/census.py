"""Every type's default configuration, as the reader tells it and as its model does it.

    python -m atlas.census [TYPE ...]

Without a type all of them, and the table in benchmarks/results/census.md is written anew. Compared
for each layer that attends: whether and which channels rotate, in which layout, by which angles
(to 1e-6 of the query at positions up to 4,000), amplitude, softmax scale, soft cap and sinks.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "census.md"
SECONDS = 90
NAMED = ("width-not-rotated",)
"""Findings that tell what a class does otherwise than the file says."""
CLOSE = 2e-5
"""What fp32 tables leave of an inverse frequency that was solved from queries, relative."""


def compare(model_type: str) -> tuple[str, str]:
    """A verdict ("equal", "differs", "refused", "not observed") and what it rests on."""
    from atlas.build import limited
    from atlas.observe import observe
    from ropewalk.errors import RopewalkError

    try:
        with limited(SECONDS):
            seen = observe(model_type)
    except Exception as error:  # noqa: BLE001 - what a class refuses is a row of the table
        return "not observed", f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
    try:
        spec = told(seen.config)
    except RopewalkError as error:
        return "refused", str(error).splitlines()[0][:140]
    general = [
        f.code for f in spec.findings if f.code in ("unknown-model-type", "encoding-unknown")
    ]
    if general:
        return "differs", f"read by general rules ({general[0]})"
    if not seen.layers and not seen.absolute:
        kinds = {type(group.encoding).__name__ for group in spec.groups}
        return "equal" if kinds == {"Recurrent"} else "differs", "no layer attends"
    told_of = {f.code: f.text for f in spec.findings}
    if "bias-by-content" in told_of:
        bias = any(layer.bias == "content" for layer in seen.layers)
        return "named" if bias else "differs", "a bias by distance and by the query"
    wrong = list(dict.fromkeys(differences(spec, seen)))
    if wrong and (named := [told_of[code] for code in NAMED if code in told_of]):
        return "named", named[0][:140]
    if wrong:
        return "differs", "; ".join(wrong[:3])
    return "equal", _summary(seen)


def _tells(spec: Any, absolute: str) -> bool:
    names = {"learned": "LearnedPositions", "sinusoidal": "SinusoidalSpec"}
    kinds = {type(group.encoding).__name__ for group in spec.groups}
    return bool(absolute) and names[absolute] in kinds


def told(config: dict[str, Any]) -> Any:
    """The spec that the reader makes of a configuration."""
    from ropewalk.dialects.hf import read_config

    return read_config(config)


def differences(spec: Any, seen: Any) -> Iterator[str]:
    """What a spec says otherwise than a model does."""
    from ropewalk.rope.spec import RotarySpec

    groups = {}
    for group in spec.groups:
        for layer in group.layers:
            groups[layer] = group
    if len(spec.groups) == 1 and not groups:
        groups = dict.fromkeys((layer.layer for layer in seen.layers), spec.groups[0])
    if seen.absolute and not _tells(spec, seen.absolute):
        yield f"positions are {seen.absolute}, told {type(spec.groups[0].encoding).__name__}"
    yield from _unseen(groups, seen)
    for layer in _by_block(seen):
        # Some types attend more than once in a layer, and count on.
        group = groups.get(layer.layer) or (spec.groups[0] if len(spec.groups) == 1 else None)
        if group is None:
            yield f"layer {layer.layer} attends and is in no group"
            continue
        rotary = group.encoding if isinstance(group.encoding, RotarySpec) else None
        if (rotary is not None) != bool(layer.width):
            yield (
                f"layer {layer.layer} {'rotates' if layer.width else 'does not rotate'}, told "
                f"{type(group.encoding).__name__}"
            )
            continue
        if rotary is not None:
            yield from _rotation(layer, rotary, seen.length)
        elif not seen.absolute:
            yield from _bias(layer, group.encoding)
        yield from _softmax(layer, group)
        # A window that reaches as far as the claim is told as none.
        told = group.window.size if group.window is not None else None
        claim = spec.claimed.tokens or 0
        # Chunks are not passed on as a window; compressed tokens lie behind one.
        other = "compressed" in group.name or (group.window and group.window.kind == "chunked")
        inert = told is None and (layer.window or 0) >= claim
        if layer.window not in (told, 0) and not other and not inert:
            yield f"layer {layer.layer} has a window of {layer.window}, told {told}"


def _by_block(seen: Any) -> list[Any]:
    """The layers under their numbers in the file, where that counts feed-forward blocks too."""
    words = seen.config.get("layer_types") or []
    places = [i for i, word in enumerate(words) if word != "mlp"]
    if len(places) == len(words):
        return list(seen.layers)
    return [replace(layer, layer=places[layer.layer]) for layer in seen.layers]


def _unseen(groups: dict[int, Any], seen: Any) -> Iterator[str]:
    """Layers that are told to attend and were not seen to."""
    there = {layer.layer for layer in _by_block(seen)}
    still = [
        number
        for number, group in groups.items()
        if number not in there and type(group.encoding).__name__ != "Recurrent"
    ]
    if there and still:
        yield f"layers {still[:4]} do not attend, told {type(groups[still[0]].encoding).__name__}"


BIASES = {"AlibiSpec": "linear", "RelativeBuckets": "other", "ContentBias": "content"}


def _bias(layer: Any, encoding: Any) -> Iterator[str]:
    told = BIASES.get(type(encoding).__name__, "")
    if layer.bias != told:
        yield f"layer {layer.layer} adds a bias ({layer.bias or 'none'}), told {told or 'none'}"
    elif told == "linear":
        from ropewalk.rope.diagnostics import alibi_slopes

        wanted = alibi_slopes(len(layer.slopes), encoding.max_bias)
        if any(abs(a - b) > 1e-6 for a, b in zip(layer.slopes, wanted, strict=True)):
            yield f"slopes {layer.slopes[:3]}, told {wanted[:3]}"


def _rotation(layer: Any, rotary: Any, length: int) -> Iterator[str]:
    from ropewalk.rope.frequencies import schedule

    told = schedule(rotary, length)
    if (rotary.rotary_dim, rotary.layout) != (layer.width, layer.layout):
        moving = sum(1 for each in told.inv_freq if each)
        if moving * 2 != layer.width:
            yield (
                f"layer {layer.layer} rotates {layer.width} of {layer.channels} {layer.layout}, "
                f"told {rotary.rotary_dim} {rotary.layout}"
            )
            return
    # A type that rotates backwards is told so in words.
    theirs = [abs(each) for each in layer.inv_freq]
    pairs = zip(told.inv_freq, theirs, strict=False)
    apart = max(abs(a - b) / max(abs(b), 1e-5) for a, b in pairs)
    if apart > CLOSE and sorted(told.inv_freq) != sorted(theirs):
        yield f"layer {layer.layer}: an inverse frequency is {apart:.2g} apart"
    if abs(told.attention_factor - layer.amplitude) > 2e-6:
        yield f"amplitude {layer.amplitude:g}, told {told.attention_factor:g}"


def _softmax(layer: Any, group: Any) -> Iterator[str]:
    rule = group.softmax
    # What grows with the position is not 1 at the first.
    if not layer.grown and abs(rule.factor - layer.scale) > 1e-5 * layer.scale:
        yield f"softmax scale {layer.scale:g} of the usual, told {rule.factor:g}"
    if (rule.softcap or None) != layer.softcap:
        yield f"soft cap {layer.softcap}, told {rule.softcap}"
    if rule.sinks != layer.sinks:
        yield f"sinks {layer.sinks}, told {rule.sinks}"


def _summary(seen: Any) -> str:
    kinds = Counter(
        f"{layer.width} of {layer.channels} {layer.layout}" if layer.width else "no rotation"
        for layer in seen.layers
    )
    return ", ".join(f"{count} layers {kind}" for kind, count in kinds.items())


def main() -> int:
    """Compare, print, write. Exit code 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("types", nargs="*")
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.filterwarnings("ignore")
    import torch
    import transformers

    from atlas.build import MEMORY, all_types
    from atlas.probe import register

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    register()
    rows = []
    for model_type in options.types or all_types():
        verdict, why = compare(model_type)
        rows.append((model_type, verdict, why))
        print(f"{model_type}: {verdict}: {why}", flush=True)
    count = Counter(verdict for _, verdict, _ in rows)
    total = ", ".join(f"{n} {verdict}" for verdict, n in count.most_common())
    print(f"{len(rows)} types: {total}")
    if not options.types:
        head = [
            f"# Every type of transformers {transformers.__version__}, read and run",
            "",
            f"{len(rows)} types: {total}. Printed by `python -m atlas.census`.",
            "",
            "| type | verdict | seen |",
            "|---|---|---|",
        ]
        lines = [f"| {a} | {b} | {c.replace('|', '/')} |" for a, b, c in rows]
        RESULT.write_text("\n".join([*head, *lines, ""]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
