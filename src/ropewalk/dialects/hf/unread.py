"""Keys that bear on position and that no rule took: named, rather than passed over.

A file of a code that is newer than these rules, or of a model's own, says what they do not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile

from ropewalk.dialects.hf.layers import layer_count
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
    "full_attn_idxs",
    "layer_group_size",
    "prefix_dense_sliding_window_pattern",
    "sliding_window_pattern",
}
"""Keys that give the pattern of layers, and say nothing where `layer_types` lists them."""

HARMLESS = {
    "activation_sparsity_pattern": "of the feed-forward",
    "chunk_size": "of a layer with a state: how many tokens are computed at once",
    "mamba_chunk_size": "as chunk_size",
    "full_attn_alpha_factor": "of the residual stream",
    "full_attn_beta_factor": "of the residual stream",
    "linear_attn_alpha_factor": "of the residual stream",
    "linear_attn_beta_factor": "of the residual stream",
    "image_seq_length": "of an image's tokens",
    "max_length": "of generation",
    "max_new_tokens": "of generation",
    "max_source_positions": "of an encoder",
    "max_window_layers": "of a window that use_sliding_window turns off",
    "min_length": "of generation",
    "loop_layer_index_end": "of layers that run several times, at the same positions",
    "loop_layer_index_start": "of layers that run several times, at the same positions",
    "mtp_layers_block_type": "of layers that predict further tokens",
    "mlp_layer_types": "of the feed-forward: dense or sparse",
    "offset_alibi": "of the code that BLOOM was trained with",
    "original_rope": "of ChatGLM's code, and true in every file",
    "position_embedding_type": "names an encoding that the family has anyway",
    "qk_nope_head_dim": "a width, of channels that are not rotated",
    "qk_rope_head_dim": "a width, which the head's own says too",
    "num_sliding_attention_heads": "a width of sliding layers",
    "rel_l2_clip_threshold": "of the size of the numbers that mix a bias",
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
        if key == "no_rope_layer_interval" and config.has("no_rope_layers"):
            continue
        if key == "rope_scaling_layers" and _all_of(value, layer_count(config)):
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


def remark_on_slips(config: Section, known: Iterable[str], notes: Notes) -> None:
    """Warn of a key that was not read and is one letter away from a known one that is absent.

    `known`: keys that are looked for besides those that were asked of `config`.
    """
    wanted = [key for key in {*config.asked, *known} if key not in config.values]
    for key in config.values:
        if key in config.asked or not isinstance(key, str) or len(key) < SHORTEST:
            continue
        near = sorted(each for each in wanted if len(each) >= SHORTEST and _a_slip(key, each))
        if near:
            notes.warn(
                "key-misspelt",
                f"{config.name(key)} is no key that is read here; {near[0]} is one, and the file "
                "does not have it",
                f"write {near[0]}, if that is meant",
            )


SHORTEST = 6
"""Letters of a key; shorter ones are alike by chance."""


def _a_slip(given: str, meant: str) -> bool:
    """Whether one letter too many, too few, wrong or swapped, or another case, is between two."""
    given, meant = given.lower().replace("-", "_"), meant.lower()
    if given == meant:
        return True
    if abs(len(given) - len(meant)) > 1:
        return False
    alike = (a == b for a, b in zip(given, meant, strict=False))
    start = sum(takewhile(bool, alike))
    ends = {(given[start + 1 :], meant[start:]), (given[start:], meant[start + 1 :])}
    ends.add((given[start + 1 :], meant[start + 1 :]))
    swapped = given[start : start + 2] == meant[start : start + 2][::-1]
    return any(a == b for a, b in ends) or (swapped and given[start + 2 :] == meant[start + 2 :])


def _all_of(value: object, total: int | None) -> bool:
    """Whether a list names every layer."""
    return isinstance(value, list | tuple) and list(value) == list(range(total or 0))


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
