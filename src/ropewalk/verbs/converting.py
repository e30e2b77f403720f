"""How position settings become another engine's words: options, a configuration, or a file."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from ropewalk.errors import UsageError
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.rope.spec import PositionSpec
from ropewalk.short import short
from ropewalk.shown import Shown
from ropewalk.verbs.taken import Taken

To = Literal["vllm", "llamacpp", "gguf", "hf4", "hf5"]
"""The dialects that can be written."""


@short
@dataclass(frozen=True, slots=True)
class Converted(Shown):
    """What came of it: options for a command line, a file that was written, or a configuration.

    `remarks` are what the reader of the result should know beside it.
    """

    to: To
    options: str | None = None
    written: str | None = None
    config: dict[str, Any] | None = None
    remarks: tuple[str, ...] = ()


def config_text(config: dict[str, Any] | None) -> str:
    """A configuration as transformers writes it."""
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def write(
    model: Taken,
    to: To,
    schedules: list[str],
    *,
    out: Path | None,
    length: int | None,
    weights: Path | None,
    original: int | None,
    force: bool,
) -> Converted:
    """The model's settings under `schedules` in the words of `to`. Raises as `convert`."""
    if to not in get_args(To):
        raise UsageError(f"--to {to!r:.40} is not known; choose one of {', '.join(get_args(To))}")
    if original is not None and not schedules:
        raise UsageError("--original goes with --rope, which starts from it; leave it away")
    spec, begun = _with_original(model.spec, original) if schedules else (model.spec, [])
    spec, said = _with_schedules(spec, schedules)
    said = begun + said
    if to in ("vllm", "llamacpp"):
        converted = _options(model, spec, to, length)
    elif to == "gguf":
        converted = _write_gguf(model, spec, weights, out, force=force)
    else:
        converted = _write_config(model, spec, to, out, force=force)
    return replace(converted, remarks=(*said, *converted.remarks))


PUBLISHED: dict[tuple[str, int], tuple[int, str]] = dict.fromkeys(
    (("qwen3", 40960), ("qwen3_moe", 40960)),
    (32768, "Qwen3's cards (40,960 is 32,768 with room for what is generated)"),
)
"""By model type and claimed length, the length that a publisher's own YaRN starts from, and where
that is said, for files that state none."""


def _with_original(spec: PositionSpec, original: int | None) -> tuple[PositionSpec, list[str]]:
    """The spec with the length that a schedule starts from, given or published, and the remark."""
    from ropewalk.rope.spec import Length

    if original is not None:
        return replace(spec, trained=Length(original, "--original")), []
    known = PUBLISHED.get((spec.model_type, spec.claimed.tokens or 0))
    if known is None or spec.trained.stated:
        return spec, []
    tokens, source = known
    said = f"the schedule starts from {tokens} tokens, by {source}; --original sets another length"
    return replace(spec, trained=Length(tokens, source)), [said]


def _with_schedules(spec: PositionSpec, schedules: list[str]) -> tuple[PositionSpec, list[str]]:
    """The spec under each schedule in turn; a factor that stretches also stretches the claim."""
    from ropewalk.rope.override import override
    from ropewalk.rope.spec import Length

    said = []
    for text in schedules:
        before = spec.trained.tokens or spec.claimed.tokens
        spec = override(spec, text)
        factors = {getattr(r.scaling, "factor", 1.0) for _, r in spec.rotary_groups()}
        if text.strip().lower().startswith("none") or before is None or not factors:
            continue
        reach = int(before * max(factors))
        if reach > (spec.claimed.tokens or 0):
            spec = replace(spec, claimed=Length(reach, f"--rope {text}"))
            said.append(f"--rope {text} makes the claimed length {reach}")
    return spec, said


