"""Hugging Face configurations: `config.json`, version 4 and version 5 spelling, to `PositionSpec`.

The rules are those of transformers 5.24, which are not imported: what its classes take for
granted is in `families`, and every value says whether the file or a default gave it. Nothing a
checkpoint brings is ever run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ropewalk.dialects.hf.attention import (
    read_softmax,
    read_unrotated,
    remark_on_content,
    sinks_of,
    unrotated_softmax,
    usable_rows,
)
from ropewalk.dialects.hf.by_layer import by_layer
from ropewalk.dialects.hf.defaults import ContentFacts, Facts, LearnedFacts, RotaryFacts
from ropewalk.dialects.hf.family import ConfigSource, Family, find_family, vocabulary_of
from ropewalk.dialects.hf.layers import (
    CROSS,
    HYBRID_SLIDING,
    SLIDING,
    Kind,
    Layers,
    read_layers,
    read_window,
    remark_on_unused_window,
    shaped_for,
)
from ropewalk.dialects.hf.length_keys import Lengths, read_lengths
from ropewalk.dialects.hf.measured import BASE, RELEASE, adds_by_content, nested_outcome
from ropewalk.dialects.hf.rope import RopeKeys, select_rope
from ropewalk.dialects.hf.rotation import read_rotary
from ropewalk.dialects.hf.unread import remark_on_unread
from ropewalk.dialects.record import read_record
from ropewalk.dialects.values import Notes, Section, load_json
from ropewalk.errors import ConfigError, ScheduleError
from ropewalk.rope.spec import (
    PLAIN_SOFTMAX,
    Encoding,
    GroupKeys,
    LayerGroup,
    Length,
    NoPositionSpec,
    PositionSpec,
    Recurrent,
    SoftmaxRule,
    Source,
    SourceKind,
)

__all__ = ["load_json", "read_config"]

OLMO3_BASE = 500_000.0
"""The default of OLMo 3's class, which its sliding layers get."""

_WITHOUT_ORDER = frozenset({"mlp", "moe", CROSS})
"""Layers that neither attend to text nor carry a state: they say nothing of position."""


def read_config(
    config: Mapping[str, object],
    tokenizer_config: Mapping[str, object] | None = None,
    *,
    where: str = "config.json",
    kind: SourceKind = SourceKind.CONFIG,
) -> PositionSpec:
    """What a configuration says of position.

    `config` is the parsed `config.json`, `tokenizer_config` the parsed `tokenizer_config.json`
    where there is one; `where` names the file in messages. Partial files are read as far as they
    go: what is missing is then `IncompleteRotary`, not a guess.

    Raises ConfigError, naming file, key and value, for values that are missing where nothing
    can stand in for them, or impossible, and for a file that says nothing about position.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(f"{where}: a configuration is a JSON object, not {type(config).__name__}")
    tokenizer = None
    if tokenizer_config is not None:
        tokenizer = Section(tokenizer_config, "tokenizer_config.json")
    return _read(Section(config, where), None, tokenizer, kind)


def read_again(source: ConfigSource, config: Mapping[str, object]) -> PositionSpec:
    """What another configuration of the same model says, without finding its family once more.

    The notes on the family are those of the first reading.
    """
    whole = replace(source.whole, values=config)
    return _read(whole, source.family.over(whole), None, source.kind)


def read_family(family: Family) -> PositionSpec:
    """What the text model's section of a configuration says, by itself."""
    return _read(family.config, family, None, SourceKind.CONFIG)


def _read(
    whole: Section, family: Family | None, tokenizer: Section | None, kind: SourceKind
) -> PositionSpec:
    notes = Notes()
    _remark_on_endless_numbers(whole.values, notes)
    record = read_record(whole, notes)
    family = family or find_family(whole, notes)
    if family.facts is None or isinstance(family.facts, ContentFacts):
        spec = _lengths_only(family, tokenizer, notes)
    elif isinstance(family.facts, RotaryFacts):
        spec = _rotary_spec(family, family.facts, tokenizer, notes)
    else:
        spec = _unrotated_spec(family, family.facts, tokenizer, notes)
    remark_on_unread(family.config, family.model_type, notes, latent=family.latent)
    spec = replace(spec, findings=tuple(notes.findings))
    source = ConfigSource(
        kind=kind,
        keys=spec.source.keys,
        latent=family.latent,
        vocabulary=vocabulary_of(family.config.values, whole.values),
        whole=whole,
        family=family,
    )
    return replace(spec, extended=record, source=source)


