"""The header of a GGUF file: metadata and the list of tensors, without reading a weight.

A small parser for versions 2 and 3 of the format (ggml, docs/gguf.md), little-endian. Every
count, length and offset that the file states is held against the file's real size before it is
believed, so that a truncated, corrupt or lying file costs no memory and ends in one
`GgufError` that says where. Long arrays (vocabularies, merges) are stepped over, not kept.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from ropewalk.dialects.gguf.types import ARRAY, BOOL, FIXED, STRING, TENSOR_TYPES
from ropewalk.errors import GgufError
from ropewalk.short import short

MAX_KEPT_ELEMENTS = 1024
"""Longer arrays are kept as their type and count."""
MAX_KEPT_TEXT = 1 << 20
"""Longer strings, in bytes, are kept as their length (some files embed a whole tokenizer)."""
MAX_KEY_BYTES = 65535
MAX_KEYS = 65536
MAX_TENSORS = 1 << 20
MAX_DIMENSIONS = 4
MAX_NESTING = 4
MAX_FLOATS = 65536
"""`read_floats` is for schedules, which hold one number a rotary pair."""
DEFAULT_ALIGNMENT = 32
MAX_MESSAGE = 300

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_AGAIN = "the file is damaged or incomplete: download it again"


@short
@dataclass(frozen=True, slots=True)
class SkippedArray:
    """An array, or a very long string, that was stepped over: its element type and count."""

    type_name: str
    count: int

    def __str__(self) -> str:
        """In words, for messages."""
        return f"an array of {self.count} {self.type_name}"


GgufScalar = int | float | bool | str
GgufValue = GgufScalar | tuple[GgufScalar, ...] | SkippedArray


@short
@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One entry of the tensor list.

    `shape` has the fastest axis first, as in the file. `offset` counts bytes from the file's
    start of data (`GgufHeader.data_start`); `n_bytes` is what the tensor takes there.
    """

    name: str
    shape: tuple[int, ...]
    type_id: int
    type_name: str
    offset: int
    n_bytes: int


@short
@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file says before its weights. `data_start` is a byte offset in the file."""

    path: Path
    version: int
    file_size: int
    metadata: Mapping[str, GgufValue]
    tensors: Mapping[str, TensorInfo]
    data_start: int


def read_header(path: Path) -> GgufHeader:
    """Read the header of the GGUF file at `path`.

    Keys and tensor names must be valid UTF-8, since they are looked up. In string values an
    invalid byte becomes U+FFFD: a spoiled chat template is no reason to refuse the numbers.

    Raises GgufError when the file cannot be read, is no GGUF file that this parser knows, or
    states anything that its size contradicts.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size == 0:
                raise GgufError(f"{path} is empty; {_AGAIN}")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Parser(path, data, size).header()
    except OSError as error:
        raise GgufError(f"{path} cannot be read: {error.strerror or error}") from error


def read_floats(header: GgufHeader, name: str) -> tuple[float, ...]:
    """The elements of a small float tensor (F32, F16, BF16 or F64), in file order.

    Raises GgufError when there is no such tensor, it holds other than plain floats or more
    than 65,536 of them, or the file no longer holds what its header stated.
    """
    info = header.tensors.get(name)
    if info is None:
        raise GgufError(f"{header.path} has no tensor {name!r}")
    code = {"F32": "f", "F16": "e", "BF16": "H", "F64": "d"}.get(info.type_name)
    count = 1
    for extent in info.shape:
        count *= extent
    if code is None or count > MAX_FLOATS:
        raise GgufError(
            f"{header.path}: tensor {name!r} holds {count} elements of type {info.type_name}; "
            f"at most {MAX_FLOATS} of F32, F16, BF16 or F64 were expected; {_AGAIN}"
        )
    try:
        with header.path.open("rb") as file:
            file.seek(header.data_start + info.offset)
            raw = file.read(info.n_bytes)
    except OSError as error:
        raise GgufError(f"{header.path} cannot be read: {error.strerror or error}") from error
    if len(raw) != info.n_bytes:
        raise GgufError(
            f"{header.path}: tensor {name!r} has {len(raw)} of {info.n_bytes} bytes; {_AGAIN}"
        )
    values = struct.unpack(f"<{count}{code}", raw)
    if info.type_name == "BF16":
        # A bfloat16 is the upper half of a float32.
        return struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(v << 16 for v in values)))
    return values


