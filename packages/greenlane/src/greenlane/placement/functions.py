"""What can be placed, what it is called, and what was said of where it runs.

Who says it, the strongest first: the table `placements` of the settings (the operator's word, for functions by name),
the argument of `@placed`, a mark (`@heavy` = never where the caller is, `@light` = always there), the setting
`placement`. `auto` = not pinned: it is measured.
"""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Mapping
from types import CoroutineType, GeneratorType
from typing import Any, Final, Literal, get_args

from greenlane.errors import PlacementError
from greenlane.job import WEIGHT_MARK
from greenlane.settings.refusal import nearest

__all__ = [
    "AUTO",
    "PLACEMENTS",
    "ROUTE_PREFIX",
    "PlacedFunction",
    "PlacementName",
    "name_of",
    "plain",
    "refuse_result",
    "refuse_unplaceable",
]

PlacementName = Literal["auto", "inline", "thread", "process", "cluster"]
PLACEMENTS: Final[tuple[str, ...]] = get_args(PlacementName)
AUTO: Final = "auto"

#: Tells a function's name from the routes of requests, among what is learned.
ROUTE_PREFIX: Final = "run "
_ATTEMPTED: Final = "place a function"
#: What the interpreter notes of a function that gives something to be driven instead of a result; see `inspect`.
_GENERATOR: Final = 0x20
_COROUTINE: Final = 0x80
_ITERABLE_COROUTINE: Final = 0x100
_ASYNC_GENERATOR: Final = 0x200


class PlacedFunction:
    """What `@placed` decorates, and what its owner has said."""

    __slots__ = ("argument", "fn", "known", "name", "wrapper")

    def __init__(self, fn: Callable[..., Any], placement: str = AUTO, name: str = "") -> None:
        """Take a function.

        Args:
            fn: what runs.
            placement: what the decorator was told.
            name: what it is learned and shown as; "" = its module and qualified name.

        Raises:
            PlacementError: it cannot be placed, or there is no such placement.
        """
        _refuse_misuse(fn, name)
        refuse_unplaceable(fn)
        if placement not in PLACEMENTS:
            raise PlacementError(
                "place a function",
                name="placement",
                value=placement,
                rule="one of " + ", ".join(PLACEMENTS),
                hint=nearest(str(placement), PLACEMENTS) or "leave it out: it is measured",
            )
        self.fn = fn
        self.argument = placement
        self.name = f"{ROUTE_PREFIX}{name}" if name else name_of(fn)
        # What stands for it in its module; marks may have been put on either.
        self.wrapper: object = fn
        # (placement, choice): what a `Placement` knows of it.
        self.known: tuple[object, Any] = (None, None)

    @property
    def mark(self) -> str:
        """Give "heavy", "light" or ""."""
        return str(getattr(self.wrapper, WEIGHT_MARK, "") or getattr(plain(self.fn), WEIGHT_MARK, ""))

    def pin(self, default: str, by_name: Mapping[str, str]) -> str:
        """Give where it is pinned, `auto` if it is not.

        Args:
            default: the setting `placement`.
            by_name: the setting `placements`: glob on the name -> placement; the first that matches counts.
        """
        name = self.name.removeprefix(ROUTE_PREFIX)
        for glob, placement in by_name.items():
            if fnmatch.fnmatchcase(name, glob):
                return placement
        if self.argument != AUTO:
            return self.argument
        return "inline" if self.mark == "light" else default


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


def _refuse_misuse(fn: object, name: object) -> None:
    """Say how the decorator is meant to be used, where its arguments show what was meant."""
    if isinstance(fn, str):
        hint = f"write @greenlane.placed(placement={fn!r})" if fn in PLACEMENTS else "write @greenlane.placed"
        raise PlacementError("place a function", name="fn", value=fn, rule="a function", hint=hint)
    if not isinstance(name, str):
        rule = "a text, or nothing for its own name"
        raise PlacementError("place a function", name="name", value=name, rule=rule, hint='write name="quote"')