def _remark_on_endless_numbers(config: Mapping[str, object], notes: Notes) -> None:
    """Infinity and NaN, which Python writes and reads and JSON does not have."""
    found: list[str] = []
    waiting: list[tuple[str, object]] = list(config.items())
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend(value.items())
        elif isinstance(value, list | tuple):
            waiting.extend((key, item) for item in value)
        elif isinstance(value, float) and not math.isfinite(value) and key not in found:
            found.append(key)
    if found:
        notes.note(
            "not-strict-json",
            f"{', '.join(sorted(found))} holds Infinity or NaN, which JSON does not have: Python "
            "reads the file, and a strict parser stops there",
            "write a large finite number where an engine cannot load the file",
        )


def _rotary_spec(
    family: Family, facts: RotaryFacts, tokenizer: Section | None, notes: Notes
) -> PositionSpec:
    """The spec of a family whose attention rotates queries and keys."""
    own = None if facts.local is not None else by_layer(family.config, notes)
    family = replace(family, config=own or family.config)
    config, model_type = family.config, family.model_type
    keys = select_rope(config, facts, model_type, notes)
    lengths = read_lengths(config, keys.main, keys.stated, facts, model_type, tokenizer, notes)
    layers = read_layers(config, facts, model_type, notes)
    groups: list[LayerGroup] = []
    read: list[GroupKeys] = []
    for kind, indices in layers.groups:
        if kind.word in _WITHOUT_ORDER:
            _remark_on_mlp(kind, indices, notes)
            continue
        seen = replace(family, config=shaped_for(config, facts, kind, indices, notes))
        encoding, softmax = _rotary_kind(kind, seen, facts, keys, lengths, notes)
        window = read_window(seen.config, facts, kind, lengths.claimed, notes)
        groups.append(LayerGroup(_group_name(kind, layers), indices, encoding, window, softmax))
        rope = keys.serving(kind.word)
        told = {} if rope is None else rope.values
        nested = own is None and rope is not None and kind.word in keys.by_kind
        read.append(GroupKeys(kind.word, told, nested))
    remark_on_unused_window(config, layers, facts, notes)
    _remark_on_family(family, facts, layers, lengths, notes)
    _remark_on_class(family, keys, lengths, notes)
    if own is None:
        _remark_on_nested(family, keys, notes)
    spec = _spec(family, keys.spelling, groups, lengths, notes)
    return replace(spec, source=Source(keys=tuple(read)))


def _rotary_kind(
    kind: Kind, family: Family, facts: RotaryFacts, keys: RopeKeys, lengths: Lengths, notes: Notes
) -> tuple[Encoding, SoftmaxRule]:
    """Encoding and softmax rule of one kind of layer."""
    if not kind.attends:
        return Recurrent(kind.word), PLAIN_SOFTMAX
    rope = keys.serving(kind.word)
    served = rope if rope is not None else keys.main
    try:
        rotary = read_rotary(
            family.config,
            served,
            facts,
            family.model_type,
            lengths.claimed,
            nested=kind.word in keys.by_kind,
            local=kind.word in (SLIDING, HYBRID_SLIDING),
            notes=notes,
        )
    except ScheduleError as error:
        where = family.config.where
        place = f"{where}: {served.path}" if served.values else where
        raise ConfigError(f"{place}: {error}") from error
    rotated = kind.rotated and rope is not None
    softmax = read_softmax(
        family.config,
        served,
        facts,
        family.model_type,
        rotary.scaling,
        rotary.head_dim,
        rotated=rotated,
    )
    softmax = replace(softmax, sinks=sinks_of(family.config, kind.word, facts))
    return (rotary if rotated else NoPositionSpec()), softmax


