"""Rotary on the CPU: beside a plain copy, and beside what others do for the same result."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.cpu_timing import Reach, Row, Runs, measure, row
from ropewalk.kernels import rotate
from ropewalk.positions.rotary import Rotary
from ropewalk.positions.rotary_tables import ROTARY_TABLES, Tables
from ropewalk.rope import spec

DIM = 128
Q_HEADS, K_HEADS = 32, 8
OURS, COPY, EAGER = "ropewalk", "copy", "transformers eager"
COMPILED, ONNX, ROTARY_TORCH = "transformers compiled", "onnxruntime", "rotary-embedding-torch"


@dataclass(frozen=True, slots=True)
class Data:
    """Queries, keys and tables of one size; `wide` are transformers' tables, every pair twice."""

    q: Tensor
    k: Tensor
    cos: Tensor
    sin: Tensor
    wide: tuple[Tensor, Tensor]

    @staticmethod
    def of(
        length: int,
        dtype: torch.dtype,
        *,
        batch: int = 1,
        heads: tuple[int, int] = (Q_HEADS, K_HEADS),
    ) -> Data:
        """Random queries and keys, and the tables of base 10,000."""
        torch.manual_seed(0)
        q, k = (torch.randn(batch, n, length, DIM).to(dtype) for n in heads)
        cos, sin = tables(length)
        # Rounded to the dtype, as a model of that dtype hands them over.
        cos, sin = cos.to(dtype), sin.to(dtype)
        wide = (torch.cat((cos, cos), -1)[None], torch.cat((sin, sin), -1)[None])
        return Data(q, k, cos.float(), sin.float(), wide)


def encoding() -> Rotary:
    """The encoding of every row here."""
    return Rotary(spec.RotarySpec(head_dim=DIM, rotary_dim=DIM, rope_theta=10000.0))


def tables(length: int) -> Tables:
    """Its tables in fp32."""
    return encoding().tables(torch.arange(length))


def eager(data: Data) -> tuple[Tensor, Tensor]:
    """transformers' own function."""
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    turned: tuple[Tensor, Tensor] = apply_rotary_pos_emb(data.q, data.k, *data.wide)
    return turned


def check(data: Data) -> None:
    """Ours in place and out of place, and transformers', against fp64."""
    theirs = eager(data)
    ours = rotate(data.q, data.k, data.cos, data.sin, "half")
    placed = rotate(data.q.clone(), data.k.clone(), data.cos, data.sin, "half", in_place=True)
    exact = rotate(data.q.double(), data.k.double(), data.cos.double(), data.sin.double(), "half")
    for o, p, t, e in zip(ours, placed, theirs, exact, strict=True):
        assert torch.equal(o, p)
        error, peer = (float((x.double() - e).abs().max()) for x in (o, t))
        assert error <= max(1.01 * peer, 1e-6), (error, peer)


def in_place(length: int, dtype: torch.dtype, rounds: int, peers: bool) -> Iterator[Row]:
    """In place, beside a copy into ready memory and the peers."""
    data = Data.of(length, dtype)
    check(data)
    runs = simple_runs(data)
    full = dtype == torch.float32
    if peers:
        runs[COMPILED] = compiled(data)
        if full:
            runs[ROTARY_TORCH] = rotary_embedding_torch(data)
    times = measure(runs, rounds)
    name = str(dtype).removeprefix("torch.")
    reaches = [
        Reach("of copy bandwidth", times.ratio(COPY, OURS), 0.9 if full else 0.8, at_least=True),
        Reach("times eager", times.ratio(EAGER, OURS), 15, at_least=True),
    ]
    if peers and full:
        reaches.append(Reach("times compiled", times.ratio(COMPILED, OURS), 10, at_least=True))
    yield row(
        f"rotary in place, {name}", times, *reaches,
        limit="ropewalk is held by memory, see the ratio to a copy; the peers' times differ from "
        "run to run",
    )  # fmt: skip
    if peers and full:
        yield beside_onnx(data, rounds)


