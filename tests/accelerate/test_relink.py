"""Functions once more, calling others by the same name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from ropewalk.accelerate.relink import functions_within, globals_called, relinked


def helper(x: int) -> int:
    return x + 1


def other(x: int) -> int:
    return x + 100


def direct(x: int, *, twice: bool = False) -> int:
    """Adds."""
    return helper(helper(x)) if twice else helper(x)


def nested(xs: list[int]) -> list[int]:
    return [(lambda y: helper(y))(x) for x in xs]


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


wrapped: Any = decorated(decorated(direct))


class Holder:
    helper = 7

    def read(self) -> int:
        return helper(self.helper)


def test_the_copy_calls_the_other_and_the_original_does_not() -> None:
    copy = relinked(direct, {"helper": other}, "test")
    assert (copy(1), copy(1, twice=True)) == (101, 201)
    assert (direct(1), direct(1, twice=True)) == (2, 3)
    assert (copy.__name__, copy.__doc__) == ("direct", "Adds.")


def test_comprehensions_and_lambdas_change_too() -> None:
    assert relinked(nested, {"helper": other}, "test")([1, 2]) == [101, 102]
    assert nested([1, 2]) == [2, 3]


def test_what_decorators_wrap_changes_within_them() -> None:
    copy = relinked(wrapped, {"helper": other}, "test")
    assert copy(1) == 101
    assert copy.__wrapped__.__wrapped__(1) == 101
    assert wrapped(1) == 2
    assert direct in functions_within(wrapped)


def test_a_function_that_calls_nothing_of_it_is_the_same() -> None:
    assert relinked(other, {"helper": other}, "test") is other
    assert relinked(wrapped, {"absent": other}, "test") is wrapped


def test_globals_stay_live(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = relinked(nested, {"absent": other, "len": other}, "test")
    monkeypatch.setitem(copy.__globals__, "helper", other)
    assert copy([1]) == [101]


def test_a_name_that_is_also_an_attribute_is_not_touched() -> None:
    assert "helper" not in globals_called(Holder.read)
    assert relinked(Holder.read, {"helper": other}, "test") is Holder.read
