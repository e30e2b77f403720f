"""From a GGUF file to a Hugging Face folder in float32, once, so that later loads are quick.

transformers itself reads the weights: each parameter written is the one that it would load.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from ropewalk.dialects.gguf.header import GgufHeader, read_header
from ropewalk.errors import MissingPartError, ModelFileError

Progress = Callable[[int, int], None]
"""Called with steps done and steps in all: one a tensor, one for the tokenizer, one to write."""

NEEDED = ("torch", "transformers", "accelerate", "gguf", "safetensors")


def dequantise(gguf_path: Path, folder: Path, *, progress: Progress | None = None) -> None:
    """Write the model in `gguf_path` as model.safetensors, config.json and tokenizer files.

    Weights are float32 under Hugging Face names, without the copy of a tied head. `folder` must
    be there and empty. Nothing is printed; no network is used and no code of the model's is run.

    Raises GgufError for a damaged file, ModelFileError for a model that transformers cannot
    load, MissingPartError when a package is missing, OSError when `folder` cannot be written.
    """
    for package in NEEDED:
        if importlib.util.find_spec(package) is None:
            raise _missing(package)
    header = read_header(gguf_path)
    steps = _Steps(len(header.tensors) + 2, progress or (lambda _done, _all: None))
    with _silent_transformers(steps):
        model, tokenizer = _load(header)
        steps.reach(steps.total - 1)
        with _write_errors(folder):
            _save(model, tokenizer, folder)
    steps.reach(steps.total)


class _Steps:
    """How far the work is; it only goes forward."""

    def __init__(self, total: int, tell: Progress) -> None:
        self.total, self.done, self.tell = total, 0, tell
        tell(0, total)

    def reach(self, done: int) -> None:
        """Tell of `done` steps, if that is news."""
        if done > self.done:
            self.done = done
            self.tell(done, self.total)

    def over(self, items: Iterable[Any], **_bar: Any) -> Iterator[Any]:
        """Pass items on as tqdm does, a step each, without drawing a bar."""
        for number, item in enumerate(items):
            yield item
            self.reach(min(number + 1, self.total - 2))


def _load(header: GgufHeader) -> tuple[Any, Any]:
    """transformers' model and tokenizer for the file."""
    import torch

    transformers: Any = importlib.import_module("transformers")
    place = {"gguf_file": header.path.name, "local_files_only": True, "trust_remote_code": False}
    # Newer versions can keep some architectures packed; a packed weight is no use to a folder.
    plain = getattr(transformers, "GgufConfig", None)
    options = {} if plain is None else {"quantization_config": plain(dequantize=True)}
    try:
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            header.path.parent, dtype=torch.float32, output_loading_info=True, **place, **options
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(header.path.parent, **place)
    except ImportError as error:
        raise _missing(str(error.name or error).splitlines()[0]) from error
    except (
        OSError, ValueError, KeyError, NotImplementedError, RuntimeError, AttributeError,
    ) as error:  # fmt: skip
        raise _unloadable(header, str(error) or type(error).__name__) from error
    absent = sorted(report["missing_keys"])
    if absent:
        # transformers would leave these at random values and only log it.
        raise _unloadable(header, f"{len(absent)} weights are not found, such as {absent[0]}")
    return model, tokenizer


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write the folder; the weights last, for they are what fills a disk."""
    from safetensors.torch import save_file

    # A plain folder must not send its readers to the GGUF file it came from.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    weights: dict[str, Any] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict().items():
        # A tied head is the embedding's own memory, and is tied again at loading.
        if tensor.numel() == 0 or tensor.data_ptr() not in seen:
            weights[name] = tensor.contiguous()
            seen.add(tensor.data_ptr())
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@contextmanager
def _silent_transformers(steps: _Steps) -> Iterator[None]:
    """No bars and no log lines from transformers; its bar over tensors tells `steps` instead."""
    logging: Any = importlib.import_module("transformers.utils.logging")
    reader: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        with _replaced(reader, tqdm=steps.over), _read_once():
            yield
    finally:
        if bars:
            logging.enable_progress_bar()
        logging.set_verbosity(level)


@contextmanager
def _read_once() -> Iterator[None]:
    """Let transformers read the file and name the tensors once.

    By itself it reads all metadata three times and builds the same table of names once for each
    module of the model, which is more than half of the time. Both are values that it only reads.
    """
    gguf: Any = importlib.import_module("gguf")
    reader, names = gguf.GGUFReader, gguf.get_tensor_name_map
    with _replaced(gguf, GGUFReader=lru_cache(reader), get_tensor_name_map=lru_cache(names)):
        yield


@contextmanager
def _replaced(module: Any, **names: Any) -> Iterator[None]:
    """Other values for a module's names, as far as it has them, until the end of the block."""
    before = {name: getattr(module, name) for name in names if hasattr(module, name)}
    for name in before:
        setattr(module, name, names[name])
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


@contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    """Turn the failed writes of Rust libraries into OSError.

    safetensors and tokenizers report a full disk as exceptions of their own, tokenizers as a
    plain `Exception`, with the system's number at the end of the text.
    """
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        code = int(number[1])
        said = str(error).splitlines()[0]
        raise OSError(code if code in errno.errorcode else errno.EIO, said, str(folder)) from error


def _missing(package: str) -> MissingPartError:
    return MissingPartError(
        f"running a GGUF model needs {package}, which is not installed: "
        'pip install "ropewalk[prove]"'
    )


def _unloadable(header: GgufHeader, reason: str) -> ModelFileError:
    arch = header.metadata.get("general.architecture", "unknown")
    said = " ".join(reason.split())
    return ModelFileError(
        f"{header.path}: transformers cannot load this GGUF model of architecture {arch!r} "
        f"({said[:300]}); use the model's Hugging Face folder, or a newer transformers"
    )
