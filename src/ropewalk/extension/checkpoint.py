"""A checkpoint under a longer schedule: a new folder, whole or not there; the old one is only read.

Configuration and tokenizer say the new length, everything else is linked or copied. Before the
folder takes its name the model in it is brought up by transformers, and the angles that it rotates
by, short and at the full length, are compared with those that were meant.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ropewalk.dialects.hf import load_json, read_config
from ropewalk.dialects.hf.family import ConfigSource, config_source
from ropewalk.dialects.hf.write import write_config
from ropewalk.errors import ModelFileError, ScheduleMismatchError, StoreError, UsageError
from ropewalk.extension.card import README, with_section
from ropewalk.files import folder_beside
from ropewalk.findings.live import compare_tables, live_tables
from ropewalk.models.load import load, plain_errors
from ropewalk.models.resolve import ModelFiles
from ropewalk.models.rotary_tables import schedule_fingerprint
from ropewalk.proof.subjects.calls import free_memory
from ropewalk.short import short

if TYPE_CHECKING:
    from ropewalk.extension.serve import Options
    from ropewalk.rope.spec import PositionSpec

WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth"})
_CONFIG, _TOKENIZER = "config.json", "tokenizer_config.json"
Place = Literal["link", "copy"]
"""How weights come into the new folder: as further names of the same files, or as files."""


@short
@dataclass(frozen=True, slots=True)
class Written:
    """What was written and how it was verified, in words; `left_out` names what stayed behind.

    `serving` are engines' options for what was written.
    """

    path: Path
    fingerprint: str
    verified: str
    left_out: tuple[str, ...] = ()
    serving: tuple[Options, ...] = ()


def check_target(out: Path, *, force: bool) -> None:
    """Raise UsageError where a new checkpoint cannot take this name."""
    if out.is_dir() and any(out.iterdir()) and not force:
        raise UsageError(f"{out} is a folder with files in it; name a new one for --out")
    if out.is_dir() and any(out.iterdir()):
        raise UsageError(f"--force writes over no folder with files in it; remove {out} first")
    if out.exists() and not out.is_dir() and not force:
        raise UsageError(f"{out} exists; name another one, or allow it with --force")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {out.absolute().parent} to write into; make it first")


def write_folder(
    source: Path,
    spec: PositionSpec,
    out: Path,
    *,
    place: Place,
    card: str,
    version: Literal[4, 5] | None = None,
    read: PositionSpec | None = None,
) -> Written:
    """Write the checkpoint in `source` as `out` under `spec`, with `card` in its README.

    The configuration stays in its own spelling, or comes into that of `version` of transformers.
    `read` is what it says, where it has been read already.

    Raises StoreError when it cannot be written, ScheduleError where its configuration cannot hold
    the spec, ScheduleMismatchError when transformers rotates it otherwise, ModelFileError for a
    checkpoint that cannot be loaded; nothing is left of it then.
    """
    before = config_source(read or read_config(load_json(source / _CONFIG)))
    config = config_source(written_config(before, spec, version)).config
    left_out = []
    with folder_beside(out) as folder:
        for entry in sorted(source.iterdir()):
            if entry.name in (_CONFIG, _TOKENIZER, README) or entry.name.startswith("."):
                continue
            if not entry.is_file() or entry.suffix == ".gguf":
                left_out.append(entry.name)
            elif entry.suffix in WEIGHTS and place == "link":
                _link(entry, folder / entry.name)
            else:
                shutil.copyfile(entry, folder / entry.name)
        _json(folder / _CONFIG, config)
        tokens = spec.claimed.tokens or 0
        if (source / _TOKENIZER).is_file():
            _json(folder / _TOKENIZER, _longer(load_json(source / _TOKENIZER), tokens))
        text = _read(source / README)
        (folder / README).write_text(with_section(text, card), encoding="utf-8")
        verified = verify(folder, spec)
    return Written(out, schedule_fingerprint(spec), verified, tuple(left_out))


def written_config(
    before: ConfigSource, spec: PositionSpec, version: Literal[4, 5] | None = None
) -> PositionSpec:
    """The configuration with `spec` in it and how it was made, in its own spelling or `version`'s,
    read back.

    Raises ScheduleError where it cannot hold the spec.
    """
    return write_config(spec, before, version or generation_of(before.config))


def generation_of(config: Mapping[str, object]) -> Literal[4, 5]:
    """Which spelling a configuration is in: version 5 has `rope_parameters`.

    Where neither spelling's keys are there, the version of transformers that wrote it decides.
    """
    parts = [config, *(part for part in config.values() if isinstance(part, Mapping))]
    if any("rope_parameters" in part for part in parts):
        return 5
    if any("rope_scaling" in part or "rope_theta" in part for part in parts):
        return 4
    version = str(config.get("transformers_version", "")).partition(".")[0]
    return 5 if version.isdigit() and int(version) >= 5 else 4


def verify(folder: Path, spec: PositionSpec) -> str:
    """Bring the model in `folder` up and compare what it rotates by; how that was done, in words.

    The whole model is loaded where memory holds it, otherwise the same classes are built from
    its configuration without weights. Raises ScheduleMismatchError when something differs.
    """
    read = read_config(load_json(folder / _CONFIG), where=str(folder / _CONFIG))
    meant, found = schedule_fingerprint(spec), schedule_fingerprint(read)
    if meant != found:
        raise ScheduleMismatchError(
            f"the configuration reads back with the schedule {found}, and {meant} was meant"
        )
    model, how = _brought_up(folder)
    compared = 0
    for length in (None, spec.claimed.tokens):
        if length is not None:
            _turn(model, length)
        for check in compare_tables(model, spec, length):
            compared += 1
            if not check.agrees:
                raise ScheduleMismatchError(f"loaded back, {check.sentence}")
    if not compared:
        raise ScheduleMismatchError(
            f"{type(model).__name__} shows no angles, so that nothing says how it rotates"
        )
    return f"{how} by transformers, rotates as meant, short and at {spec.claimed.tokens} tokens"


def _brought_up(folder: Path) -> tuple[Any, str]:
    import torch

    size = sum(p.stat().st_size for p in folder.iterdir() if p.suffix in WEIGHTS)
    free = free_memory(torch.device("cpu"))
    if free is None or 2 * size < free:
        files = ModelFiles(str(folder), folder.name, "folder", folder)
        stated = str(load_json(folder / _CONFIG).get("dtype", "float32"))
        dtype = getattr(torch, stated.removeprefix("torch."), torch.float32)
        return load(files, device=torch.device("cpu"), dtype=dtype).model, "loaded back"
    with plain_errors(folder.name):
        from accelerate import init_empty_weights
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        with init_empty_weights(include_buffers=False):
            return AutoModelForCausalLM.from_config(config), "built without its weights"


def _turn(model: Any, length: int) -> None:
    """Let every rotary module see a position of a text of `length` tokens, as a forward does."""
    import torch

    places = torch.tensor([[length - 1]])
    states = torch.zeros(1, 1, 1)
    for _, name, _, owner in live_tables(model):
        kind = name.removesuffix("inv_freq").rstrip("_")
        takes = "layer_type" in inspect.signature(owner.forward).parameters
        with torch.inference_mode():
            owner(states, places, *((kind,) if takes else ()))


def _link(entry: Path, target: Path) -> None:
    """A further name for a weight file. Raises StoreError where the file system has none."""
    try:
        os.link(entry.resolve(), target)
    except OSError as error:
        raise StoreError(
            f"{entry.name} cannot be linked into the new folder ({error.strerror}): it lies on "
            "another disk, or this file system has no links; use --copy"
        ) from error


def _longer(tokenizer: Mapping[str, object], tokens: int) -> dict[str, object]:
    """The tokenizer's settings with a limit that does not cut or warn below `tokens`."""
    limit = tokenizer.get("model_max_length")
    shorter = isinstance(limit, int | float) and limit < tokens
    return {**tokenizer, **({"model_max_length": tokens} if shorter else {})}


def _json(path: Path, values: Mapping[str, object]) -> None:
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


def _read(path: Path) -> str:
    """The text of the README that is there, or none."""
    if not path.is_file():
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ModelFileError(
            f"{path} is not UTF-8 text (byte {error.start}), so that nothing can be added to it"
        ) from error
