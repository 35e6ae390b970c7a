"""`greenlane.run`, wired: the placement of this process under its settings and its permits, made at the first call.

A process under one of our hosts has permits already, and placed calls take turns with its heavy phases. Any other (an
asyncio or gevent service) gets permits for its native thread alone, seen and switched through `control_dir` likewise.
"""

from __future__ import annotations

import _thread
import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, overload

# What is needed is imported at the first call: `import greenlane` stays cheap for a module that only marks a view.
if TYPE_CHECKING:
    from greenlane.placement import Placement
    from greenlane.placement.functions import PlacementName

__all__ = ["placed", "placement", "run"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Reentrant: a signal's handler may place a call while the first one is being placed.
_lock = _thread.RLock()
_placement: Placement | None = None


def _reset_in_child() -> None:
    """Begin with a free lock in a child: a thread that made something may have held it."""
    global _lock
    _lock = _thread.RLock()


os.register_at_fork(after_in_child=_reset_in_child)


def run(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run `fn(*args, **kwargs)` without blocking the event loop or other requests.

    On asyncio and uvloop this gives an awaitable, `await greenlane.run(fn, x)`. RemoteExecutors it gives the result: a
    greenlet waits without blocking its hub, a thread blocks.

    Heavy functions run one after the other on one native thread of the process. Functions learned to be light run
    inline. `fn` runs in a copy of the caller's context variables, and its exceptions are raised here. Cancelling the
    task, or killing the greenlet, cancels the call: a waiting call never starts, a running one raises at its next
    `greenlane.checkpoint()`. A deadline (`greenlane.within_ms`, or the job's own) does the same.

    Raises:
        PlacementError: `fn` is not a function, or it is async or a generator.
        Overloaded: `placed_queue` calls are waiting already.
        DeadlineExceeded: its deadline came before its end.

    Example:
        >>> run(sum, [1, 2, 3])
        6
    """
    try:
        return (_placement or placement()).run(fn, args, kwargs)
    except BaseException as error:
        from greenlane.placement.call import without_ours

        raise without_ours(error)  # noqa: B904 # the same one: it has its own cause


@overload
def placed(fn: Callable[_P, _R], /) -> Callable[_P, Any]: ...
@overload
def placed(*, placement: PlacementName = ..., name: str = ...) -> Callable[[Callable[_P, _R]], Callable[_P, Any]]: ...
def placed(fn: Callable[..., Any] | None = None, /, *, placement: PlacementName = "auto", name: str = "") -> Any:
    """Run each call of a function where it costs least: inline, on the native thread, or in a worker process.

    On asyncio and uvloop a call gives an awaitable, elsewhere the result, as with `greenlane.run`. The place is chosen
    by measurement of its first calls, which run on the native thread. It may be another process, so the function should
    use only its arguments and return its result.

    Args:
        fn: the function.
        placement: a fixed place; "auto" = chosen by measurement. The setting `placements` overrides it.
        name: its name in what is learned and shown; "" = its module and qualified name.

    Raises:
        PlacementError: it is not a function, or it is async or a generator.

    Example:
        >>> @placed
        ... def total(numbers):
        ...     return sum(numbers)
        >>> total([1, 2, 3])
        6
    """

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        return _place_call(fn, placement, name)

    return decorate if fn is None else decorate(fn)


def _place_call(fn: Callable[..., Any], placement: str, name: str) -> Callable[..., Any]:
    from greenlane.placement.functions import PlacedFunction

    function = PlacedFunction(fn, placement, name)

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return (_placement or _the_placement()).run_placed(function, args, kwargs)
        except BaseException as error:
            from greenlane.placement.call import without_ours

            raise without_ours(error)  # noqa: B904 # the same one: it has its own cause

    function.wrapper = call
    return call


def placement() -> Placement:
    """Give the placement of this process; it is made by the first call.

    Raises:
        GreenlaneError: settings, platform.
    """
    global _placement
    with _lock:
        if _placement is None:
            from greenlane.wiring.placement import make_placement

            found = make_placement()
            _placement = _placement or found
        return _placement


# `_place_call` has an argument of this name.
_the_placement: Final = placement
