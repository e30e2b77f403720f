"""What Triton's compiler makes of the kernels for an H200 (compute capability 9.0), without one.

The interpreter accepts more than the compiler does, and shows nothing of how memory is read.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton has no wheel for this platform")


@pytest.fixture(autouse=True)
def _compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def compiled(kernel: Any, constants: dict[str, Any], types: dict[str, str], **options: Any) -> str:
    """The kernel's PTX; pointers lie, and strides are, multiples of 16, as in usual tensors."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    signature = {n: "constexpr" if n in constants else types.get(n, "i32") for n in names}
    places = {name: (place,) for place, name in enumerate(names)}
    aligned = [n for n in names if signature[n].startswith("*") or "_" in n or n == "width"]
    source = ASTSource(
        kernel,
        signature,
        {places[name]: value for name, value in constants.items()},
        {places[n]: [["tt.divisibility", 16]] for n in aligned if n not in constants},
    )
    target = GPUTarget("cuda", 90, 32)
    options = {"num_warps": 4, "enable_fp_fusion": False, **options}
    made = triton.compile(source, target=target, options=options)
    return str(made.asm["ptx"])


def traffic(ptx: str) -> Counter[str]:
    """How many instructions of each kind read or write the tensors."""
    return Counter(re.findall(r"(?:ld|st)\.global(?:\.v\d)?\.b\d+", ptx))


def rotation(kind: str, layout: str, head_dim: int, pairs: int) -> str:
    from triton import language as tl

    from ropewalk.kernels.triton.rotate import choose_blocks, rotate_blocks

    blocks = choose_blocks(32, 4096, pairs, {"fp32": 4, "bf16": 2}[kind])
    power = 1 << (pairs - 1).bit_length()
    constants: dict[str, Any] = {
        "pairs": pairs,
        "tail": head_dim - 2 * pairs,
        "interleaved": layout == "interleaved",
        "inverse": False,
        "compute": tl.float32,
        "heads_block": blocks.heads,
        "tokens_block": blocks.tokens,
        "pairs_block": power,
        "tail_block": 1 << max(head_dim - 2 * pairs - 1, 0).bit_length(),
        **{f"{side}_d": 1 for side in ("q", "k", "qo", "ko")},
    }
    types = {
        **dict.fromkeys(("q", "q_out", "k", "k_out"), f"*{kind}"),
        **dict.fromkeys(("q_cos", "q_sin", "k_cos", "k_sin"), "*fp32"),
    }
    return compiled(rotate_blocks, constants, types)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(
    ("kind", "head_dim", "pairs"),
    [("fp32", 128, 64), ("bf16", 128, 64), ("bf16", 80, 40), ("bf16", 96, 24)],
)
def test_queries_and_keys_are_read_and_written_16_bytes_at_a_time(
    layout: str, kind: str, head_dim: int, pairs: int
) -> None:
    ptx = rotation(kind, layout, head_dim, pairs)
    found = traffic(ptx)
    assert {name for name in found if name.startswith("st")} == {"st.global.v4.b32"}
    # The rows of the tables are a sixteenth of the traffic, and may come in halves.
    assert set(found) <= {"st.global.v4.b32", "ld.global.v4.b32", "ld.global.v2.b32"}
    assert "fma" not in ptx


def test_ids_without_a_row_fail_an_assert_and_rows_are_gathered_16_bytes_at_a_time() -> None:
    from ropewalk.kernels.triton.lookup import lookup_block

    constants: dict[str, Any] = {
        "t_channel": 1, "a_channel": 1, "scaled": True, "placed": True, "named": True,
        "tokens_block": 4, "width_block": 1024,
    }  # fmt: skip
    types = {"ids": "*i64", "position_ids": "*i64", "table": "*bf16", "added": "*fp32",
             "out": "*bf16", "scale": "fp32"}  # fmt: skip
    ptx = compiled(lookup_block, constants, types, debug=True, sanitize_overflow=False)
    assert "__assertfail" in ptx
    # One by one come the ids alone.
    assert set(traffic(ptx)) == {"ld.global.b64", "ld.global.v4.b32", "st.global.v4.b32"}
