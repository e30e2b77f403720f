"""What breaks sharing is recognised, from the spec and from the live model."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from transformers import AutoModelForCausalLM, BambaConfig, BloomConfig, MambaConfig

from ropewalk.models.resolve import read_spec, resolve
from ropewalk.models.rotary_tables import install
from ropewalk.proof.cells import Sharing
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.subjects.branches import moving_schedule, sharable
from ropewalk.proof.subjects.local import LocalSubject, SharingLocal
from ropewalk.proof.tokens import Tokens
from ropewalk.rope.override import override
from ropewalk.rope.schedules import LongRope
from ropewalk.rope.spec import PositionSpec

if TYPE_CHECKING:
    from ropewalk.models.load import LoadedModel


@pytest.fixture(scope="module")
def spec(smollm2_gguf: Any) -> PositionSpec:
    return read_spec(resolve(str(smollm2_gguf)))


def test_a_dynamic_schedule_shares_only_where_it_does_not_yet_move(spec: PositionSpec) -> None:
    moved = override(spec, "dynamic:2")
    assert moving_schedule(spec, [512, 1 << 20]) is None
    assert moving_schedule(moved, [512, 8192]) is None
    reason = moving_schedule(moved, [512, 12_000])
    assert reason is not None
    assert "(dynamic)" in reason
    assert "12,000 tokens" in reason


def test_a_schedule_with_a_switch_shares_on_either_side_of_it(spec: PositionSpec) -> None:
    (group,) = spec.groups
    rotary: Any = group.encoding
    pairs = rotary.rotary_dim // 2
    scaling = LongRope((1.0,) * pairs, (2.0,) * pairs, 4096, 2.0)
    switched = replace(spec, groups=(replace(group, encoding=replace(rotary, scaling=scaling)),))
    assert moving_schedule(switched, [512, 4096, 8192]) is None


def model_of(config: Any) -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)


SMALL: dict[str, Any] = {"hidden_size": 48, "num_hidden_layers": 2, "vocab_size": 1200}


@pytest.mark.parametrize(
    "config",
    [
        MambaConfig(**SMALL, state_size=4),
        BambaConfig(
            **SMALL,
            attn_layer_indices=[1],
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=64,
            mamba_n_heads=4,
            mamba_d_head=24,
            mamba_d_state=8,
        ),
    ],
)
def test_recurrent_states_cannot_be_shared(config: Any, spec: PositionSpec) -> None:
    found = sharable(model_of(config), spec, [512], Sharing.BRANCHES)
    assert found.sharing is Sharing.NONE
    assert "cannot be taken back" in found.reason or "keeps" in found.reason


@pytest.mark.parametrize("wanted", [Sharing.PREFIX, Sharing.BRANCHES])
@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_attention_with_and_without_windows_can(
    kind: str, wanted: Sharing, tiny_model: Callable[..., Any], spec: PositionSpec
) -> None:
    changes = {"sliding_window": 32, "num_hidden_layers": 6} if kind == "gemma3" else {}
    model = tiny_model(kind, **changes)
    found = sharable(model, spec, [512], wanted)
    assert (found.sharing, found.reason) == (wanted, "")
    assert found.bytes == model.config.num_hidden_layers * 2 * 2 * 12 * 4


def test_a_bias_made_from_lengths_shares_beginnings_and_takes_no_gaps(spec: PositionSpec) -> None:
    model = model_of(BloomConfig(hidden_size=48, n_layer=2, n_head=4, vocab_size=1200))
    found = sharable(model, spec, [512], Sharing.BRANCHES)
    assert found.sharing is Sharing.PREFIX
    assert "does not take positions and a mask of its own" in found.reason


def test_a_model_that_makes_masks_of_its_own_takes_no_gaps(
    tiny_model: Callable[..., Any], spec: PositionSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees every token, the needle of another branch too."""
    model = tiny_model(initializer_range=0.2)
    plain = model.forward

    def heedless(*arguments: Any, attention_mask: Any = None, **rest: Any) -> Any:  # noqa: ARG001 - that is the point
        return plain(*arguments, **rest)

    heedless.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
    monkeypatch.setattr(model, "forward", heedless)
    found = sharable(model, spec, [512], Sharing.BRANCHES)
    assert found.sharing is Sharing.PREFIX
    assert "with a gap" in found.reason


def test_a_model_that_answers_otherwise_behind_a_shared_text_is_found_out(
    tiny_model: Callable[..., Any], spec: PositionSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model()
    plain = model.forward

    def forgetful(
        input_ids: Any, past_key_values: Any = None, cache: Any = None, **rest: Any
    ) -> Any:
        held = cache if cache is not None else past_key_values
        positions = torch.arange(input_ids.shape[1])[None]
        return plain(input_ids, cache=held, position_ids=positions, **rest)

    monkeypatch.setattr(model, "forward", forgetful)
    found = sharable(model, spec, [512], Sharing.BRANCHES)
    assert found.sharing is Sharing.NONE
    assert "standard deviations from those of whole prompts" in found.reason


def test_without_sharing_nothing_is_tried(spec: PositionSpec) -> None:
    assert sharable(None, spec, [512], Sharing.NONE).sharing is Sharing.NONE


@pytest.mark.model
def test_a_dynamic_schedule_within_its_trained_length_answers_alike(
    smollm2: LoadedModel, spec: PositionSpec
) -> None:
    from tests.proof.subjects.test_sharing import grid, same, shared

    moved = override(spec, "dynamic:2")
    try:
        install(smollm2.model, moved, None)
        tokens = Tokens(smollm2.tokenizer)
        prompts = grid(PromptMaker(tokens, seed=3), [200], [0.0, 1.0])
        set_length = lambda length: install(smollm2.model, moved, length)  # noqa: E731
        alone = LocalSubject(smollm2.model, tokens, set_length=set_length)
        together = SharingLocal(smollm2.model, tokens, set_length=set_length)
        same(shared(together, prompts), [alone.answer(prompt) for prompt in prompts])
    finally:
        install(smollm2.model, spec, None)
