"""Observe every type of the installed transformers and write what the reader takes from it.

    python -m atlas.build [TYPE ...] [--check]

Without a type all of them, some minutes on one core: `src/ropewalk/dialects/hf/atlas/RELEASE.json`
is written anew and what changed is printed. With types their records alone are made anew. `--check`
writes nothing and exits with 1 where something changed.
"""

from __future__ import annotations

import argparse
import copy
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
SECONDS = 40
MEMORY = 8 << 30
SCALE_KEYS = (
    "attention_multiplier",
    "query_pre_attn_scalar",
    "attention_scale",
    "attn_scale",
    "scale_attn",
)
NESTED = {
    "full_attention": {"rope_type": "default", "rope_theta": 77_777.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 55_555.0},
}


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


def record(model_type: str) -> dict[str, Any]:
    """What the reader takes of one type: its text type and facts, or why there are none."""
    from atlas.observe import observe
    from atlas.shapes import text_of

    found: dict[str, Any] = {"text": model_type}
    try:
        with limited(SECONDS):
            text = text_of(model_type)
            found["text"] = text.model_type
            found.update(facts(text, observe(model_type)))
            if found.get("encoding") == "rotary":
                found["nested"] = nested(model_type)
    except Exception as error:  # noqa: BLE001 - whatever a class does is an observation
        found["unseen"] = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return found


def facts(text: Any, seen: Any) -> dict[str, Any]:
    """The facts of an observation, in the words of `ropewalk.dialects.hf.defaults`."""
    from atlas.shapes import CLAIMED

    said = text.to_dict()
    claimed = next(
        (said[k] for k in CLAIMED if isinstance(said.get(k), int)),
        None,
    )
    rotated = [layer for layer in seen.layers if layer.width]
    if rotated:
        return {"encoding": "rotary", "facts": rotary(text, said, seen, claimed)}
    scales = {layer.scale for layer in seen.layers}
    usual = len(scales) != 1 or abs(max(scales) - 1.0) < 1e-6
    return unrotated(seen, claimed) | ({} if usual else {"softmax": scales.pop()})


def unrotated(seen: Any, claimed: int | None) -> dict[str, Any]:
    """The kind of encoding of a type that rotates nothing."""
    if seen.absolute == "learned":
        found: dict[str, Any] = {"claimed": claimed}
        if seen.first_row:
            found |= {"offset": seen.first_row, "offset_counted": seen.rows == claimed}
        return {"encoding": "learned", "facts": found}
    if seen.absolute:
        return {"encoding": "sinusoidal", "facts": {"claimed": claimed}}
    if any(layer.bias == "linear" for layer in seen.layers):
        return {"encoding": "alibi", "facts": {"claimed": claimed}}
    if not seen.layers:
        return {"unseen": "its attention goes past transformers' attention functions"}
    return {"encoding": "none", "facts": {"claimed": claimed}}


def rotary(text: Any, said: dict[str, Any], seen: Any, claimed: int | None) -> dict[str, Any]:
    """The fields of RotaryFacts that are not its defaults."""
    rotated = [layer for layer in seen.layers if layer.width]
    found: dict[str, Any] = {"claimed": claimed}
    layouts = {layer.layout for layer in rotated}
    if layouts == {"interleaved"}:
        found["layout"] = "interleaved"
    latent = isinstance(said.get("qk_rope_head_dim"), int)
    if latent:
        found["mla"] = True
    elif len({(layer.width, layer.channels) for layer in rotated}) == 1:
        share = rotated[0].width / rotated[0].channels
        if share != 1.0:
            found["partial"] = share
    if not latent and any(layer.start for layer in rotated):
        found["trailing"] = True
    rope = said.get("rope_parameters") or {}
    if (
        any(isinstance(v, dict) for v in rope.values())
        or rope.get("rope_type", "default") != "default"
    ):
        found["rope_default"] = rope
    elif isinstance(rope.get("rope_theta"), int | float):
        found["base"] = float(rope["rope_theta"])
    if (head := fixed_head(text)) is not None:
        found["head_dim"] = head
    if any(layer.sinks for layer in seen.layers):
        found["sinks"] = True
    if all(angle <= 0 for layer in rotated for angle in layer.inv_freq):
        found["backwards"] = True
    caps = {layer.softcap for layer in seen.layers} - {None}
    if len(caps) == 1:
        found["softcap"] = caps.pop()
    words = seen.config.get("layer_types") or []
    if len(words) > max(layer.layer for layer in seen.layers):
        kinds = {words[layer.layer] for layer in rotated}
        sunk = {words[each.layer] for each in seen.layers if each.sinks}
        if sunk and sunk != {words[each.layer] for each in seen.layers}:
            found["sink_kinds"] = sorted(sunk)
        if still := sorted({words[each.layer] for each in seen.layers} - kinds):
            found["nope_kinds"] = still
    window = said.get("sliding_window")
    if isinstance(window, int) and any(each.window for each in seen.layers):
        found["window"] = window
    found.update(pattern(text, seen))
    found.update(scale(text, seen))
    return found


