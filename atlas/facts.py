"""What an observation says of a type, in the words of `ropewalk.dialects.hf.defaults`.

A record has the fields that are not the defaults of those classes.
"""

from __future__ import annotations

import copy
from typing import Any

SCALE_KEYS = (
    *("attention_multiplier", "query_pre_attn_scalar", "attention_scale", "attn_scale"),
    *("scale_attn", "qk_scale_factor"),
)
NESTED = {
    "full_attention": {"rope_type": "default", "rope_theta": 77_777.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 55_555.0},
}


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
    found = unrotated(said, seen, claimed) | ({} if usual else {"softmax": scales.pop()})
    if any(layer.bias == "content" for layer in seen.layers):
        found["content"] = True
    if any(layer.sinks for layer in seen.layers):
        found["sinks"] = True
    return found


def unrotated(said: dict[str, Any], seen: Any, claimed: int | None) -> dict[str, Any]:
    """The kind of encoding of a type that rotates nothing."""
    found: dict[str, Any] = {"claimed": claimed}
    if seen.absolute == "learned":
        if seen.first_row:
            found |= {"offset": seen.first_row, "offset_counted": seen.rows == claimed}
        return {"encoding": "learned", "facts": found}
    if seen.absolute:
        return {"encoding": "sinusoidal", "facts": found}
    biases = {layer.bias for layer in seen.layers}
    if "linear" in biases:
        return {"encoding": "alibi", "facts": found}
    if "content" in biases:
        return {"encoding": "content", "facts": found}
    if "other" in biases:
        return {"encoding": "buckets", "facts": buckets(said, seen)}
    if not seen.layers:
        found["attends"] = False
    return {"encoding": "none", "facts": found}


def buckets(said: dict[str, Any], seen: Any) -> dict[str, Any]:
    """A learned bias by distance: how many numbers, and from which distance on they are one."""
    sizes = {
        name: said[key]
        for name, ending in (("buckets", "num_buckets"), ("max_distance", "max_distance"))
        for key in said
        if key.endswith(ending) and isinstance(said[key], int)
    }
    return sizes | {"scaled": all(abs(layer.scale - 1.0) < 1e-5 for layer in seen.layers)}


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
    rope = said.get("rope_parameters") or before_5(said)
    if (
        any(isinstance(v, dict) for v in rope.values())
        or rope.get("rope_type", "default") != "default"
    ):
        found["rope_default"] = rope
        if (base := base_alone(text)) is not None:
            found["base"] = base
    elif isinstance(rope.get("rope_theta"), int | float):
        found["base"] = float(rope["rope_theta"])
    found.update(heads(text, seen))
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
    grown = [layer for layer in seen.layers if layer.grown]
    if grown:
        # How much at the last position that was asked for.
        found["grown"] = round(grown[0].grown[-1], 6)
    found.update(keys(text, seen))
    if found.get("fixed_schedule"):
        found.pop("partial", None)
    found.update(pattern(text, seen))
    found.update(scale(text, seen))
    return found


def before_5(said: dict[str, Any]) -> dict[str, Any]:
    """The rope dictionary of a configuration of version 4, whose base lies beside it."""
    scaling = said.get("rope_scaling") or {}
    base = said.get("rope_theta")
    return {**scaling, **({"rope_theta": base} if base is not None else {})}


def base_alone(text: Any) -> float | None:
    """The base of a dictionary that states none, where the class has another by default."""
    there = tried(text, rope_parameters={"rope_type": "default"})
    if there is None:
        return None
    bases = {base_of(layer) for layer in there.layers if layer.width}
    return bases.pop() if len(bases) == 1 else None


def heads(text: Any, seen: Any) -> dict[str, Any]:
    """`head_dim` where the class has a number for it, and that of layers without a window."""
    if isinstance(text.to_dict().get("qk_rope_head_dim"), int):
        return {}
    if len({layer.channels for layer in seen.layers}) == 1:
        return {} if (head := fixed_head(text)) is None else {"head_dim": head}
    words = seen.config.get("layer_types") or []
    kinds = {words[layer.layer]: layer.channels for layer in seen.layers if words}
    if set(kinds) == {"full_attention", "sliding_attention"}:
        return {"head_dim": kinds["sliding_attention"], "full_head_dim": kinds["full_attention"]}
    return {}


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
    words = listed(text)
    if not words or all(len(set(each)) == 1 for each in words.values()):
        only = next(iter(words.values()))[0] if words else "full_attention"
        shape = windows(text, seen, only)
        return {"pattern": shape} if shape else {}
    from atlas.order import dealt

    found = dealt(words)
    if found is None:
        return {"unfitted": max(words.values(), key=len)[:12]}
    keys = [
        key
        for key in PERIOD_KEYS
        if (there := listed(text, **{key: 3})) and (dealt(there) or {}).get("period") == 3
    ]
    return {"pattern": found | ({"keys": keys} if keys and found["period"] != 3 else {})}


