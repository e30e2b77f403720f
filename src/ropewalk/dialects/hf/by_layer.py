"""Keys that state layers one by one, or by a rule of the model's own, in the words of version 5.

Published files of a code of their own list a base, a share or a kind for each layer under keys of
their own. They are brought into `layer_types` and `rope_parameters` by kind of layer, which the
other readers take; what is said of the file still names its own keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ropewalk.dialects.hf.layers import FULL, LINEAR, SLIDING, layer_count
from ropewalk.dialects.hf.unread import remark_on_slips
from ropewalk.dialects.values import MAX_COUNT, Notes, Section

_NEO, _NEO_TURNS = "attention_layers", "attention_types"
_LISTED = ("layer_rope_theta", "rope_theta")
"""Keys that may hold a base for each layer; 0 means that a layer has no position."""


def by_layer(config: Section, notes: Notes) -> Section | None:
    """The configuration with those keys in other words, None where it has none of them.

    Raises ConfigError for lists that do not fit the count of layers.
    """
    total = layer_count(config)
    config = _windowed(config, total)
    words = _words(config, total, notes)
    bases = _bases(config, words or _stated(config, total))
    if bases is None and (words is None or not config.has("swa_rope_theta")):
        if words is None and config.has("attention_window_size"):
            words = _stated(config, total)
        return None if words is None else _laid(config, words, None, notes)
    words = words or _stated(config, total)
    return _laid(config, words, _dictionaries(config, words, bases, notes), notes)


def _laid(
    config: Section,
    words: Sequence[str],
    kinds: Mapping[str, object] | None,
    notes: Notes,
) -> Section:
    values = {**config.values, "layer_types": list(words)}
    if kinds is not None:
        config.asked.update(("rope_scaling", "rope_parameters"))
        dropped = ("rope_theta", "rope_scaling", "layer_rope_theta", "swa_rope_theta")
        values = {k: v for k, v in values.items() if k not in dropped}
        values["rope_parameters"] = dict(kinds)
    used = sorted(key for key in _OWN if config.has(key) and key in config.asked)
    if not isinstance(config.values.get("rope_theta"), list | tuple):
        # One base for all lists nothing.
        used = [key for key in used if key != "rope_theta"]
    notes.note(
        "keys-by-layer",
        f"{', '.join(config.name(key) for key in used)}: layers one by one, or by a rule of "
        "the model's own; it is read here as layer_types and as rope_parameters by kind of layer",
    )
    return replace(config, values=values)


_OWN = (
    *("hybrid_layer_pattern", "attn_type_list", "linear_attn_config", "layer_group_size"),
    *("layer_rope_theta", "rope_theta", "swa_rope_theta", "partial_rotary_factors"),
    *("yarn_only_types", _NEO, _NEO_TURNS, "attention_window_size"),
)


def _words(config: Section, total: int | None, notes: Notes) -> tuple[str, ...] | None:
    """The kinds of layers by a key that only one code has."""
    for key, zero, one in (
        ("hybrid_layer_pattern", FULL, SLIDING),
        ("attn_type_list", LINEAR, FULL),
    ):
        if config.items(key) is not None:
            flags = config.counts(key, least=0) or ()
            _check_length(config, key, len(flags), total)
            if set(flags) - {0, 1}:
                raise config.wrong(key, "a list of 0 and 1, one for each layer,")
            return tuple(one if flag else zero for flag in flags[:total])
    if _NEO in config.values or _NEO_TURNS in config.values:
        return _neo_words(config, total)
    linear = config.section("linear_attn_config") if config.has("linear_attn_config") else None
    full = linear.counts("full_attn_layers") if linear is not None else None
    if linear is not None:
        remark_on_slips(linear, (), notes)
    if full is not None and linear is not None and total is not None:
        # Counted from 1.
        if max(full, default=1) > total:
            raise linear.wrong("full_attn_layers", f"a list of layers from 1 to {total}")
        return tuple(FULL if i + 1 in full else LINEAR for i in range(total))
    group = config.count("layer_group_size")
    if group is not None and total is not None and not config.has("layer_types"):
        return tuple(FULL if (i + 1) % group == 0 else LINEAR for i in range(total))
    return None


def _neo_words(config: Section, total: int | None) -> tuple[str, ...]:
    """GPT-Neo's words for each layer, or turns of them, each with a count."""
    listed = list(config.texts(_NEO) or ()) if config.has(_NEO) else []
    turns = config.items(_NEO_TURNS) or ()
    for turn in () if listed else turns:
        if not isinstance(turn, list | tuple) or len(turn) != 2 or not isinstance(turn[0], list):
            raise config.wrong(_NEO_TURNS, "a list of turns, each a list of words and a count,")
        words, count = turn
        if not isinstance(count, int) or not 0 < count <= MAX_COUNT:
            raise config.wrong(_NEO_TURNS, "a list of turns, each a list of words and a count,")
        listed += words * count
    _check_length(config, _NEO if config.has(_NEO) else _NEO_TURNS, len(listed), total)
    return tuple(SLIDING if word == "local" else FULL for word in listed[:total])


