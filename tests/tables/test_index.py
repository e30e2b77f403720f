"""`table[index]` against the same table as a tensor: torch's rows, or an error of ours."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from ropewalk.errors import RopewalkError, RowError, TensorError, UsageError
from ropewalk.tables.module import TokenEmbedding
from ropewalk.tables.open import EmbeddingTable, open_table
from ropewalk.tables.positions_table import measured

ROWS, WIDTH = 7, 3
NUMBERS = torch.arange(1.0, ROWS * WIDTH + 1).reshape(ROWS, WIDTH)
EMBED = "model.embed_tokens.weight"
WIDE = (torch.int64, torch.int32)
NARROW = (torch.int16, torch.int8, torch.uint16, torch.uint32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "model.safetensors"
    save_file({EMBED: NUMBERS}, path)
    (path.parent / "config.json").write_text('{"model_type": "gemma", "hidden_size": 3}')
    return path


@pytest.fixture(scope="module")
def table(path: Path) -> EmbeddingTable:
    return open_table(path)


ints = st.integers(-ROWS - 2, ROWS + 2)
flat = st.lists(ints, max_size=8)
masks = st.lists(st.booleans(), min_size=ROWS - 1, max_size=ROWS + 1)
shapes = st.sampled_from([(), (0,), (1,), (3,), (2, 2), (1, 3, 2), (0, 2)])
steps = st.none() | st.integers(-2, 4)
slices = st.builds(slice, st.none() | ints, st.none() | ints, steps)
columns = st.integers(-WIDTH - 1, WIDTH + 1)


@st.composite
def whole(draw: st.DrawFn) -> Tensor:
    shape = draw(shapes)
    count = int(np.prod(shape))
    values = draw(st.lists(ints, min_size=count, max_size=count))
    return torch.tensor(values, dtype=torch.int64).reshape(shape)


@st.composite
def as_any_integers(draw: st.DrawFn) -> tuple[Any, Any]:
    """An index of integers in some type, and what torch is to be asked with."""
    ids = draw(whole())
    kind = draw(st.sampled_from(["tensor", "narrow", "array", "small array", "nested", "unsigned"]))
    if kind == "unsigned":
        ids = ids.abs()
        return draw(st.sampled_from([ids.numpy().astype(t) for t in ("u2", "u4", "u8")])), ids
    given: dict[str, Any] = {
        "tensor": ids.to(draw(st.sampled_from(WIDE))),
        "narrow": ids.to(draw(st.sampled_from(NARROW[:2]))),
        "array": ids.numpy(),
        "small array": ids.numpy().astype(np.int8),
        "nested": ids.tolist(),
    }
    if kind == "nested":
        # A list without an element has no second axis.
        ids = torch.tensor(ids.tolist(), dtype=torch.int64)
    return given[kind], ids


def both(index: Any) -> tuple[Any, Any]:
    return index, index


plain = st.one_of(
    ints.map(both),
    ints.map(lambda i: (np.int16(i), i)),
    slices.map(both),
    flat.map(lambda x: (x, torch.tensor(x, dtype=torch.int64))),
    flat.map(lambda x: ([np.int64(i) for i in x], torch.tensor(x, dtype=torch.int64))),
    flat.map(lambda x: ([torch.tensor(i) for i in x], torch.tensor(x, dtype=torch.int64))),
    st.builds(range, ints, ints, st.sampled_from([1, 2, -1])).map(
        lambda r: (r, torch.tensor(list(r), dtype=torch.int64))
    ),
    as_any_integers(),
    masks.map(lambda m: (m, torch.tensor(m))),
    masks.map(lambda m: (np.array(m), torch.tensor(m))),
    masks.map(lambda m: (torch.tensor(m), torch.tensor(m))),
)


@st.composite
def with_more(draw: st.DrawFn) -> tuple[Any, Any]:
    """An index of several parts: rows, columns, `...`, None."""
    first, of_torch = draw(plain)
    second = draw(columns | slices | st.sampled_from([[0, 2], [1], torch.tensor([[0, 1]])]))
    way = draw(st.integers(0, 6))
    before, after = [
        ((), ()),
        ((), (second,)),
        ((None,), (second,)),
        ((), (..., second)),
        ((...,), (second,)),
        ((), (None, second)),
        ((), (...,)),
    ][way]
    return (*before, first, *after), (*before, of_torch, *after)


def of_torch(index: Any) -> Tensor | Exception:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return NUMBERS[index]
    except (IndexError, ValueError, TypeError) as error:
        return error


def ours(table: EmbeddingTable, index: Any) -> Tensor | Exception:
    try:
        return table[index]
    except UsageError as error:
        return error


def refused(expected: Tensor | Exception, found: Tensor | Exception) -> bool:
    """Whether an error of ours is right: torch's too, or ids that it looked at for no number."""
    if isinstance(expected, Exception):
        assert isinstance(found, RopewalkError), found
        return True
    return not expected.numel() and isinstance(found, RowError)


@given(plain | with_more())
@example((torch.ones(ROWS, WIDTH) > 0, torch.ones(ROWS, WIDTH) > 0))
@example((torch.ones(ROWS, WIDTH - 1) > 0, torch.ones(ROWS, WIDTH - 1) > 0))
@example((..., ...))
@example((None, None))
@example(((), ()))
@settings(max_examples=700, deadline=None)
def test_every_index_is_torchs_own_and_its_errors_are_ours(
    table: EmbeddingTable, pair: tuple[Any, Any]
) -> None:
    index, asked = pair
    expected, found = of_torch(asked), ours(table, index)
    if refused(expected, found):
        return
    assert isinstance(found, Tensor)
    assert isinstance(expected, Tensor)
    assert found.shape == expected.shape
    assert torch.equal(found, expected)