def _unrotated_spec(
    family: Family, facts: Facts, tokenizer: Section | None, notes: Notes
) -> PositionSpec:
    """The spec of a family that tells position another way, or not at all."""
    config, model_type = by_layer(family.config, notes) or family.config, family.model_type
    nothing = Section({}, config.where, "")
    lengths = read_lengths(config, nothing, True, facts, model_type, tokenizer, notes)
    layers = read_layers(config, facts, model_type, notes)
    encoding = read_unrotated(config, facts, lengths.claimed, notes)
    softmax = unrotated_softmax(config, facts, model_type)
    if isinstance(facts, LearnedFacts) and facts.offset_counted and lengths.claimed.tokens:
        rows = usable_rows(facts, lengths.claimed)
        source = f"{lengths.claimed.source} less {facts.offset} rows that serve no position"
        lengths = Lengths(
            Length(rows, source, lengths.claimed.stated), lengths.trained, lengths.others
        )
    if adds_by_content(model_type):
        remark_on_content(config, model_type, notes)
    groups: list[LayerGroup] = []
    for kind, indices in layers.groups:
        if kind.word in _WITHOUT_ORDER:
            _remark_on_mlp(kind, indices, notes)
            continue
        window = read_window(config, facts, kind, lengths.claimed, notes)
        name = _group_name(Kind(kind.word), layers)
        if kind.attends:
            groups.append(LayerGroup(name, indices, encoding, window, softmax))
        else:
            groups.append(LayerGroup(name, indices, Recurrent(_state(kind, model_type))))
    remark_on_unused_window(config, layers, facts, notes)
    return _spec(family, "no rotary encoding", groups, lengths, notes)


def _lengths_only(family: Family, tokenizer: Section | None, notes: Notes) -> PositionSpec:
    """A file that names lengths and not the encoding: no groups, and a remark says so."""
    nothing = Section({}, family.config.where, "")
    facts = family.facts or RotaryFacts(base=None)
    if family.facts is not None:
        remark_on_content(family.config, family.model_type, notes)
    lengths = read_lengths(family.config, nothing, True, facts, family.model_type, tokenizer, notes)
    return _spec(family, "encoding unknown", [], lengths, notes)


def _spec(
    family: Family, spelling: str, groups: list[LayerGroup], lengths: Lengths, notes: Notes
) -> PositionSpec:
    """Everything together."""
    part = f", {family.config.path}" if family.config.path else ""
    return PositionSpec(
        model_type=family.model_type or "unknown",
        format=f"Hugging Face config, {spelling}{part}",
        groups=tuple(groups),
        trained=lengths.trained,
        claimed=lengths.claimed,
        other_lengths=lengths.others,
        findings=tuple(notes.findings),
    )


def _group_name(kind: Kind, layers: Layers) -> str:
    """A short name: "all layers", "sliding attention", "full attention, no position"."""
    if len(layers.groups) == 1:
        return "all layers"
    words = kind.word.replace("_", " ")
    return words if kind.rotated or not kind.attends else f"{words}, no position"


def _state(kind: Kind, model_type: str) -> str:
    """The kind of state a layer without attention carries."""
    mamba = model_type.startswith(("granitemoe", "jamba", "mamba", "nemotron", "zamba"))
    return "mamba" if mamba and kind.word == "linear_attention" else kind.word


def _remark_on_mlp(kind: Kind, indices: tuple[int, ...], notes: Notes) -> None:
    """Layers left out of the groups."""
    notes.note(
        "layers-without-order",
        f"{len(indices)} layers see images alone, so they are in no group"
        if kind.word == CROSS
        else f"{len(indices)} layers are {kind.word} only: no attention and no state, so they are "
        "in no group",
    )


