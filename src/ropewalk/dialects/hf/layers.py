"""Which layer is of which kind, which are rotated, and how far back each sees.

Kinds are transformers' own words in `layer_types` ("full_attention", "sliding_attention",
"chunked_attention", "linear_attention", ...). Where the file does not list them, the family's
pattern does. One kind with one treatment becomes one group of the spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from ropewalk.dialects.hf.defaults import (
    ContentBiasFacts,
    Every,
    Facts,
    RotaryFacts,
    Switched,
    Uniform,
    UnrotatedFacts,
    Windowed,
)
from ropewalk.dialects.hf.windows import chunk_size, two_sided, window_size
from ropewalk.dialects.values import MAX_COUNT, Notes, Section
from ropewalk.rope.spec import Length, Window
from ropewalk.short import short

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
HYBRID, HYBRID_SLIDING = "hybrid", "hybrid_sliding"
REFERENCE = "reference_sliding_attention"
SPARSE, HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"

LINEAR, RECURRENT, CROSS = "linear_attention", "recurrent", "cross_attention"

ATTENDING = frozenset(
    {FULL, SLIDING, CHUNKED, "attention", "indexed_attention", "global_attention"}
    | {HYBRID, HYBRID_SLIDING, REFERENCE, SPARSE, HEAVY, "minimax_m3_sparse", "window_attention"}
)
"""Every word for a layer that attends."""

WITHOUT = frozenset(
    {LINEAR, RECURRENT, CROSS, "mamba", "mamba2", "conv", "rwkv", "mlp", "moe", "sparse", "dense"}
)
"""Words for layers without attention."""

# The last two are transformers' own older words for layers that attend by an index.
_WORDS = {"attention": FULL, "global_attention": FULL, "*": FULL} | dict.fromkeys(
    ("deepseek_sparse_attention", "qwen_sparse_attention"), "indexed_attention"
)
_SHAPE = ("head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "sliding_window")
"""What one kind of layer has in common, of the keys that single layers may restate."""

# The 54 layers of Zamba2's default; published files list their own.
_ZAMBA2 = frozenset({6, 12, 18, 24, 30, 36, 42, 47, 51})
_NEMOTRON = {"M": "mamba", "-": "mlp", "*": FULL, "E": "moe"}


@short
@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of layer and whether its attention is rotated."""

    word: str
    rotated: bool = True

    @property
    def attends(self) -> bool:
        """Whether such a layer has attention at all."""
        return self.word not in WITHOUT


@short
@dataclass(frozen=True, slots=True)
class Layers:
    """The kinds in order of first appearance, with the layers of each (empty when unknown)."""

    groups: tuple[tuple[Kind, tuple[int, ...]], ...]


def read_layers(config: Section, facts: Facts, model_type: str, notes: Notes) -> Layers:
    """The kinds of a model's layers; raises ConfigError for lists that do not fit."""
    total = layer_count(config)
    stated = _stated_words(config, total) or _indexed_words(config, total)
    if model_type == "deepseek_v4":
        stated = stated or _compressed_words(config, total)
    words = stated or _pattern_words(config, facts, total)
    if model_type == "nemotron_h" and (pattern := config.text("hybrid_override_pattern")):
        words = tuple(_NEMOTRON.get(letter, letter) for letter in pattern[:MAX_COUNT])
    if model_type == "jamba":
        words = _jamba_words(config, total)
    if model_type == "zamba2" and not stated:
        words = tuple(HYBRID if i in _ZAMBA2 else "mamba" for i in range(total or 54))
    if model_type == "zaya" and not stated:
        words = (HYBRID,) * (total or 1)
    if model_type == "dots3_note_text" and not stated:
        words = _dots3_words(config, total)
    if isinstance(facts, UnrotatedFacts) and not facts.attends:
        words = ("mamba" if "mamba" in model_type else RECURRENT,) * (total or 1)
    _remark_on_words(config, words, notes)
    rotated = _rotated(config, facts, model_type, words, notes)
    if not stated:
        words = _words_by_rotation(config, facts, model_type, words, rotated)
    if total is None and not stated:
        # The pattern is known, the count is not: the kinds have no indices.
        kinds = dict.fromkeys(Kind(w, r) for w, r in zip(words, rotated, strict=True))
        return Layers(tuple((kind, ()) for kind in kinds))
    found: dict[Kind, list[int]] = {}
    for index, (word, rotates) in enumerate(zip(words, rotated, strict=True)):
        found.setdefault(Kind(word, rotates), []).append(index)
    return Layers(tuple((kind, tuple(layers)) for kind, layers in found.items()))