@given(plain | with_more())
@settings(max_examples=100, deadline=None)
def test_rows_as_used_are_indexed_alike(path: Path, pair: tuple[Any, Any]) -> None:
    table, (index, asked) = open_table(path, view="as_used"), pair
    factor = torch.tensor(3.0).sqrt()
    expected, found = of_torch(asked), ours(table, index)
    if refused(expected, found):
        return
    assert isinstance(found, Tensor)
    assert isinstance(expected, Tensor)
    torch.testing.assert_close(found, expected * factor)


@pytest.mark.parametrize(
    "index",
    [
        *(1.0, 2.5, "1", b"1", 1j, True, False, np.True_, object(), {1, 2}, {1: 2}, iter([1])),
        *([1.0], ["a"], [[1, 2], [3]], [True, 2], [None], [slice(1)], [1, [2]], [[True], 1]),
        *(np.array([1.0]), np.array(["a"]), np.array([1], object), np.array(True), np.array([])),
        *(torch.tensor([1.0]), torch.tensor(True), torch.tensor([1j]), torch.empty(0)),
        # A mask to torch, ids to numpy.
        *(np.array([1, 0, 1, 0, 0, 0, 0], np.uint8), torch.tensor([1], dtype=torch.uint8)),
        torch.tensor([1], device="meta"),
        *(slice(1.0), slice("a"), slice(None, None, -1), slice(None, None, 0)),
        *((1, 1, 1), (slice(None), 0, ..., 1), (1, "a"), (1.0, 1)),
    ],
    ids=repr,
)
def test_what_names_no_rows_is_a_sentence_and_nothing_is_read(path: Path, index: Any) -> None:
    table = open_table(path)
    with pytest.raises(UsageError, match=r"input table|slice|lists in the index|uint8|meta"):
        table[index]
    assert table.bytes_read == 0


def test_the_sentences_say_what_was_given_and_what_is_allowed(table: EmbeddingTable) -> None:
    with pytest.raises(RowError, match=r"the mask has 3 bools, and the input table .* has 7 rows"):
        table[[True, False, True]]
    with pytest.raises(UsageError, match=r"float 1\.5 names no rows .*an index is an integer, a s"):
        table[1.5]  # type: ignore[index]
    with pytest.raises(UsageError, match=r"str 'king' names no rows of the input table 'model"):
        table["king"]  # type: ignore[index]
    with pytest.raises(RowError, match=r"row -8 .* it has 7 rows, 0 to 6"):
        table[-8]
    with pytest.raises(RowError, match="row 18446744073709551615 "):
        # As int64 it would be -1, the last row.
        table[np.array([2**64 - 1], np.uint64)]
    with pytest.raises(RowError, match="too large for any row"):
        table[[2**70]]
    with pytest.raises(RowError, match=r"column 3 is not in .* a row has 3 numbers"):
        table[0, 3]
    with pytest.raises(UsageError, match="mixes bools with numbers"):
        table[[True, 2]]


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        (-1, 1),
        (slice(2, 5), 3),
        (slice(None, None, 3), 3),
        ([True, False, True, False, False, False, False], 2),
        (torch.tensor([[6, 6], [0, -1]]), 2),
        ((slice(None, 2), 0), 2),
        ((..., [1]), 7),
        ([], 0),
        (slice(5, 5), 0),
    ],
)
def test_only_the_named_rows_are_read(path: Path, index: Any, rows: int) -> None:
    table = open_table(path)
    assert torch.equal(table[index], NUMBERS[index])
    assert table.bytes_read == rows * WIDTH * 4


def test_a_loop_over_a_table_ends_with_its_last_row(table: EmbeddingTable) -> None:
    assert torch.equal(torch.stack(list(table)), NUMBERS)


@pytest.mark.parametrize("ids", [[True], [1.0], ["a"], torch.tensor([1.0]), np.array([True] * 7)])
def test_ids_that_are_no_numbers_are_refused_by_take_label_and_similarity(
    table: EmbeddingTable, ids: Any
) -> None:
    with pytest.raises(UsageError, match="names no rows"):
        table.take(ids)
    with pytest.raises(UsageError, match="names no rows"):
        table.label(ids[0])
    with pytest.raises(UsageError, match="names no rows"):
        measured(NUMBERS).similarity(ids)


def test_take_has_no_rows_from_the_end(table: EmbeddingTable) -> None:
    with pytest.raises(RowError, match="row -1 "):
        table.take([0, -1])
    assert table.take(np.array([2, 2, 0])).tolist() == NUMBERS[[2, 2, 0]].tolist()


@pytest.mark.parametrize(
    "ids", [[1, 2], 1, "a", torch.tensor([1.0]), torch.tensor([True]), np.array([1])], ids=repr
)
def test_the_module_looks_up_integer_tensors_alone(ids: Any) -> None:
    module = TokenEmbedding(ROWS, WIDTH)
    for look in (module, module.lookup):
        with pytest.raises(TensorError, match="pass an int64 tensor"):
            look(ids)
