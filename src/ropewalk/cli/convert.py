"""`ropewalk convert MODEL --to ...`: a model's position settings in another engine's words."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropewalk.cli import options
from ropewalk.cli.output import tell

if TYPE_CHECKING:
    from ropewalk.models.resolve import ModelFiles
    from ropewalk.rope.spec import PositionSpec


class To(StrEnum):
    """The dialects that can be written."""

    vllm = "vllm"
    llamacpp = "llamacpp"
    gguf = "gguf"
    hf4 = "hf4"
    hf5 = "hf5"


def convert_command(
    model: options.AuditedModel,
    to: Annotated[
        To,
        typer.Option(
            help="vllm and llamacpp print one line of options; gguf, hf4 and hf5 write "
            "a copy of the model's own file (hf4 and hf5: without --out, print)."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write; never the model's own.")
    ] = None,
    rope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCHEDULE",
            help="Another schedule: yarn:2, linear:2, ntk:2, "
            "base:500000, none; may be given again, in order.",
        ),
    ] = None,
    length: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS",
            help="The longest prompt to serve, like 32k (vllm, llamacpp).",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.gguf",
            help="For gguf, where MODEL is a folder: what llama.cpp's converter made of it.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Convert position settings: the same numbers, or an error that names what is lost."""
    from ropewalk.errors import UsageError
    from ropewalk.lengths import parse_length
    from ropewalk.models.resolve import read_spec, resolve

    if weights is not None and to is not To.gguf:
        raise UsageError(f"--weights goes with --to gguf, not {to.value}; leave it away")
    served = None if length is None else parse_length(length, "--length")
    files = resolve(model)
    original = read_spec(files)
    spec = _with_schedules(original, rope or [])
    if to in (To.vllm, To.llamacpp):
        converted = _options(files, original, spec, to, served)
    elif to is To.gguf:
        converted = _write_gguf(files, spec, weights, out, force=force)
    else:
        converted = _write_config(files, spec, 4 if to is To.hf4 else 5, out, force=force)
    _print(converted, to, as_json=as_json)


@dataclass(frozen=True, slots=True)
class Converted:
    """What came of it: options for a command line, a file that was written, or a configuration.

    `remarks` are what the reader of the result should know beside it.
    """

    options: str | None = None
    written: str | None = None
    config: dict[str, Any] | None = None
    remarks: tuple[str, ...] = ()


def _print(converted: Converted, to: To, *, as_json: bool) -> None:
    """The result on stdout, what should be known beside it on stderr or in the document."""
    if as_json:
        document = {"schema": "ropewalk.convert/1", "to": to.value, **asdict(converted)}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    for remark in converted.remarks:
        tell(f"ropewalk: {remark}")
    if converted.options is not None:
        typer.echo(converted.options)
    elif converted.written is not None:
        tell(f"ropewalk: wrote {converted.written}")
    else:
        sys.stdout.write(config_text(converted.config))


def config_text(config: dict[str, Any] | None) -> str:
    """A configuration as transformers writes it."""
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def _with_schedules(spec: PositionSpec, schedules: list[str]) -> PositionSpec:
    """The spec under each schedule in turn; a factor that stretches also stretches the claim."""
    from ropewalk.rope.override import override
    from ropewalk.rope.spec import Length

    for text in schedules:
        before = spec.trained.tokens or spec.claimed.tokens
        spec = override(spec, text)
        factors = {getattr(r.scaling, "factor", 1.0) for _, r in spec.rotary_groups()}
        if text.strip().lower().startswith("none") or before is None or not factors:
            continue
        reach = int(before * max(factors))
        if reach > (spec.claimed.tokens or 0):
            spec = replace(spec, claimed=Length(reach, f"--rope {text}"))
            tell(f"ropewalk: --rope {text} makes the claimed length {reach}")
    return spec