def _remark_on_words(config: Section, words: tuple[str, ...], notes: Notes) -> None:
    """Words that name no kind of layer known here; such layers are told as full attention."""
    known = ATTENDING | WITHOUT
    for word in dict.fromkeys(words):
        if word not in known:
            near = get_close_matches(word.lower(), known, 1, 0.8)
            notes.warn(
                "unknown-layer-type",
                f"{config.name('layer_types')} names {word!r} "
                f"({words.count(word)} of {len(words)} layers), which is no kind of layer that "
                "transformers 5.24 knows: it refuses the file. Told here as full attention",
                f"write {near[0]!r}, if that is meant" if near else "check the word",
            )


def _words_by_rotation(
    config: Section,
    facts: Facts,
    model_type: str,
    words: tuple[str, ...],
    rotated: tuple[bool, ...],
) -> tuple[str, ...]:
    """Families whose window goes by rotation: Llama 4 chunks the layers that are rotated,
    SmolLM3 gives a window, where one is on, to those that are not.
    """
    if model_type == "llama4_text" and chunk_size(config) is not None:
        return tuple(CHUNKED if rotates else FULL for rotates in rotated)
    if model_type == "smollm3":
        on = config.flag("use_sliding_window") and window_size(config, facts) is not None
        return tuple(SLIDING if on and not rotates else FULL for rotates in rotated)
    return words


def layer_count(config: Section) -> int | None:
    """How many layers, by any spelling of the key, or by the length of a list that has each."""
    for key in (
        "num_hidden_layers",
        "n_layer",
        "n_layers",
        "num_layers",
        "decoder_num_hidden_layers",
    ):
        if (value := config.count(key)) is not None:
            return value
    for key in ("layer_types", "layers_block_type", "no_rope_layers"):
        if listed := config.items(key):
            return len(listed)
    return None


def _stated_words(config: Section, total: int | None) -> tuple[str, ...]:
    """The kinds that the file lists, checked against the count of layers."""
    for key in ("layer_types", "layers_block_type", "block_types"):
        words = config.texts(key)
        if not words:
            continue
        if key == "block_types" and total is not None:
            # RecurrentGemma lists one turn of the cycle.
            words = tuple(words[i % len(words)] for i in range(total))
        if total is None or len(words) == total:
            pass
        elif len(words) < total or not _lists_further_layers(config, key, total, len(words)):
            # Layers that predict further tokens are listed behind the model's own.
            raise config.wrong(
                key, f"one entry for each of the {total} layers", "check num_hidden_layers"
            )
        return tuple(_WORDS.get(word, word) for word in words[:total])
    return ()


def _lists_further_layers(config: Section, key: str, total: int, listed: int) -> bool:
    """Whether the file counts the layers behind the model's own, or lists them elsewhere too."""
    if config.count("num_nextn_predict_layers", least=0) == listed - total:
        return True
    return any(
        isinstance(value, list | tuple) and len(value) == listed
        for other, value in config.values.items()
        if other != key
    )


def _indexed_words(config: Section, total: int | None) -> tuple[str, ...]:
    """Models that list the layers of one kind (Bamba, LFM2; Llama 3.2 Vision's that see images)."""
    for key, inside, other in (
        ("attn_layer_indices", FULL, "mamba"),
        ("full_attn_idxs", FULL, "conv"),
        ("cross_attention_layers", CROSS, FULL),
    ):
        listed = config.counts(key, least=0)
        if listed and total is not None:
            if max(listed) >= total:
                raise config.wrong(key, f"a list of layers from 0 to {total - 1}")
            return tuple(inside if i in listed else other for i in range(total))
    return ()


