"""Hugging Face configurations: `config.json`, version 4 and version 5 spelling, to `PositionSpec`.

The rules are those of transformers 5.24, which are not imported: what its classes take for
granted is in `families`, and every value says whether the file or a default gave it. Nothing a
checkpoint brings is ever run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ropewalk.dialects.hf.attention import (
    read_softmax,
    read_unrotated,
    sinks_of,
    unrotated_softmax,
    usable_rows,
)
from ropewalk.dialects.hf.by_layer import by_layer
from ropewalk.dialects.hf.defaults import ContentFacts, Facts, LearnedFacts, RotaryFacts
from ropewalk.dialects.hf.family import (
    TEXT_PARTS,
    ConfigSource,
    Family,
    find_family,
    vocabulary_of,
)
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
from ropewalk.dialects.hf.log_rules import read_log_rule
from ropewalk.dialects.hf.measured import adds_by_content, measured_sinks
from ropewalk.dialects.hf.remarks import (
    remark_on_class,
    remark_on_content,
    remark_on_family,
    remark_on_mlp,
    remark_on_nested,
)
from ropewalk.dialects.hf.rope import RopeKeys, read_axes, select_rope
from ropewalk.dialects.hf.rotation import read_rotary
from ropewalk.dialects.hf.second import read_dual_chunk, read_second
from ropewalk.dialects.hf.unread import remark_on_slips, remark_on_unread
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
    RotarySpec,
    SecondRotation,
    SoftmaxRule,
    Source,
    SourceKind,
)

__all__ = ["load_json", "read_config"]

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
    inside = TEXT_PARTS if family.config.path == "" else ()
    remark_on_slips(family.config, (*inside, "layer_types"), notes)
    remark_on_unread(family.config, notes, latent=family.latent)
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
            remark_on_mlp(kind, indices, notes)
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
    remark_on_family(family, facts, layers, lengths, notes)
    remark_on_class(family, keys, lengths, notes)
    if own is None:
        remark_on_nested(family, keys, notes)
    spec = _spec(family, keys.spelling, groups, lengths, notes)
    placed = [(group, key.layer_type) for group, key in zip(groups, read, strict=True)]
    return replace(
        spec,
        source=Source(keys=tuple(read)),
        second=(*read_second(config, model_type, placed), *_depth_decoder(config)),
        dual_chunk=read_dual_chunk(config),
        axes=read_axes(keys.main, model_type, notes),
    )


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
        kind=kind.word,
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
    claimed, softmax = lengths.claimed, unrotated_softmax(config, facts, model_type)
    softmax = replace(softmax, sinks=measured_sinks(model_type))
    if isinstance(facts, LearnedFacts) and facts.offset_counted and lengths.claimed.tokens:
        rows = usable_rows(facts, lengths.claimed)
        source = f"{lengths.claimed.source} less {facts.offset} rows that serve no position"
        lengths = Lengths(
            Length(rows, source, lengths.claimed.stated), lengths.trained, lengths.others
        )
    if adds_by_content(model_type):
        remark_on_content(config, model_type, notes)
    groups: list[LayerGroup] = []
    placed: list[tuple[LayerGroup, str]] = []
    for kind, indices in layers.groups:
        if kind.word in _WITHOUT_ORDER:
            remark_on_mlp(kind, indices, notes)
            continue
        window = read_window(config, facts, kind, lengths.claimed, notes)
        name = _group_name(Kind(kind.word), layers)
        if kind.attends:
            encoding = read_unrotated(config, facts, kind.word, claimed, notes)
            log_rule = read_log_rule(config, nothing, facts, model_type, kind.word, rotated=False)
            rule = replace(softmax, log_rule=log_rule)
            groups.append(LayerGroup(name, indices, encoding, window, rule))
        else:
            groups.append(LayerGroup(name, indices, Recurrent(_state(kind, model_type))))
        placed.append((groups[-1], kind.word))
    remark_on_unused_window(config, layers, facts, notes)
    spec = _spec(family, "no rotary encoding", groups, lengths, notes)
    return replace(spec, second=read_second(config, model_type, placed))


def _depth_decoder(config: Section) -> Iterator[SecondRotation]:
    """A decoder within each step, which has a base, widths and a length of its own."""
    key = "depth_decoder_config"
    part = config.section(key) if config.has(key) else None
    if part is None:
        return
    inner = find_family(part, Notes())
    found = read_family(inner)
    rotary: list[tuple[tuple[int, ...], RotarySpec | None]]
    rotary = [(group.layers, encoding) for group, encoding in found.rotary_groups()]
    for layers, encoding in rotary or [((), None)]:
        yield SecondRotation(
            "depth decoder",
            layers,
            encoding,
            claimed=found.claimed,
            keys=(config.name(key),),
            reason="" if encoding else "it rotates nothing",
        )


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