def fixed_head(text: Any) -> int | None:
    """`head_dim` where the class has a number for it, whatever the width of the model."""
    head = getattr(text, "head_dim", None)
    width = next(
        (k for k in ("hidden_size", "n_embd", "d_model") if isinstance(text.to_dict().get(k), int)),
        None,
    )
    if not isinstance(head, int) or width is None:
        return None
    try:
        wider = type(text)(**{width: 2 * getattr(text, width)})
    except Exception:  # noqa: BLE001 - a class that insists on its width has no say here
        return head
    return head if getattr(wider, "head_dim", None) == head else None


def pattern(text: Any, seen: Any) -> dict[str, Any]:
    """How the class deals kinds to layers where a file lists none."""
    from atlas.order import dealt

    words: dict[int, list[str]] = {}
    for count in range(8, 26):
        try:
            made = type(text)(num_hidden_layers=count)
        except Exception:  # noqa: BLE001, S112 - counts that a class refuses say nothing
            continue
        listed = getattr(made, "layer_types", None)
        if isinstance(listed, list) and len(listed) == count:
            words[count] = listed
    windowed = [layer for layer in seen.layers if layer.window]
    if not words or all(len(set(each)) == 1 for each in words.values()):
        only = next(iter(words.values()))[0] if words else ""
        if windowed and len(windowed) == len(seen.layers):
            return {"pattern": {"kind": "windowed"}}
        return {} if only in ("", "full_attention") else {"pattern": {"kind": "windowed"}}
    found = dealt(words)
    return {"pattern": found} if found else {"unfitted": max(words.values(), key=len)[:12]}


def scale(text: Any, seen: Any) -> dict[str, Any]:
    """What the softmax scale is by default, over head_dim^-0.5, and which key states it."""
    from atlas.observe import watched
    from atlas.shapes import small

    found: dict[str, Any] = {}
    scales = {layer.scale for layer in seen.layers}
    said = text.to_dict()
    for key in SCALE_KEYS:
        if not isinstance(said.get(key), int | float) or isinstance(said.get(key), bool):
            continue
        value = float(said[key]) * 4.0
        try:
            there = watched(small(text, **{key: value}))
        except Exception:  # noqa: BLE001, S112 - a key that cannot be changed says nothing
            continue
        one, other = seen.layers[0].scale, there.layers[0].scale
        if abs(other / one - 4.0) < 1e-5:
            found["scale_key"] = key
            found["scale"] = float(said[key])
        elif abs(other / one - 0.5) < 1e-5:
            found["scalar_key"] = key
            found["scalar"] = float(said[key])
    if not found and len(scales) == 1 and abs((only := scales.pop()) - 1.0) > 1e-6:
        found["unscaled"] = only
    return found


def nested(model_type: str) -> str:
    """What becomes of rope_parameters by kind of layer: computed, a base, or what it raises."""
    from atlas.observe import observe

    try:
        there = observe(model_type, rope_parameters=copy.deepcopy(NESTED))
    except Exception as error:  # noqa: BLE001 - what it raises is the observation
        return f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
    bases = sorted({base_of(layer) for layer in there.layers if layer.width})
    wanted = [float(str(each["rope_theta"])) for each in NESTED.values()]
    if bases and all(any(abs(b / w - 1) < 1e-3 for w in wanted) for b in bases):
        return "computed"
    return "base " + ", ".join(f"{b:.10g}" for b in bases) if bases else "nothing rotated"


def base_of(layer: Any) -> float:
    """The base by the second pair of a plain schedule, to four digits."""
    second = abs(layer.inv_freq[1])
    return float(f"{second ** (-layer.width / 2):.4g}")


def build(types: list[str], *, say: bool = True) -> dict[str, Any]:
    """The records of these types by text type, and the text type of every outer one."""
    found: dict[str, Any] = {}
    outer: dict[str, str] = {}
    for model_type in types:
        made = record(model_type)
        text = made.pop("text")
        outer[model_type] = text
        if text not in found or "unseen" in found[text]:
            found[text] = made
        if say:
            print(model_type, json.dumps(made), flush=True)
    named = {k: v for k, v in outer.items() if k != v}
    return {"types": dict(sorted(found.items())), "text": named}


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
    made = build(options.types or all_types())
    release = ".".join(transformers.__version__.split(".")[:2])
    path = PLACE / f"{release}.json"
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"types": {}}
    if options.types:
        made = {
            "types": dict(sorted({**old["types"], **made["types"]}.items())),
            "text": {**old.get("text", {}), **made["text"]},
        }
    changed = sorted(
        name
        for name in {*old["types"], *made["types"]}
        if old["types"].get(name) != made["types"].get(name)
    )
    for name in changed:
        print(f"{name}: {old['types'].get(name)} -> {made['types'].get(name)}")
    if options.check:
        return 1 if changed else 0
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
