"""What holds for a family or its class and is nowhere in the spec of a configuration."""

from __future__ import annotations

from ropewalk.dialects.hf.defaults import RotaryFacts
from ropewalk.dialects.hf.family import Family
from ropewalk.dialects.hf.layers import CROSS, SLIDING, Kind, Layers
from ropewalk.dialects.hf.length_keys import Lengths
from ropewalk.dialects.hf.log_rules import LOG_N
from ropewalk.dialects.hf.measured import BASE, RELEASE, nested_outcome
from ropewalk.dialects.hf.rope import RopeKeys
from ropewalk.dialects.hf.rotation import STEPPED
from ropewalk.dialects.values import Notes, Section

OLMO3_BASE = 500_000.0
"""The default of OLMo 3's class, which its sliding layers get."""


def remark_on_mlp(kind: Kind, indices: tuple[int, ...], notes: Notes) -> None:
    """Layers left out of the groups."""
    notes.note(
        "layers-without-order",
        f"{len(indices)} layers see images alone, so they are in no group"
        if kind.word == CROSS
        else f"{len(indices)} layers are {kind.word} only: no attention and no state, so they are "
        "in no group",
    )


def remark_on_class(family: Family, keys: RopeKeys, lengths: Lengths, notes: Notes) -> None:
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


def remark_on_nested(family: Family, keys: RopeKeys, notes: Notes) -> None:
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


def remark_on_family(
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
    on = [key for key in (STEPPED, LOG_N) if config.flag(key)]
    if on and not (family.model_type == "qwen" and config.has("seq_length")):
        notes.warn(
            "own-length-rules",
            f"{' and '.join(config.name(key) for key in on)} is on: the model's own code changes "
            "base or scores with the length, by rules that are not known of this family",
            "measure lengths beyond the trained one",
        )
    if shared := config.count("num_kv_shared_layers", least=0):
        notes.note(
            "shared-keys",
            f"the last {shared} layers use the keys of earlier layers of their kind",
        )


_CONTENT_KEYS = ("clamp_len", "attn_type", "num_buckets", "relative_max_distance", "ngram")


def remark_on_content(config: Section, model_type: str, notes: Notes) -> None:
    """A bias on the scores by distance and by the query, and the keys that belong to it."""
    keys = [key for key in _CONTENT_KEYS if key in config.values]
    named = f" ({', '.join(config.name(key) for key in keys)})" if keys else ""
    notes.note(
        "bias-by-content",
        f"{model_type} adds a bias to its scores that goes by the distance and by what the query "
        f"is{named}; no encoding here describes that one",
        "measure lengths beyond the trained one",
    )
