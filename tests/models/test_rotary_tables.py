"""Schedules installed into live models, against transformers configured for them natively."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from ropewalk.dialects.gguf import read_gguf
from ropewalk.dialects.hf import read_config
from ropewalk.errors import ScheduleMismatchError
from ropewalk.models.rotary_tables import as_loaded, install, schedule_fingerprint
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.override import override
from ropewalk.rope.schedules import PairDivisors
from ropewalk.rope.spec import IncompleteRotary, LayerGroup, PositionSpec, RotarySpec

Build = Callable[..., Any]

THETA = 10000.0
PAIRS = 8
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "llama3": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "proportional": {"rope_type": "proportional", "partial_rotary_factor": 0.3},
    "longrope": {
        "rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 64,
        "short_factor": [1.0 + 0.1 * i for i in range(PAIRS)],
        "long_factor": [1.0 + 2.0 * i for i in range(PAIRS)],
    },
}  # fmt: skip


def spec_of(model: Any) -> PositionSpec:
    return read_config(json.loads(model.config.to_json_string()))


def logits(model: Any, length: int) -> torch.Tensor:
    ids = (torch.arange(length)[None] * 7 + 3) % 257
    with torch.inference_mode():
        return model(ids, use_cache=False).logits  # type: ignore[no-any-return]


def table_of(model: Any) -> torch.Tensor:
    return model.model.rotary_emb.inv_freq  # type: ignore[no-any-return]


# dynamic is anchored on max_position_embeddings (256), the others on 64 tokens.
@pytest.mark.parametrize("length", [40, 64, 65, 256, 300])
@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.filterwarnings("ignore")
def test_a_plain_model_with_a_schedule_is_the_natively_configured_one(
    build: Build, name: str, length: int
) -> None:
    native = build(rope_parameters={**SCALINGS[name], "rope_theta": THETA})
    plain = build(rope_parameters={"rope_type": "default", "rope_theta": THETA})
    plain.load_state_dict(native.state_dict())
    expected, before = logits(native, length), logits(plain, length)
    install(plain, spec_of(native), length)
    after = logits(plain, length)
    torch.testing.assert_close(after, expected, rtol=1e-5, atol=1e-5)
    unscaled = name == "dynamic" and length <= 256
    assert torch.allclose(before, expected, atol=1e-3) is unscaled


def test_a_native_model_asked_short_after_long_does_not_keep_the_long_schedule(
    build: Build,
) -> None:
    model = build(rope_parameters={**SCALINGS["longrope"], "rope_theta": THETA})
    spec, first = spec_of(model), logits(copy.deepcopy(model), 40)
    for length in (300, 40):
        install(model, spec, length)
        last = logits(model, length)
    torch.testing.assert_close(last, first, rtol=1e-5, atol=1e-5)


DEEPSEEK = {
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
    "topk_group": 1, "moe_intermediate_size": 32, "first_k_dense_replace": 4,
    "num_key_value_heads": 4,
    "rope_scaling": {**SCALINGS["yarn"], "mscale": 0.7, "mscale_all_dim": 1.0},
}  # fmt: skip
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
MODELS: list[tuple[str, dict[str, Any]]] = [
    ("phi3", {"partial_rotary_factor": 0.5}),
    ("gpt_neox", {"rotary_pct": 0.25}),
    ("cohere", {}),
    ("cohere2", {"num_hidden_layers": 4}),
    ("glm", {"head_dim": 16, "partial_rotary_factor": 0.5}),
    ("stablelm", {}),
    ("falcon", {}),
    ("deepseek_v3", DEEPSEEK),
    ("gpt_oss", {"head_dim": 16, "sliding_window": 32, **EXPERTS}),
    ("olmo3", {"sliding_window": 32, "num_hidden_layers": 4, "rope_scaling": SCALINGS["yarn"]}),
    ("gemma2", {"head_dim": 16, "sliding_window": 32}),
    ("gemma3_text", {"head_dim": 16, "sliding_window": 32, "num_hidden_layers": 6}),
    ("llama4_text", {"head_dim": 16, "intermediate_size_mlp": 64, "num_local_experts": 2}),
    ("smollm3", {"num_hidden_layers": 4}),
    ("mimo_v2_flash", {}),
]


@pytest.mark.parametrize(("model_type", "keys"), MODELS, ids=[m for m, _ in MODELS])
@pytest.mark.filterwarnings("ignore")
def test_the_schedule_that_a_models_own_configuration_gives_changes_nothing(
    build: Build, model_type: str, keys: dict[str, Any]
) -> None:
    model = build(model_type, **keys)
    before = logits(model, 60)
    install(model, spec_of(model), 60)
    torch.testing.assert_close(logits(model, 60), before, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("model_type", "keys"),
    [("gpt2", {"n_positions": 64}), ("bloom", {}), ("mpt", {"d_model": 64, "n_heads": 4})],
)
def test_models_that_do_not_rotate_pass_through(
    build: Build, model_type: str, keys: dict[str, Any]
) -> None:
    model = build(model_type, **keys)
    before = logits(model, 60)
    install(model, spec_of(model), 60)
    assert torch.equal(logits(model, 60), before)


@pytest.mark.parametrize("spoil", [torch.float16, torch.bfloat16])
def test_a_table_cast_with_its_model_is_written_in_full_precision(
    build: Build, spoil: torch.dtype
) -> None:
    model = build()
    exact = table_of(model).clone()
    model.to(spoil)
    assert not torch.equal(table_of(model).float(), exact)
    install(model, spec_of(model), None)
    assert table_of(model).dtype == torch.float32
    torch.testing.assert_close(table_of(model), exact, rtol=1e-6, atol=0)
    assert model.model.layers[0].self_attn.q_proj.weight.dtype == spoil


def test_a_table_of_random_numbers_is_repaired(build: Build) -> None:
    model = build()
    before = logits(model, 60)
    table_of(model).normal_()
    install(model, spec_of(model), None)
    torch.testing.assert_close(logits(model, 60), before, rtol=1e-5, atol=1e-5)


def test_of_two_bases_only_the_global_layers_table_is_rescaled(build: Build) -> None:
    keys = {"head_dim": 16, "sliding_window": 32, "num_hidden_layers": 6}
    model = build("gemma3_text", **keys)
    rotary = model.model.rotary_emb
    full, sliding = rotary.full_attention_inv_freq, rotary.sliding_attention_inv_freq
    install(model, override(spec_of(model), "linear:8"), 60)
    torch.testing.assert_close(rotary.full_attention_inv_freq, full / 8)
    torch.testing.assert_close(rotary.sliding_attention_inv_freq, sliding)
    native = build(
        "gemma3_text",
        **keys,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    )
    torch.testing.assert_close(logits(model, 60), logits(native, 60), rtol=1e-5, atol=1e-5)


def change(spec: PositionSpec, encoding: Any) -> PositionSpec:
    return replace(spec, groups=tuple(replace(g, encoding=encoding) for g in spec.groups))


def test_another_number_of_pairs_is_a_mismatch(build: Build) -> None:
    model = build()
    with pytest.raises(ScheduleMismatchError, match=r"rotary_emb\.inv_freq holds 8 pairs .* 16"):
        install(model, change(spec_of(model), RotarySpec(32, 32, THETA)), None)


def test_a_schedule_that_the_files_leave_out_is_not_guessed(build: Build) -> None:
    model = build()
    with pytest.raises(ScheduleMismatchError, match="leave out rope_theta, so the schedule"):
        install(model, change(spec_of(model), IncompleteRotary(("rope_theta",))), None)


def test_angles_that_cannot_be_seen_cannot_be_proved(build: Build) -> None:
    model = build("gpt2", n_positions=64)
    with pytest.raises(ScheduleMismatchError, match="GPT2LMHeadModel keeps its rotary angles"):
        install(model, change(spec_of(model), RotarySpec(16, 16, THETA)), None)


def test_one_table_has_no_room_for_two_schedules(build: Build) -> None:
    model = build()
    groups = (
        LayerGroup("a", (0,), RotarySpec(16, 16, THETA)),
        LayerGroup("b", (1,), RotarySpec(16, 16, 5e5)),
    )
    with pytest.raises(ScheduleMismatchError, match="2 schedules; it has room for one"):
        install(model, replace(spec_of(model), groups=groups), None)


@pytest.mark.filterwarnings("ignore")
def test_an_amplitude_with_nowhere_to_go_is_refused(build: Build) -> None:
    model = build()
    del model.model.rotary_emb.attention_scaling
    install(model, spec_of(model), None)
    with pytest.raises(ScheduleMismatchError, match=r"multiplied by 1\.06931"):
        install(model, override(spec_of(model), "yarn:2"), None)


def test_a_table_that_does_not_keep_what_is_written_is_found_before_the_first_token(
    build: Build,
) -> None:
    model = build()
    rotary = model.model.rotary_emb

    class Stubborn(type(rotary)):  # type: ignore[misc]
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value * 1.001 if name == "inv_freq" else value)

    rotary.__class__ = Stubborn
    with pytest.raises(ScheduleMismatchError, match=r"model\.rotary_emb\.inv_freq"):
        install(model, spec_of(model), None)


def llama3_divisors() -> np.ndarray[Any, Any]:
    """What llama.cpp's converter writes: unscaled over scaled, from transformers' own rule."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(
        hidden_size=64, num_attention_heads=4,
        rope_parameters={**SCALINGS["llama3"], "rope_theta": THETA},
    )  # fmt: skip
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = THETA ** (-np.arange(0, 16, 2) / 16)
    divisors: np.ndarray[Any, Any] = (plain / scaled.double().numpy()).astype(np.float32)
    return divisors


