"""mlx-lm's own model classes, built tiny from a configuration, and how they rotate.

What is observed is what reaches `mx.fast.rope`, which every rotary class of mlx-lm ends in: the
channels, the layout, the frequencies, and what the input was multiplied by before. Needs `mlx`,
`mlx-cpu` and `mlx-lm` (installed without their dependencies); no GPU.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import mlx.core as mx
import mlx_lm.models
import numpy as np
from mlx_lm.utils import MODEL_REMAPPING, _get_classes

Json = dict[str, Any]

LAYERS = 6
POSITION = 9000
"""Beyond the claimed length, where a dynamic base has grown."""
KINDS = ("sliding_attention", "full_attention") * (LAYERS // 2)

SIZES: Json = {
    "hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": LAYERS,
    "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 512,
    "rms_norm_eps": 1e-5, "norm_eps": 1e-5, "num_kv_shared_layers": 0, "use_qk_norm": False,
    "decoder_sparse_step": 1,
    "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": 512, "attention_bias": False,
    "num_global_key_value_heads": 2, "tie_word_embeddings": True,
    "max_position_embeddings": 8192, "hidden_act": "silu", "sliding_window": 512,
    "layer_types": list(KINDS), "sliding_window_pattern": 2, "num_experts": 4,
    "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 64, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
    "norm_topk_prob": True, "scoring_func": "softmax", "kv_lora_rank": 32, "q_lora_rank": 32,
    "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 32, "mlp_only_layers": [],
    "n_embd": 128, "n_head": 2, "n_layer": LAYERS, "n_positions": 8192, "n_ctx": 8192,
    "rotary_dim": 32, "query_pre_attn_scalar": 64, "full_attention_interval": 2,
    "linear_num_value_heads": 2, "linear_num_key_heads": 2, "linear_key_head_dim": 32,
    "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "attention_multiplier": 0.125,
    "dim_model_base": 128, "num_layers": LAYERS, "n_layers": LAYERS, "num_heads": 2,
    "num_kv_heads": 2, "n_heads": 2, "n_kv_heads": 2, "hidden_dim": 128, "d_model": 128,
    "model_dim": 128, "num_transformer_layers": LAYERS, "num_query_heads": [2] * LAYERS,
    "ffn_multipliers": [1.0] * LAYERS, "ffn_dim_divisor": 8, "block_size": 8192,
    "n_inner": 128, "intermediate_size_mlp": 128, "ffn_hidden_size": 128,
    "expert_ffn_hidden_size": 64, "shared_intermediate_size": 64, "ff_intermediate_size": 128,
    "sliding_window_layers": [0, 2, 4], "conv_window": 2, "layer_group_size": 2,
    "group_norm_size": 1, "no_rope_layers": [1] * LAYERS, "is_moe_layer": [False] * LAYERS,
    "hybrid_layer_pattern": [1, 0] * (LAYERS // 2), "moe_layer_freq": 1, "topk_method": "noaux_tc",
    "num_kv_reuse_layers": 2, "block_dim": 128, "num_dense_layers": 1, "num_attention_groups": 2,
    "hybrid_override_pattern": "M*M*M*", "attn_layer_period": 2, "attn_layer_offset": 1,
    "linear_attn_config": {"kda_layers": [1, 3, 5], "full_attn_layers": [2, 4, 6],
                           "num_heads": 2, "head_dim": 32, "short_conv_kernel_size": 4},
    "model_max_length": 8192, "swa_head_dim": 64, "swa_num_attention_heads": 2,
    "swa_num_key_value_heads": 2, "swa_v_head_dim": 64, "sliding_window_size": 512,
    "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0},
    "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2},
    "attention_window_size": 512, "time_step_limit": [0.0, 1.0],
    "dense_attention_every_n_layers": 2,
    "index_head_dim": 32, "index_n_heads": 2, "index_topk": 64, "global_head_dim": 64,
    "qk_head_dim": 64, "original_max_position_embeddings": 2048, "topk_groups": 1,
    "zero_expert_type": "identity", "attention_method": "MLA", "sample_rate": 1, "seq_len": 8192,
}  # fmt: skip
"""Values for every model file; each takes what it knows."""

FAMILY: dict[str, Json] = {
    "deepseek_v2": {"topk_method": "greedy", "moe_layer_freq": 1},
    "exaone4": {"sliding_window_pattern": "LG"},
    "granitemoehybrid": {"layer_types": ["attention"] * LAYERS},
    "kimi_k3": {"hidden_act": "situ"},
    "lfm2": {"layer_types": ["conv", "full_attention"] * (LAYERS // 2)},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * (LAYERS // 2)},
    "qwen3_next": {"layer_types": ["linear_attention", "full_attention"] * (LAYERS // 2)},
    "plamo": {"num_attention_heads": 8},
    "qwen3_5": {"layer_types": ["linear_attention", "full_attention"] * (LAYERS // 2),
                "shared_expert_intermediate_size": 64},
    "qwen3_5_moe": {"layer_types": ["linear_attention", "full_attention"] * (LAYERS // 2),
                    "shared_expert_intermediate_size": 64},
    "llama4": {"num_experts_per_tok": 1},
    "mimo_v2_flash": {"moe_layer_freq": [0] * LAYERS},
    "minimax_m3_vl": {"moe_layer_freq": [0] * LAYERS},
    "muse_spark": {"layer_rope_theta": [10000.0] * LAYERS},
    "spark2_5": {"hidden_act": "gelu"},
    "gemma3n": {"activation_sparsity_pattern": [0.0] * LAYERS},
    "lfm2-vl": {"layer_types": ["conv", "full_attention"] * (LAYERS // 2), "conv_bias": False,
                "conv_L_cache": 3, "block_multiple_of": 8, "block_ffn_dim_multiplier": 1.0,
                "block_auto_adjust_ff_dim": False},
    "qwen": {"intermediate_size": 256},
    "phi": {"hidden_size": 160},
    "nemotron-nas": {
        "block_configs": [
            {"attention": {"n_heads_in_group": 1}, "ffn": {"ffn_mult": 1.0}}
        ] * LAYERS
    },
}  # fmt: skip
"""What a model file wants in its own way."""

_PLAIN = {"int": 2, "float": 1.0, "bool": False, "str": "silu"}
_ROPE = {"rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor"}


@dataclass(frozen=True)
class Turn:
    """How one module rotates: channels, layout, radians a token, the factor on cos and sin."""

    channels: int
    interleaved: bool
    inv_freq: tuple[float, ...]
    amplitude: float


@dataclass(frozen=True)
class Observed:
    """The modules of a model by layer, and its softmax scales."""

    turns: dict[int, Turn]
    scales: dict[int, float]


def model_files() -> list[str]:
    """The model files of the installed release that hold a language model."""
    found = []
    for each in pkgutil.iter_modules(mlx_lm.models.__path__):
        try:
            module = importlib.import_module(f"mlx_lm.models.{each.name}")
        except (ImportError, SystemExit):
            found.append(each.name)
            continue
        if hasattr(module, "ModelArgs") and hasattr(module, "Model"):
            found.append(each.name)
    return found


def remapped() -> dict[str, str]:
    """Model types that are served by the file of another."""
    return dict(MODEL_REMAPPING)


def sizes(name: str) -> Json:
    """A tiny configuration that the model file builds from, without a word on the rotation."""
    config = {**SIZES, "model_type": name, **FAMILY.get(name, {})}
    module = importlib.import_module(f"mlx_lm.models.{name}")
    classes = [
        c for n in ("ModelArgs", "TextConfig", "TextArgs") if (c := getattr(module, n, None))
    ]
    parameters = [each for c in classes for each in inspect.signature(c).parameters.items()]
    for key, parameter in parameters:
        if parameter.default is inspect.Parameter.empty and key not in {*config, *_ROPE}:
            word = str(parameter.annotation).replace("typing.", "").removeprefix("Optional[")
            plain = next((v for k, v in _PLAIN.items() if f"'{k}'" in word or word[:-1] == k), None)
            config[key] = 1e-5 if "eps" in key else plain if plain is not None else 1
    return config


def required(name: str) -> list[str]:
    """The keys that the model file's arguments have no default for, without the rotation's."""
    arguments = importlib.import_module(f"mlx_lm.models.{name}").ModelArgs
    return [
        key
        for key, parameter in inspect.signature(arguments).parameters.items()
        if parameter.default is inspect.Parameter.empty and key not in _ROPE
    ]


def nested(name: str) -> bool:
    """Whether the model file reads its language model from `text_config`."""
    arguments = importlib.import_module(f"mlx_lm.models.{name}").ModelArgs
    return "text_config" in inspect.signature(arguments).parameters


def observe(config: Mapping[str, Any], position: int = POSITION) -> Observed:
    """Build the model of `config` with mlx-lm's own classes and read how its layers rotate.

    Raises whatever mlx-lm raises.
    """
    model_class, arguments = _get_classes(dict(config))
    model = model_class(arguments.from_dict(dict(config)))
    turns: dict[int, Turn] = {}
    scales: dict[int, float] = {}
    for path, module in model.named_modules():
        layer = _layer(path)
        last = path.rsplit(".", 1)[-1].lower()
        if "attn" in last or "attention" in last or "mixer" in last:
            scale = getattr(module, "scale", None)
            if isinstance(scale, int | float):
                scales.setdefault(layer, float(scale))
        if "vision" in path or "indexer" in path:
            continue
        if "rope" in last or type(module).__name__.lower().endswith("rope"):
            found = turn_of(module, position)
            if found is not None:
                turns.setdefault(layer, found)
    if not turns:
        turns = _in_forward(model)
    return Observed(dict(sorted(turns.items())), dict(sorted(scales.items())))


def _layer(path: str) -> int:
    parts = path.split(".")
    for before, here in pairwise(parts):
        if before in ("layers", "h", "blocks") and here.isdigit():
            return int(here)
    return -1


@contextmanager
def _recording(calls: list[tuple[Any, tuple[Any, ...], Json]]) -> Iterator[None]:
    real = mx.fast.rope

    def record(x: Any, *args: Any, **options: Any) -> Any:
        calls.append((x, args, options))
        return real(x, *args, **options)

    setattr(mx.fast, "rope", record)  # noqa: B010 - it has another signature
    try:
        yield
    finally:
        setattr(mx.fast, "rope", real)  # noqa: B010


def turn_of(module: Any, position: int = POSITION) -> Turn | None:
    """Call the module on ones and read what it hands to the kernel; None for no rotary module."""
    width = getattr(module, "dims", None) or getattr(module, "dim", None)
    freqs = getattr(module, "_freqs", None)
    if not isinstance(width, int) and freqs is not None:
        width = 2 * int(freqs.size)
    if not isinstance(width, int) or not width:
        return None
    calls: list[tuple[Any, tuple[Any, ...], Json]] = []
    with _recording(calls):
        module(mx.ones((1, 1, 1, width)), offset=position)
    return _of_call(*calls[0]) if calls else None


def _of_call(x: Any, args: tuple[Any, ...], options: Json) -> Turn:
    channels = args[0] if args else options["dims"]
    base, freqs = options["base"], options.get("freqs")
    if freqs is None:
        inverse = float(base) ** (-np.arange(0, channels, 2, dtype=np.float64) / channels)
    else:
        with np.errstate(divide="ignore"):
            inverse = 1.0 / np.array(freqs).astype(np.float64)
    inverse = inverse * float(options.get("scale", 1.0))
    return Turn(
        int(channels),
        bool(options["traditional"]),
        tuple(float(each) for each in inverse),
        float(np.array(x.astype(mx.float32)).ravel()[0]),
    )


def _in_forward(model: Any) -> dict[int, Turn]:
    """For model files without rotary modules: what reaches the kernel in a forward pass."""
    calls: list[tuple[Any, tuple[Any, ...], Json]] = []
    with _recording(calls):
        model(mx.array([[1, 2, 3]]))
    return {i // 2: replace(_of_call(*call), amplitude=1.0) for i, call in enumerate(calls)}


def without_scaling(turn: Turn) -> float:
    """The base that an unscaled module rotates by, from its second frequency."""
    return float(turn.inv_freq[1] ** (-turn.channels / 2.0))


def plain(turn: Turn, base: float) -> Turn:
    """The same channels at a base alone."""
    inverse = base ** (-np.arange(0, turn.channels, 2, dtype=np.float64) / turn.channels)
    return replace(turn, inv_freq=tuple(float(each) for each in inverse), amplitude=1.0)


def near(a: Turn, b: Turn) -> bool:
    """Whether two rotate the same, to fp32."""
    same = a.channels == b.channels and a.interleaved == b.interleaved
    return (
        same
        and np.allclose(a.inv_freq, b.inv_freq, rtol=1e-5, atol=0)
        and abs(a.amplitude - b.amplitude) < 1e-5
    )
