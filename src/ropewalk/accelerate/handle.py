"""What an acceleration changed, said in sentences, and how it is taken back."""

from __future__ import annotations

import copyreg
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MethodType, TracebackType
from typing import Any, Self

from torch import nn

from ropewalk.errors import UsageError
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Change:
    """One module under another class. `what` ends the sentence "N layers of CLASS ..."."""

    module: nn.Module
    before: type[nn.Module]
    after: type[nn.Module]
    what: str


@short
@dataclass(frozen=True, slots=True)
class Stay:
    """One module that was left as it is. `why` ends the sentence "N of CLASS stayed: ..."."""

    module: nn.Module
    why: str


@short
@dataclass
class Acceleration:
    """A model that was accelerated: `print` it, `undo` it, or use it as a context manager.

    Only this model is changed: its modules are put under classes derived from their own, so
    other models of the same classes never meet them. A pickle or a deep copy of an accelerated
    model is of the original classes again, and loads where this package is not installed.
    """

    kind: str
    changes: list[Change] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)
    remark: str = ""

    def stay(self, module: nn.Module, why: str) -> None:
        """Note that a module was left as it is."""
        self.stays.append(Stay(module, why))

    @property
    def changed(self) -> int:
        """How many modules were changed."""
        return len(self.changes)

    def undo(self) -> None:
        """Give every module its own class back; a second time does nothing.

        Raises UsageError, and changes nothing, where something has since put a module under yet
        another class: that has to be undone first.
        """
        for change in self.changes:
            if type(change.module) is not change.after:
                raise UsageError(
                    f"a {change.before.__name__} has been put under the class "
                    f"{type(change.module).__name__} since; undo that first"
                )
        for change in self.changes:
            _put(change.module, change.before)
        self.changes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.changed} of {self.changed + len(self.stays)} layers."]
        done = Counter((c.before.__name__, c.what) for c in self.changes)
        left = Counter((type(s.module).__name__, s.why) for s in self.stays)
        lines += [f"{count} {name} {what}." for (name, what), count in done.items()]
        lines += [f"{count} {name} stayed: {why}." for (name, why), count in left.items()]
        lines += [f"{self.remark}."] if self.remark else []
        return "\n".join(lines)


def make_class(
    base: type[nn.Module], kind: str, methods: dict[str, Callable[..., Any]]
) -> type[nn.Module]:
    """A class derived from `base` that goes by its name and has these methods in place of its own.

    Pickled or copied, its objects are of `base` again.
    """

    def reduce(self: Any, protocol: int) -> tuple[Any, ...]:
        reduced: Any = base.__reduce_ex__(self, max(protocol, 2))
        _, _, *rest = reduced
        return (copyreg._reconstructor, (base, object, None), *rest)  # type: ignore[attr-defined]

    names = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "_ropewalk_kind": kind,
    }
    return type(base.__name__, (base,), {**names, **methods, "__reduce_ex__": reduce})


def put_under(module: nn.Module, after: type[nn.Module], what: str) -> Change:
    """Put a module under a class derived from its own."""
    change = Change(module, type(module), after, what)
    _put(module, after)
    return change


def why_not(module: nn.Module) -> str | None:
    """Why a module's class can't be exchanged for a derived one, None where it can."""
    if "forward" not in vars(module) or _bound(module):
        return None
    return "its forward has been replaced on the module itself"


def _put(module: nn.Module, cls: type[nn.Module]) -> None:
    """Exchange the class, and the bound forward that the module itself holds, if it does."""
    bound = _bound(module)
    module.__class__ = cls
    for name in bound:
        module.__dict__[name] = MethodType(cls.forward, module)


def _bound(module: nn.Module) -> list[str]:
    """Under which names a module holds its class's own forward.

    The hooks of the package accelerate keep it as `_old_forward`, and leave it as `forward`.
    """
    held = {name: vars(module).get(name) for name in ("_old_forward", "forward")}
    own = type(module).forward
    return [n for n, kept in held.items() if isinstance(kept, MethodType) and kept.__func__ is own]


def check_fresh(model: nn.Module, kind: str) -> None:
    """Raises UsageError where the model is under an acceleration of this kind already."""
    if any(vars(type(module)).get("_ropewalk_kind") == kind for module in model.modules()):
        raise UsageError(f"{kind}: this model is accelerated already; undo that first")