def _options(model: Taken, spec: PositionSpec, to: To, length: int | None) -> Converted:
    """One line for a shell."""
    from ropewalk.dialects.engines import as_computed
    from ropewalk.dialects.engines.llamacpp import LLAMACPP
    from ropewalk.dialects.hf.family import ConfigSource
    from ropewalk.dialects.llamacpp import VERSION as LLAMACPP_VERSION
    from ropewalk.dialects.llamacpp import write_flags
    from ropewalk.dialects.vllm import VERSION as VLLM_VERSION
    from ropewalk.dialects.vllm import write_overrides

    if to == "llamacpp":
        served = length or spec.claimed.tokens
        file = as_computed(LLAMACPP, model.spec, served=served)
        return Converted(to, write_flags(spec, file, served), remarks=(LLAMACPP_VERSION,))
    if not isinstance(spec.source, ConfigSource):
        raise UsageError(
            f"{_called(model)} has no config.json to override; give the model's folder, or use "
            "--to llamacpp"
        )
    return Converted(to, write_overrides(spec, spec.source, length), remarks=(VLLM_VERSION,))


def _called(model: Taken) -> str:
    """A model without a config.json, in words."""
    if model.files is None:
        return "a spec alone"
    return f"{model.files.path} is a GGUF file and"


def _write_gguf(
    model: Taken, spec: PositionSpec, weights: Path | None, out: Path | None, *, force: bool
) -> Converted:
    """A copy of the model's own GGUF file, or of the one that was converted from its folder."""
    from ropewalk.dialects.gguf.write import write_gguf

    files = model.files
    if files is None and weights is None:
        raise UsageError(
            "--to gguf writes a copy of a model's own file, and none was given; name one with "
            "--weights FILE.gguf"
        )
    called = model.title if files is None else str(files.path)
    if weights is None and files is not None and files.kind != "gguf":
        raise UsageError(
            f"{called} is no GGUF file, of which a copy could be written; convert it with "
            "llama.cpp's convert_hf_to_gguf.py, and name what that made with --weights FILE.gguf: "
            "the copy then rotates as this model does"
        )
    if weights is not None and files is not None and files.kind == "gguf":
        raise UsageError(f"{called} has weights of its own, which are copied; leave --weights away")
    source = files if weights is None else resolve(str(weights))
    if source is None or source.kind != "gguf":
        raise UsageError(f"--weights {weights} is no GGUF file; name one of this model")
    if weights is not None:
        ours, theirs = _shape(spec), _shape(read_spec(source))
        if ours != theirs:
            raise UsageError(
                f"--weights {weights} is of another model: it has {theirs}, and {called} has "
                f"{ours}; name the file that was converted from it"
            )
    if out is None:
        raise UsageError("--to gguf needs --out FILE, the copy to write")
    write_gguf(spec, source.path, out, overwrite=force)
    return Converted("gguf", written=str(out))


def _shape(spec: PositionSpec) -> str:
    """What weights of one model have in common, in words."""
    rotated = sorted({(r.head_dim, r.rotary_dim) for _, r in spec.rotary_groups()})
    heads = ", ".join(f"{rotary} of {head}" for head, rotary in rotated)
    return f"{sum(len(g.layers) for g in spec.groups)} layers that rotate {heads or 'no'} channels"


def _write_config(
    model: Taken, spec: PositionSpec, to: To, out: Path | None, *, force: bool
) -> Converted:
    """The model's configuration with these settings in it, given back or written."""
    from ropewalk.dialects.engines.views import remarks_on
    from ropewalk.dialects.hf.family import ConfigSource, config_source
    from ropewalk.dialects.hf.write import write_config
    from ropewalk.files import write_whole

    if not isinstance(spec.source, ConfigSource):
        raise UsageError(
            f"{_called(model)} has no config.json to write into; give the model's folder, or use "
            "--to gguf"
        )
    found = write_config(spec, spec.source, 4 if to == "hf4" else 5)
    remarks = tuple(remarks_on(spec, spec.source, found.source))
    written = dict(config_source(found).config)
    if out is None:
        return Converted(to, config=written, remarks=remarks)
    target = out / "config.json" if out.is_dir() else out
    source = None if model.files is None else model.files.config_path
    if target.exists() and source is not None and target.samefile(source):
        raise UsageError(f"{target} is the model's own file; name another file to write")
    if target.exists() and not force:
        raise UsageError(f"{target} exists; name another file, or allow it with --force")
    write_whole(target, config_text(written))
    return Converted(to, written=str(target), remarks=remarks)
