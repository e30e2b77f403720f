"""Models of random weights that both llama.cpp and transformers run, and llama.cpp's server.

Skipped where the package xllamacpp (a prebuilt llama.cpp for CPUs) cannot be loaded.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gguf
import numpy as np
import pytest

from ropewalk.dialects.gguf.archs import ARCHITECTURES
from ropewalk.models.rotary_tables import install
from ropewalk.rope.spec import PositionSpec

SERVE = Path(__file__).with_name("serve.py")
NO_ENGINE = 77
START_SECONDS = 60.0
REPLY_SECONDS = 60.0
TOP = 20
"""How many of the likeliest tokens are compared."""
CONTEXT = 512
"""The room that the server is started with, in tokens."""
LENGTHS = (16, 64, 200, 500)
"""Of prompts: two below the 128 tokens of training that most files state, two above them."""

SPECIAL = ["<s>", "</s>", "<unk>"]
Array = np.ndarray[Any, Any]
LogProbabilities = Callable[[Sequence[int]], dict[int, float]]


def _vocabulary() -> tuple[list[str], list[str]]:
    """(pieces, merges) of a byte-level BPE whose every piece is complete UTF-8.

    The server gives no log-probabilities with half a character, so bytes above 127 stay out.
    """
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    alphabet = bytes_to_unicode()
    common = "etaoinsrhl"
    pairs = [(a, b) for a in common for b in common]
    letters = [alphabet[byte] for byte in range(128)]
    return SPECIAL + letters + [a + b for a, b in pairs], [f"{a} {b}" for a, b in pairs]


PIECES, MERGES = _vocabulary()

SIZE: dict[str, Any] = {
    "vocab_size": len(PIECES),
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 4096,
    # The usual 0.02 six times: with less, a token hardly looks at where others stand.
    "initializer_range": 6 * 0.02,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}


def _config(arch: str) -> Any:
    """The small configuration of an architecture, without a schedule."""
    from transformers import Gemma3TextConfig, LlamaConfig, Phi3Config, Qwen2Config

    plain = {"rope_type": "default", "rope_theta": 10000.0}
    match arch:
        case "llama" | "mistral3":
            return LlamaConfig(**SIZE, rope_parameters=plain)
        case "qwen2":
            return Qwen2Config(**SIZE, rope_parameters=plain)
        case "phi3":
            return Phi3Config(**SIZE, rope_parameters=plain)
        case "gemma3":
            # Five layers with a window and one without.
            more = {"num_hidden_layers": 6, "sliding_window": 48, "query_pre_attn_scalar": 32}
            return Gemma3TextConfig(**(SIZE | more))
    raise ValueError(arch)


@pytest.fixture(scope="session")
def random_model() -> Callable[[str], Any]:
    """random_model(arch): a small transformers model, float32, with always the same weights."""
    made: dict[str, Any] = {}

    def make(arch: str) -> Any:
        import torch
        from transformers import AutoModelForCausalLM

        if arch not in made:
            torch.manual_seed(7)
            model = AutoModelForCausalLM.from_config(_config(arch)).eval().requires_grad_(False)
            for name, weight in model.named_parameters():
                # Norms and biases start all alike, which would hide one in another's place.
                if weight.dim() == 1:
                    weight += torch.randn_like(weight) * 0.1
                assert torch.isfinite(weight).all(), name
            made[arch] = model
        return made[arch]

    return make


@pytest.fixture
def model_file(random_model: Callable[[str], Any], tmp_path: Path) -> Callable[..., Path]:
    """model_file(arch, keys, tensors, name): the random model as a GGUF file in single precision.

    `keys` are without the architecture's prefix; `tensors` come beside the weights.
    """

    def write(
        arch: str,
        keys: Mapping[str, Any],
        tensors: Mapping[str, Array] | None = None,
        name: str = "model",
    ) -> Path:
        model = random_model(arch)
        size = model.config
        stated = {
            "context_length": 512,
            "block_count": size.num_hidden_layers,
            "embedding_length": size.hidden_size,
            "feed_forward_length": size.intermediate_size,
            "attention.head_count": size.num_attention_heads,
            "attention.head_count_kv": size.num_key_value_heads,
            "attention.key_length": size.head_dim,
            "attention.value_length": size.head_dim,
            "attention.layer_norm_rms_epsilon": size.rms_norm_eps,
            "rope.dimension_count": size.head_dim,
            "rope.freq_base": 10000.0,
        }
        weights = {**_tensors(model, arch), **(tensors or {})}
        return _write_gguf(tmp_path / f"{name}.gguf", arch, {**stated, **keys}, weights)

    return write


@pytest.fixture(scope="session")
def bare_file() -> Callable[..., Path]:
    """bare_file(path, arch, keys, tensors): a file of weights that `tensors` makes for the number
    of tokens in the small vocabulary.
    """

    def write(
        path: Path,
        arch: str,
        keys: Mapping[str, Any],
        tensors: Callable[[int], Mapping[str, Array]],
    ) -> Path:
        return _write_gguf(path, arch, keys, tensors(len(PIECES)))

    return write


def _tensors(model: Any, arch: str) -> dict[str, Array]:
    """The weights by llama.cpp's names and in its conventions.

    Whether query and key rows are reordered is decided by the layout that `ARCHITECTURES` claims
    for a file, so that a wrong claim shows in the log-probabilities.
    """
    kind = next(k for k, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    names = gguf.get_tensor_name_map(kind, model.config.num_hidden_layers)
    heads = {"q_proj": model.config.num_attention_heads, "k_proj": model.config.num_key_value_heads}
    found = {}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        array = weight.numpy()
        if ARCHITECTURES[arch].layout == "interleaved":
            for part, count in heads.items():
                array = _side_by_side(array, count) if part in name else array
        if arch == "gemma3" and "norm" in name:
            array = array + 1.0
        theirs = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert theirs is not None, name
        found[theirs] = array
    return found


def _side_by_side(rows: Array, heads: int) -> Array:
    """Rows of a projection reordered from pairs (i, i + d/2) to pairs (2i, 2i + 1)."""
    width = rows.shape[-1]
    return rows.reshape(heads, 2, -1, width).transpose(0, 2, 1, 3).reshape(-1, width)


def _write_gguf(
    path: Path, arch: str, keys: Mapping[str, Any], tensors: Mapping[str, Array]
) -> Path:
    """A GGUF file with the small vocabulary; whole numbers as UINT32, others as FLOAT32."""
    writer = gguf.GGUFWriter(path, arch)
    kinds = gguf.GGUFValueType
    types = {int: kinds.UINT32, float: kinds.FLOAT32, str: kinds.STRING}
    for key, value in keys.items():
        writer.add_key_value(f"{arch}.{key}", value, types[type(value)])
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(PIECES)
    writer.add_token_merges(MERGES)
    writer.add_token_types([control if piece in SPECIAL else normal for piece in PIECES])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(2)
    writer.add_add_bos_token(False)
    for name, array in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(array, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@contextlib.contextmanager
def _served(model: Path, context: int, **options: float | str) -> Iterator[LogProbabilities]:
    address, log = model.with_suffix(".address"), model.with_suffix(".log")
    words = [str(model), str(context), str(address), json.dumps(options)]
    command = [sys.executable, str(SERVE), *words]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _wait(process, address, log)
        where = urlsplit(address.read_text()).netloc
        yield lambda ids: _ask(where, ids, log)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], address: Path, log: Path) -> None:
    """Until the server listens."""
    end = time.monotonic() + START_SECONDS
    while not address.exists():
        code = process.poll()
        if code == NO_ENGINE:
            pytest.skip(f"llama.cpp cannot be loaded here (pip install xllamacpp): {_tail(log)}")
        if code is not None:
            pytest.fail(f"llama.cpp's server ended with {code} before it listened:\n{_tail(log)}")
        if time.monotonic() > end:
            pytest.fail(f"llama.cpp's server did not listen in {START_SECONDS} s:\n{_tail(log)}")
        time.sleep(0.02)


def _ask(where: str, ids: Sequence[int], log: Path) -> dict[int, float]:
    """The likeliest next tokens after `ids`, from the server's own completion endpoint."""
    asked = {
        "prompt": list(ids),
        "n_predict": 1,
        "n_probs": TOP,
        "temperature": 0.0,
        "cache_prompt": False,
    }
    connection = http.client.HTTPConnection(where, timeout=REPLY_SECONDS)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/completion", json.dumps(asked), headers)
        reply = connection.getresponse()
        body = reply.read().decode()
    except OSError as error:
        pytest.fail(f"llama.cpp's server did not answer ({error}):\n{_tail(log)}")
    finally:
        connection.close()
    if reply.status != http.HTTPStatus.OK:
        pytest.fail(f"llama.cpp's server answered {reply.status}: {body}")
    answer = json.loads(body)
    assert answer["tokens_evaluated"] == len(ids)
    (first,) = answer["completion_probabilities"]
    found = {int(each["id"]): float(each["logprob"]) for each in first["top_logprobs"]}
    assert len(found) == TOP
    return found


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:].strip()


