"""Small instances of every type: the text model's configuration, shrunk.

What bears on position (head_dim, the order of layers, windows, bases) stays as the class has it.
"""

from __future__ import annotations

import copy
import importlib
import inspect
from typing import Any

from atlas.hints import CLASSES, EAGER, FIXED, PARTS, UNBUILT, UNSAID

LAYERS = 8
CLAIMED = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"),
    *("max_target_positions", "max_sequence_length"),
)
"""Keys that state a length, in the order in which they are looked for."""

HEADS = 2

_WIDE = (
    *("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "moe_intermediate_size"),
    *("shared_expert_intermediate_size", "shared_intermediate_size", "expert_ffn_hidden_size"),
    *("dense_intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff"),
)
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts", "moe_k")
_LEFT = frozenset(
    {
        "model_type",
        "transformers_version",
        "architectures",
        "rope_parameters",
        "dtype",
        "rope_scaling",
    }
)


def text_of(model_type: str) -> Any:
    """The default configuration of a type's text model."""
    from transformers import CONFIG_MAPPING

    if model_type in UNBUILT:
        raise ValueError(UNBUILT[model_type])
    outer = CONFIG_MAPPING[model_type]()
    part = PARTS.get(model_type)
    outer = getattr(outer, part) if part else outer
    found = outer.get_text_config(decoder=True)
    # Of an encoder and a decoder in one, the keys of the whole are asked for.
    return outer if type(found) is type(outer) else found


def small(text: Any, **changes: Any) -> Any:
    """A configuration of the same class with few and narrow layers, and these changes."""
    # Other names of the same keys would take back what is set here.
    said = {k: v for k, v in text.to_dict().items() if k not in type(text).attribute_map}
    keys = {k: v for k, v in said.items() if k not in _LEFT}
    keys.update(_shrunk(said))
    keys.update(FIXED.get(text.model_type, {}))
    keys.update(changes)
    keys = {k: v for k, v in keys.items() if v is not UNSAID}
    return type(text)(**copy.deepcopy(keys))


def _shrunk(said: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def put(names: tuple[str, ...], value: object) -> None:
        found.update({k: value for k in names if isinstance(said.get(k), int)})

    put(("vocab_size", "vocab_size_per_layer_input"), 64)
    put(_WIDE, 32)
    put(_EXPERTS, 4)
    put(_CHOSEN, 2)
    put(("q_lora_rank", "kv_lora_rank"), 32)
    put(("n_group", "topk_group", "num_expert_group"), 1)
    for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
        # A table of learned positions may begin behind the padding's id.
        if isinstance(said.get(key), int) and said[key] >= 64:
            found[key] = 0
    for key in (
        *("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
        *("decoder_layers", "encoder_layers"),
    ):
        if isinstance(count := said.get(key), int):
            found[key] = min(count, LAYERS)
    for key, value in said.items():
        if isinstance(value, list) and len(value) == said.get("num_hidden_layers"):
            found[key] = value[:LAYERS]
        elif key == "cross_attention_layers" and isinstance(value, list):
            found[key] = [layer for layer in value if layer < LAYERS]
        elif key == "per_layer_config" and isinstance(value, dict):
            found[key] = {k: v for k, v in value.items() if int(k) < LAYERS}
    width = next(
        (said[k] for k in ("hidden_size", "n_embd", "d_model") if isinstance(said.get(k), int)),
        None,
    )
    heads = next(
        (
            said[k]
            for k in ("num_attention_heads", "n_head", "n_heads", "decoder_attention_heads")
            if isinstance(said.get(k), int)
        ),
        None,
    )
    if width and heads:
        head = said.get("head_dim") or width // heads
        put(("hidden_size", "n_embd", "d_model", "word_embed_proj_dim"), head * HEADS)
        put(("num_attention_heads", "n_head", "n_heads"), HEADS)
        put(("decoder_attention_heads", "encoder_attention_heads"), HEADS)
        put(("num_key_value_heads", "n_head_kv"), 1)
    return found


def model_of(config: Any, asking: type | None = None) -> Any:
    """The model of a text configuration, with random weights that are always the same.

    `asking` is a class that the configuration becomes before the model is built.
    """
    import torch

    from atlas.probe import NAME

    config._attn_implementation = "eager" if config.model_type in EAGER else NAME
    kind = _class_of(config)
    if asking is not None:
        config.__class__ = asking
    torch.manual_seed(0)
    model = kind._from_config(config).eval()
    if config.model_type == "xmod":
        model.set_default_language(config.languages[0])
    # Of an encoder and a decoder, the decoder is the one that writes.
    return model.get_decoder() if config.is_encoder_decoder else model


def _class_of(config: Any) -> Any:
    """The class that serves a configuration, also where no mapping names it."""
    from transformers import MODEL_MAPPING, PreTrainedModel

    try:
        found = MODEL_MAPPING[type(config)]
        return found[0] if isinstance(found, list | tuple) else found
    except KeyError:
        pass
    if config.model_type in CLASSES:
        place, named = CLASSES[config.model_type]
        return getattr(importlib.import_module(f"transformers.models.{place}"), named)
    name = type(config).__module__.replace("configuration_", "modeling_")
    module = importlib.import_module(name)
    fitting = [
        kind
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, PreTrainedModel)
        and kind.__module__ == name
        and getattr(kind, "config_class", None) is type(config)
    ]
    if not fitting:
        raise LookupError(f"no model of {name} takes a {type(config).__name__}")
    for ending in ("TextModel", "Decoder", "Model", ""):
        for kind in fitting:
            if kind.__name__.endswith(ending) and "Vision" not in kind.__name__:
                return kind
    return fitting[0]