PERIOD_KEYS = (
    *("sliding_window_pattern", "_sliding_window_pattern", "full_attention_interval"),
    *("global_attn_every_n_layers", "attn_layer_period"),
)


def listed(text: Any, **changes: Any) -> dict[int, list[str]]:
    """The kinds of layers that a class lists by itself, by the count of layers."""
    words: dict[int, list[str]] = {}
    for count in range(8, 26):
        try:
            made = type(text)(num_hidden_layers=count, **changes)
        except Exception:  # noqa: BLE001, S112 - counts that a class refuses say nothing
            continue
        found = getattr(made, "layer_types", None)
        if isinstance(found, list) and len(found) == count:
            words[count] = found
    return words


def windows(text: Any, seen: Any, word: str) -> dict[str, Any]:
    """Whether layers that are all of one kind have a window, by default or where one is stated."""
    everywhere = {"kind": "windowed"} | ({"word": word} if word not in PLAIN else {})
    if seen.layers and all(layer.window for layer in seen.layers):
        return everywhere
    if "sliding_window" not in text.to_dict():
        return {}
    said = {"sliding_window": 96, "layer_types": ...}
    if all(windowed := windows_of(text, said)):
        return everywhere
    if not any(windowed):
        windowed = windows_of(text, said | {"use_sliding_window": True, "max_window_layers": 2})
        if windowed[2:] and all(windowed[2:]) and not any(windowed[:2]):
            return {"kind": "switched"}
    return {}


PLAIN = ("full_attention", "sliding_attention")


def windows_of(text: Any, changes: dict[str, Any]) -> list[bool]:
    """For each layer whether it has a window of 96 tokens with these changes."""
    there = tried(text, **changes)
    return [layer.window == 96 for layer in there.layers] if there is not None else []


def tried(text: Any, **changes: Any) -> Any:
    """A small instance with changes, None where its class refuses them."""
    from atlas.observe import watched
    from atlas.shapes import small

    try:
        return watched(small(text, **changes))
    except TimeoutError:
        raise
    except Exception:  # noqa: BLE001 - what a class refuses is not read by it
        return None


def keys(text: Any, seen: Any) -> dict[str, Any]:
    """Which keys beside the rope dictionary state the base and the rotated share, if not the
    usual ones; whether the class has a table of its own that no key changes.
    """
    found = {} if by_kind(text) else base_keys(text, seen)
    if isinstance(text.to_dict().get("qk_rope_head_dim"), int):
        return found
    shares = [key for key, value in SHARE_KEYS.items() if narrows(text, seen, key, value)]
    if shares != ["partial_rotary_factor"]:
        found["partial_keys"] = shares
    if not by_kind(text) and not narrows(text, seen, "rope_parameters", 0.75):
        found["inner_share"] = False
    return found


def by_kind(text: Any) -> bool:
    """Whether the class has a rope dictionary for each kind of layer."""
    rope = text.to_dict().get("rope_parameters") or {}
    return any(isinstance(each, dict) for each in rope.values())


def base_keys(text: Any, seen: Any) -> dict[str, Any]:
    """The keys that state the base, if not the usual one; whether anything changes the angles."""
    from atlas.hints import FIXED

    found: dict[str, Any] = {}
    if "rope_parameters" in FIXED.get(text.model_type, {}):
        # It is not built without one, which beats what stands beside it.
        return found
    # A class may have a whole dictionary by default, which beats what stands beside it.
    bare: dict[str, Any] = {}
    rope = text.to_dict().get("rope_parameters") or {}
    if rope.get("rope_type", "default") != "default":
        bare = {"rope_parameters": {"rope_type": "default"}}
        seen = tried(text, **copy.deepcopy(bare)) or seen
    plain = [layer.inv_freq for layer in seen.layers if layer.width]
    bases = [
        key
        for key in BASE_KEYS
        if (there := tried(text, **copy.deepcopy(bare), **{key: 54_321.0})) is not None
        and (with_it := [layer.inv_freq for layer in there.layers if layer.width])
        and all(a != b for a, b in zip(plain, with_it, strict=False))
    ]
    if bases not in ([], ["rope_theta"]):
        found["base_keys"] = bases
    if not bases:
        rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 54_321.0}
        there = tried(text, rope_parameters=rope)
        if there is not None and [layer.inv_freq for layer in there.layers if layer.width] == plain:
            found |= {"base_keys": [], "fixed_schedule": True}
    return found


