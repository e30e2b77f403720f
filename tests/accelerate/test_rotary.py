"""accelerate_rotary: the same logits by other kernels, for this model alone, and back again."""

from __future__ import annotations

import copy
import importlib
import io
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import ropewalk
from ropewalk.accelerate import apply
from ropewalk.accelerate.rotary import accelerate_rotary
from ropewalk.errors import UsageError

if TYPE_CHECKING:
    from ropewalk.models.load import LoadedModel

BuildTiny = Callable[..., Any]

SAMPLE = {
    "llama": "pairs of halves",
    "qwen3": "pairs of halves",
    "gemma2": "pairs of halves",
    "gemma3_text": "pairs of halves",
    "gpt_neox": "pairs of halves",
    "phi3": "pairs of halves",
    "olmo2": "pairs of halves",
    "modernbert-decoder": "pairs of halves",
    "stablelm": "pairs of halves",
    "gpt_oss": "pairs of halves",
    "glm": "pairs of neighbours",
    "cohere": "pairs of neighbours",
    "gptj": "pairs of neighbours",
    "codegen": "pairs of neighbours",
    "ernie4_5": "pairs of neighbours",
    "helium": "pairs of neighbours",
    "deepseek_v2": "pairs of neighbours",
    "llama4_text": "pairs of neighbours",
    "deepseek_v3": "pairs of neighbours, which leave as halves",
    "nanochat": "pairs of halves, rotated backwards",
}
"""A type for each way of rotating that transformers has, and the words for it."""


def distance(theirs: Tensor, ours: Tensor) -> float:
    """How far apart two results are, relative to the size of the first."""
    return float((theirs - ours).norm() / theirs.norm())


