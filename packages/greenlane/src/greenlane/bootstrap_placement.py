"""`greenlane.run`, wired: the placement of this process under its settings and its permits, made at the first call.

A process under a host of ours has permits already, and placed calls take turns with its heavy phases. Any other (an
asyncio or gevent service) gets permits for its native thread alone, seen and switched through `control_dir` likewise.
"""

from __future__ import annotations

import _thread
import atexit
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, overload

# What is needed is imported at the first call: `import greenlane` stays cheap for who only marks a view.
if TYPE_CHECKING:
    from greenlane.lanes import LearnedRow, Permits
    from greenlane.lanes.placed import Placement
    from greenlane.lanes.placed.placed_function import PlacementName
    from greenlane.settings import Settings

__all__ = ["placed", "placement", "run"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: How long the exit of the process waits for a call that runs. Arbitrary: long enough for what writes a file.
_EXIT_S: Final = 5.0

# Reentrant: a signal's handler may place a call while the first one is being placed.
_lock = _thread.RLock()
_lock_of_own = _thread.RLock()
_placement: Placement | None = None


def _forked() -> None:
    """Begin with free locks in a child: a thread that made something may have held them."""
    global _lock, _lock_of_own
    _lock, _lock_of_own = _thread.RLock(), _thread.RLock()


os.register_at_fork(after_in_child=_forked)


def run(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run `fn(*args, **kwargs)` where it does not keep others from running.

    On asyncio and uvloop this gives an awaitable, `await greenlane.run(fn, x)`. Elsewhere it gives the result: a
    greenlet waits without its hub, a thread blocks.

    Heavy functions run one after the other on one native thread of the process; those that are learned to be light run
    right here. `fn` runs in a copy of the caller's context variables; what it raises is raised here. Cancelling the
    task, or killing the greenlet, cancels the call: one that waits never begins, one that runs meets it at its next
    `greenlane.checkpoint()`. So does a deadline, `greenlane.within_ms`, or the job's own.

    Raises:
        PlacementError: `fn` is no function, or one whose call is not the work (async, generator).
        Overloaded: `placed_queue` calls wait already.
        DeadlineExceeded: its deadline came before its end.

    Example:
        >>> run(sum, [1, 2, 3])
        6
    """
    try:
        return (_placement or placement()).run(fn, args, kwargs)
    except BaseException as error:
        from greenlane.lanes.placed.frames import without_ours

        raise without_ours(error)  # noqa: B904 # the same one: it has its own cause


@overload
def placed(fn: Callable[_P, _R], /) -> Callable[_P, Any]: ...
@overload
def placed(*, placement: PlacementName = ..., name: str = ...) -> Callable[[Callable[_P, _R]], Callable[_P, Any]]: ...
def placed(fn: Callable[..., Any] | None = None, /, *, placement: PlacementName = "auto", name: str = "") -> Any:
    """Let each call of a function run where that is best: here, on the native thread, or in a worker process.

    A call is as one of `greenlane.run`: on asyncio and uvloop it gives an awaitable, elsewhere the result. Where it
    runs is chosen from what its calls cost, tried within a budget and looked at again now and then; it may be another
    process, so the function should speak through its arguments and its result alone.

    Args:
        fn: the function.
        placement: pins it; "auto" = chosen. The setting `placements` is stronger.
        name: what it is learned and shown as; "" = its module and qualified name.

    Raises:
        PlacementError: it is no function, or one whose call is not the work (async, generator).

    Example:
        >>> @placed
        ... def total(numbers):
        ...     return sum(numbers)
        >>> total([1, 2, 3])
        6
    """

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        return _placed(fn, placement, name)

    return decorate if fn is None else decorate(fn)


def _placed(fn: Callable[..., Any], placement: str, name: str) -> Callable[..., Any]:
    from greenlane.lanes.placed.placed_function import PlacedFunction

    function = PlacedFunction(fn, placement, name)

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return (_placement or _the_placement()).run_placed(function, args, kwargs)
        except BaseException as error:
            from greenlane.lanes.placed.frames import without_ours

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
            made = _made()
            _placement = _placement or made
        return _placement


# `_placed` has an argument of this name.
_the_placement: Final = placement


def _made() -> Placement:
    from greenlane import bootstrap
    from greenlane.bootstrap_executors import Elsewhere
    from greenlane.bootstrap_kept import Keeper, learned_rows
    from greenlane.lanes.placed import Placement
    from greenlane.settings import load

    bootstrap.check_platform()
    running = bootstrap.running()
    settings = load() if running is None else running.settings
    own = _Own(settings)
    elsewhere = Elsewhere(settings)
    made = Placement(settings, own.permits, elsewhere)
    own.placement = made
    bootstrap.count_besides(made.counters)
    own.permits()  # Here, not on the lane's thread: under gevent its imports would meet green locks.
    bootstrap.learn_besides(lambda: learned_rows(made.placed()))
    if settings.learned_file:
        Keeper(made, Path(settings.learned_file), settings.learned_save_s)
    # Registered late, so run early: other exit hooks may still place calls, which then run where they are.
    atexit.register(made.lane.close, _EXIT_S)
    return made


class _Own:
    """The permits of a process that no host of ours has given any."""

    def __init__(self, settings: Settings) -> None:
        from greenlane import bootstrap

        self._running = bootstrap.running
        self._settings = settings
        self._permits: Permits | None = None
        self.placement: Placement | None = None

    def permits(self) -> Permits:
        """Give the permits of this process as it is now."""
        running = self._running()
        if running is not None:
            return running.permits
        return self._permits or self._make()

    def _make(self) -> Permits:
        from greenlane import bootstrap_control
        from greenlane.lanes import Permits
        from greenlane.real import start_new_thread

        with _lock_of_own:
            if self._permits is None:
                permits = Permits(self._settings, mode=self._settings.mode)
                os.register_at_fork(after_in_child=permits.forked)
                if self._settings.control_dir:
                    shown = _Shown(permits, self)
                    folder = self._settings.control_dir
                    bootstrap_control.serve(folder, "permits", shown, start_thread=start_new_thread)
                self._permits = permits
            return self._permits


class _Shown:
    """What the control socket shows of a process that only places calls."""

    def __init__(self, permits: Permits, own: _Own) -> None:
        self.mode = permits.mode
        self.set_mode = permits.set_mode
        self._permits = permits
        self._own = own

    def counters(self) -> dict[str, int]:
        placement = self._own.placement
        return {**self._permits.counters(), **({} if placement is None else placement.counters())}

    def learned(self) -> list[LearnedRow]:
        from greenlane.bootstrap_kept import learned_rows

        placement = self._own.placement
        placed = [] if placement is None else learned_rows(placement.placed())
        names = {row.route for row in placed}
        return [row for row in self._permits.learned() if row.route not in names] + placed