def _pattern_words(config: Section, facts: Facts, total: int | None) -> tuple[str, ...]:
    """The kinds by the family's pattern; one period where the count is unknown."""
    pattern = facts.pattern if isinstance(facts, RotaryFacts | ContentBiasFacts) else Uniform()
    match pattern:
        case Every(period=period, keys=keys, first=first, rare=rare, common=common, to_the_end=end):
            if (
                isinstance(facts, RotaryFacts)
                and facts.nope_kinds
                and window_size(config, facts) is None
            ):
                # Exaone 4 without a window: all layers attend fully and are rotated.
                return (FULL,) * (total or 1)
            for key in keys:
                period = config.count(key) or period
            turn = 0 if first else period - 1
            last = total - 1 if end and total is not None else None
            return tuple(
                rare if i % period == turn or i == last else common for i in range(total or period)
            )
        case Windowed(word=windowed):
            word = windowed if window_size(config, facts) is not None else FULL
            return (word,) * (total or 1)
        case Switched():
            if not config.flag("use_sliding_window") or window_size(config, facts) is None:
                return (FULL,) * (total or 1)
            start = _from_layer(config)
            return tuple(SLIDING if i >= start else FULL for i in range(total or start + 1))
        case Uniform():
            return (FULL,) * (total or 1)


def _from_layer(config: Section) -> int:
    """Qwen's `max_window_layers`: the first layer with a window; 0 is allowed."""
    start = config.count("max_window_layers", least=0)
    return 28 if start is None else start


def _jamba_words(config: Section, total: int | None) -> tuple[str, ...]:
    """Attention in one layer of each period, from an offset on; mamba elsewhere."""
    period = config.count("attn_layer_period") or 8
    offset = config.count("attn_layer_offset", least=0)
    offset = 4 if offset is None else offset
    return tuple(FULL if i % period == offset else "mamba" for i in range(total or period))


def _compressed_words(config: Section, total: int | None) -> tuple[str, ...]:
    """DeepSeek V4: a rate of compression for each layer, else two heavy ones and then by turns."""
    by_rate = {0: SLIDING, 4: SPARSE, 128: HEAVY}
    rates = config.counts("compress_ratios", least=0)
    if rates is None:
        return tuple(HEAVY if i < 2 or i % 2 == 0 else SPARSE for i in range(total or 4))
    if unknown := set(rates) - set(by_rate):
        raise config.wrong(
            "compress_ratios", "a list of 0, 4 and 128", f"{min(unknown)} names no kind of layer"
        )
    # The rates of layers for predicting further tokens come after those of the model itself.
    return tuple(by_rate[rate] for rate in rates[:total])


def _dots3_words(config: Section, total: int | None) -> tuple[str, ...]:
    """dots3-note: the first two layers and one in four see all, by an index unless it is off."""
    whole = FULL if config.flag("use_dsa") is False else "indexed_attention"
    if config.flag("use_sliding_window") is False:
        return (whole,) * (total or 1)
    return tuple(whole if i < 2 or i % 4 == 1 else SLIDING for i in range(total or 4))


def shaped_for(
    config: Section, facts: Facts, kind: Kind, layers: tuple[int, ...], notes: Notes
) -> Section:
    """The configuration as layers of one kind see it.

    `per_layer_config` restates keys for single layers; the first of `layers` speaks for all.
    dots3-note restates them for its sliding layers under `swa_` and the key.
    """
    stated = config.section("per_layer_config")
    if stated is not None:
        # transformers writes the numbers with leading zeros, so that they sort.
        by_layer = {str(k).lstrip("0") or "0": v for k, v in stated.values.items()}
        stated = replace(stated, values=by_layer)
        own = [stated.section(str(layer)) for layer in layers]
        shapes = [{k: s.values.get(k) for k in _SHAPE} if s else {} for s in own]
        if any(shape != shapes[0] for shape in shapes):
            notes.warn(
                "layers-of-one-kind-differ",
                f"{stated.path} gives the {len(layers)} layers of kind {kind.word} heads or "
                f"windows of several sizes; they are described by layer {layers[0]}",
                "read the file by hand where the others matter",
            )
        return _laid(config, own[0].values) if own and own[0] is not None else config
    if not isinstance(facts, RotaryFacts) or kind.word != SLIDING:
        return config
    given = {key: config.count(f"swa_{key}") for key in facts.local_shape}
    return _laid(config, {k: given[k] or default for k, default in facts.local_shape.items()})


