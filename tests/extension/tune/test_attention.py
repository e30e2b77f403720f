"""Which attention is trained with: what the model at hand answers alike with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.attention.packed import NAME
from ropewalk.errors import ModelFileError, UsageError
from ropewalk.extension.tune.attention import choose_attention, handing, set_attention
from ropewalk.extension.tune.inputs import check_apart
from ropewalk.extension.tune.training_settings import TuneSettings, parse_mix
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.rope.spec import PositionSpec, Window

Settings = Callable[..., TuneSettings]
CPU = torch.device("cpu")


def spec_of(model: Any, folder: Path) -> PositionSpec:
    model.config.save_pretrained(folder)
    return read_spec(resolve(str(folder / "config.json")))


def test_documents_go_one_at_a_time_where_the_model_answers_alike(
    tiny_model: Callable[..., Any], settings: Settings, tmp_path: Path
) -> None:
    model = tiny_model("llama")
    spec = spec_of(model, tmp_path)
    for asked in ("auto", "packed"):
        assert choose_attention(model, spec, settings(attention=asked), CPU) == "packed"
        # It is only tried: the model is measured with its usual attention.
        assert model.config._attn_implementation == "sdpa"
    assert choose_attention(model, spec, settings(attention="sdpa"), CPU) == "sdpa"
    # On a GPU each document would be a launch of its own.
    assert choose_attention(model, spec, settings(), torch.device("cuda")) == "sdpa"


def test_a_sliding_window_is_tried_on_documents_that_are_longer(
    tiny_model: Callable[..., Any],
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ropewalk.attention import packed

    model = tiny_model("gemma3", sliding_window=16)
    spec = spec_of(model, tmp_path)
    assert choose_attention(model, spec, settings(), CPU) == "packed"
    packed_attention = packed.packed_attention

    def near_sighted(*given: Any, sliding_window: Any = None, **other: Any) -> Any:
        assert sliding_window in (None, 16)
        return packed_attention(*given, **other)

    monkeypatch.setattr(packed, "packed_attention", near_sighted)
    assert choose_attention(model, spec, settings(), CPU) == "sdpa"
    # A window that no document reaches beyond makes no difference.
    within = settings(mix=parse_mix("16"))
    assert choose_attention(model, spec, within, CPU) == "packed"


def test_a_model_with_other_windows_or_capped_scores_keeps_its_usual_attention(
    tiny_model: Callable[..., Any], settings: Settings, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM, Gemma2Config

    long = tiny_model("gemma3", sliding_window=2000)
    torch.manual_seed(0)
    capped = AutoModelForCausalLM.from_config(
        Gemma2Config(
            vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, head_dim=8, attn_logit_softcapping=2.0,
            layer_types=["full_attention"] * 2,
        )
    ).eval()  # fmt: skip
    for model, reason in ((long, "a window of 2000 tokens, too long"), (capped, "with softcap")):
        usual = model.config._attn_implementation
        spec = spec_of(model, tmp_path / type(model).__name__)
        asked = settings(mix=parse_mix("4k"))
        assert choose_attention(model, spec, asked, CPU) == "sdpa"
        with pytest.raises(UsageError, match=f"--attention packed cannot .*: .*{reason}"):
            choose_attention(model, spec, replace(asked, attention="packed"), CPU)
        assert model.config._attn_implementation == usual
    spec = spec_of(tiny_model("llama"), tmp_path / "chunked")
    (group,) = spec.groups
    chunked = replace(spec, groups=(replace(group, window=Window(16, "chunked")),))
    assert choose_attention(tiny_model("llama"), chunked, settings(), CPU) == "sdpa"


def test_a_model_that_answers_otherwise_keeps_its_usual_attention(
    tiny_model: Callable[..., Any],
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ropewalk.attention import packed

    model = tiny_model("llama")
    spec = spec_of(model, tmp_path)

    def deaf(*given: Any, **other: Any) -> Any:
        return packed_attention(*given, **(other | {"cu_seq_lens_q": None}))

    packed_attention = packed.packed_attention
    monkeypatch.setattr(packed, "packed_attention", deaf)
    assert choose_attention(model, spec, settings(), CPU) == "sdpa"
    with pytest.raises(UsageError, match="it answers otherwise than with its usual attention"):
        choose_attention(model, spec, settings(attention="packed"), CPU)
    # Were it trained with all the same, the trial of every run would find the leak.
    set_attention(model, "packed")
    with pytest.raises(ModelFileError, match="lets the tokens of a document reach the next one"):
        check_apart(model, handing(model, settings()), 1200)


@pytest.mark.parametrize("positions", ["reset", "document", "running"])
@pytest.mark.parametrize("mask", [True, False])
def test_what_packed_attention_is_handed_keeps_documents_apart_or_does_not(
    tiny_model: Callable[..., Any], settings: Settings, positions: str, *, mask: bool
) -> None:
    model = tiny_model("llama")
    set_attention(model, "packed")
    assert model.config._attn_implementation == NAME
    how = handing(model, settings(mask=mask, positions=positions))
    assert how.offsets
    check_apart(model, how, 1200)
