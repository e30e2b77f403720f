"""exllamav3, CTranslate2 and mistral.rs, as far as anything is known of them.

exllamav3 1.6.5: read from its rotary class (`util/rope.py`). CTranslate2 4.8.5: logits of converted
models beside transformers'. mistral.rs 0.9.5: next-token probabilities of a Llama. The rows rest on
few files; `make engines` reads them anew. Nothing is known of GGUF files and latent attention.
"""

from __future__ import annotations

from dataclasses import replace

from ropewalk.dialects.engines.given import Effect, Engine, Given, no_rule
from ropewalk.dialects.engines.transformers import YARN_KEYS, linear, llama3, unscaled
from ropewalk.dialects.hf.length_keys import ORIGINAL
from ropewalk.rope.schedules import Linear, Llama3, LongRope, Unscaled, Yarn, yarn_mscale

MEASURED = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Model types whose plain rotation any of the three shares with the measured Llama."""


def before(given: Given) -> Effect | None:
    """What was not measured."""
    if given.from_gguf:
        return Effect(None, rules=("not measured on GGUF files",))
    if given.mla:
        return Effect(None, rules=("not measured with latent attention",))
    if given.model_type not in MEASURED:
        return Effect(None, rules=("not measured for this family",))
    return None


def exllama(given: Given) -> Effect:
    """As transformers, but that YaRN's factor is the claim over the original length."""
    scaling = given.rotary.scaling
    if isinstance(scaling, Yarn):
        return _exllama_yarn(given, scaling)
    if isinstance(scaling, Unscaled):
        return unscaled(given)
    if isinstance(scaling, Linear):
        return linear(given)
    if isinstance(scaling, Llama3):
        return llama3(given, scaling)
    word = given.keys.get("type") or given.keys.get("rope_type")
    if word == "dynamic":
        return Effect(None, rules=("stops with a ValueError: dynamic is unknown to it",))
    return no_rule(given)


def _exllama_yarn(given: Given, scaling: Yarn) -> Effect:
    """A = attention_factor, else m(s); the mscale pair is DeepSeek's alone."""
    original, s = scaling.original_max_position_embeddings, scaling.factor
    rules: tuple[str, ...] = ()
    if given.claimed and given.keys.get(ORIGINAL) is not None:
        own = given.claimed / original
        if own != s:
            rules = (f"the factor is the claim over the original length, {own:g}, not {s:g}",)
        s = own
    stated = given.number("attention_factor")
    amplitude = yarn_mscale(s) if stated is None else stated
    changed = replace(scaling, factor=max(s, 1.0), attention_factor=amplitude)
    read = YARN_KEYS - {"mscale", "mscale_all_dim"}
    return Effect(replace(given.rotary, scaling=changed), original, read=read, rules=rules)


def ctranslate2(given: Given) -> Effect:
    """llama3 is lost in the conversion."""
    if isinstance(given.rotary.scaling, Unscaled):
        return unscaled(given)
    if isinstance(given.rotary.scaling, Llama3):
        rule = "llama3 is lost in the conversion: the converted model rotates without it"
        return replace(unscaled(given), rules=(rule,))
    return Effect(None, rules=("not measured for this scaling",))


def mistralrs(given: Given) -> Effect:
    """It reads the keys of version 4 and few types."""
    scaling = given.rotary.scaling
    if given.config.get("rope_parameters"):
        rule = "stops with an error: it reads rope_theta and rope_scaling, not rope_parameters"
        return Effect(None, rules=(rule,))
    if isinstance(scaling, Unscaled):
        return unscaled(given)
    if isinstance(scaling, Linear):
        return linear(given)
    if isinstance(scaling, Llama3):
        return llama3(given, scaling)
    if isinstance(scaling, LongRope):
        return no_rule(given)
    word = given.keys.get("type") or given.keys.get("rope_type")
    return Effect(None, rules=(f"stops with an error: it takes no {word} for this family",))


EXLLAMA = Engine("exllamav3 1.6.5", exllama, before)
CTRANSLATE2 = Engine("CTranslate2 4.8.5", ctranslate2, before)
MISTRALRS = Engine("mistral.rs 0.9.5", mistralrs, before)