BASE_KEYS = ("rope_theta", "rotary_emb_base", "global_rope_theta")
SHARE_KEYS = {
    "partial_rotary_factor": 0.75,
    "rotary_pct": 0.75,
    "rope_pct": 0.75,
    "rotary_emb_fraction": 0.75,
    "rotary_dim": 16,
}


def narrows(text: Any, seen: Any, key: str, value: float) -> bool:
    """Whether as many channels are rotated as a key says."""
    there = tried(text, **{key: value})
    if there is None:
        return False
    return (
        any(
            layer.width == (value if key == "rotary_dim" else int(layer.channels * value))
            for layer in there.layers
            if layer.width
        )
        and there.layers != seen.layers
    )


def scale(text: Any, seen: Any) -> dict[str, Any]:
    """What the softmax scale is by default, over head_dim^-0.5, and which key states it."""
    from atlas.observe import watched
    from atlas.shapes import small

    found: dict[str, Any] = {}
    scales = {float(f"{layer.scale:.6g}") for layer in seen.layers}
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
            # Of the usual scale, or in its place.
            of_usual = abs(one - float(said[key])) < 1e-5 * one
            found["factor_key" if of_usual else "scale_key"] = key
            found["scale"] = float(said[key])
        elif abs(other / one - 0.5) < 1e-5:
            found["scalar_key"] = key
            found["scalar"] = float(said[key])
    if not found and len(scales) == 1 and abs((only := scales.pop()) - 1.0) > 1e-6:
        found["unscaled"] = float(f"{only:.6g}")
    return found


def nested(text: Any, model_type: str) -> str:
    """What becomes of rope_parameters by kind of layer: computed, a base, or what it raises.

    "" for classes that have such dictionaries under other words.
    """
    if by_kind(text) and not {*text.to_dict()["rope_parameters"]} <= {*NESTED}:
        return ""
    from atlas.observe import observe

    try:
        there = observe(model_type, rope_parameters=copy.deepcopy(NESTED))
    except TimeoutError:
        raise
    except Exception as error:  # noqa: BLE001 - what it raises is the observation
        return f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
    bases = sorted({base_of(layer) for layer in there.layers if layer.width})
    wanted = [float(str(each["rope_theta"])) for each in NESTED.values()]
    if bases and all(any(abs(b / w - 1) < 1e-3 for w in wanted) for b in bases):
        return "computed"
    return "base " + ", ".join(f"{b:.10g}" for b in bases) if bases else "nothing rotated"


def older(text: Any) -> str:
    """What becomes of version 4's keys, a base and a linear rope_scaling: as for `nested`.

    Classes with a dictionary for each kind of layer have rules of their own, in `families`.
    """
    from atlas.observe import watched
    from atlas.shapes import small

    if by_kind(text):
        return "computed"
    scaling = {"rope_type": "linear", "type": "linear", "factor": 4.0}
    try:
        there = watched(small(text, rope_theta=54_321.0, rope_scaling=scaling))
    except TimeoutError:
        raise
    except Exception as error:  # noqa: BLE001 - what it raises is the observation
        return f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
    rotated = [layer for layer in there.layers if layer.width]
    if all(abs(abs(layer.inv_freq[0]) - 0.25) < 1e-4 for layer in rotated):
        return "computed"
    bases = sorted({base_of(layer) for layer in rotated})
    return "base " + ", ".join(f"{b:.10g}" for b in bases) if bases else "nothing rotated"


def base_of(layer: Any) -> float:
    """The base by the second pair of a plain schedule, to four digits."""
    second = abs(layer.inv_freq[1])
    return float(f"{second ** (-layer.width / 2):.4g}")