def _laid(config: Section, keys: Mapping[str, object]) -> Section:
    """A configuration with some keys restated."""
    return replace(config, values={**config.values, **keys})


def _rotated(
    config: Section,
    facts: Facts,
    model_type: str,
    words: tuple[str, ...],
    notes: Notes,
) -> tuple[bool, ...]:
    """For each layer, whether its attention is rotated."""
    if not isinstance(facts, RotaryFacts):
        return (False,) * len(words)
    if "no_rope_layers" in config.values or model_type in ("llama4_text", "smollm3"):
        return _by_no_rope_list(config, len(words), notes)
    if facts.nope_kinds and SLIDING in words:
        return tuple(word not in facts.nope_kinds for word in words)
    return (True,) * len(words)


def _by_no_rope_list(config: Section, count: int, notes: Notes) -> tuple[bool, ...]:
    """`no_rope_layers`, in which 1 means that RoPE *is* used; empty or absent: every 4th is 0."""
    listed = config.counts("no_rope_layers", least=0)
    if not listed:
        step = config.count("no_rope_layer_interval") or 4
        notes.note(
            "no-rope-list-filled",
            f"{config.name('no_rope_layers')} is empty or absent; transformers then leaves one "
            f"layer in {step}, the last of each {step}, without position",
        )
        return tuple((i + 1) % step != 0 for i in range(count))
    if any(value > 1 for value in listed) or len(listed) != count:
        raise config.wrong("no_rope_layers", f"a list of {count} entries, each 0 or 1,")
    notes.note(
        "no-rope-list-means-rope",
        f"{config.name('no_rope_layers')}: despite its name, 1 means that the layer uses RoPE; "
        f"{listed.count(0)} of {len(listed)} layers have no position",
    )
    return tuple(value == 1 for value in listed)


def read_window(
    config: Section, facts: Facts, kind: Kind, claimed: Length, notes: Notes
) -> Window | None:
    """How far back a kind of layer sees; None for all the way."""
    if kind.word == CHUNKED:
        chunk = chunk_size(config)
        return None if chunk is None else Window(chunk, "chunked")
    if kind.word == REFERENCE:
        notes.note(
            "window-over-what-is-written",
            f"the window of {window_size(config, facts)} tokens is over generated text alone: "
            "image and prompt stay in sight at any distance",
        )
    if kind.word not in (SLIDING, HYBRID_SLIDING):
        return None
    limit = window_size(config, facts)
    if limit is None:
        return None
    # EmbeddingGemma is a Gemma 3 with this key.
    both = config.take("use_bidirectional_attention") is True
    both = both or two_sided(facts)
    window = Window(limit, "two-sided" if both else "sliding")
    if claimed.tokens is not None and window.reach >= claimed.tokens:
        notes.note(
            "inert-window",
            f"{config.name('sliding_window')} {limit} is not below the claimed length "
            f"{claimed.tokens}, so it never hides anything; it is no length of the model's",
        )
        return None
    return window


def remark_on_unused_window(config: Section, layers: Layers, facts: Facts, notes: Notes) -> None:
    """A `sliding_window` that no layer uses."""
    windowed = (SLIDING, HYBRID_SLIDING, REFERENCE, SPARSE, HEAVY)
    if any(kind.word in (SPARSE, HEAVY) for kind, _ in layers.groups):
        # Beside the compressed keys these see a window.
        config.take("sliding_window")
    if any(kind.word in windowed for kind, _ in layers.groups):
        return
    size = window_size(config, facts) if config.has("sliding_window") else None
    if size is None:
        return
    off = config.flag("use_sliding_window") is False
    why = "use_sliding_window is false" if off else "no layer of this model uses it"
    notes.note(
        "inert-window",
        f"{config.name('sliding_window')} {size} has no effect ({why}); it is no length",
    )
