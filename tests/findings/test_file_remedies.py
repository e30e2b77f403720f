"""Every remedy about a GGUF file is followed, as those for configurations are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from ropewalk.dialects.gguf import read_gguf
from ropewalk.dialects.llamacpp import read_flags
from ropewalk.errors import GgufError
from ropewalk.findings import Audit, audit
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.schedules import Yarn
from ropewalk.rope.spec import PositionSpec, RotarySpec

Json = dict[str, Any]
Read = Callable[..., PositionSpec]
Meant = Callable[[PositionSpec], bool]
Followed = Callable[[Audit, Audit, str, Meant | None], None]
Remedy = Callable[[Audit, str], str]

BASE: Json = {
    "context_length": 4096,
    "block_count": 2,
    "embedding_length": 512,
    "attention.head_count": 8,
    "rope.freq_base": 10000.0,
}
KEY_YARN: Json = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 1024,
}
TENSORS = {
    f"rope_factors_{kind}.weight": np.full(32, value, dtype=np.float32)
    for kind, value in (("short", 1.0), ("long", 2.0))
}


@dataclass(frozen=True)
class FileCase:
    """A file's keys, without the architecture's prefix, and what the remedy sets (None: removes).

    `meant` is what must come of it; None: the schedule stays.
    """

    code: str
    keys: Mapping[str, Any]
    change: Mapping[str, Any]
    meant: Meant | None
    tensors: bool = False


LIST_KEYS: Json = {
    "rope.scaling.type": "longrope",
    "rope.scaling.original_context_length": 1024,
    "rope.scaling.attn_factor": 1.0,
}
FILE_CASES = [
    FileCase(
        "factor-missing",
        {key: value for key, value in KEY_YARN.items() if key != "rope.scaling.factor"},
        {"rope.scaling.factor": 4.0},
        lambda after: first(after).scaling == Yarn(4.0, 1024),
    ),
    FileCase(
        "longrope-amplitude-missing",
        {key: value for key, value in LIST_KEYS.items() if key != "rope.scaling.attn_factor"},
        # sqrt(1 + ln 4 / ln 1024)
        {"rope.scaling.attn_factor": 1.095445},
        lambda after: (
            frequencies(after, 4096).attention_factor == pytest.approx(math.sqrt(1.2), rel=1e-6)
        ),
        tensors=True,
    ),
    FileCase(
        "longrope-and-factor",
        LIST_KEYS | {"rope.scaling.factor": 2.0},
        {"rope.scaling.factor": None},
        None,
        tensors=True,
    ),
    FileCase(
        "original-length-missing",
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0},
        {"rope.scaling.original_context_length": 1024},
        lambda after: first(after).scaling == Yarn(4.0, 1024),
    ),
]


def first(spec: PositionSpec) -> RotarySpec:
    return next(rotary for _, rotary in spec.rotary_groups())


@pytest.fixture
def file(tmp_path: Path) -> Read:
    """file(keys, tensors, arch): the reading of a GGUF file with BASE and these keys."""

    def read(keys: Mapping[str, Any], tensors: bool = False, arch: str = "llama") -> PositionSpec:
        writer = gguf.GGUFWriter(path := tmp_path / "model.gguf", arch)
        kinds = gguf.GGUFValueType
        types = {int: kinds.UINT32, float: kinds.FLOAT32, str: kinds.STRING}
        for key, value in (BASE | dict(keys)).items():
            writer.add_key_value(f"{arch}.{key}", value, types[type(value)])
        for name, array in TENSORS.items() if tensors else ():
            writer.add_tensor(name, array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return read_gguf(path)

    return read


@pytest.mark.parametrize("case", FILE_CASES, ids=lambda each: each.code)
def test_a_remedy_for_a_file_mends_it(
    case: FileCase, file: Read, followed: Followed, remedy_of: Remedy
) -> None:
    before = audit(file(case.keys, case.tensors))
    told = remedy_of(before, case.code)
    if case.code == "longrope-amplitude-missing":
        assert "1.095445" in told
    keys = {k: v for k, v in {**case.keys, **case.change}.items() if v is not None}
    after = audit(file(keys, case.tensors))
    followed(before, after, case.code, case.meant)


def test_every_remedy_is_followed_or_has_a_reason_why_it_cannot_be(
    unfollowed: Any, file: Read, remedy_of: Remedy
) -> None:
    tried = [
        (case.code, remedy_of(audit(file(case.keys, case.tensors)), case.code))
        for case in FILE_CASES
    ]
    assert unfollowed(True, tried) == []


def test_an_option_for_a_key_that_llama_cpp_does_not_read_states_its_value(
    file: Read, remedy_of: Remedy
) -> None:
    spec = file(KEY_YARN | {"rope.scaling.yarn_beta_fast": 16.0})
    told = remedy_of(audit(spec), "yarn-key-unread")
    found = read_flags(told.partition(": ")[2].rstrip("."), spec)
    assert first(found).scaling == Yarn(4.0, 1024, beta_fast=16.0)


@pytest.mark.parametrize("arch", ["llama", "grok", "nobodys"])
def test_a_factor_in_the_place_of_a_share_is_an_error_that_says_what_is_right(
    file: Read, arch: str
) -> None:
    keys = KEY_YARN | {"rope.scaling.yarn_ext_factor": 64.0}
    with pytest.raises(
        GgufError, match=r"yarn_ext_factor is 64.*share from 0 to 1.*set the key to 1"
    ):
        file(keys, arch=arch)
    right = file(keys | {"rope.scaling.yarn_ext_factor": 1.0}, arch=arch)
    assert first(right).scaling == Yarn(4.0, 1024, beta_fast=8.0 if arch == "grok" else 32.0)


@pytest.mark.parametrize(
    "arch_keys",
    [
        ("nobodys", {"rope.scaling.yarn_beta_fast": 16.0}),
        ("llama", {"rope.scaling.yarn_ext_factor": 0.5}),
    ],
)
def test_no_option_is_offered_where_nobody_knows_what_it_would_do(
    file: Read, remedy_of: Remedy, arch_keys: tuple[str, Json]
) -> None:
    arch, keys = arch_keys
    assert remedy_of(audit(file(KEY_YARN | keys, arch=arch)), "yarn-key-unread") == ""
