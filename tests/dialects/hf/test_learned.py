"""What is known of learned position tables, beside the tables that transformers builds."""

from __future__ import annotations

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModel

from ropewalk.dialects.hf.defaults import LearnedFacts
from ropewalk.dialects.hf.families import FACTS, learned_offset

KNOWN = {name: facts for name, facts in FACTS.items() if isinstance(facts, LearnedFacts)}


@pytest.mark.parametrize("model_type", sorted(KNOWN))
def test_a_table_has_the_rows_that_its_family_is_said_to_have(model_type: str) -> None:
    facts, config = KNOWN[model_type], CONFIG_MAPPING[model_type]()
    assert config.max_position_embeddings == facts.claimed
    with torch.device("meta"):
        model = AutoModel.from_config(config)
    tables = {
        module.num_embeddings
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Embedding) and ("position" in name or name.endswith("wpe"))
    }
    beside = 0 if facts.offset_counted else learned_offset(model_type)
    assert tables == {config.max_position_embeddings + beside}
