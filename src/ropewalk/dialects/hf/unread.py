"""Keys that bear on position and that no rule took: named, rather than passed over.

A file of a code that is newer than these rules, or of a model's own, says what they do not know.
"""

from __future__ import annotations

import re

from ropewalk.dialects.values import Notes, Section, shown

BEARS = re.compile(
    r"""rope|rotary|theta|yarn|mscale|alibi|ntk|logn|log_n(?:_|$)|ssmax|scalable_softmax|nope(?!rm)
    | llama_4_scaling|temperature_tuning|attn_temperature|floor_scale|window|sliding|swa|chunk
    | layer_types|layers?_block|block_types|_pattern$|layer_pattern|group_size$|attn_type
    | attention_type|full_attn|full_attention|linear_attn|_attn_config|attn_layer|global_attn
    | local_attn|position|max_.*(len|pos)|seq_length|seq_len|context|n_ctx|n_positions
    | relative_|(?:^|_)rel_|sparse_att|log_scal|indexer|(?:^|_)index_(?!.*token)|mla_
    | (?:^|_)dual_chunk""",
    re.VERBOSE,
)
"""How keys are spelled that bear on position, layers, windows or lengths."""

BESIDE_KINDS = {
    "_sliding_window_pattern",
    "full_attention_interval",
    "global_attn_every_n_layers",
    "layer_group_size",
    "sliding_window_pattern",
}
"""Keys that give the pattern of layers, and say nothing where `layer_types` lists them."""

HARMLESS = {
    "chunk_size": "of a layer with a state: how many tokens are computed at once",
    "mamba_chunk_size": "as chunk_size",
    "image_seq_length": "of an image's tokens",
    "max_length": "of generation",
    "max_new_tokens": "of generation",
    "max_source_positions": "of an encoder",
    "max_window_layers": "of a window that use_sliding_window turns off",
    "min_length": "of generation",
    "mlp_layer_types": "of the feed-forward: dense or sparse",
    "offset_alibi": "of the code that BLOOM was trained with",
    "original_rope": "of ChatGLM's code, and true in every file",
    "position_embedding_type": "names an encoding that the family has anyway",
    "qk_nope_head_dim": "a width, of channels that are not rotated",
    "qk_rope_head_dim": "a width, which the head's own says too",
    "rotary": "GPT-J's, which always rotates",
    "swa_num_attention_heads": "a width of sliding layers",
    "swa_num_key_value_heads": "a width of sliding layers",
    "swa_v_head_dim": "a width of sliding layers, of values",
    "swiglu_limit": "of the feed-forward",
}
"""Keys that are spelled so and say nothing of position, each with the reason."""


def remark_on_unread(config: Section, notes: Notes, *, latent: bool) -> None:
    """Warn of each key that bears on position and was not taken by any rule.

    `latent`: whether the model's attention is latent.
    """
    for key, value in list(config.values.items()):
        if key in config.asked or key in HARMLESS or value in (None, False, [], {}, ""):
            continue
        if isinstance(key, str) and key.startswith("ropewalk_"):
            # What this package wrote there itself.
            continue
        if not isinstance(key, str) or not BEARS.search(key.lower()):
            continue
        if key in BESIDE_KINDS and config.has("layer_types"):
            continue
        if key == "partial_rotary_factor" and (latent or config.has("rope_parameters")):
            # Latent attention rotates the channels of qk_rope_head_dim; dictionaries have a share
            # of their own.
            continue
        if _repeats(config, key):
            continue
        notes.warn(
            "key-not-read",
            f"{config.name(key)} is {shown(value)}: no rule here reads it, and its name bears on "
            "position, layers, windows or lengths",
            "look in the model's code for what it does with this key",
        )


def _repeats(config: Section, key: str) -> bool:
    """Whether a key that was taken says the same under a name of which this one is a variant."""
    if re.search("window|chunk", key) and config.values.get("sliding_window") == config.values[key]:
        return "sliding_window" in config.asked
    return any(
        taken != key
        and (taken in key or key.strip("_") in taken)
        and config.values.get(taken) == config.values[key]
        for taken in config.asked
        if taken in config.values
    )
