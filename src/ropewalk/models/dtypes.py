"""What a model computes in, by the words of --dtype: bf16, fp16, fp32, or auto."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.errors import RopewalkError, UsageError
from ropewalk.models.resolve import ModelFiles

if TYPE_CHECKING:
    import torch

AUTO = "auto"
DTYPES = (AUTO, "bf16", "fp16", "fp32")
"""The words."""

_TORCH = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_STORED = {"BF16": "bf16", "F16": "fp16", "F32": "fp32"}
"""As safetensors calls them."""


def check_dtype(word: str, known: Sequence[str] = DTYPES) -> None:
    """Raise UsageError for a word that is none of `known`."""
    if word not in known:
        raise UsageError(f"--dtype {word!r} is not known; choose one of {', '.join(known)}")


def torch_dtype(word: str) -> torch.dtype:
    """The dtype of torch behind bf16, fp16 or fp32."""
    import torch

    found: torch.dtype = getattr(torch, _TORCH[word])
    return found


def dtype_word(dtype: torch.dtype) -> str:
    """bf16, fp16 or fp32 for the dtype of torch; the reverse of `torch_dtype`."""
    return next(word for word, name in _TORCH.items() if str(dtype) == f"torch.{name}")


def chosen_dtype(word: str, device: torch.device, files: ModelFiles | None) -> str:
    """The word itself, and for auto what the checkpoint and the device agree on.

    On a CPU auto is fp32 whatever the checkpoint says: few CPUs compute in 16 bits as fast, and a
    figure is then the same on every machine. On another device it is what the weights are stored
    in, fp32 where they are quantised, and fp32 where the device does not compute in bf16 itself:
    in fp16, of a smaller range, weights made for bf16 may overflow. Raises UsageError for another
    word.
    """
    check_dtype(word)
    if word != AUTO:
        return word
    if device.type == "cpu" or files is None:
        return "fp32"
    stored = stored_dtype(files)
    if stored == "bf16" and not computes_bf16(device):
        return "fp32"
    return stored or "fp32"


def computes_bf16(device: torch.device) -> bool:
    """Whether a GPU has arithmetic in bf16 of its own. False for a CPU, which is not asked."""
    import torch

    if device.type == "cuda":
        # Before compute capability 8.0 torch makes do with fp32 and rounds.
        return torch.cuda.get_device_capability(device) >= (8, 0) or torch.version.hip is not None
    if device.type == "cpu":
        return False
    try:
        ones = torch.ones(2, 2, dtype=torch.bfloat16, device=device)
        return float((ones @ ones).sum()) == 8.0
    except (RuntimeError, TypeError):
        return False


def stored_dtype(files: ModelFiles) -> str | None:
    """bf16, fp16 or fp32 as the model's files say; None where they say none of these.

    What the configuration says (`dtype`, or `torch_dtype` in older ones) goes before the type of
    the first tensor of floating point. A GGUF file has None: its weights are run dequantised.
    """
    if files.kind == "gguf":
        return None
    try:
        config = files.config
    except RopewalkError:
        # Whoever loads the model says better what is wrong with it.
        return None
    for part in (config, config.get("text_config")):
        said = _said(part)
        if said is not None:
            return {name: word for word, name in _TORCH.items()}.get(said)
    return _first_stored(files.path) if files.kind == "folder" else None


def _said(config: Any) -> str | None:
    for key in ("dtype", "torch_dtype"):
        value = config.get(key) if isinstance(config, dict) else None
        if isinstance(value, str) and value != AUTO:
            return value.removeprefix("torch.")
    return None


def _first_stored(folder: Path) -> str | None:
    """The type of the first tensor of bf16, fp16 or fp32 in the first safetensors file."""
    from safetensors import SafetensorError, safe_open

    for path in sorted(folder.glob("*.safetensors"))[:1]:
        try:
            with safe_open(path, framework="np") as file:
                types = [str(file.get_slice(name).get_dtype()) for name in file.keys()]  # noqa: SIM118
        except (OSError, SafetensorError):
            return None
        return next((_STORED[each] for each in types if each in _STORED), None)
    return None
