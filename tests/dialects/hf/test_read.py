"""What the reader takes from where, and what it says about keys that do not do what they seem."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.errors import ConfigError
from ropewalk.rope.schedules import DynamicNtk, Linear, Ntk, UnknownScaling, Unscaled, Yarn
from ropewalk.rope.spec import IncompleteRotary, NoPositionSpec, PositionSpec, RotarySpec, Window

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "max_position_embeddings": 16384,
    "rope_theta": 10000.0,
}
YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 4096,
}
LINEAR = {"rope_type": "linear", "factor": 2.0}


def only(spec: PositionSpec) -> RotarySpec:
    """The one rotary encoding of a spec."""
    ((_, rotary),) = spec.rotary_groups()
    return rotary


def codes(spec: PositionSpec) -> dict[str, str]:
    """Remarks by code, with their severity."""
    return {remark.code: remark.severity for remark in spec.findings}


REMARKS: list[tuple[str, str, dict[str, Any]]] = [
    ("remote-code", "note", {"auto_map": {"AutoConfig": "configuration_x.XConfig"}}),
    ("unknown-model-type", "warning", {"model_type": "brand_new"}),
    ("position-type-leftover", "note", {"position_embedding_type": "absolute"}),
    ("empty-rope-scaling", "note", {"rope_scaling": {}}),
    ("both-rope-keys", "note", {"rope_scaling": LINEAR, "rope_parameters": LINEAR}),
    ("both-rope-keys", "warning", {"rope_scaling": YARN, "rope_parameters": LINEAR}),
    ("base-stated-twice", "warning", {"rope_parameters": {"rope_theta": 5e5}}),
    ("base-key-not-read", "warning", {"rotary_emb_base": 500000}),
    ("type-and-rope-type-differ", "warning", {"rope_scaling": {**YARN, "type": "linear"}}),
    ("no-rope-type", "warning", {"rope_scaling": {"factor": 4.0}}),
    ("unknown-scaling-type", "warning", {"rope_scaling": {"rope_type": "wavy", "factor": 2}}),
    ("unread-rope-keys", "note", {"rope_scaling": {**YARN, "attn_factor": 0.5}}),
    ("mscale-ignored", "note", {"rope_scaling": {**YARN, "mscale": 1.0}}),
    (
        "original-length-ignored",
        "note",
        {"rope_scaling": {**LINEAR, "original_max_position_embeddings": 4096}},
    ),
    ("original-length-missing", "warning", {"rope_scaling": {"type": "yarn", "factor": 4.0}}),
    ("factor-below-one", "warning", {"rope_scaling": {"type": "linear", "factor": 0.5}}),
    ("proportional-without-share", "warning", {"rope_scaling": {"rope_type": "proportional"}}),
    ("factor-from-lengths", "note", {"rope_scaling": {**YARN, "factor": None}}),
    (
        "trained-lengths-disagree",
        "warning",
        {"rope_scaling": YARN, "original_max_position_embeddings": 8192},
    ),
    ("lengths-disagree", "warning", {"model_max_length": 131072}),
    ("inert-window", "note", {"sliding_window": 4096}),
    ("inert-window", "note", {"model_type": "mistral", "sliding_window": 16384}),
    ("head-dim-not-whole", "warning", {"hidden_size": 516}),
    ("unread-rotary-dim", "note", {"rotary_dim": 32}),
    (
        "mrope-sections-do-not-fit",
        "warning",
        {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
    ),
    ("rope-scaling-not-read", "warning", {"model_type": "gptj", "rope_scaling": LINEAR}),
    ("hard-limit", "note", {"model_type": "gpt2"}),
    ("unused-rope-keys", "note", {"model_type": "bert"}),
    ("no-rope-list-filled", "note", {"model_type": "smollm3"}),
    ("temperature-from-library-default", "note", {"model_type": "llama4_text"}),
    ("scaling-from-library-default", "note", {"model_type": "gpt_oss"}),
    (
        "flat-rope-parameters-ignored",
        "warning",
        {"model_type": "gemma3_text", "rope_parameters": LINEAR},
    ),
    (
        "outer-rope-keys-not-read",
        "warning",
        {"rope_scaling": LINEAR, "text_config": {**LLAMA}},
    ),
]


@pytest.mark.parametrize(
    ("code", "severity", "keys"), REMARKS, ids=[f"{case[0]}-{case[1]}" for case in REMARKS]
)
def test_a_key_that_does_not_do_what_it_seems_is_remarked(
    code: str, severity: str, keys: dict[str, Any]
) -> None:
    assert codes(read_config({**LLAMA, **keys})).get(code) == severity


def test_a_plain_config_has_nothing_remarked() -> None:
    assert read_config({**LLAMA, "rope_scaling": None}).findings == ()


def test_rope_scaling_beats_rope_parameters_unless_it_is_null() -> None:
    both = {**LLAMA, "rope_parameters": {**LINEAR, "rope_theta": 5e5}}
    assert only(read_config({**both, "rope_scaling": None})).scaling == Linear(2.0)
    scaled = only(read_config({**both, "rope_scaling": YARN}))
    assert isinstance(scaled.scaling, Yarn)
    assert (scaled.rope_theta, scaled.rope_theta_source) == (10000.0, "rope_theta")


def test_the_base_inside_the_dictionary_beats_the_one_at_the_top() -> None:
    rotary = only(read_config({**LLAMA, "rope_parameters": {"rope_theta": 5e5}}))
    assert (rotary.rope_theta, rotary.rope_theta_source) == (5e5, "rope_parameters.rope_theta")


def test_the_original_length_at_the_top_beats_the_one_inside() -> None:
    spec = read_config({**LLAMA, "rope_scaling": YARN, "original_max_position_embeddings": 8192})
    scaling = only(spec).scaling
    assert isinstance(scaling, Yarn)
    assert scaling.original_max_position_embeddings == 8192
    assert (spec.trained.tokens, spec.trained.source) == (8192, "original_max_position_embeddings")
    assert [length.tokens for length in spec.other_lengths] == [4096]


def test_a_missing_original_length_is_not_made_into_a_trained_one() -> None:
    spec = read_config({**LLAMA, "rope_scaling": {"type": "yarn", "factor": 4.0}})
    scaling = only(spec).scaling
    assert isinstance(scaling, Yarn)
    assert (scaling.original_max_position_embeddings, spec.trained.tokens) == (16384, None)


def test_dynamic_anchors_on_the_claim_whatever_the_original_is() -> None:
    rope = {"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 4096}
    assert only(read_config({**LLAMA, "rope_scaling": rope})).scaling == DynamicNtk(2.0, 16384)


def test_hunyuans_alpha_is_a_fixed_larger_base() -> None:
    rope = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}
    spec = read_config({**LLAMA, "model_type": "hunyuan_v1_dense", "rope_scaling": rope})
    assert only(spec).scaling == Ntk(1000.0)


def test_an_unknown_type_keeps_its_name_and_parameters() -> None:
    spec = read_config({**LLAMA, "rope_scaling": {"rope_type": "wavy", "factor": 2.0}})
    assert only(spec).scaling == UnknownScaling("wavy", (("factor", "2.0"),))


def test_nested_parameters_serve_their_kind_and_null_means_no_position() -> None:
    config = {
        **LLAMA,
        "model_type": "brand_new",
        "sliding_window": 1024,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0},
            "full_attention": None,
        },
    }
    sliding, full = read_config(config).groups
    assert isinstance(sliding.encoding, RotarySpec)
    assert (sliding.encoding.rope_theta, sliding.window) == (5000.0, Window(1024))
    assert full.encoding == NoPositionSpec()
    assert full.layers == (1, 3)


def test_layers_without_a_count_are_told_without_indices() -> None:
    spec = read_config({"model_type": "gemma3_text", "hidden_size": 640})
    assert [(g.name, g.layers) for g in spec.groups] == [
        ("sliding attention", ()),
        ("full attention", ()),
    ]


def test_a_window_of_qwen_counts_from_max_window_layers_on_when_it_is_on() -> None:
    qwen = {**LLAMA, "model_type": "qwen2", "sliding_window": 512, "max_window_layers": 3}
    off = read_config({**qwen, "use_sliding_window": False})
    on = read_config({**qwen, "use_sliding_window": True})
    assert [g.window for g in off.groups] == [None]
    assert [(g.window, g.layers) for g in on.groups] == [
        (None, (0, 1, 2)),
        (Window(512), (3,)),
    ]


def test_cohere_2_and_exaone_4_rotate_only_their_sliding_layers() -> None:
    for model_type in ("cohere2", "exaone4"):
        spec = read_config({**LLAMA, "model_type": model_type, "sliding_window": 512})
        sliding, full = spec.groups
        assert isinstance(sliding.encoding, RotarySpec)
        assert (full.encoding, full.layers) == (NoPositionSpec(), (3,))


def test_a_file_that_names_a_length_only_is_told_without_an_encoding() -> None:
    spec = read_config({"model_type": "brand_new", "max_position_embeddings": 4096})
    assert (spec.groups, spec.claimed.tokens) == ((), 4096)
    assert codes(spec) == {"encoding-unknown": "warning"}


def test_an_unknown_type_gets_no_default_base() -> None:
    config = {k: v for k, v in LLAMA.items() if k != "rope_theta"}
    (group,) = read_config({**config, "model_type": "new", "rope_scaling": LINEAR}).groups
    assert isinstance(group.encoding, IncompleteRotary)
    assert group.encoding.missing == ("rope_theta",)
    assert "no default is known" in group.encoding.reason


def test_a_tokenizers_length_is_shown_beside_the_claim() -> None:
    spec = read_config(LLAMA, {"model_max_length": 131072})
    assert [(x.tokens, x.source) for x in spec.other_lengths] == [
        (131072, "tokenizer_config.json: model_max_length")
    ]
    assert codes(spec) == {"tokenizer-length-beyond-claim": "warning"}


@pytest.mark.parametrize("value", [int(1e30), 1e30, 1000000000000000019884624838656, None])
def test_a_tokenizer_without_a_limit_says_nothing(value: object) -> None:
    spec = read_config(LLAMA, {"model_max_length": value})
    assert (spec.other_lengths, spec.findings) == ((), ())


def test_a_training_length_beside_a_larger_maximum_is_the_trained_one() -> None:
    spec = read_config({**LLAMA, "model_type": "qwen", "seq_length": 2048})
    assert (spec.claimed.tokens, spec.trained.tokens) == (16384, 2048)
    assert spec.other_lengths == ()


def test_remote_code_is_named_and_never_needed() -> None:
    spec = read_config({**LLAMA, "auto_map": {"AutoModel": "evil.py--Model"}})
    assert isinstance(only(spec).scaling, Unscaled)
    assert "never run" in spec.findings[0].text


def test_reading_a_config_imports_neither_torch_nor_numpy_nor_transformers() -> None:
    code = (
        "import sys, ropewalk.dialects.hf as hf; "
        "hf.read_config({'model_type': 'llama', 'hidden_size': 64, 'num_attention_heads': 2}); "
        "print([m for m in ('torch', 'numpy', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_layers_of_a_hybrid_that_attend_are_no_states() -> None:
    """Zaya's layers each hold attention; Zamba 2's shared ones do, turned only when asked."""
    shape = {"hidden_size": 2048, "num_attention_heads": 8, "num_hidden_layers": 4}
    zaya = read_config({**shape, "model_type": "zaya"})
    assert [type(group.encoding).__name__ for group in zaya.groups] == ["RotarySpec"]
    words = ["mamba", "hybrid", "mamba", "hybrid"]
    zamba = {**shape, "model_type": "zamba2", "layers_block_type": words}
    for asked, encoding in ((False, "NoPositionSpec"), (True, "RotarySpec")):
        groups = read_config({**zamba, "use_mem_rope": asked}).groups
        by_name = {group.name: group for group in groups}
        assert type(by_name["mamba"].encoding).__name__ == "Recurrent"
        hybrid = next(group for group in groups if group.layers == (1, 3))
        assert type(hybrid.encoding).__name__ == encoding
        # Heads of 512 channels are scaled as if they had 256.
        assert hybrid.softmax.factor == pytest.approx(2**0.5)


def test_layers_of_one_kind_with_other_heads_are_told() -> None:
    layers = {"1": {"head_dim": 64}, "3": {"head_dim": 128}}
    config = {
        "model_type": "llama",
        "hidden_size": 2048,
        "num_attention_heads": 8,
        "num_hidden_layers": 4,
        "per_layer_config": layers,
    }
    codes = [remark.code for remark in read_config(config).findings]
    assert "layers-of-one-kind-differ" in codes
    without = {key: value for key, value in config.items() if key != "per_layer_config"}
    assert "layers-of-one-kind-differ" not in [r.code for r in read_config(without).findings]


def test_a_base_that_olmo_3_loses_on_its_sliding_layers_is_told() -> None:
    config = {
        "model_type": "olmo3",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_hidden_layers": 4,
    }
    for base, told in ((500_000.0, False), (1e6, True)):
        spec = read_config({**config, "rope_theta": base})
        assert {rotary.rope_theta for _, rotary in spec.rotary_groups()} == {base}
        assert ("sliding-base-lost" in [remark.code for remark in spec.findings]) == told


def test_a_rate_of_compression_that_names_no_layer_is_refused() -> None:
    config = {"model_type": "deepseek_v4", "num_hidden_layers": 2, "compress_ratios": [4, 7]}
    with pytest.raises(ConfigError, match=r"compress_ratios.*7 names no kind of layer"):
        read_config(config)