def compiled(data: Data) -> Callable[[], object]:
    """transformers' function under torch.compile; compiles now."""
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    run: Any = torch.compile(apply_rotary_pos_emb, dynamic=False)
    for ours, theirs in zip(eager(data), run(data.q, data.k, *data.wide), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)
    return lambda: run(data.q, data.k, *data.wide)


def rotary_embedding_torch(data: Data) -> Callable[[], object]:
    """The package of that name: pairs of neighbours, with frequencies it keeps."""
    package: Any = importlib.import_module("rotary_embedding_torch")
    module = package.RotaryEmbedding(dim=DIM)
    for ours, x in zip(
        rotate(data.q, data.k, data.cos, data.sin, "interleaved"), (data.q, data.k), strict=True
    ):
        # It computes its angles in fp32.
        torch.testing.assert_close(module.rotate_queries_or_keys(x), ours, rtol=0, atol=5e-3)
    return lambda: (
        module.rotate_queries_or_keys(data.q),
        module.rotate_queries_or_keys(data.k),
    )


def beside_onnx(data: Data, rounds: int) -> Row:
    """Queries alone, in place, beside onnxruntime's operator into a bound buffer."""
    run, out = onnx_session(data)
    run()
    expected, _ = rotate(data.q, data.k, data.cos, data.sin, "half")
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-5)
    scratch = data.q.clone()
    times = measure(
        {OURS: lambda: rotate(scratch, None, data.cos, data.sin, "half", in_place=True), ONNX: run},
        rounds,
    )
    return row(
        "rotary in place, float32, q alone", times,
        Reach("times onnxruntime", times.ratio(ONNX, OURS), 2, at_least=True),
        limit="onnxruntime writes to a second buffer; both are near the bandwidth of memory",
    )  # fmt: skip


def onnx_session(data: Data) -> tuple[Callable[[], object], Tensor]:
    """com.microsoft's RotaryEmbedding over the queries, and the buffer that it fills."""
    onnx: Any = importlib.import_module("onnx")
    onnxruntime: Any = importlib.import_module("onnxruntime")

    length = data.q.shape[2]
    node = onnx.helper.make_node(
        "RotaryEmbedding", ["x", "ids", "cos", "sin"], ["y"], domain="com.microsoft", interleaved=0
    )
    single, integer = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    shape, half = list(data.q.shape), [length, DIM // 2]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node], "rotary",
        [info("x", single, shape), info("ids", integer, [1, length]),
         info("cos", single, half), info("sin", single, half)],
        [info("y", single, shape)],
    )  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding, out = session.io_binding(), torch.empty_like(data.q)
    ids = torch.arange(length)[None]
    for name, x in {"x": data.q, "ids": ids, "cos": data.cos, "sin": data.sin}.items():
        kind = "int64" if name == "ids" else "float32"
        binding.bind_input(name, "cpu", 0, kind, tuple(x.shape), x.data_ptr())
    binding.bind_output("y", "cpu", 0, "float32", tuple(out.shape), out.data_ptr())
    kept = (ids, data)
    return lambda: (session.run_with_iobinding(binding), kept), out


def out_of_place(length: int, rounds: int) -> Row:
    """Into fresh memory, beside fresh memory and a copy."""
    data = Data.of(length, torch.float32)
    copy = "empty_like + copy"
    times = measure(
        {
            OURS: lambda: rotate(data.q, data.k, data.cos, data.sin, "half"),
            copy: lambda: (
                torch.empty_like(data.q).copy_(data.q),
                torch.empty_like(data.k).copy_(data.k),
            ),
            EAGER: lambda: eager(data),
        },
        rounds,
    )
    return row(
        "rotary into fresh memory", times,
        Reach("of fresh memory + copy", times.ratio(OURS, copy), 1.3, at_least=False),
        limit="page faults of fresh memory, which both pay",
    )  # fmt: skip


