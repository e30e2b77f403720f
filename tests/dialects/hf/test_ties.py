"""Which models tie their head, against transformers: its configurations and its own models."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import transformers
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from ropewalk.dialects.hf import ties
from ropewalk.dialects.hf.family import TEXT_PARTS
from ropewalk.dialects.hf.ties import tying
from ropewalk.dialects.values import Section

OBEY = sorted(set(CONFIG_MAPPING.keys()) & (ties.TIED | ties.UNTIED))
NO_FLAG = {"blt_local_encoder", "csm", "muse_glimmer", "step3p7"}
"""Types without a flag in their class, which their instances or their models make up for."""

MAPPINGS = (
    modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)
CLASSES: dict[str, str] = {}
for _mapping in MAPPINGS:
    for _type, _named in _mapping.items():
        CLASSES.setdefault(_type, _named if isinstance(_named, str) else _named[0])

SAMPLE = (
    *("llama", "mistral", "qwen2", "gemma", "gemma2", "gpt2", "bert", "opt", "t5", "mt5"),
    *("nemotron_h", "rembert", "cohere", "phi3", "lfm2"),
    *("qwen2_vl", "qwen3_vl", "llava", "blip-2"),
)


def said(
    model_type: str, flag: bool | None, part: str | None, inner: bool | None
) -> dict[str, Any]:
    """A configuration file with the flag outside and inside its text part; None for unsaid."""
    config: dict[str, Any] = {"model_type": model_type}
    if flag is not None:
        config["tie_word_embeddings"] = flag
    if part is not None:
        held = getattr(CONFIG_MAPPING[model_type](), part)
        config[part] = {"model_type": held.model_type}
        if inner is not None:
            config[part]["tie_word_embeddings"] = inner
    return config


def tied_in_transformers(config: dict[str, Any]) -> bool | None:
    """Whether the model of a configuration has one matrix; None where it cannot be made."""
    kind = config["model_type"]
    own: Any = {
        k: dict(v) if isinstance(v, dict) else v for k, v in config.items() if k != "model_type"
    }
    try:
        made = CONFIG_MAPPING[kind](**own)
        with torch.device("meta"):
            model = getattr(transformers, CLASSES[kind])(made)
        one, other = model.get_input_embeddings(), model.get_output_embeddings()
        return None if one is None or other is None else other.weight is one.weight
    except Exception:  # noqa: BLE001 - whatever their constructors raise
        # Some types' own defaults make no model, and some need packages that are not here.
        return None


def check(model_type: str) -> int:
    """Compare all ways to say it for one type; how many there were."""
    try:
        CONFIG_MAPPING[model_type]()
    except Exception:  # noqa: BLE001 - as above
        return 0
    parts = getattr(CONFIG_MAPPING[model_type], "sub_configs", {})
    part = next((p for p in TEXT_PARTS if p in parts), None)
    inside = (None,) if part is None else (None, True, False)
    compared = 0
    for flag, inner in itertools.product((None, True, False), inside):
        config = said(model_type, flag, part, inner)
        truth = tied_in_transformers(config)
        if truth is not None:
            compared += 1
            assert tying(Section(config, "config.json")).tied is truth, config
    return compared


@pytest.mark.parametrize("model_type", SAMPLE)
def test_the_rule_of_a_type_is_what_its_model_in_transformers_does(model_type: str) -> None:
    assert check(model_type) >= 3


@pytest.mark.conformance
def test_the_rules_of_all_types_are_what_their_models_in_transformers_do() -> None:
    known = ties.TIED | ties.UNTIED | ties.EITHER | ties.TEXT | ties.ALWAYS | ties.NEVER
    assert sum(check(t) for t in sorted(known & CLASSES.keys() & set(CONFIG_MAPPING))) > 1000


@pytest.mark.parametrize("model_type", OBEY[::9])
def test_the_default_of_a_type_is_its_configurations(model_type: str) -> None:
    if model_type not in NO_FLAG | ties.EITHER:
        default = getattr(CONFIG_MAPPING[model_type], "tie_word_embeddings", None)
        assert tying(Section({"model_type": model_type}, "config.json")).default is default


@pytest.mark.conformance
def test_the_defaults_of_all_types_are_their_configurations() -> None:
    unlisted = []
    listed = ties.TIED | ties.UNTIED | ties.TEXT | ties.ALWAYS | ties.NEVER
    for model_type in CONFIG_MAPPING:
        default = getattr(CONFIG_MAPPING[model_type], "tie_word_embeddings", None)
        if default is not None and model_type not in listed:
            unlisted.append(model_type)
        if model_type in set(OBEY) - NO_FLAG - ties.EITHER:
            assert default is (model_type in ties.TIED), model_type
    # Defaults of these depend on the models inside them.
    assert set(unlisted) <= {"perception_lm", "gemma4_assistant"}


def test_a_type_is_in_one_set_of_defaults_and_in_one_of_rules() -> None:
    assert not ties.TIED & ties.UNTIED
    assert ties.EITHER <= ties.TIED | ties.UNTIED
    for one, other in itertools.combinations((ties.TEXT, ties.ALWAYS, ties.NEVER), 2):
        assert not one & other
    assert not (ties.TEXT | ties.ALWAYS | ties.NEVER) & (ties.TIED | ties.UNTIED)


@pytest.mark.parametrize(
    ("config", "flag", "default"),
    [
        ({}, None, None),
        ({"tie_word_embeddings": True}, True, None),
        ({"model_type": "mine"}, None, None),
        ({"model_type": "mine", "tie_word_embeddings": False}, False, None),
        ({"model_type": "mine", "text_config": {"model_type": "llama"}}, None, None),
        (
            {
                "model_type": "mine",
                "tie_word_embeddings": False,
                "text_config": {"tie_word_embeddings": True},
            },
            True,
            None,
        ),
        ({"text_config": {"model_type": "gemma"}}, None, True),
        ({"model_type": "lfm2", "tie_embedding": False}, False, True),
    ],
)
def test_of_families_that_are_not_known_the_flag_alone_counts(
    config: dict[str, Any], flag: bool | None, default: bool | None
) -> None:
    found = tying(Section(config, "config.json"))
    assert (found.flag, found.default) == (flag, default)
