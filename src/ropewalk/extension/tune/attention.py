"""Which attention a model trains with: chosen and tried before anything is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ropewalk.attention import packed
from ropewalk.errors import UsageError
from ropewalk.extension.tune.inputs import PROBE, Handing, probe
from ropewalk.extension.tune.training_settings import TuneSettings
from ropewalk.packing.pack import stack
from ropewalk.rope.spec import PositionSpec

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MOST_TRIED = 1024
"""The longest window, in tokens, that two documents are made longer than to try it."""


def choose_attention(
    causal: Any, spec: PositionSpec, settings: TuneSettings, device: torch.device
) -> str:
    """The word for `set_attention`. `causal` is on the CPU in float32 and is left as it was.

    "auto" is document by document on a CPU, if the model answers as with its usual attention, and
    else sdpa; on a GPU, where each document would be a launch of its own, sdpa.

    Raises UsageError for an attention that this model, or this machine, cannot train with.
    """
    asked = settings.attention
    if asked in ("auto", "packed"):
        if asked == "auto" and device.type != "cpu":
            return "sdpa"
        reason = _why_not_packed(causal, spec, settings.mix.longest)
        if reason is None:
            return "packed"
        if asked == "packed":
            raise UsageError(
                f"--attention packed cannot be used for {type(causal).__name__}: {reason}; leave "
                "the option out"
            )
        return "sdpa"
    if asked == "flex_attention" and device.type == "cpu":
        raise UsageError(
            "--attention flex_attention cannot train on a CPU, where PyTorch has no gradient of "
            "it; leave the option out, or give --device cuda"
        )
    usual = causal.config._attn_implementation
    set_attention(causal, asked)
    set_attention(causal, usual)
    return asked


def set_attention(causal: Any, attention: str) -> None:
    """Choose how a model computes attention. Raises UsageError where it cannot."""
    name = packed.register() if attention == "packed" else attention
    try:
        causal.set_attn_implementation(name)
    except (ImportError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise UsageError(
            f"--attention {attention} cannot be used for {type(causal).__name__} here: {said}"
        ) from error


def handing(causal: Any, settings: TuneSettings) -> Handing:
    """How rows are handed to a model, with the attention that it has now."""
    name = causal.config.get_text_config()._attn_implementation
    return Handing(settings.mask, settings.positions, offsets=name == packed.NAME)


def _why_not_packed(causal: Any, spec: PositionSpec, longest: int) -> str | None:
    """Why documents of `longest` tokens at most cannot go through a model one at a time, or None:
    tried on two of them, which are longer than any window that documents could reach beyond.
    """
    windows = [group.window for group in spec.groups if group.window is not None]
    if any(window.kind != "sliding" for window in windows):
        return "its layers see a window of another kind than a sliding one"
    felt = max((window.size for window in windows if window.size < longest), default=0)
    if felt > MOST_TRIED:
        return f"its layers see a window of {felt} tokens, too long a one to be tried here"
    size = PROBE + felt
    if not getattr(causal, "_supports_attention_backend", False):
        return "its attention cannot be replaced"
    usual = causal.config._attn_implementation
    rows = int(causal.get_input_embeddings().weight.shape[0])
    try:
        expected = _logits(causal, Handing(), rows, size)
        set_attention(causal, "packed")
        got = _logits(causal, Handing(offsets=True), rows, size)
    except (UsageError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        return " ".join(str(error).split())[:200]
    finally:
        set_attention(causal, usual)
    apart = float((got - expected).abs().max() / expected.std())
    return None if apart < 1e-3 else "it answers otherwise than with its usual attention"


def _logits(causal: Any, how: Handing, rows: int, size: int) -> Tensor:
    import torch

    batch = stack([probe(rows, size)[0]], how.positions)
    with torch.inference_mode():
        given = how.of(batch, causal.config.get_text_config())
        logits: Tensor = causal(**given, use_cache=False).logits.float()
    return logits