def forward_backward(length: int, rounds: int) -> Row:
    """A forward and a backward pass, beside transformers' own; gradients compared."""
    data = Data.of(length, torch.float32)
    q, k = data.q.requires_grad_(), data.k.requires_grad_()
    back = (torch.randn_like(q), torch.randn_like(k))

    def gradients(turned: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return torch.autograd.grad(turned, (q, k), back)

    def ours() -> tuple[Tensor, ...]:
        return gradients(rotate(q, k, data.cos, data.sin, "half"))

    for a, b in zip(ours(), gradients(eager(data)), strict=True):
        torch.testing.assert_close(a, b)
    times = measure({OURS: ours, EAGER: lambda: gradients(eager(data))}, rounds)
    return row(
        "rotary forward + backward", times,
        Reach("times eager", times.ratio(EAGER, OURS), 8, at_least=True),
        limit="fresh memory for the results and for the gradients: page faults",
    )  # fmt: skip


def one_token(rounds: int) -> Row:
    """One decoded token, where calling costs more than turning."""
    data = Data.of(1, torch.float32)
    check(data)
    with torch.no_grad():
        times = measure(
            {
                OURS: lambda: rotate(data.q, data.k, data.cos, data.sin, "half"),
                f"{OURS} in place": lambda: rotate(
                    data.q, data.k, data.cos, data.sin, "half", in_place=True
                ),
                EAGER: lambda: eager(data),
            },
            rounds,
            calls=300,
        )
    return row(
        "rotary of one decoded token", times,
        Reach("of eager", times.ratio(OURS, EAGER), 1.0, at_least=False),
        limit="the way from Python into the kernel",
    )  # fmt: skip


def table_building(lengths: tuple[int, ...], rounds: int) -> Iterator[Row]:
    """Tables built in fp64, and found again: what a forward pass pays once, and its layers."""
    rotary = encoding()
    for length in lengths:
        ids = torch.arange(length)

        def build(ids: Tensor = ids) -> Tables:
            ROTARY_TABLES.clear()
            return rotary.tables(ids)

        first = build()
        assert rotary.tables(ids.clone()).cos is first.cos
        assert not torch.equal(rotary.tables(ids + 1).cos, first.cos)
        built = measure({"built": build}, rounds)
        build()
        found = measure({"found again": lambda ids=ids: rotary.tables(ids)}, rounds, calls=3)  # type: ignore[misc]
        seconds = {"built": built.median("built"), "found again": found.median("found again")}
        yield Row(f"tables of {length:,} positions", seconds)


def growth(sizes: dict[str, list[int]], rounds: int) -> dict[str, list[dict[str, float]]]:
    """Seconds of ours in place, a copy and eager, as length, heads and batch grow."""
    base = {"length": sizes["length"][0], "heads": 8, "batch": 1}
    grown: dict[str, list[dict[str, float]]] = {}
    for axis, values in sizes.items():
        grown[axis] = []
        for value in values:
            at = {**base, axis: value}
            data = Data.of(
                at["length"], torch.float32, batch=at["batch"],
                heads=(at["heads"], max(at["heads"] // 4, 1)),
            )  # fmt: skip
            runs = simple_runs(data)
            times = measure(runs, rounds)
            grown[axis].append({"at": float(value), **{name: times.median(name) for name in runs}})
    return grown


def simple_runs(data: Data) -> Runs:
    """Ours in place, a copy into ready memory, and transformers' own function."""
    into = (torch.empty_like(data.q), torch.empty_like(data.k))
    q, k = data.q.clone(), data.k.clone()
    return {
        OURS: lambda: rotate(q, k, data.cos, data.sin, "half", in_place=True),
        COPY: lambda: (into[0].copy_(data.q), into[1].copy_(data.k)),
        EAGER: lambda: eager(data),
    }