class _Parser:
    """A position in the file's bytes, and the checks before every step."""

    def __init__(self, path: Path, data: mmap.mmap, size: int) -> None:
        self.path, self.data, self.size, self.at = path, data, size, 0

    def fail(self, what: str, remedy: str = _AGAIN, at: int | None = None) -> NoReturn:
        """Raise the one kind of error, with file and byte offset."""
        where = self.at if at is None else at
        # A damaged file can have keys of 65 kB, which would bury the sentence.
        shown = what if len(what) <= MAX_MESSAGE else what[:MAX_MESSAGE] + "..."
        raise GgufError(f"{self.path}, byte {where}: {shown}; {remedy}")

    def room(self, count: int, what: str) -> None:
        """Refuse to step `count` bytes when fewer are left."""
        left = self.size - self.at
        if count > left:
            self.fail(f"{what} needs {count} bytes and the file has {left} left")

    def u32(self, what: str) -> int:
        """The next four bytes as an unsigned integer."""
        self.room(4, what)
        value: int = _U32.unpack_from(self.data, self.at)[0]
        self.at += 4
        return value

    def u64(self, what: str) -> int:
        """The next eight bytes as an unsigned integer."""
        self.room(8, what)
        value: int = _U64.unpack_from(self.data, self.at)[0]
        self.at += 8
        return value

    def header(self) -> GgufHeader:
        """The whole header, from the magic to the start of the data."""
        version = self.version()
        n_tensors = self.count("tensors", 32, MAX_TENSORS)
        n_keys = self.count("metadata keys", 13, MAX_KEYS)
        metadata = self.metadata(n_keys)
        alignment = self.alignment(metadata)
        tensors = self.tensor_list(n_tensors)
        data_start = -(-self.at // alignment) * alignment
        self.check_offsets(tensors, data_start, alignment)
        return GgufHeader(
            self.path,
            version,
            self.size,
            MappingProxyType(metadata),
            MappingProxyType(tensors),
            data_start,
        )

    def version(self) -> int:
        """Magic and version, 2 or 3."""
        magic = self.data[:4]
        if magic != b"GGUF":
            if self.data[:8] == b"version ":
                self.fail("this is a Git LFS pointer and not the model", "run `git lfs pull`")
            remedy = "check the name, or convert the model to GGUF"
            self.fail(f"the file starts with {magic!r} where a GGUF file has b'GGUF'", remedy)
        self.at = 4
        version = self.u32("the version")
        if version not in (2, 3):
            self.refuse_version(version)
        return version

    def refuse_version(self, version: int) -> NoReturn:
        """Say why this version is not read."""
        if version and version & 0xFFFF == 0:
            what = "the file is big-endian, and only little-endian files are read here"
            self.fail(what, "download the little-endian file of this model", at=4)
        if version == 1:
            what = "the file is in GGUF version 1, which nothing has written since 2023"
            self.fail(what, "download a newer conversion (version 3)", at=4)
        self.fail(f"GGUF version {version} is not known, only 2 and 3 are", at=4)

    def count(self, what: str, least_bytes: int, most: int) -> int:
        """A stated number of entries, each of which takes at least `least_bytes`."""
        start = self.at
        stated = self.u64(f"the number of {what}")
        if stated > most or stated * least_bytes > self.size - self.at:
            holds = min(most, (self.size - self.at) // least_bytes)
            self.fail(f"{stated} {what} are stated and at most {holds} can be there", at=start)
        return stated

    def name(self, what: str) -> str:
        """A key or a tensor name: short, valid UTF-8."""
        start = self.at
        length = self.u64(f"the length of {what}")
        if length > MAX_KEY_BYTES:
            self.fail(f"{what} of {length} bytes; at most {MAX_KEY_BYTES} are allowed", at=start)
        self.room(length, what)
        raw = self.data[self.at : self.at + length]
        self.at += length
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self.fail(f"{what} is not valid UTF-8 ({raw[:40]!r})", at=start)

    def metadata(self, count: int) -> dict[str, GgufValue]:
        """All keys with their values."""
        found: dict[str, GgufValue] = {}
        for number in range(count):
            start = self.at
            key = self.name(f"the name of metadata key {number + 1} of {count}")
            if key in found:
                self.fail(f"the key {key!r} is there twice", at=start)
            found[key] = self.value(key, self.u32(f"the type of {key!r}"))
        return found

    def value(self, key: str, kind: int) -> GgufValue:
        """One value; long arrays and strings are stepped over."""
        if kind == STRING:
            return self.text(key)
        if kind == ARRAY:
            return self.array(key)
        fixed = FIXED.get(kind)
        if fixed is None:
            self.fail(f"{key!r} has value type {kind}; types 0 to 12 are known", at=self.at - 4)
        self.room(fixed.size, f"the value of {key!r}")
        value: int | float = struct.unpack_from("<" + fixed.code, self.data, self.at)[0]
        if kind == BOOL:
            if value not in (0, 1):
                self.fail(f"{key!r} is a BOOL and holds {value}; 0 or 1 was expected")
            value = bool(value)
        self.at += fixed.size
        return value

    def text(self, key: str) -> str | SkippedArray:
        """A string value, or its length when that is past MAX_KEPT_TEXT."""
        length = self.u64(f"the length of {key!r}")
        self.room(length, f"the text of {key!r}")
        start = self.at
        self.at += length
        if length > MAX_KEPT_TEXT:
            return SkippedArray("UINT8", length)
        return self.data[start : self.at].decode("utf-8", errors="replace")

    def array(self, key: str) -> tuple[GgufScalar, ...] | SkippedArray:
        """An array of up to MAX_KEPT_ELEMENTS scalars, or its type and count."""
        kind, count = self.array_head(key)
        if count <= MAX_KEPT_ELEMENTS and kind != ARRAY:
            kept = [self.value(key, kind) for _ in range(count)]
            if not any(isinstance(item, SkippedArray | tuple) for item in kept):
                return tuple(item for item in kept if not isinstance(item, SkippedArray | tuple))
            return SkippedArray("STRING", count)
        self.skip(key, kind, count, depth=1)
        fixed = FIXED.get(kind)
        return SkippedArray(fixed.name if fixed else {STRING: "STRING"}.get(kind, "ARRAY"), count)

    def array_head(self, key: str) -> tuple[int, int]:
        """Element type and count of an array, the count held against what is left."""
        kind = self.u32(f"the element type of {key!r}")
        least = {STRING: 8, ARRAY: 12}.get(kind) or (FIXED[kind].size if kind in FIXED else 0)
        if not least:
            what = f"{key!r} has elements of type {kind}; types 0 to 12 are known"
            self.fail(what, at=self.at - 4)
        count = self.u64(f"the length of {key!r}")
        if count * least > self.size - self.at:
            left = self.size - self.at
            what = f"{key!r} states {count} elements and the file has {left} bytes left"
            self.fail(what, at=self.at - 8)
        return kind, count

    def skip(self, key: str, kind: int, count: int, depth: int) -> None:
        """Step over the elements of an array; `array_head` has checked kind and count."""
        if kind == STRING:
            self.skip_strings(key, count)
        elif kind == ARRAY:
            if depth >= MAX_NESTING:
                self.fail(f"{key!r} nests arrays deeper than {MAX_NESTING}")
            for _ in range(count):
                self.skip(key, *self.array_head(key), depth + 1)
        else:
            self.at += count * FIXED[kind].size

    def skip_strings(self, key: str, count: int) -> None:
        """Step over `count` strings; the hot loop of a big vocabulary."""
        at, last, data, unpack = self.at, self.size - 8, self.data, _U64.unpack_from
        for number in range(count):
            if at > last:
                self.at = min(at, self.size)
                self.fail(f"{key!r} ends after {number} of {count} strings")
            at += 8 + unpack(data, at)[0]
        if at > self.size:
            self.at = self.size
            self.fail(f"the last string of {key!r} runs {at - self.size} bytes past the end")
        self.at = at

    def alignment(self, metadata: Mapping[str, GgufValue]) -> int:
        """What offsets are multiples of: `general.alignment`, or 32."""
        value = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(f"general.alignment is {value!r}, and not an integer")
        if value < 8 or value & (value - 1):
            self.fail(f"general.alignment is {value}; it must be a power of two from 8 up")
        return value

    def tensor_list(self, count: int) -> dict[str, TensorInfo]:
        """All tensor entries, each of a known type and a possible shape."""
        found: dict[str, TensorInfo] = {}
        for number in range(count):
            start = self.at
            name = self.name(f"the name of tensor {number + 1} of {count}")
            if name in found:
                self.fail(f"the tensor {name!r} is there twice", at=start)
            found[name] = self.tensor(name)
        return found

    def tensor(self, name: str) -> TensorInfo:
        """Shape, type and offset of one tensor, after its name."""
        start = self.at
        axes = self.u32(f"the dimensions of {name!r}")
        if not 1 <= axes <= MAX_DIMENSIONS:
            self.fail(f"tensor {name!r} has {axes} dimensions; 1 to 4 are allowed", at=start)
        shape = tuple(self.u64(f"the shape of {name!r}") for _ in range(axes))
        kind = TENSOR_TYPES.get(type_id := self.u32(f"the type of {name!r}"))
        if kind is None:
            remedy = "it may come from a newer llama.cpp or a fork: use another quantisation"
            self.fail(f"tensor {name!r} has type {type_id}, not known here", remedy, self.at - 4)
        elements = 1
        for extent in shape:
            elements *= extent
        # Quantised blocks lie along the fastest axis and are never cut.
        if not elements or shape[0] % kind.block:
            what = f"tensor {name!r} has shape {shape}"
            self.fail(f"{what}, impossible for {kind.name} in blocks of {kind.block}", at=start)
        n_bytes = elements // kind.block * kind.size
        if n_bytes > self.size:
            what = f"tensor {name!r} of shape {shape} takes {n_bytes} bytes"
            self.fail(f"{what} and the whole file has {self.size}", at=start)
        offset = self.u64(f"the offset of {name!r}")
        return TensorInfo(name, shape, type_id, kind.name, offset, n_bytes)

    def check_offsets(
        self, tensors: Mapping[str, TensorInfo], data_start: int, alignment: int
    ) -> None:
        """Every tensor aligned, inside the file, and clear of the one before it."""
        end, before = 0, ""
        for info in sorted(tensors.values(), key=lambda t: t.offset):
            if info.offset % alignment:
                what = f"tensor {info.name!r} is at offset {info.offset}"
                self.fail(f"{what}, not a multiple of {alignment}")
            if info.offset < end:
                what = f"tensor {info.name!r} at offset {info.offset} overlaps {before!r}"
                self.fail(f"{what}, which ends at {end}")
            end, before = info.offset + info.n_bytes, info.name
            if data_start + end > self.size:
                what = f"tensor {info.name!r} ends at byte {data_start + end}"
                self.fail(f"{what} and the file has {self.size} bytes")
