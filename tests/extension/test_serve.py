"""What serves the files that were written: the length alone where the engine rotates by them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.engines import as_computed
from ropewalk.dialects.engines.llamacpp import LLAMACPP
from ropewalk.dialects.hf import load_json, read_config
from ropewalk.dialects.hf.family import config_source
from ropewalk.dialects.hf.write import write_config
from ropewalk.dialects.llamacpp import read_flags
from ropewalk.dialects.vllm import read_overrides
from ropewalk.extension.methods import CLOSED_FORMS, Method, extended
from ropewalk.extension.serve import own_options
from ropewalk.extension.session import extend
from ropewalk.extension.settings import ExtendSettings
from ropewalk.report import document_of, terminal
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.spec import PositionSpec
from tests.configurations import source

SaveFolder = Callable[..., Path]

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "max_position_embeddings": 4096,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}
TARGET = 16384


def turned(spec: PositionSpec) -> list[str]:
    """Fingerprints for a short prompt, and at the full length."""
    return [frequencies(spec, length).fingerprint() for length in (1024, TARGET)]


@pytest.mark.parametrize("method", CLOSED_FORMS, ids=lambda each: each.name)
def test_the_options_for_the_new_files_make_each_engine_rotate_as_meant_or_say_why_not(
    method: Method,
) -> None:
    after = extended(read_config(CONFIG), TARGET, method)
    written = write_config(after, source(CONFIG), 5)
    vllm, llamacpp = own_options(written, after, "longer")
    assert (vllm.engine, llamacpp.engine) == ("vLLM", "llama.cpp")
    # Both choose one of longrope's two lists for the whole server.
    assert vllm.line == (None if method.name == "longrope" else f"--max-model-len {TARGET}")
    assert llamacpp.line == (None if method.name == "longrope" else f"--ctx-size {TARGET}")
    convert = "python convert_hf_to_gguf.py longer --outfile longer.gguf"
    assert llamacpp.steps == (() if method.name == "longrope" else (convert,))
    for each in (vllm, llamacpp):
        assert (each.line is None) == bool(each.reason)
    if vllm.line is not None:
        assert turned(read_overrides(vllm.line, config_source(written))) == turned(after)
    file = as_computed(LLAMACPP, written, served=TARGET)
    if llamacpp.line is None:
        assert turned(file) != turned(after)
    else:
        assert turned(read_flags(llamacpp.line, file)) == turned(after)


def test_a_new_folder_says_how_it_is_served_in_the_terminal_and_in_its_card(
    folder: SaveFolder, tmp_path: Path
) -> None:
    out = tmp_path / "longer"
    found = extend(ExtendSettings(str(folder()), 2048, method="yarn", out=out))
    assert found.written is not None
    assert [each.line for each in found.written.serving] == [
        "--max-model-len 2048",
        "--ctx-size 2048",
    ]
    text = terminal(document_of(found)).splitlines()
    at = text.index("  --max-model-len 2048")
    assert text[at - 1].startswith("vLLM, on longer (rules as of vLLM")
    assert "  --ctx-size 2048" in text[at:]
    card = (out / "README.md").read_text()
    assert "- vLLM serves these files with `--max-model-len 2048` (rules as of vLLM" in card
    convert = "python convert_hf_to_gguf.py longer --outfile longer.gguf"
    assert text[text.index("  --ctx-size 2048") - 1] == f"  {convert}"
    assert f"- llama.cpp serves these files after `{convert}` with `--ctx-size 2048`" in card
    read = read_config(load_json(out / "config.json"))
    assert turned(read_overrides("--max-model-len 2048", config_source(read))) == turned(read)
