"""Rules of position that stand in a configuration beside its schedule, and that others do not have.

A spec holds one schedule for a group of layers. Where a model's own code does more (a base that
grows with the prompt, a factor on queries by position, distances folded into chunks, a second
rotation), an engine that does not is no place to send its numbers to: the writers come here first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ropewalk.dialects.gguf.archs import ARCHITECTURE_OF
from ropewalk.dialects.hf.family import ConfigSource
from ropewalk.dialects.same import Dialect
from ropewalk.rope.spec import PositionSpec

Place = Literal["vllm", "llamacpp", "hf"]

_TEMPERED = frozenset("llama4 mistral3 mistral4 deepseek2 grok".split())
"""Architectures whose queries llama.cpp scales by position (`build_inp_attn_scale`)."""
_INDEXED = frozenset("deepseek32 deepseek4 dots3note glm-dsa hy_v4 minimax-m3".split())
"""Architectures of which llama.cpp has the indexer that rotates beside the attention."""
_REMEDY = "serve it with the code of its publisher"


def require_kept(spec: PositionSpec, dialect: Dialect, place: Place) -> None:
    """Raise ScheduleError, naming key and rule, where something of the file is lost in `place`."""
    lost = list(_lost(spec, place))
    if lost:
        (first, rule), *others = lost
        too = "".join(f", nor {key} {what}" for key, what in others)
        raise dialect.refusal(first, f"{rule}{too}", "nothing there does that", _REMEDY)


def _lost(spec: PositionSpec, place: Place) -> Iterator[tuple[str, str]]:
    """Key, and the rule that goes with it."""
    if not isinstance(spec.source, ConfigSource):
        return
    text = spec.source.family.config.values
    if spec.model_type == "qwen":
        if text.get("use_dynamic_ntk") is True:
            yield "use_dynamic_ntk", "(a base that grows with the length of each prompt)"
        if text.get("use_logn_attn") is True:
            yield "use_logn_attn", "(queries that grow with the logarithm of their position)"
    if place != "llamacpp":
        return
    if text.get("dual_chunk_attention_config"):
        yield "dual_chunk_attention_config", "(distances folded into chunks)"
    name = ARCHITECTURE_OF.get(spec.model_type)
    if name is None:
        return
    if any(group.softmax.temperature for group in spec.groups) and name not in _TEMPERED:
        yield "the temperature of queries", "by position"
    if text.get("index_head_dim") and name not in _INDEXED:
        yield "index_head_dim", "(an indexer with a rotation of its own)"
