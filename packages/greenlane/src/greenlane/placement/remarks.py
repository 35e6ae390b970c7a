"""Warnings of what a placed function does that never pays, each once, at the function's own line."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final

from greenlane.errors import PlacementWarning
from greenlane.placement.call import Call
from greenlane.placement.choice import Choice
from greenlane.placement.functions import ROUTE_PREFIX, plain
from greenlane.placement.source import remarks

__all__ = ["after", "warn_on_first_call", "before"]

#: A list of this many dicts, or this much to pickle, takes a loop a millisecond. Otherwise arbitrary.
_MANY: Final = 100
_MUCH_BYTES: Final = 256 << 10
#: Calls of a pinned function after which they count as short.
_KNOWN: Final = 30
_NONE: Final[Mapping[str, Any]] = {}


def warn_on_first_call(
    choice: Choice, place: str, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] = _NONE
) -> None:
    """Warn of what stands in the source, and of the first call's arguments. Reads it once, some milliseconds."""
    if choice.read:
        return
    choice.read = True
    before(choice, place, args, kwargs)
    for what, remedy in remarks(choice.function.fn):
        _warn(choice, what, remedy)


def before(choice: Choice, place: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Warn of arguments that never pay at this place."""
    values = (*args, *kwargs.values())
    if place == "process" and any(_is_dicts(value) for value in values):
        _warn(
            choice,
            "it is sent a list of dicts, which is pickled on the caller's loop, object by object",
            "send the bytes that they were parsed from, or arrays",
        )
    bound: Any = getattr(plain(choice.function.fn), "__self__", None)
    if bound is not None and type(bound).__module__.partition(".")[0] == "catboost":
        if args and type(args[0]) is list:
            _warn(
                choice,
                "it gives CatBoost a list, which is converted value by value with the GIL held",
                'give it numpy.asarray(rows, dtype="float32", order="F")',
            )
        if kwargs.get("thread_count", -1) == -1:
            _warn(
                choice,
                "it asks for all cores (thread_count=-1), which the loop and the other calls need as well",
                "write thread_count=1",
            )


def after(choice: Choice, place: str, call: Call, interval_ns: int) -> None:
    """Warn of what a call at this place turned out to cost."""
    if place in ("process", "cluster") and call.in_band > _MUCH_BYTES:
        _warn(
            choice,
            f"{call.in_band / 1e6:.1f} MB of a call and its answer are pickled, on the caller's loop",
            "send and give back bytes or arrays: they cross as they lie",
        )
    _, _, _, _, calls, expected_ns = choice.chooser.chosen()
    if calls >= _KNOWN and 0 < expected_ns < interval_ns and "short" not in choice.warned:
        choice.warned.add("short")
        _warn(
            choice,
            f"its calls take {expected_ns / 1e6:.2f} ms, less than the switch interval that each way back can cost",
            f'leave out placement="{place}"',
        )


def _is_dicts(value: object) -> bool:
    return type(value) in (list, tuple) and len(value) >= _MANY and type(value[0]) is dict  # type: ignore[arg-type,index]


def _warn(choice: Choice, what: str, remedy: str) -> None:
    name = choice.name.removeprefix(ROUTE_PREFIX)
    if what in choice.warned:
        return
    choice.warned.add(what)
    code = getattr(plain(choice.function.fn), "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("<placed>", 1)
    text = f"{name}: {what}. Remedy: {remedy}."
    try:
        warnings.warn_explicit(text, PlacementWarning, file, line, module=name.rpartition(".")[0] or name)
    except PlacementWarning:  # Warnings are errors here; a call must not fail for one.
        warnings.showwarning(text, PlacementWarning, file, line)