def _windowed(config: Section, total: int | None) -> Section:
    """With the window of a code that has a word of its own for it under the usual key."""
    values = dict(config.values)
    if config.has("window_size") and (_NEO in values or _NEO_TURNS in values):
        values["sliding_window"] = config.take("window_size")
    elif config.has("attention_window_size") and config.has("block_types"):
        # RecurrentGemma: every layer that attends has the window.
        turn = config.texts("block_types") or ()
        listed = [turn[i % len(turn)] for i in range(total or len(turn))]
        values["layer_types"] = [SLIDING if word == "attention" else word for word in listed]
        values["sliding_window"] = config.take("attention_window_size")
    else:
        return config
    return replace(config, values=values)


def _stated(config: Section, total: int | None) -> tuple[str, ...]:
    """`layer_types`, without those of layers for predicting further tokens at its end."""
    words = config.texts("layer_types") or ()
    return tuple(words[:total]) or (FULL,) * (total or 1)


def _bases(config: Section, words: Sequence[str]) -> tuple[float, ...] | None:
    """A base for each layer where a key lists them; 0 for no position."""
    for key in _LISTED:
        value = config.values.get(key)
        if isinstance(value, list | tuple):
            config.take(key)
            _check_length(config, key, len(value), len(words))
            part = replace(
                config,
                values={f"[{i}]": each for i, each in enumerate(value)},
                path=config.name(key),
                asked=set(),
            )
            return tuple(part.number(each, zero=True) or 0.0 for each in part.values)
    if config.has("partial_rotary_factors") or config.has("yarn_only_types"):
        base = config.number("rope_theta")
        return None if base is None else (base,) * len(words)
    return None


def _check_length(config: Section, key: str, given: int, total: int | None) -> None:
    """Lists may go on beyond the layers, for those that predict further tokens."""
    if total is not None and given < total:
        raise config.wrong(
            key, f"a list of {given}: one entry for each of the {total} layers", "check it"
        )


def _dictionaries(
    config: Section, words: Sequence[str], bases: Sequence[float] | None, notes: Notes
) -> dict[str, object]:
    """A rope dictionary for each kind of layer, None for a kind without position."""
    if bases is None:
        top, local = config.number("rope_theta"), config.number("swa_rope_theta")
        bases = tuple((local if word == SLIDING else top) or 0.0 for word in words)
    shares = (
        config.numbers("partial_rotary_factors") if config.has("partial_rotary_factors") else None
    )
    scaling = config.section("rope_scaling") or config.section("rope_parameters")
    only = config.texts("yarn_only_types") if config.has("yarn_only_types") else None
    found: dict[str, object] = {}
    for index, word in enumerate(words):
        made: dict[str, object] | None = None
        if bases[index]:
            scaled = scaling is not None and (only is None or word in only)
            made = dict(scaling.values) if scaled and scaling is not None else {}
            made |= {"rope_theta": bases[index]}
            made.setdefault("rope_type", made.pop("type", "default"))
            if shares is not None and index < len(shares):
                made["partial_rotary_factor"] = shares[index]
            elif (share := config.number("partial_rotary_factor")) is not None:
                made["partial_rotary_factor"] = share
        if word in found and found[word] != made:
            notes.warn(
                "layers-of-one-kind-differ",
                f"layers of kind {word} have bases or shares of several sizes (layer {index} is "
                "unlike those before it); they are described by the first",
                "read the file by hand where the others matter",
            )
            continue
        found.setdefault(word, made)
    return found
