"""Which rows `table[index]` asks for: torch's meaning for what torch takes, or a sentence.

What torch itself reads in two ways is refused or fixed: nested lists are one tensor, as torch
announces it; integers of 8 bits without a sign are a mask to torch and ids to numpy, and lists of
bools and numbers are neither.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from types import EllipsisType
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from ropewalk.errors import RowError, UsageError
from ropewalk.kernels.arrays import Array
from ropewalk.short import short

if TYPE_CHECKING:
    from torch import Tensor

Single: TypeAlias = "int | np.integer[Any] | slice | Tensor | Array | list[Any] | range | None"
Index: TypeAlias = "Single | EllipsisType | tuple[Single | EllipsisType, ...]"
"""What a table takes in brackets."""

ALLOWED = (
    "an index is an integer, a slice, a range, integers of any shape (list, array, tensor), or a "
    "mask of bools with one for each row"
)


@short
@dataclass(frozen=True, slots=True)
class RowsToRead:
    """The rows to read, `ids` (n,) int64, each once, ascending; `rest` indexes what was read."""

    ids: Array
    rest: tuple[Any, ...]


def chosen(index: Index, shape: tuple[int, int], what: str) -> RowsToRead:
    """What must be read of a table of `shape` for an index, and how it then goes on.

    `what` names the table in errors. Raises RowError for a row or column that is not there and
    for a mask of another length, UsageError for what names no rows.
    """
    given = index if isinstance(index, tuple) else (index,)
    parts = _aligned([_part(each, shape[0], what) for each in given], what)
    at = next(i for i, part in enumerate(parts) if part is not None)
    before, part, after = parts[:at], parts[at], parts[at + 1 :]
    _check_columns(after, shape, what)
    if isinstance(part, int):
        row = part + shape[0] if part < 0 else part
        if not 0 <= row < shape[0]:
            raise no_row(part, 0, shape[0], what)
        return RowsToRead(np.array([row]), (*before, 0, *after))
    if isinstance(part, slice):
        ids = np.arange(*part.indices(shape[0]), dtype=np.int64)
        return RowsToRead(ids, (*before, slice(None), *after))
    return _by_tensor(part, shape, what, before, after)


def within(read: Tensor, found: RowsToRead, what: str) -> Tensor:
    """What an index names, of the rows (n, width) that were read for it."""
    if all(isinstance(part, slice) and part == slice(None) for part in found.rest):
        return read
    try:
        return read[found.rest]
    except IndexError as error:
        raise RowError(f"{what} cannot be indexed so: {error}") from error


def _by_tensor(
    part: Tensor, shape: tuple[int, int], what: str, before: list[Any], after: list[Any]
) -> RowsToRead:
    """Rows named one by one, or by a mask, which is the ids of what is true in it."""
    import torch

    own: tuple[Tensor, ...] = (part,)
    if part.dtype == torch.bool:
        _check_mask(part, shape, what)
        own = part.nonzero(as_tuple=True)
    ids = own[0].numpy()
    wrong = (ids < -shape[0]) | (ids >= shape[0])
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise no_row(int(ids.flat[place]), place, shape[0], what)
    different, places = np.unique(np.where(ids < 0, ids + shape[0], ids), return_inverse=True)
    first = torch.from_numpy(places.reshape(ids.shape))
    in_order = (
        ids.ndim == 1 and len(different) == len(ids) and bool((places[1:] > places[:-1]).all())
    )
    if in_order and all(isinstance(other, slice) for other in (*before, *own[1:], *after)):
        return RowsToRead(different, (*before, slice(None), *after))
    return RowsToRead(different, (*before, first, *own[1:], *after))


def _check_mask(mask: Tensor, shape: tuple[int, int], what: str) -> None:
    if mask.dim() == 1 and len(mask) != shape[0]:
        raise RowError(
            f"the mask has {len(mask):,} bools, and {what} has {shape[0]:,} rows; a mask has one "
            "for each row. Rows are named by numbers"
        )
    if tuple(mask.shape) != shape[: mask.dim()]:
        raise RowError(
            f"the mask is {' x '.join(map(str, mask.shape))}, and {what} is {shape[0]} x {shape[1]}"
        )


def no_row(row: int, place: int, rows: int, what: str) -> RowError:
    """The error for a row that is not there, the one at `place` of those asked for."""
    return RowError(
        f"row {row} (number {place + 1} of those asked for) is not in {what}: it has "
        f"{rows} rows, 0 to {rows - 1}"
    )


def _check_columns(after: list[Any], shape: tuple[int, int], what: str) -> None:
    """Refuse columns that are not there before any row is read."""
    import torch

    for part in after:
        if part is None or isinstance(part, slice):
            continue
        named = torch.as_tensor(part)
        if named.dtype == torch.bool:
            wrong = None if named.shape == shape[1:] else f"a mask of {tuple(named.shape)}"
        else:
            outside = named[(named < -shape[1]) | (named >= shape[1])]
            wrong = f"column {int(outside[0])}" if len(outside) else None
        if wrong is not None:
            raise RowError(f"{wrong} is not in {what}: a row has {shape[1]} numbers")


def _aligned(parts: list[Any], what: str) -> list[Any]:
    """The parts with all axes of the table in them, `...` and what is left out as slices."""
    taken = sum(_axes(part) for part in parts)
    if taken > 2:
        raise UsageError(
            f"the index has {taken} axes, and {what} has two, rows and columns; a tuple has one "
            "part for each axis, so give several rows as a list"
        )
    whole = [slice(None)] * (2 - taken)
    dots = [i for i, part in enumerate(parts) if part is ...]
    if not dots:
        return parts + whole
    # torch takes a second `...` for nothing.
    kept = [part for part in parts[dots[0] :] if part is not ...]
    return parts[: dots[0]] + whole + kept


def _axes(part: Any) -> int:
    """How many axes of the table a part stands for."""
    if part is None or part is ...:
        return 0
    if isinstance(part, int | slice):
        return 1
    # A mask stands for as many axes as it has; bools alone have no sign here.
    return 1 if part.dtype.is_signed else int(part.dim())


def _part(given: object, rows: int, what: str) -> Any:
    """One part as an int, a slice, None, `...`, or a tensor on the CPU, int64 or bool."""
    if given is None or given is ...:
        return given
    if isinstance(given, slice):
        return _slice(given)
    if isinstance(given, list | tuple | range):
        return _tensor(_listed(given, what), rows, what)
    whole = _integer(given)
    if whole is not None:
        return whole
    if isinstance(given, np.ndarray) or _is_tensor(given):
        return _tensor(given, rows, what)
    raise _refused(given, what)


def _integer(given: object) -> int | None:
    """A single integer as Python's; None for all else, bools too."""
    if isinstance(given, bool | np.bool_) or getattr(given, "ndim", None):
        return None
    if isinstance(given, int | np.integer):
        return int(given)
    held = str(getattr(given, "dtype", "int")).removeprefix("torch.")
    whole = held.startswith(("int", "uint")) and held != "uint8" and not _is_meta(given)
    return operator.index(given) if whole and isinstance(given, SupportsIndex) else None


