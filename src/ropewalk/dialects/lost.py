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
from ropewalk.dialects.hf.log_rules import DUAL_CHUNK
from ropewalk.dialects.hf.rotation import STEPPED
from ropewalk.dialects.same import Dialect
from ropewalk.rope.log_rule import LogRule
from ropewalk.rope.schedules import SteppedNtk
from ropewalk.rope.spec import PositionSpec

Place = Literal["vllm", "llamacpp", "hf"]

_TEMPERED = frozenset("llama4 mistral3 mistral4 deepseek2 grok".split())
"""Architectures whose queries llama.cpp scales by position (`build_inp_attn_scale`)."""
_INDEXED = frozenset("deepseek32 deepseek4 dots3note glm-dsa hy_v4 minimax-m3".split())
"""Architectures of which llama.cpp has the indexer that rotates beside the attention."""
_LEARNED = frozenset({"mistral_large4_text"})
"""Types whose trained factor transformers computes."""
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
    if any(isinstance(each.scaling, SteppedNtk) for _, each in spec.rotary_groups()):
        yield STEPPED, "(a base that grows with the length of each prompt)"
    for rule in dict.fromkeys(group.softmax.log_rule for group in spec.groups):
        if rule is not None and (told := _lost_rule(rule, spec.model_type, place)):
            yield told
    if place != "llamacpp":
        return
    if text.get(DUAL_CHUNK):
        yield DUAL_CHUNK, "(distances folded into chunks)"
    name = ARCHITECTURE_OF.get(spec.model_type)
    if name is None:
        return
    if text.get("index_head_dim") and name not in _INDEXED:
        yield "index_head_dim", "(an indexer with a rotation of its own)"


def _lost_rule(rule: LogRule, model_type: str, place: Place) -> tuple[str, str] | None:
    """A factor that grows with the logarithm, where `place` has no code for it."""
    key = rule.keys[0] if rule.keys else "the temperature of queries"
    if rule.grows == "by base":
        return key, f"({rule.on} that grow with the logarithm of their position)"
    if rule.grows == "learned":
        kept = place == "hf" or (model_type in _LEARNED and place == "vllm")
        return None if kept else (key, f"({rule.on} x {rule.formula})")
    name = ARCHITECTURE_OF.get(model_type)
    lacks = place == "llamacpp" and rule.of == "position" and name and name not in _TEMPERED
    return (key, f"({rule.on} x {rule.formula})") if lacks else None
