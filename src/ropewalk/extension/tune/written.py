"""The tuned model as a folder of its own: new weights, and every other file as it was.

The configuration and the tokenizer are copied byte for byte, so that lengths, schedule and number
type stay what they were: tuning changes weights and nothing else.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.errors import ModelFileError, StoreError
from ropewalk.extension.tune.model import adapters
from ropewalk.files import folder_beside
from ropewalk.models.load import plain_errors

if TYPE_CHECKING:
    from torch import Tensor

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".gguf", ".onnx")
_INDEX = ".index.json"
PREFIX = "causal."


def write_model(
    original: Path, weights: dict[str, Tensor], target: Path, lora: int | None
) -> Path | None:
    """Write `original` with `weights` at `target`; where the adapters lie, None without `lora`.

    `weights` are those that were trained, named as in `LossModel`. Adapters are merged into the
    model, and also kept beside it in `target/../adapter`. Raises StoreError when it cannot be
    written, and then leaves nothing behind; ModelFileError for weights that do not belong.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    safe: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    with plain_errors(str(original)):
        config = AutoConfig.from_pretrained(original, **safe)
        causal: Any = AutoModelForCausalLM.from_pretrained(original, dtype=torch.float32, **safe)
    stored = getattr(config, "dtype", None) or torch.float32
    adapted = None if lora is None else adapters(causal, lora)
    _fill(causal, weights)
    beside: Path | None = None
    if adapted is not None:
        beside = target.parent / "adapter"
        if not beside.exists():
            with folder_beside(beside) as folder, _said(beside):
                adapted.save_pretrained(folder)
        causal = adapted.merge_and_unload()
    causal.to(stored)
    with folder_beside(target) as folder, _said(target):
        causal.save_pretrained(folder)
        for path in sorted(original.iterdir()):
            if path.is_file() and not _is_weights(path):
                shutil.copyfile(path, folder / path.name)
    return beside


def _fill(causal: Any, weights: dict[str, Tensor]) -> None:
    named = {name.removeprefix(PREFIX): each for name, each in weights.items()}
    wrong = causal.load_state_dict(named, strict=False).unexpected_keys
    if wrong:
        raise ModelFileError(
            f"{len(wrong)} trained weights have no place in the model, such as {wrong[0]}"
        )
    causal.tie_weights()


def _is_weights(path: Path) -> bool:
    return path.suffix in _WEIGHTS or path.name.endswith(_INDEX)


class _said:  # noqa: N801 - used as a context manager only
    """What libraries raise for a full disk, as StoreError."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Raise our own error where safetensors raises its."""
        from safetensors import SafetensorError

        if isinstance(error, SafetensorError | RuntimeError):
            said = " ".join(str(error).split())[:200]
            raise StoreError(
                f"{self._target} cannot be written: {said}; nothing is left of it; make room, "
                "and the same command goes on"
            ) from error