def integer(given: object, what: str) -> int:
    """A row's number. Raises UsageError for anything that is not one whole number."""
    whole = _integer(given)
    if whole is None:
        raise _refused(given, what)
    return whole


def _refused(given: object, what: str) -> UsageError:
    held = getattr(given, "dtype", None)
    kind = type(given).__name__ if held is None else f"{type(given).__name__} of {held}"
    said = " ".join(repr(given).split())
    said = "" if len(said) > 60 else f" {said}"
    return UsageError(f"{kind}{said} names no rows of {what}; {ALLOWED}")


def _slice(given: slice) -> slice:
    ends = []
    for end in (given.start, given.stop, given.step):
        whole = None if end is None else _integer(end)
        if end is not None and whole is None:
            raise UsageError(f"a slice goes by integers, and one of its three is {end!r}")
        ends.append(whole)
    if ends[2] is not None and ends[2] < 1:
        raise UsageError(
            f"the slice's step is {ends[2]}; tensors have no slices backwards. Turn the rows round "
            "with flip(0), or give range(...)"
        )
    return slice(*ends)


def _listed(given: Any, what: str) -> Array:
    """A list of any depth as one array, of whole numbers or of bools."""
    if isinstance(given, range):
        return np.arange(given.start, given.stop, given.step, dtype=np.int64)
    kinds: set[str] = set()
    plain = _plain(given, kinds, what)
    if len(kinds) > 1:
        raise UsageError(
            f"the index mixes bools with numbers, and {what} cannot tell a mask from ids in it"
        )
    try:
        return np.array(plain, np.bool_ if "bools" in kinds else np.int64)
    except OverflowError as error:
        raise RowError(f"a number in the index is too large for any row of {what}") from error
    except ValueError as error:
        raise UsageError(f"the lists in the index differ in length: {ALLOWED}") from error


def _plain(given: Any, kinds: set[str], what: str) -> Any:
    """Nested lists with Python's own ints and bools in them; `kinds` hears which."""
    if isinstance(given, list | tuple | range):
        return [_plain(each, kinds, what) for each in given]
    if isinstance(given, np.ndarray) or _is_tensor(given):
        inner = _array(given, what)
        kinds.add("bools" if inner.dtype == np.bool_ else "numbers")
        return inner.tolist()
    if isinstance(given, bool | np.bool_):
        kinds.add("bools")
        return bool(given)
    kinds.add("numbers")
    return integer(given, what)


def _array(given: Any, what: str) -> Array:
    """An array, or a tensor on any device, with integers or bools in it."""
    if _is_meta(given):
        raise UsageError(f"the index is a tensor without values (meta); {ALLOWED}")
    array: Array = given.detach().cpu().numpy() if _is_tensor(given) else given
    if array.dtype == np.uint8:
        raise UsageError(
            f"{type(given).__name__} of uint8 is a mask to torch and ids to numpy; make it bool "
            "for a mask, or int64 for ids"
        )
    if array.dtype.kind not in "iub":
        raise _refused(given, what)
    return array


def _tensor(given: Any, rows: int, what: str) -> Tensor:
    import torch

    array = _array(given, what)
    if array.dtype == np.bool_:
        if not array.ndim:
            raise _refused(given, what)
        return torch.from_numpy(np.ascontiguousarray(array))
    if array.dtype == np.uint64 and array.size and int(array.max()) >= rows:
        # As int64 the largest would count from the end.
        place = int(array.argmax())
        raise no_row(int(array.flat[place]), place, rows, what)
    return torch.from_numpy(array.astype(np.int64))


def _is_tensor(given: object) -> bool:
    # A tensor cannot come without torch, which is not imported here to ask.
    return type(given).__module__.split(".")[0] == "torch" or hasattr(given, "__torch_function__")


def _is_meta(given: object) -> bool:
    return bool(getattr(given, "is_meta", False))
