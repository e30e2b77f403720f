"""Rotations beside that of a configuration's layers: indexers, compressors, draft layers.

Sparse attention chooses the keys of each query by an index that has heads and a rotation of its
own, in a layout of its own. The layout stands in no key: it is each class's (`Indexer.forward` in
transformers 5.24).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ropewalk.dialects.hf.layers import HEAVY, SPARSE, layer_count
from ropewalk.dialects.hf.length_keys import ORIGINAL
from ropewalk.dialects.hf.log_rules import DUAL_CHUNK
from ropewalk.dialects.values import MAX_LENGTH, Section
from ropewalk.errors import ScheduleError
from ropewalk.rope.beside import DualChunk
from ropewalk.rope.spec import (
    LayerGroup,
    Layout,
    NoPositionSpec,
    Placement,
    Recurrent,
    RotarySpec,
    SecondRotation,
)
from ropewalk.short import short

INDEXED = frozenset({"indexed_attention", "minimax_m3_sparse", SPARSE})
"""Kinds of layer that have an indexer, whatever the family."""

Placed = Sequence[tuple[LayerGroup, str]]
"""Groups of layers, each with its kind."""


@short
@dataclass(frozen=True, slots=True)
class IndexerFacts:
    """What a class's indexer is without a key: heads, channels of each, how many keys it keeps.

    `layout` None: it rotates nothing. `everywhere`: all layers that attend have one, whatever
    their kind is called. `unit`: what `keeps` counts.
    """

    heads: int | None
    head_dim: int | None
    keeps: int | None
    layout: Layout | None
    placement: Placement = "first"
    everywhere: bool = True
    unit: Literal["keys", "blocks", "compressed keys"] = "keys"


INDEXERS: dict[str, IndexerFacts] = {
    "deepseek_v32": IndexerFacts(64, 128, 2048, "half"),
    "glm_moe_dsa": IndexerFacts(32, 128, 2048, "interleaved"),
    "deepseek_v4": IndexerFacts(
        64, 128, 512, "interleaved", "last", everywhere=False, unit="compressed keys"
    ),
    "minimax_m3_vl_text": IndexerFacts(4, 128, 16, "half", everywhere=False, unit="blocks"),
    "dots3_note_text": IndexerFacts(64, 128, 2048, "interleaved", everywhere=False),
    "hy_v4": IndexerFacts(16, 128, 2048, "half", "last"),
    "hy_v4_vl_text": IndexerFacts(32, 128, 2048, "half", "last"),
    "qwen4_exp_text": IndexerFacts(None, None, None, "half"),
    "glm5_next_text": IndexerFacts(32, 128, 2048, None),
    "axk2": IndexerFacts(16, 128, 2048, "half"),
    "mistral_large4_text": IndexerFacts(32, 128, 2048, "interleaved"),
}

_HEADS = ("index_n_heads", "indexer_n_heads")
_WIDTH = ("index_head_dim", "indexer_head_dim")
_KEEPS = ("index_topk", "index_topk_blocks", "indexer_budget")
_BESIDE = (
    *("index_block_size", "index_local_blocks", "index_kpool", "index_kpool_always_select_tail"),
    *("indexer_kv_heads", "indexer_compress_ratio", "index_topk_freq", "index_topk_pattern"),
    *("index_skip_topk_offset", "indexer_types"),
)
"""Keys of an indexer that its rotation does not depend on."""
_NESTED = {
    "sparse_num_index_heads": "index_n_heads",
    "sparse_index_dim": "index_head_dim",
    "sparse_topk_blocks": "index_topk_blocks",
}
"""MiniMax's names in `sparse_attention_config`."""
_DRAFTS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", "mtp_num_layers")
_RATES = {SPARSE: 4, HEAVY: 128}
"""How many tokens DeepSeek V4 makes one key of, where `compress_rates` does not say."""


def read_second(config: Section, model_type: str, placed: Placed) -> tuple[SecondRotation, ...]:
    """Every rotation beside that of the layers, the depth decoder's apart."""
    return (
        *_indexers(_flat(config), model_type, placed),
        *_compressors(config, placed),
        *_drafts(config, placed),
    )


def read_dual_chunk(config: Section) -> DualChunk | None:
    """Dual chunk attention, where the file has its key."""
    part = config.section(DUAL_CHUNK) if config.has(DUAL_CHUNK) else None
    if part is None:
        return None
    chunk, local = part.count("chunk_size", MAX_LENGTH), part.count("local_size", MAX_LENGTH)
    keys = tuple(part.name(key) for key in part.values if part.has(key))
    return DualChunk(chunk, local, part.length(ORIGINAL), keys)


def _flat(config: Section) -> Section:
    """The configuration with the keys of `sparse_attention_config` as its own."""
    part = config.section("sparse_attention_config")
    if part is None:
        return config
    given = {ours: part.values[theirs] for theirs, ours in _NESTED.items() if part.has(theirs)}
    # The same keys count as asked for.
    return Section({**config.values, **given}, config.where, config.path, config.asked)