def logits_of(model: Any, ids: Tensor) -> Tensor:
    with torch.no_grad():
        logits: Tensor = model(ids, use_cache=False).logits
    return logits


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tensors each call of the kernels rotated."""
    calls: list[int] = []
    own: Callable[..., list[Tensor]] = vars(apply)["_rotate"]

    def count(tensors: Any, *args: Any, **kwargs: Any) -> list[Tensor]:
        calls.append(len(tensors))
        return own(tensors, *args, **kwargs)

    monkeypatch.setattr(apply, "_rotate", count)
    return calls


@pytest.mark.parametrize(("model_type", "words"), SAMPLE.items(), ids=SAMPLE)
def test_logits_stay_and_come_back(
    model_type: str, words: str, tiny: BuildTiny, used: list[int]
) -> None:
    built = tiny(model_type)
    handle = accelerate_rotary(built.model)
    assert handle.changed > 0
    assert not handle.stays
    assert f"({words})." in str(handle)
    used.clear()
    assert distance(built.logits, built.again()) < 1e-5
    assert len(used) >= handle.changed
    handle.undo()
    used.clear()
    assert torch.equal(built.logits, built.again())
    assert not used


def test_a_wrong_rotation_would_show(tiny: BuildTiny, monkeypatch: pytest.MonkeyPatch) -> None:
    built = tiny("llama")
    accelerate_rotary(built.model)
    monkeypatch.setattr(apply, "_rotate", lambda tensors, *_, **__: list(tensors))
    assert distance(built.logits, built.again()) > 1e-3


@pytest.mark.conformance
def test_every_causal_type_that_builds_quickly(tiny: BuildTiny) -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    families: dict[str, int] = {}
    without = []
    for model_type in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                built = tiny(model_type)
        except ValueError:
            continue
        with accelerate_rotary(built.model) as handle:
            got = built.again()
            assert distance(built.logits, got) < 1e-5, f"{model_type}: {handle}"
            if handle.changed:
                families[model_type] = handle.changed
            elif handle.stays:
                without.append(f"{model_type}: {handle}")
        assert torch.equal(built.logits, built.again()), model_type
    rotating = len(families) + len(without)
    sys.stdout.write(f"accelerated {len(families)} of {rotating} families that rotate\n")
    assert len(families) >= 100
    assert not without, without


def test_another_model_of_the_same_class_is_untouched(tiny: BuildTiny, used: list[int]) -> None:
    first, second = tiny("llama"), tiny("llama")
    with accelerate_rotary(first.model):
        used.clear()
        assert torch.equal(second.logits, second.again())
        assert not used
        first.again()
        assert used


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients_are_those_of_the_model(
    tiny: BuildTiny, checkpointing: bool, used: list[int]
) -> None:
    built = tiny("llama")
    model = built.model.train()

    def gradients() -> list[Tensor]:
        model.zero_grad()
        model(built.ids, labels=built.ids, use_cache=False).loss.backward()
        return [p.grad.clone() for p in model.parameters()]

    before = gradients()
    if checkpointing:
        model.activation_checkpointing_enable()
    with accelerate_rotary(model):
        used.clear()
        after = gradients()
    assert len(used) == (4 if checkpointing else 2)
    for theirs, ours in zip(before, after, strict=True):
        assert distance(theirs, ours) < 1e-5


def test_in_place_is_for_calls_that_keep_no_gradient(tiny: BuildTiny) -> None:
    built = tiny("gpt_neox")
    with accelerate_rotary(built.model, in_place=True) as handle:
        assert "in place where no gradient is kept" in str(handle)
        assert distance(built.logits, built.again()) < 1e-5
        with torch.inference_mode():
            logits = built.model(built.ids, use_cache=False).logits
        assert distance(built.logits, logits) < 1e-5
        built.model(built.ids, labels=built.ids, use_cache=False).loss.backward()


def test_bf16_parts_by_no_more_than_its_rounding(tiny: BuildTiny) -> None:
    built = tiny("llama")
    model = built.model.bfloat16()
    theirs = logits_of(model, built.ids)
    with accelerate_rotary(model):
        ours = logits_of(model, built.ids)
    assert ours.dtype == torch.bfloat16
    rounding = distance(built.logits, theirs.float())
    assert distance(built.logits, ours.float()) < 1.2 * rounding
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert logits_of(model.float(), built.ids).isfinite().all()


def test_undo_refuses_while_another_class_is_on_top(tiny: BuildTiny) -> None:
    built = tiny("llama")
    handle = accelerate_rotary(built.model)
    layer = built.model.model.layers[1].self_attn
    ours = type(layer)
    layer.__class__ = type("Sharded", (ours,), {})
    with pytest.raises(UsageError, match="class Sharded since; undo that first"):
        handle.undo()
    assert type(built.model.model.layers[0].self_attn) is ours
    layer.__class__ = ours
    handle.undo()
    handle.undo()


def test_a_second_acceleration_is_refused(tiny: BuildTiny) -> None:
    built = tiny("llama")
    with accelerate_rotary(built.model), pytest.raises(UsageError, match="accelerated already"):
        accelerate_rotary(built.model)
    with accelerate_rotary(built.model):
        pass


def test_a_copy_and_a_pickle_are_of_the_original_class(tiny: BuildTiny) -> None:
    built = tiny("llama")
    own = type(built.model.model.layers[0].self_attn)
    with accelerate_rotary(built.model):
        stream = io.BytesIO()
        torch.save(built.model, stream)
        stream.seek(0)
        for model in (copy.deepcopy(built.model), torch.load(stream, weights_only=False)):
            assert type(model.model.layers[0].self_attn) is own
            assert torch.equal(built.logits, logits_of(model, built.ids))


def test_a_model_under_hooks_of_accelerate_is_accelerated_too(
    tiny: BuildTiny, used: list[int]
) -> None:
    hooks: Any = importlib.import_module("accelerate.hooks")

    built = tiny("llama")
    layer = built.model.model.layers[0].self_attn
    hooks.add_hook_to_module(layer, hooks.ModelHook())
    with accelerate_rotary(built.model) as handle:
        assert handle.changed == 2
        used.clear()
        assert distance(built.logits, built.again()) < 1e-5
        assert len(used) == 2
    used.clear()
    assert torch.equal(built.logits, built.again())
    assert not used


def test_a_forward_replaced_on_the_module_stays(tiny: BuildTiny) -> None:
    built = tiny("llama")
    layer = built.model.model.layers[0].self_attn
    own = layer.forward
    layer.forward = lambda *args, **kwargs: own(*args, **kwargs)
    with accelerate_rotary(built.model) as handle:
        assert handle.changed == 1
        assert "1 LlamaAttention stayed: its forward has been replaced" in str(handle)


def test_a_model_that_rotates_nothing_is_left_alone(tiny: BuildTiny) -> None:
    handle = accelerate_rotary(tiny("gpt2").model)
    assert handle.changed == 0
    assert "nothing is changed" in str(handle)


class _Unequal(nn.Module):
    """Tables whose two copies of a pair differ, as no formula of ours has them."""

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        self.own = own

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self.own(x, position_ids)
        return cos * torch.linspace(0.5, 1.0, cos.shape[-1]), sin


def test_tables_with_unequal_copies_are_left_to_the_model(tiny: BuildTiny, used: list[int]) -> None:
    model, ids = tiny("llama").model, tiny("llama").ids
    model.model.rotary_emb = _Unequal(model.model.rotary_emb)
    before = logits_of(model, ids)
    with accelerate_rotary(model) as handle:
        used.clear()
        assert torch.equal(before, logits_of(model, ids))
        assert not used
        assert "looked at in each forward pass" in str(handle)


def test_a_tower_of_images_without_a_batch_is_accelerated(used: list[int]) -> None:
    from transformers.models.qwen2_vl import modeling_qwen2_vl as modeling
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig

    torch.manual_seed(0)
    config = Qwen2VLVisionConfig(depth=2, embed_dim=64, hidden_size=64, num_heads=4, mlp_ratio=2)
    tower = modeling.Qwen2VisionTransformerPretrainedModel(config).eval()
    pixels, grid = torch.randn(64, 3 * 2 * 14 * 14), torch.tensor([[1, 8, 8]])

    def seen() -> Tensor:
        with torch.no_grad():
            out: Tensor = tower(pixels, grid_thw=grid).last_hidden_state
        return out

    before = seen()
    with accelerate_rotary(tower) as handle:
        assert handle.changed == 2
        used.clear()
        assert distance(before, seen()) < 1e-5
        assert used == [2, 2]
    assert torch.equal(before, seen())


def test_a_cache_and_left_padding_go_on_as_before(tiny: BuildTiny) -> None:
    built = tiny("qwen3")
    mask = torch.ones_like(built.ids)
    mask[0, :4] = 0
    settings: dict[str, Any] = {
        "attention_mask": mask, "max_new_tokens": 6, "do_sample": False, "output_logits": True,
        "return_dict_in_generate": True,
    }  # fmt: skip
    before = built.model.generate(built.ids, **settings)
    with accelerate_rotary(built.model):
        after = built.model.generate(built.ids, **settings)
    assert torch.equal(before.sequences, after.sequences)
    assert distance(torch.stack(before.logits), torch.stack(after.logits)) < 1e-5


def test_compiled_it_is_one_graph_and_the_kernel_is_in_it(tiny: BuildTiny) -> None:
    built = tiny("llama")
    seen: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    with accelerate_rotary(built.model):
        compiled = torch.compile(built.model, fullgraph=True, backend=backend)
        assert distance(built.logits, logits_of(compiled, built.ids)) < 1e-5
    assert sum("ropewalk.rotate" in name for name in seen) == 2


@pytest.mark.model
def test_smollm2_says_the_same(smollm2: LoadedModel) -> None:
    tokens = smollm2.tokenizer("The capital of France is", return_tensors="pt")
    settings: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False}
    model: Any = smollm2.model
    before, said = logits_of(model, tokens.input_ids), model.generate(**tokens, **settings)
    with ropewalk.accelerate_rotary(model) as handle:
        assert handle.changed == 30
        assert distance(before, logits_of(model, tokens.input_ids)) < 1e-5
        assert torch.equal(said, model.generate(**tokens, **settings))
    assert torch.equal(before, logits_of(model, tokens.input_ids))
