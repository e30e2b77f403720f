"""A spec's position settings written into a copy of a GGUF file.

The copy is made by the gguf package: every other key and every tensor is passed on as it is.
Numbers are held in single precision, which is what llama.cpp reads; the copy is read again and
compared before it takes its name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from ropewalk.dialects.gguf.archs import ARCHITECTURES, UNKNOWN_ARCHITECTURE, ArchFacts
from ropewalk.dialects.gguf.header import GgufHeader, read_header
from ropewalk.dialects.gguf.keys import Keys
from ropewalk.dialects.gguf.loader import SECTIONS, yarn_keys
from ropewalk.dialects.gguf.reader import read_gguf
from ropewalk.dialects.gguf.scaling import STILL_DIVISOR
from ropewalk.dialects.gguf.weights import FILE_TYPE, QUANTISATION, Numbers, Weights
from ropewalk.dialects.record import GGUF_RECORD, record_text, stamp
from ropewalk.dialects.same import SINGLE, Dialect, require_same
from ropewalk.errors import GgufError, MissingPartError, StoreError, UsageError
from ropewalk.files import written_beside
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.schedules import (
    DynamicNtk,
    LargerBase,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    NtkByParts,
    PairDivisors,
    Proportional,
    SteppedNtk,
    UnknownScaling,
    Unscaled,
    Yarn,
    yarn_mscale,
)
from ropewalk.rope.sections import used_sections
from ropewalk.rope.spec import PositionSpec, RotarySpec
from ropewalk.short import short

if TYPE_CHECKING:
    import gguf

DIALECT = Dialect("a GGUF file", "write another dialect, or a spec that llama.cpp knows", SINGLE)

FREQS = "rope_freqs.weight"
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"

_LLAMA_LIKE = frozenset("llama llama-embed mistral3 minicpm granite granitemoe".split())
FREQS_LOADED = _LLAMA_LIKE | frozenset(
    "deci exaone exaone4 apertus bailingmoe gemma4 arcee llada".split()
)
"""Architectures whose loader asks for `rope_freqs`; elsewhere a tensor too many ends the load."""
FACTORS_LOADED = _LLAMA_LIKE | frozenset("minicpm3 phi3 phimoe".split())
"""The same for `rope_factors_long` and `rope_factors_short`."""


_SCALING_KEYS = (
    "rope.scale_linear",
    *(f"rope.scaling.{name}" for name in ("type", "factor", "alpha", "attn_factor")),
    *(f"rope.scaling.yarn_{name}" for name in ("log_multiplier", "ext_factor", "attn_factor")),
    *(f"rope.scaling.yarn_{name}" for name in ("beta_fast", "beta_slow")),
)


Value = str | int | float | tuple[int, ...] | None
"""What a key is given; a tuple is written as an array of 32-bit integers."""


@short
@dataclass(slots=True)
class Changes:
    """What differs in the copy: keys without their prefix (None: taken out), schedule tensors,
    and the record of an extension, in the place of any that is there.
    """

    keys: dict[str, Value] = field(default_factory=dict)
    record: str | None = None
    tensors: dict[str, tuple[float, ...]] = field(default_factory=dict)


def write_gguf(
    spec: PositionSpec,
    source: Path,
    target: Path,
    *,
    overwrite: bool = False,
    numbers: Numbers | None = None,
) -> PositionSpec:
    """Copy the GGUF file `source` to `target` with the position settings of `spec`.

    Weights are copied as stored, or with `numbers` dequantised: matrices in that type, vectors in
    single precision. Written beside `target` and renamed when complete; `source` is only read.
    Returns the spec of the copy, whose numbers are those of `spec` rounded to single precision
    (2.5e-7 relative).

    Raises ScheduleError, naming field, value and remedy, where a GGUF file cannot hold the spec,
    UsageError where `target` exists and `overwrite` is False or is `source` itself, GgufError for
    a `source` that cannot be read, StoreError when the copy cannot be written.
    """
    header = read_header(source)
    changes = plan_changes(spec, header)
    weights = Weights(numbers)
    try:
        if target.exists() and target.samefile(source):
            raise UsageError(f"{target} is the file to be copied; name another file to write")
        if target.exists() and not overwrite:
            raise UsageError(f"{target} exists; name another file, or allow it with --force")
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}") from error
    with written_beside(target) as part:
        _copy(header, changes, part, weights)
        found = read_gguf(part)
        require_same(spec, found, DIALECT)
        if changes.record is not None:
            stamp(part, changes.record, found)
            found = read_gguf(part)
    return found


def plan_changes(spec: PositionSpec, header: GgufHeader) -> Changes:
    """The keys and tensors that make the file say `spec`."""
    keys = Keys.of(header)
    if isinstance(parts := header.metadata.get("split.count"), int) and parts > 1:
        raise GgufError(
            f"{header.path} is one of {parts} files of a split model; merge them "
            "(llama-gguf-split --merge) before writing a copy"
        )
    facts = ARCHITECTURES.get(keys.arch, UNKNOWN_ARCHITECTURE)
    changes = Changes(record=record_text(spec))
    claimed = spec.claimed.tokens
    if claimed is not None:
        if claimed >= 2**32:
            raise DIALECT.refusal("the claimed length", claimed, "it has 32 bits for it")
        changes.keys["context_length"] = claimed
    groups = list(spec.rotary_groups())
    if not groups:
        return changes
    whole = next((r for g, r in groups if g.window is None), groups[0][1])
    local = next((r for g, r in groups if g.window is not None), None)
    changes.keys |= dict.fromkeys(_SCALING_KEYS)
    changes.keys["rope.freq_base"] = whole.scaling.base(whole)
    inherited = facts.local_base or whole.scaling.base(whole)
    if local is not None and (
        keys.has("rope.freq_base_swa") or local.scaling.base(local) != inherited
    ):
        changes.keys["rope.freq_base_swa"] = local.scaling.base(local)
    if whole.sections and used_sections(keys.by_layer(SECTIONS, 1) or ()) != whole.sections:
        # llama.cpp reads four.
        changes.keys[SECTIONS] = (whole.sections + (0,) * 4)[: max(4, len(whole.sections))]
    if spec.trained.stated and spec.trained.tokens is not None:
        changes.keys["rope.scaling.original_context_length"] = spec.trained.tokens
    _plan_scaling(whole, keys, facts, changes)
    return changes


def check_holds(spec: PositionSpec, architecture: str) -> None:
    """Raise ScheduleError, naming what is lost, unless a file of this architecture can say `spec`.

    For a file that is not there yet. What the file has of its own is not known, and not compared.
    """
    stated = {"general.architecture": architecture}
    plan_changes(spec, GgufHeader(Path(f"{architecture}.gguf"), 3, 0, stated, {}, 0))


def _plan_scaling(rotary: RotarySpec, keys: Keys, facts: ArchFacts, changes: Changes) -> None:
    prefix, kind, scaling = "rope.scaling.", "rope.scaling.type", rotary.scaling
    match scaling:
        case Unscaled() | LargerBase() | Ntk():
            changes.keys[kind] = Unscaled.spelled.gguf
        case Linear(factor=s):
            changes.keys |= {kind: scaling.spelled.gguf, f"{prefix}factor": s}
        case Yarn():
            _plan_yarn(scaling, keys, facts, changes)
        case LongRope(
            short_factor=short, long_factor=long, original_max_position_embeddings=switch
        ):
            _refuse_unread(LONG, FACTORS_LOADED, keys)
            changes.tensors |= {LONG: long, SHORT: short}
            changes.keys |= {
                kind: scaling.spelled.gguf,
                f"{prefix}attn_factor": scaling.amplitude()[0],
                f"{prefix}original_context_length": switch,
            }
        case PairDivisors() | Llama3() | NtkByParts() | Proportional():
            _refuse_unread(FREQS, FREQS_LOADED, keys)
            built = schedule(rotary)
            pairs = zip(built.unscaled, built.inv_freq, strict=True)
            changes.tensors[FREQS] = tuple(a / b if b else STILL_DIVISOR for a, b in pairs)
            changes.keys[kind] = Unscaled.spelled.gguf
        case DynamicNtk() | SteppedNtk() | UnknownScaling():
            raise DIALECT.refusal("scaling", repr(scaling.name), "llama.cpp has no such type")
        case _:
            assert_never(scaling)


def _plan_yarn(scaling: Yarn, keys: Keys, facts: ArchFacts, changes: Changes) -> None:
    """YaRN, with the amplitude as a multiple of the one that llama.cpp computes itself."""
    prefix, s = "rope.scaling.", scaling.factor
    if not scaling.truncate:
        raise DIALECT.refusal(
            "truncate", "false", "llama.cpp always rounds the ramp's ends to whole pairs"
        )
    changes.keys |= {
        f"{prefix}type": scaling.spelled.gguf,
        f"{prefix}factor": s,
        f"{prefix}original_context_length": scaling.original_max_position_embeddings,
    }
    loads = yarn_keys(keys.arch)
    for name, usual in (("beta_fast", loads.beta_fast), ("beta_slow", 1.0)):
        value = getattr(scaling, name)
        if value == usual:
            continue
        if name not in loads.reads:
            raise DIALECT.refusal(
                name, f"{value:g}", f"llama.cpp reads none for {keys.arch} and takes {usual:g}"
            )
        changes.keys[f"{prefix}yarn_{name}"] = value
    own = yarn_mscale(s)
    if scaling.mscale_all_dim and facts.yarn_log_unit is not None:
        all_dim = scaling.mscale_all_dim
        changes.keys[f"{prefix}yarn_log_multiplier"] = all_dim * facts.yarn_log_unit
        same = keys.arch == "deepseek2" and abs(all_dim - 1.0) > 1e-6
        own = yarn_mscale(s, all_dim if same else 1.0) / yarn_mscale(s, all_dim)
    times = scaling.amplitude()[0] / own
    if abs(times - 1.0) > SINGLE / 2:
        changes.keys[f"{prefix}attn_factor"] = times


def _refuse_unread(tensor: str, loaded: frozenset[str], keys: Keys) -> None:
    """A tensor that the architecture's loader does not expect makes it refuse the file."""
    if keys.arch not in loaded and tensor not in keys.header.tensors:
        raise DIALECT.refusal(
            "the tensor", tensor, f"llama.cpp's {keys.arch} is not known to load it"
        )


