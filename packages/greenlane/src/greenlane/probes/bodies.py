"""Run our code in Python functions, without replacing the function objects.

A function's `__code__` is exchanged for one that calls us with all its arguments; its own code goes on in a copy that
only we call. So `is`, pickle, `inspect.signature`, `inspect.getsource`, bound methods and names that were copied before
are as without us, and putting back is one assignment. docs/design/0025-functions-that-stay.md says what may be seen.

Cost: one Python call beyond the wrapper's own, 0.1-0.2 us.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, Final, TypeGuard

__all__ = ["can_wrap", "unwrap", "wrap"]

_CALLS: Final = "greenlane_calls"
# Flags of code objects, as `inspect` names them, which takes 7 ms to import.
_VARARGS: Final = 0x4
_VARKEYWORDS: Final = 0x8
_COROUTINE: Final = 0x80
#: Generators, those that are coroutines too, asynchronous ones. Their frames are objects of the program: our call
#: in their place would make another kind.
_GENERATES: Final = 0x20 | 0x100 | 0x200

_lock: Final = threading.RLock()
#: By address, which is no other function's while it is held here.
_bodies: Final[dict[int, _Body]] = {}


def can_wrap(function: object) -> TypeGuard[FunctionType]:
    """Whether it is a plain Python function, and no generator's."""
    return type(function) is FunctionType and not function.__code__.co_flags & _GENERATES


def wrap(function: FunctionType, make: Callable[[Any], Any]) -> None:
    """Have `function` do `make(<what it did>)`. Several may do so, and go in any order."""
    with _lock:
        body = _bodies.get(id(function)) or _Body(function)
        body.makes.append(make)
        body.lead()


def unwrap(function: FunctionType, make: Callable[[Any], Any]) -> bool:
    """Take it out. False: somebody has given `function` another code since, which stays, and ours with it."""
    with _lock:
        body = _bodies.get(id(function))
        if body is None or function.__code__ is not body.ours:
            return False
        body.makes.remove(make)
        body.lead()
        return True


class _Body:
    """What a function does while our code precedes its own."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._own = function.__code__
        self.ours: CodeType | None = None
        self.makes: list[Callable[[Any], Any]] = []

    def lead(self) -> None:
        function = self._function
        if function.__code__ is not self.ours:
            self._own = function.__code__
        called: Any = FunctionType(
            self._own, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        called.__kwdefaults__ = function.__kwdefaults__
        called.__qualname__, called.__module__ = function.__qualname__, function.__module__
        for make in self.makes:
            called = make(called)
        if self.makes:
            self.ours = function.__code__ = _leading(self._own, called, len(function.__defaults__ or ()))
            _bodies[id(function)] = self
        else:
            function.__code__ = self._own
            self.ours = None
            _bodies.pop(id(function), None)


def _leading(own: CodeType, called: Callable[..., Any], optional: int) -> CodeType:
    """Give code with the parameters, name and place of `own` that calls `called`."""
    takes = ", ".join(takes for takes, _ in _parameters(own, optional))
    gives = ", ".join(gives for _, gives in _parameters(own, optional) if gives)
    kind, waits = ("async ", "await ") if own.co_flags & _COROUTINE else ("", "")
    # A function's code must have as many free variables as its closure has cells.
    cells = f"    if 0: {', '.join(own.co_freevars)}\n" if own.co_freevars else ""
    source = (
        f"def made({', '.join(own.co_freevars)}):\n"
        f" {kind}def leading({takes}):\n{cells}    {_CALLS} = {_CALLS!r}; return {waits}{_CALLS}({gives})\n"
        f" return leading\n"
    )
    names: dict[str, Any] = {}
    exec(compile(source, own.co_filename, "exec", dont_inherit=True), names)  # names alone
    code: CodeType = names["made"](*own.co_freevars).__code__
    return code.replace(
        co_consts=tuple(called if each == _CALLS else each for each in code.co_consts),
        co_name=own.co_name,
        co_qualname=own.co_qualname,
        co_firstlineno=own.co_firstlineno,
    )


def _parameters(own: CodeType, optional: int) -> Iterator[tuple[str, str]]:
    """How each is taken, and handed on: by name what callers give by name, the last `optional` of those by place.

    Defaults are the function's own, and filled in before its code runs.
    """
    names = iter(own.co_varnames)
    placed = [next(names) for _ in range(own.co_argcount)]
    named = [next(names) for _ in range(own.co_kwonlyargcount)]
    more = own.co_flags & _VARARGS
    by_place = len(placed) if more else max(own.co_posonlyargcount, len(placed) - optional)
    for number, name in enumerate(placed, 1):
        takes = f"{name}, /" if number == own.co_posonlyargcount else name
        yield takes, name if number <= by_place else f"{name}={name}"
    if more:
        name = next(names)
        yield f"*{name}", f"*{name}"
    elif named:
        yield "*", ""
    for name in named:
        yield name, f"{name}={name}"
    if own.co_flags & _VARKEYWORDS:
        name = next(names)
        yield f"**{name}", f"**{name}"
