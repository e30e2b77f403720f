"""A model loaded with transformers, rotating by the schedule that was read from its files.

transformers loads a GGUF whose schedule lies in `rope_freqs` as plain rotary, and a schedule
asked for with --rope is in no file at all. So the schedule is installed into the live rotary
modules, and the modules' own tables are then compared with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from ropewalk.dialects.hf.families import OWN_TYPE
from ropewalk.errors import (
    ConfigError,
    MissingPartError,
    ModelFileError,
    RopewalkError,
    UsageError,
)
from ropewalk.models.cache import cache_folder, cached_folder, file_hash
from ropewalk.models.dtypes import check_dtype, chosen_dtype, torch_dtype
from ropewalk.models.resolve import ModelFiles
from ropewalk.short import short

Say = Callable[[str], None]
"""Called with a few words on what is going on, for a status line."""
Share = Callable[[int, int], None]
"""Called with how many steps are done, and how many there are."""

_LOADING_ERRORS = (
    OSError, ValueError, LookupError, RuntimeError, AttributeError, TypeError, ArithmeticError,
    AssertionError, ImportError,
)  # fmt: skip
"""What transformers raises for folders it cannot make a model of."""


@short
@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A transformers causal model in eval mode on its device, and its tokenizer.

    `identity` names the weights: the SHA-256 of a GGUF file; for a folder, of its configuration
    and of every weight file's name and SHA-256. Hashes are remembered, see `cache.file_hash`.
    """

    model: Any
    tokenizer: Any
    identity: str

    @property
    def rows(self) -> int:
        """Rows of the embedding table: a token id is below it, or has no row."""
        return table_rows(self.model)


def check_device(device: str, dtype: str, files: ModelFiles | None = None) -> tuple[Any, Any]:
    """The torch device and dtype by name; "auto" takes a GPU where there is one.

    `dtype` is a word of `models.dtypes.DTYPES`, of which auto asks `files` what the weights are
    stored in. Raises UsageError for another word and for a device that is not there,
    MissingPartError without torch.
    """
    try:
        import torch
    except ImportError as error:
        raise _missing("torch") from error
    check_dtype(dtype)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UsageError(f"--device {device!r} cannot be used: {reason}") from error
    return chosen, torch_dtype(chosen_dtype(dtype, chosen, files))


def load(
    files: ModelFiles,
    *,
    device: Any,
    dtype: Any,
    device_map: str | dict[str, str | int] | None = None,
    say: Say = lambda _: None,
    share: Share = lambda _done, _total: None,
) -> LoadedModel:
    """Bring up the model; a GGUF is dequantised once and kept in the user's cache.

    `device_map` spreads the model over devices, as accelerate has it: "auto", or a mapping of
    modules to devices, "cpu" and "disk" among them. `device` is not used then.

    transformers is set, for the rest of the process, to log errors only and draw no bars.

    Raises ConfigError for a bare config without weights, ModelFileError for what transformers
    cannot load, for missing weights and for a model that is not causal, StoreError when the cache
    cannot be written, MissingPartError when a package is missing.
    """
    if files.kind == "config":
        raise ConfigError(
            f"{files.path} is a configuration without weights; to prove a model, give its folder"
        )
    if files.kind == "gguf":
        folder, identity = _dequantised(files.path, say, share), file_hash(files.path)
    else:
        folder, identity = files.path, _folder_identity(files.path, say)
    say("loading the weights")
    if files.kind == "folder" and files.config.get("model_type") == OWN_TYPE:
        from ropewalk.decoder import register

        register()
    with plain_errors(files.name):
        spread = None if device_map is None else spread_by(device_map, identity)
        model, tokenizer = _from_transformers(folder, files.name, dtype, spread)
        model = model.eval().requires_grad_(False)
        if spread is None:
            model = model.to(device)
        _check_causal(model, files.name)
    return LoadedModel(model, tokenizer, identity)


def spread_by(device_map: str | dict[str, str | int], identity: str) -> dict[str, Any]:
    """What transformers gets to spread a model over devices.

    What goes to "disk" is kept, once for each model, in the user's cache. Raises
    MissingPartError without accelerate.
    """
    if importlib.util.find_spec("accelerate") is None:
        raise _missing("accelerate")
    return {
        "device_map": device_map,
        "offload_folder": str(cache_folder() / "offloaded" / identity[:16]),
    }


def entry(model: Any) -> Any:
    """The torch device on which token ids go into a model, also one that is spread over devices.

    Weights that are kept elsewhere until they are needed lie on "meta" between calls.
    """
    import torch

    places = getattr(model, "hf_device_map", None)
    if not places:
        return model.device
    devices = [each for each in places.values() if each not in ("cpu", "disk")]
    return torch.device(devices[0] if devices else "cpu")


def table_rows(model: Any) -> int:
    """Rows of a transformers model's table of token vectors."""
    return int(model.get_input_embeddings().weight.shape[0])


def load_blocks(
    files: ModelFiles,
    *,
    dtype: Any,
    say: Say = lambda _: None,
    share: Share = lambda _done, _total: None,
) -> tuple[Any, Any]:
    """A model of any kind without its head, in eval mode on the CPU, and its tokenizer.

    For looking inside: embeddings and blocks have the file's weights, and nothing is hashed.
    Raises as `load`, except that the model need not be causal.
    """
    if files.kind == "config":
        raise ConfigError(
            f"{files.path} is a configuration without weights; give the model's folder"
        )
    if files.kind == "gguf":
        folder = _dequantised(files.path, say, share)
    else:
        folder = files.path
        _weight_files(folder)
    say("loading the weights")
    with plain_errors(files.name):
        model, tokenizer = _blocks_from_transformers(folder, files.name, dtype)
        return model.eval().requires_grad_(False), tokenizer