def write_gguf(model: Any, path: Path, divisors: np.ndarray[Any, Any]) -> None:
    """The model as llama.cpp's converter lays it out, schedule in `rope_freqs.weight`."""
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(THETA)
    writer.add_rope_dimension_count(16)
    writer.add_vocab_size(config.vocab_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        array = weight.numpy()
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        for part, count in heads.items():
            if part in name:
                # llama.cpp rotates neighbours; the converter reorders the rows for that.
                rows = array.reshape(count, 2, -1, array.shape[1])
                array = np.ascontiguousarray(rows.swapaxes(1, 2)).reshape(array.shape)
        given = names.get_name(name, try_suffixes=(".weight",))
        assert given is not None
        writer.add_tensor(given, array)
    writer.add_tensor("rope_freqs.weight", divisors)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_schedule_in_rope_freqs_is_what_the_model_rotates_by(
    build: Build, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    native = build(rope_parameters={**SCALINGS["llama3"], "rope_theta": THETA})
    write_gguf(native, tmp_path / "tiny.gguf", llama3_divisors())
    loaded = AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file="tiny.gguf", dtype=torch.float32
    )
    expected, before = logits(native, 200), logits(loaded, 200)
    plain = schedule(RotarySpec(16, 16, THETA)).inv_freq
    assert table_of(loaded).tolist() == pytest.approx(plain, rel=1e-6)
    assert not torch.allclose(before, expected, atol=1e-3)
    spec = read_gguf(tmp_path / "tiny.gguf")
    (pair,) = spec.rotary_groups()
    assert isinstance(pair[1].scaling, PairDivisors)
    assert "mended after loading" in as_loaded(loaded, spec)
    assert "is plain rotary" in as_loaded(loaded, spec)
    install(loaded, spec, 200)
    assert as_loaded(loaded, spec) == "loaded as the model's files say"
    torch.testing.assert_close(table_of(loaded), table_of(native), rtol=1e-6, atol=0)
    torch.testing.assert_close(logits(loaded, 200), expected, rtol=1e-4, atol=1e-4)


def test_fingerprints_differ_where_schedules_do(build: Build) -> None:
    spec = spec_of(build())
    texts = ["yarn:2", "yarn:4", "linear:2", "ntk:2", "base:20000"]
    prints = {schedule_fingerprint(override(spec, text)) for text in texts}
    assert len(prints | {schedule_fingerprint(spec)}) == 6
    assert schedule_fingerprint(override(spec, "none")) == schedule_fingerprint(spec)


def test_a_schedule_that_differs_only_for_long_texts_has_another_fingerprint(build: Build) -> None:
    plain = build(rope_parameters={"rope_type": "default", "rope_theta": THETA})
    dynamic = build(rope_parameters={**SCALINGS["dynamic"], "rope_theta": THETA})
    assert schedule_fingerprint(spec_of(plain)) != schedule_fingerprint(spec_of(dynamic))