@pytest.fixture(scope="session")
def serve() -> Callable[..., contextlib.AbstractContextManager[LogProbabilities]]:
    """serve(path, context, **options): llama.cpp serving a file, as long as a `with` block lasts.

    `options` are parameters of the server by its own names. The block gets a function from
    token ids to {id: log-probability} of the likeliest next tokens. Fails with the end of the
    server's log when it does not start in time or gives up; the process is gone afterwards in
    any case.
    """
    return _served


@pytest.fixture(scope="session")
def prompt() -> Callable[[int], list[int]]:
    """prompt(length): token ids, the special ones left out, always the same ones."""

    def draw(length: int) -> list[int]:
        random = np.random.default_rng(length)
        return [int(i) for i in random.integers(len(SPECIAL), len(PIECES), size=length)]

    return draw


def _log_probabilities(model: Any, ids: Sequence[int]) -> dict[int, float]:
    """{id: log-probability} of every next token, by transformers."""
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([list(ids)])).logits[0, -1].double()
    return dict(enumerate(logits.log_softmax(-1).tolist()))


@dataclass(frozen=True)
class Bench:
    """The two implementations, asked the same at every length of LENGTHS."""

    models: Callable[[str], Any]
    write: Callable[..., Path]
    prompt: Callable[[int], list[int]]

    def served(self, path: Path, **options: float | str) -> dict[int, dict[int, float]]:
        """What llama.cpp answers, by length of the prompt."""
        with _served(path, CONTEXT, **options) as ask:
            return {length: ask(self.prompt(length)) for length in LENGTHS}

    def misses(
        self, answers: Mapping[int, Mapping[int, float]], arch: str, spec: PositionSpec
    ) -> list[float]:
        """By length, the largest difference from transformers turned by `spec`."""
        model = self.models(arch)
        # The engine decides by the size of its context, however short the prompt is.
        install(model, spec, CONTEXT)
        found = []
        for length, theirs in answers.items():
            ours = _log_probabilities(model, self.prompt(length))
            found.append(max(abs(value - ours[token]) for token, value in theirs.items()))
        return found


@pytest.fixture
def bench(
    random_model: Callable[[str], Any],
    model_file: Callable[..., Path],
    prompt: Callable[[int], list[int]],
) -> Bench:
    """bench.served(path) asks llama.cpp, bench.misses(answers, arch, spec) compares."""
    return Bench(random_model, model_file, prompt)