def _remark_on_class(family: Family, keys: RopeKeys, lengths: Lengths, notes: Notes) -> None:
    """What the configuration class of one model type does with keys that look plain."""
    config = family.config
    match family.model_type:
        case "olmo3":
            top, sliding = config.number("rope_theta"), keys.by_kind.get(SLIDING)
            nested = sliding is not None and sliding.has("rope_theta")
            if top is not None and top != OLMO3_BASE and not nested:
                notes.warn(
                    "sliding-base-lost",
                    f"{config.name('rope_theta')} is {top:.10g}; transformers 5.24 gives it to "
                    f"the full layers alone and rotates the sliding ones by {OLMO3_BASE:.10g}, "
                    "where release 4.57 gives it to all; described here as in 4.57",
                    "state rope_theta in rope_parameters.sliding_attention",
                )
        case "zamba2" if config.flag("use_long_context") and lengths.claimed.tokens != 16384:
            notes.warn(
                "claim-overruled",
                f"{config.name('use_long_context')} is true: transformers sets "
                "max_position_embeddings to 16384, whatever the file says",
                "state 16384, or turn use_long_context off",
            )
        case "moonshine" | "moonshine_streaming":
            notes.note("decoder-only", "the layers are those of the decoder")
        case "deepseek_v4":
            notes.note(
                "keys-of-compressed-tokens",
                "layers with compression see the last tokens of the window and one key for each "
                "4 or 128 tokens before them, which stands at the first position of its tokens; "
                "keys are values too, so the output is rotated back at the query's position",
            )
        case "embedding_gemma2_text":
            notes.note(
                "window-both-ways",
                "an encoder's window lies around the token: sliding_window to each side",
            )
        case _:
            pass


def _remark_on_nested(family: Family, keys: RopeKeys, notes: Notes) -> None:
    """Dictionaries by kind of layer, where the class was seen to make nothing of them."""
    outcome = nested_outcome(family.model_type) if keys.by_kind and keys.stated else ""
    if outcome in ("", "computed"):
        return
    what = (
        f"takes {outcome} in their place" if outcome.startswith(BASE) else f"stops with {outcome}"
    )
    notes.warn(
        "nested-rope-not-read",
        f"rope_parameters has dictionaries by kind of layer, of which transformers {RELEASE}'s "
        f"{family.model_type} knows nothing: it {what}",
        "state one dictionary for all layers, or serve it with an engine that reads them",
    )


def _remark_on_family(
    family: Family, facts: RotaryFacts, layers: Layers, lengths: Lengths, notes: Notes
) -> None:
    """What holds for a family and is nowhere in its spec."""
    config = family.config
    if facts.fixed_schedule and lengths.claimed.tokens is not None:
        notes.note(
            "hard-limit",
            f"the code of {family.model_type} builds a table of {lengths.claimed.tokens} rows: "
            "later positions fail rather than degrade",
        )
    if facts.backwards:
        notes.note(
            "rotated-backwards",
            f"{family.model_type} rotates by the negative angles: its weights do not fit code "
            "that rotates the usual way",
        )
    if facts.grown is not None:
        notes.note(
            "query-grows",
            f"{family.model_type} multiplies the queries of its layers without rotation by a "
            f"factor that grows with the position, {facts.grown:g} at 4,000; no key states it",
        )
    if family.model_type == "modernbert" and any(k.word == SLIDING for k, _ in layers.groups):
        notes.note(
            "window-both-ways",
            "an encoder's window lies around the token: half of local_attention to each side",
        )
    if family.model_type == "llama4_text" and not config.has("attn_temperature_tuning"):
        notes.note(
            "temperature-from-library-default",
            "attn_temperature_tuning is absent; transformers' default is true, with floor_scale "
            "8192 and attn_scale 0.1, on the layers without position",
        )
    if config.has("rotary_scaling_factor"):
        notes.note(
            "scaling-key-not-read",
            f"{config.name('rotary_scaling_factor')} is read by the model's own older code, "
            "with its own trained length; transformers reads rope_parameters",
        )
    if any([config.flag("use_dynamic_ntk"), config.flag("use_logn_attn")]):
        notes.warn(
            "own-length-rules",
            "use_dynamic_ntk or use_logn_attn is on: the model's own code changes base or scores "
            "with the length, by rules that are in no key",
            "measure lengths beyond the trained one",
        )
    if shared := config.count("num_kv_shared_layers", least=0):
        notes.note(
            "shared-keys",
            f"the last {shared} layers use the keys of earlier layers of their kind",
        )
