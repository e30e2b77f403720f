"""The model that is trained: brought up in float32, with adapters or without."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.errors import MissingPartError, ModelFileError, UsageError
from ropewalk.extension.tune.attention import choose_attention
from ropewalk.extension.tune.training_settings import TuneSettings
from ropewalk.models.load import load, table_rows
from ropewalk.models.resolve import ModelFiles, read_spec
from ropewalk.models.rotary_tables import schedule_fingerprint
from ropewalk.models.tokenizer import check_fits, highest_own
from ropewalk.rope.spec import PositionSpec
from ropewalk.short import short

if TYPE_CHECKING:
    import torch

ALPHA = 2
"""LoRA's alpha is so many times its rank: what adapters add is scaled by it."""


@short
@dataclass(frozen=True)
class Trainee:
    """`causal` is a causal model of transformers, `adapted` peft's model around it or None.

    `folder` is where its files lie, `identity` names its weights, `spec` its positions, and
    `attention` is what `set_attention` is told for training.
    """

    causal: Any
    adapted: Any | None
    tokenizer: Any
    folder: Path
    identity: str
    spec: PositionSpec
    attention: str

    @property
    def vocabulary(self) -> int:
        """Rows of the embedding table."""
        return table_rows(self.causal)

    def counts(self) -> tuple[int, int]:
        """Parameters that are trained, and all of them."""
        sizes = [(each.numel(), each.requires_grad) for each in self.causal.parameters()]
        return sum(size for size, trained in sizes if trained), sum(size for size, _ in sizes)


def bring_up(
    files: ModelFiles,
    settings: TuneSettings,
    device: torch.device,
    say: Callable[[str], None] = lambda _: None,
) -> Trainee:
    """Load the model in float32 on the CPU, and make ready what is to be trained.

    Its attention stays the usual one, in which it is measured; what it trains with is chosen.

    Raises as `models.load.load`; UsageError for an attention that cannot be had, ModelFileError
    for a tokenizer that does not fit the model and a GGUF whose schedule no configuration holds.
    """
    import torch

    loaded = load(files, device=torch.device("cpu"), dtype=torch.float32, say=say)
    causal = loaded.model
    folder = Path(causal.config._name_or_path)
    spec = read_spec(files)
    _check_schedule(files, folder, spec)
    check_fits(highest_own(loaded.tokenizer), loaded.rows, files.title)
    attention = choose_attention(causal, spec, settings, device)
    adapted = None
    if settings.lora is None:
        for each in causal.parameters():
            each.requires_grad_(each.is_floating_point())
    else:
        adapted = adapters(causal, settings.lora)
    if settings.activation_checkpoints:
        _checkpoint_activations(causal)
    causal.train()
    causal.to(device)
    return Trainee(causal, adapted, loaded.tokenizer, folder, loaded.identity, spec, attention)


def adapters(causal: Any, rank: int) -> Any:
    """Adapters of rank `rank` at every linear layer but the head; all else is held fast.

    LoRA of E. Hu et al., 2106.09685. Raises MissingPartError without peft.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise MissingPartError(
            '--lora needs peft, which is not installed: pip install "ropewalk[tune]"'
        ) from error
    asked = LoraConfig(
        r=rank, lora_alpha=ALPHA * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    with warnings.catch_warnings():
        # peft asks transformers by names of yesterday.
        warnings.simplefilter("ignore", FutureWarning)
        return get_peft_model(causal, asked)


def _checkpoint_activations(causal: Any) -> None:
    """Keep the inputs of blocks only, and compute them again on the way back."""
    if not causal.supports_gradient_checkpointing:
        raise UsageError(
            f"{type(causal).__name__} cannot compute its blocks twice to save memory; give "
            "--keep-activations"
        )
    # Older versions of transformers have the second name alone.
    enable = getattr(causal, "activation_checkpointing_enable", None)
    (enable or causal.gradient_checkpointing_enable)({"use_reentrant": False})


def _check_schedule(files: ModelFiles, folder: Path, spec: PositionSpec) -> None:
    """Refuse a GGUF of which the folder that transformers reads says something else."""
    if files.kind != "gguf":
        return
    read = read_spec(ModelFiles(str(folder), files.title, "folder", folder))
    if schedule_fingerprint(read) != schedule_fingerprint(spec):
        raise ModelFileError(
            f"{files.path} holds a schedule (divisors of its own in rope_freqs, say) that the "
            "configuration made from it does not, so the tuned model would turn otherwise; give "
            "the model's Hugging Face folder instead"
        )