def _copy(header: GgufHeader, changes: Changes, target: Path, weights: Weights) -> None:
    """Write the copy with the gguf package."""
    try:
        import gguf
        import numpy as np
    except ImportError as error:
        raise MissingPartError(
            'writing a GGUF file needs the gguf package: pip install "ropewalk[prove]"'
        ) from error
    reader = gguf.GGUFReader(header.path)
    arch = str(header.metadata["general.architecture"])
    writer = gguf.GGUFWriter(target, arch, endianess=reader.endianess)
    try:
        for name, value, kind, element in _fields(reader, arch, changes, header.path):
            if name == "general.alignment":
                writer.data_alignment = value
            if name != QUANTISATION or weights.numbers is None:
                value = weights.file_type(value) if name == FILE_TYPE else value
                writer.add_key_value(name, value, kind, sub_type=element)
        kept = [tensor for tensor in reader.tensors if not _is_schedule(tensor.name)]
        new = {k: np.asarray(v, dtype=np.float32) for k, v in changes.tensors.items()}
        for name, array in new.items():
            writer.add_tensor_info(name, array.shape, array.dtype, array.nbytes)
        for tensor in kept:
            weights.announce(writer, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for array in new.values():
            writer.write_tensor_data(array)
        for tensor in kept:
            writer.write_tensor_data(weights.data(tensor), tensor_endianess=reader.endianess)
    finally:
        # Closing flushes, and on a full disk fails again; the first error is the one to tell.
        with contextlib.suppress(OSError):
            writer.close()


def _is_schedule(name: str) -> bool:
    return any(
        stem in name for stem in ("rope_freqs.", "rope_factors_long.", "rope_factors_short.")
    )


Field = tuple[str, Any, "gguf.GGUFValueType", "gguf.GGUFValueType | None"]


def _fields(reader: Any, arch: str, changes: Changes, path: Path) -> Iterator[Field]:
    """Every key of the copy, in the order of the file, new ones last."""
    import gguf

    kinds = gguf.GGUFValueType
    types = {str: kinds.STRING, int: kinds.UINT32, float: kinds.FLOAT32}

    def written(name: str, value: Value) -> Iterator[Field]:
        if isinstance(value, tuple):
            yield name, list(value), kinds.ARRAY, kinds.INT32
        elif value is not None:
            yield name, value, types[type(value)], None

    new = {f"{arch}.{key}": value for key, value in changes.keys.items()}
    new[GGUF_RECORD] = changes.record
    for entry in reader.fields.values():
        name = entry.name
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        if name not in new:
            yield name, _content(entry, path), entry.types[0], _element(entry)
        else:
            yield from written(name, new.pop(name))
    for name, value in new.items():
        yield from written(name, value)


def _element(entry: Any) -> Any:
    return entry.types[-1] if len(entry.types) > 1 else None


def _content(entry: Any, path: Path) -> Any:
    """A value as it stands; text as bytes, which need not be valid UTF-8."""
    import gguf

    kinds = gguf.GGUFValueType
    if entry.types[0] == kinds.STRING:
        return entry.parts[-1].tobytes()
    if entry.types[0] == kinds.ARRAY:
        if not entry.data or entry.types.count(kinds.ARRAY) > 1:
            raise GgufError(
                f"{path}: {entry.name} is an empty or nested array, which the gguf package cannot "
                "write; remove it with gguf_new_metadata first"
            )
        if entry.types[-1] == kinds.STRING:
            return [entry.parts[index].tobytes() for index in entry.data]
    return entry.contents()