@contextlib.contextmanager
def plain_errors(name: str) -> Iterator[None]:
    """transformers kept quiet, and what it raises for `name` as an error of this package."""
    try:
        from huggingface_hub.errors import StrictDataclassError
        from safetensors import SafetensorError
        from transformers.utils import logging
    except ImportError as error:
        raise _missing(str(error.name or "transformers").split(".")[0]) from error
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            # Of torch's about pickles; what a user can act on is raised.
            warnings.simplefilter("ignore")
            yield
    except RopewalkError:
        raise
    except UnpicklingError as error:
        raise ModelFileError(
            f"the weights of {name} are a damaged pickle, or one that holds more than "
            "tensors, and code in it is never run; use a checkpoint in safetensors"
        ) from error
    except (SafetensorError, EOFError) as error:
        raise ModelFileError(
            f"the weights of {name} are damaged or incomplete ({_short(error)}); fetch them again"
        ) from error
    except _LOADING_ERRORS as error:
        raise _unloadable(name, error) from error
    except StrictDataclassError as error:
        raise ConfigError(f"transformers refuses {name}: {_short(error)}") from error


def _from_transformers(
    folder: Path, name: str, dtype: Any, spread: dict[str, Any] | None = None
) -> tuple[Any, Any]:
    """The model with every weight from the file, and its tokenizer; no code of the model's."""
    from transformers import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        AutoConfig,
        AutoModelForCausalLM,
        AutoTokenizer,
    )

    safe: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    config = AutoConfig.from_pretrained(folder, **safe)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or config.is_encoder_decoder:
        raise ModelFileError(
            f"{name} is a {config.model_type} model, and not one that goes on with a text from "
            "left to right; prove needs a causal language model"
        )
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=dtype, output_loading_info=True, **(spread or {}), **safe
    )
    model, report = loaded
    absent = sorted(report["missing_keys"])
    if absent:
        # transformers leaves these at random values and only logs it.
        raise ModelFileError(
            f"{len(absent)} weights of {name} are not in its files, such as {absent[0]}; with "
            "random ones in their place nothing would be proved"
        )
    return model, AutoTokenizer.from_pretrained(folder, **safe)


def _blocks_from_transformers(folder: Path, name: str, dtype: Any) -> tuple[Any, Any]:
    """The model without a head, every weight of its blocks from the file, and its tokenizer."""
    from transformers import AutoModel, AutoTokenizer

    safe: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    loaded: Any = AutoModel.from_pretrained(folder, dtype=dtype, output_loading_info=True, **safe)
    model, report = loaded
    # BERT's pooler stands behind the last block, and many checkpoints leave it out.
    absent = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if absent:
        raise ModelFileError(
            f"{len(absent)} weights of {name} are not in its files, such as {absent[0]}; with "
            "random ones in their place there is nothing to see"
        )
    return model, AutoTokenizer.from_pretrained(folder, **safe)


def _check_causal(model: Any, name: str) -> None:
    """Refuse a model in which a token sees the ones behind it: it would read off the answer.

    Two texts that differ in the last token alone must get the same logits before it. (What
    configurations say is no guide: GPT-NeoX's deny being decoders, EmbeddingGemma is no decoder
    and loads as one.)
    """
    import torch

    size = int(model.config.get_text_config().vocab_size)
    ids = (size // 3 + torch.arange(8, device=entry(model))) % size
    other = ids.clone()
    other[-1] = (ids[-1] + size // 3) % size
    with torch.inference_mode():
        one, two = model(torch.stack((ids, other))).logits[:, :-1].float()
    # Expert layers may round a little differently; a model that looks ahead is far beyond this.
    if float((one - two).abs().max()) > 0.02 * float(one.std()):
        raise ModelFileError(
            f"{name} ({type(model).__name__}) sees the tokens behind the one it predicts, so it "
            "would read off the answer; prove needs a causal language model"
        )


def _unloadable(name: str, error: Exception) -> ModelFileError:
    if "trust_remote_code" in str(error):
        return ModelFileError(
            f"{name} needs the code that travels with its files (auto_map), and such code is "
            "never run here; use a checkpoint whose architecture transformers itself has"
        )
    return ModelFileError(f"transformers cannot load {name}: {_short(error)}")


def _short(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:300]


def _dequantised(path: Path, say: Say, share: Share) -> Path:
    from ropewalk.models.dequantise import dequantise

    def make(folder: Path) -> None:
        say("dequantising, once")
        dequantise(path, folder, progress=share)

    return cached_folder(path, make)


def _folder_identity(folder: Path, say: Say) -> str:
    weights = _weight_files(folder)
    try:
        digest = hashlib.sha256((folder / "config.json").read_bytes())
    except OSError as error:
        raise ModelFileError(f"{folder} cannot be read: {error.strerror or error}") from error
    say("hashing the weights")
    for path in weights:
        digest.update(f"{path.name} {file_hash(path)}".encode())
    return digest.hexdigest()


def _weight_files(folder: Path) -> list[Path]:
    """The files of weights in a folder, sorted. Raises ModelFileError where there are none."""
    try:
        files = sorted(folder.iterdir())
    except OSError as error:
        raise ModelFileError(f"{folder} cannot be read: {error.strerror or error}") from error
    # transformers takes pickles only where there are no safetensors.
    kinds = ([p for p in files if p.suffix == kind] for kind in (".safetensors", ".bin"))
    weights = next((found for found in kinds if found), [])
    if not weights:
        raise ModelFileError(
            f"{folder} holds a configuration and no weights; to run a model of the hub, fetch "
            "them first with `hf download`"
        )
    return weights


def _missing(package: str) -> MissingPartError:
    return MissingPartError(
        f'running a model needs {package}, which is not installed: pip install "ropewalk[prove]"'
    )