def _options(
    files: ModelFiles, original: PositionSpec, spec: PositionSpec, to: To, length: int | None
) -> Converted:
    """One line for a shell."""
    from ropewalk.dialects.engines import as_computed
    from ropewalk.dialects.engines.llamacpp import LLAMACPP
    from ropewalk.dialects.hf.family import ConfigSource
    from ropewalk.dialects.llamacpp import VERSION as LLAMACPP_VERSION
    from ropewalk.dialects.llamacpp import write_flags
    from ropewalk.dialects.vllm import VERSION as VLLM_VERSION
    from ropewalk.dialects.vllm import write_overrides
    from ropewalk.errors import UsageError

    if to is To.llamacpp:
        served = length or spec.claimed.tokens
        file = as_computed(LLAMACPP, original, served=served)
        return Converted(write_flags(spec, file, served), remarks=(LLAMACPP_VERSION,))
    if not isinstance(spec.source, ConfigSource):
        raise UsageError(
            f"{files.path} is a GGUF file and has no config.json to override; give the model's "
            "folder, or use --to llamacpp"
        )
    return Converted(write_overrides(spec, spec.source, length), remarks=(VLLM_VERSION,))


def _write_gguf(
    files: ModelFiles, spec: PositionSpec, weights: Path | None, out: Path | None, *, force: bool
) -> Converted:
    """A copy of the model's own GGUF file, or of the one that was converted from its folder."""
    from ropewalk.dialects.gguf.write import write_gguf
    from ropewalk.errors import UsageError
    from ropewalk.models.resolve import read_spec, resolve

    if weights is None and files.kind != "gguf":
        raise UsageError(
            f"{files.path} is no GGUF file, of which a copy could be written; convert it with "
            "llama.cpp's convert_hf_to_gguf.py, and name what that made with --weights FILE.gguf: "
            "the copy then turns as this model does"
        )
    if weights is not None and files.kind == "gguf":
        raise UsageError(
            f"{files.path} has weights of its own, which are copied; leave --weights away"
        )
    source = files if weights is None else resolve(str(weights))
    if source.kind != "gguf":
        raise UsageError(f"--weights {weights} is no GGUF file; name one of this model")
    if weights is not None:
        ours, theirs = _shape(spec), _shape(read_spec(source))
        if ours != theirs:
            raise UsageError(
                f"--weights {weights} is of another model: it has {theirs}, and {files.path} has "
                f"{ours}; name the file that was converted from it"
            )
    if out is None:
        raise UsageError("--to gguf needs --out FILE, the copy to write")
    write_gguf(spec, source.path, out, overwrite=force)
    return Converted(written=str(out))


def _shape(spec: PositionSpec) -> str:
    """What weights of one model have in common, in words."""
    turned = sorted({(r.head_dim, r.rotary_dim) for _, r in spec.rotary_groups()})
    heads = ", ".join(f"{rotary} of {head}" for head, rotary in turned)
    return f"{sum(len(g.layers) for g in spec.groups)} layers that turn {heads or 'no'} channels"


def _write_config(
    files: ModelFiles, spec: PositionSpec, version: int, out: Path | None, *, force: bool
) -> Converted:
    from ropewalk.dialects.engines.views import remarks_on
    from ropewalk.dialects.hf.family import ConfigSource, config_source
    from ropewalk.dialects.hf.write import write_config
    from ropewalk.errors import UsageError

    if not isinstance(spec.source, ConfigSource):
        raise UsageError(
            f"{files.path} is a GGUF file and has no config.json to write into; give the model's "
            "folder, or use --to gguf"
        )
    source = files.config_path
    found = write_config(spec, spec.source, 4 if version == 4 else 5)
    remarks = tuple(remarks_on(spec, spec.source, found.source))
    written = dict(config_source(found).config)
    if out is None:
        return Converted(config=written, remarks=remarks)
    from ropewalk.files import write_whole

    target = out / "config.json" if out.is_dir() else out
    if target.exists() and target.samefile(source):
        raise UsageError(f"{target} is the model's own file; name another file to write")
    if target.exists() and not force:
        raise UsageError(f"{target} exists; name another file, or allow it with --force")
    write_whole(target, config_text(written))
    return Converted(written=str(target), remarks=remarks)
