"""Worker processes made ready for a function before a caller's call is tried there: they run, and have imported it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from greenlane.errors import GreenlaneError, Overloaded
from greenlane.placement.arena.names import found, shipped
from greenlane.placement.call import Call, State
from greenlane.placement.choice import Choice
from greenlane.placement.executor import Executor
from greenlane.placement.functions import plain
from greenlane.placement.source import stays
from greenlane.threads.unpatched import allocate_lock

__all__ = ["get_ready", "prepare"]


def prepare(choice: Choice, executors: Callable[[str], Executor]) -> None:
    """Look whether a function may leave this process, and let each worker import it. Does not wait for them."""
    if choice.preparing:
        return
    choice.preparing = True
    fn = choice.function.fn
    against = stays(fn)
    if against:
        choice.refuse(against)
        return
    try:
        name = shipped(plain(fn))
        executor = executors("process")
    except GreenlaneError as error:
        choice.refuse(_short(error))
        return
    waiting = _Waiting(choice, getattr(getattr(executor, "options", None), "worker_count", 1))
    module = getattr(plain(fn), "__module__", "") or ""
    for _ in range(waiting.left):
        call = Call(get_ready, (name if isinstance(name, str) else "", module), name="get ready")
        call.add_done_callback(waiting.one_ended)
        try:
            executor.submit(call)
        except Overloaded:  # Nobody may wait, and nobody is idle yet: its first call there imports it.
            call.finish(None)
        except GreenlaneError as error:
            call.fail(error)


def get_ready(name: str, module: str) -> None:
    """Import a function in a worker."""
    if name:
        found(name)
    elif module not in ("", "__main__", "builtins"):
        importlib.import_module(module)


class _Waiting:
    def __init__(self, choice: Choice, workers: int) -> None:
        self.left = workers
        self._choice = choice
        self._failed = ""
        self._lock = allocate_lock()

    def one_ended(self, call: Call) -> None:
        with self._lock:
            self.left -= 1
            if call.state is not State.FINISHED:
                self._failed = f"a worker cannot import it ({_why(call)})"
            last = not self.left
        if last and self._failed:
            self._choice.refuse(self._failed)
        elif last:
            self._choice.chooser.ready()


def _why(call: Call) -> str:
    try:
        call.result()
    except BaseException as error:
        return _short(error)
    return ""


def _short(error: BaseException) -> str:
    rule: Any = getattr(error, "rule", "")
    return str(rule or f"{type(error).__name__}: {error}").partition("\n")[0][:160]
