"""What can be placed, and what it is called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CoroutineType, GeneratorType
from typing import Any, Final

from greenlane.errors import PlacementError

__all__ = ["ROUTE_PREFIX", "name_of", "plain", "refuse_result", "refuse_unplaceable"]

#: Tells a function's name from the routes of requests, among what is learned.
ROUTE_PREFIX: Final = "run "
_ATTEMPTED: Final = "place a function"
#: What the interpreter notes of a function that gives something to be driven instead of a result; see `inspect`.
_GENERATOR: Final = 0x20
_COROUTINE: Final = 0x80
_ITERABLE_COROUTINE: Final = 0x100
_ASYNC_GENERATOR: Final = 0x200


def refuse_unplaceable(fn: object) -> None:
    """Raise PlacementError unless `fn` is a function whose call is the work."""
    if not callable(fn):
        if isinstance(fn, CoroutineType):
            fn.close()  # The refusal is enough; "was never awaited" would be said of it besides.
            raise PlacementError(
                _ATTEMPTED, name="fn", value=fn, rule="a function", hint="a coroutine belongs to its loop: await it"
            )
        if isinstance(fn, classmethod):
            raise PlacementError(_ATTEMPTED, name="fn", value=fn, rule="a function", hint="put @classmethod above it")
        raise PlacementError(
            _ATTEMPTED,
            name="fn",
            value=fn,
            rule="a function, not what it gave: it has run already, here",
            hint="write run(fn, x) for run(fn(x))",
        )
    flags = _flags(fn)
    if flags & (_COROUTINE | _ITERABLE_COROUTINE):
        raise PlacementError(
            _ATTEMPTED,
            name="fn",
            value=fn,
            rule="a function that computes its result when it is called",
            hint="await an async function on its loop; move the CPU work in it to a function, and place that",
        )
    if flags & (_GENERATOR | _ASYNC_GENERATOR):
        raise PlacementError(
            _ATTEMPTED,
            name="fn",
            value=fn,
            rule="a function that computes its result when it is called",
            hint="place list, with the generator in it: run(lambda: list(fn(x)))",
        )


def refuse_result(result: object, name: str) -> None:
    """Raise PlacementError if a call gave something that has yet to be driven: its work would be done elsewhere."""
    if isinstance(result, CoroutineType | GeneratorType):
        result.close()
        raise PlacementError(
            _ATTEMPTED,
            name="result",
            value=result,
            rule=f"a result of {name or 'the function'}, not a {type(result).__name__}",
            hint="let the function do the work itself and give what comes out",
        )


def name_of(fn: Callable[..., Any]) -> str:
    """Give what a function is learned and shown as: `run pricing.quote`."""
    fn = plain(fn)
    named: Any = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{ROUTE_PREFIX}{named.__module__ or 'builtins'}.{named.__qualname__}"


def plain(fn: Any) -> Any:
    """Give the function that a `functools.partial` calls in the end."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _flags(fn: Any) -> int:
    fn = plain(fn)
    code = getattr(fn, "__code__", None)
    if code is None and not isinstance(fn, type):
        fn = getattr(fn, "__func__", None) or vars(type(fn)).get("__call__")
        code = getattr(fn, "__code__", None)
    return int(getattr(code, "co_flags", 0))