def _indexers(config: Section, model_type: str, placed: Placed) -> Iterator[SecondRotation]:
    facts = INDEXERS.get(model_type)
    stated = [key for key in (*_HEADS, *_WIDTH, *_KEEPS) if config.has(key)]
    attending = [each for each in placed if not isinstance(each[0].encoding, Recurrent)]
    worded = [each for each in attending if each[1] in INDEXED]
    for key in _BESIDE:
        if config.has(key) and (facts or stated):
            config.take(key)
    chosen = worded
    if (facts is not None and facts.everywhere) or (facts is None and stated and not worded):
        chosen = attending
    usual = facts or IndexerFacts(None, None, None, None)
    heads = _first(config, _HEADS, usual.heads)
    width = _first(config, _WIDTH, usual.head_dim)
    keeps = _first(config, _KEEPS, usual.keeps)
    named = [*stated, *(["layer_types"] if worded and config.has("layer_types") else [])]
    own = _with_an_indexer(config)
    for group, _ in chosen:
        rotary, reason = _of_indexer(group, facts, width)
        yield SecondRotation(
            "indexer",
            tuple(layer for layer in group.layers if own is None or layer in own),
            rotary,
            heads=heads,
            keeps=keeps,
            keys=tuple(f"{config.name(key)} {_number(config, key)}".rstrip() for key in named),
            reason=reason,
        )


def _first(config: Section, keys: tuple[str, ...], default: int | None) -> int | None:
    """By the first key that the file has."""
    return next((config.count(key, MAX_LENGTH) for key in keys if config.has(key)), default)


def _number(config: Section, key: str) -> str:
    """A count as the file states it; nothing for a list."""
    value = config.values[key]
    return str(value) if isinstance(value, int) else ""


def _of_indexer(
    group: LayerGroup, facts: IndexerFacts | None, width: int | None
) -> tuple[RotarySpec | None, str]:
    """How the indexer of some layers rotates, or why that is not said."""
    main = group.encoding
    if isinstance(main, NoPositionSpec) or (facts is not None and facts.layout is None):
        return None, "it rotates nothing, as the attention of these layers does"
    if facts is None or facts.layout is None or not isinstance(main, RotarySpec) or width is None:
        return None, "how it rotates is not known here"
    try:
        return RotarySpec(
            head_dim=width,
            rotary_dim=min(main.rotary_dim, width),
            rope_theta=main.rope_theta,
            layout=facts.layout,
            scaling=main.scaling,
            placement=facts.placement,
            rope_theta_source=main.rope_theta_source,
            rotary_dim_source=main.rotary_dim_source,
            scaling_source=main.scaling_source,
        ), ""
    except ScheduleError as error:
        return None, f"how it rotates is not known here: {error}"


def _with_an_indexer(config: Section) -> frozenset[int] | None:
    """Layers that have an indexer of their own; others take the choice of the one before.

    None: all of them. By `indexer_types`, by `index_topk_pattern`, or by a frequency.
    """
    kinds = config.texts("indexer_types") if config.has("indexer_types") else None
    if kinds is None and isinstance(config.values.get("index_topk_pattern"), str):
        kinds = tuple(config.text("index_topk_pattern") or "")
    if kinds is not None:
        return frozenset(i for i, kind in enumerate(kinds) if kind.lower() in ("full", "f"))
    step, total = config.count("index_topk_freq"), layer_count(config)
    if step is None or step == 1 or total is None:
        return None
    offset = config.count("index_skip_topk_offset", least=0)
    offset = 2 if offset is None else offset
    return frozenset(i for i in range(total) if max(i - offset + 1, 0) % step == 0)


def _compressors(config: Section, placed: Placed) -> Iterator[SecondRotation]:
    """DeepSeek V4's layers that see one key for several tokens."""
    rates = config.section("compress_rates") if config.has("compress_rates") else None
    for group, word in placed:
        if word not in _RATES or not isinstance(group.encoding, RotarySpec):
            continue
        stated = rates.count(word) if rates is not None else None
        keys = [key for key in ("compress_ratios", "compress_rates", "compress_rope_theta",
                                "layer_types") if config.has(key)]  # fmt: skip
        yield SecondRotation(
            "compressor",
            group.layers,
            group.encoding,
            rate=stated or _RATES[word],
            keys=tuple(config.name(key) for key in keys),
        )


def _drafts(config: Section, placed: Placed) -> Iterator[SecondRotation]:
    """Layers that predict further tokens: heads for MTP, drafts for speculation."""
    for key in _DRAFTS:
        count = config.count(key, least=0) if config.has(key) else None
        if not count:
            continue
        total = layer_count(config)
        rotaries = {g.encoding for g, _ in placed if isinstance(g.encoding, RotarySpec)}
        alike = len(rotaries) == 1
        yield SecondRotation(
            "draft layers",
            () if total is None else tuple(range(total, total + count)),
            next(iter(rotaries)) if alike else None,
            keys=(f"{config.name(key)} {count}",),
            reason=""
            if alike
            else "the file does not say which of the layers' encodings they have"
            if rotaries
            else "the layers themselves rotate nothing",
        )
        return
