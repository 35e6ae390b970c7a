"""The event loop of the main thread, asyncio's (also uvloop's) or gevent's: whether it has a turn.

It is asked for a turn at each look, as any thread asks it. The loop itself is found on its own thread, by a call that
the interpreter makes there between two instructions, or by the stack of a thread that makes none: nothing is replaced.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, Final

from greenlane._native import call_in_main_thread
from greenlane.threads.unpatched import get_ident
from greenlane.troubles.stacks import outward
from greenlane.troubles.thread_pools import Standing
from greenlane.troubles.trouble import Trouble

__all__ = ["MainLoop"]

#: A turn that takes less is no finding.
_SOON_NS: Final = 500_000_000
#: Packages whose functions run a loop, and have it in a variable.
_RUNNERS: Final = ("/asyncio/", "/uvicorn/", "/aiohttp/")


class MainLoop:
    """Looks at the loop of the main thread, once there is one. Called by one thread."""

    def __init__(self) -> None:
        self._loop: Any = None
        self._wake: Callable[[Callable[[], None]], object] | None = None
        self._asked_ns = 0  # since when it is waited for; 0 = not
        self._finding = False
        self._ident = 0
        self._limiter: Any = None
        if threading.current_thread() is threading.main_thread():
            self._find_main_loop()

    @property
    def limiter(self) -> Any:
        """anyio's limiter of threads in this loop; None = none is known."""
        return self._limiter

    def look(self, threads: Iterable[Standing], now_ns: int) -> Iterator[Trouble]:
        """Give the finding of a loop that has not had a turn for long."""
        wake = self._wake
        if wake is None:
            self._find(threads)
            return
        if not self._runs():
            self._loop = self._wake = self._limiter = None
            self._asked_ns = 0
            return
        if not self._asked_ns:
            self._asked_ns = now_ns
            try:
                wake(self._turn)
            except RuntimeError:  # it has been closed meanwhile
                self._asked_ns = 0
            return
        if now_ns - self._asked_ns < _SOON_NS:
            return
        main = next((each for each in threads if each.ident == self._ident), None)
        where = main.place if main is not None else "native code"
        text = f"event loop blocked {{for_s}} by {where}"
        yield Trouble("loop", text, since_ns=self._asked_ns, hangs=True)

    def _turn(self) -> None:
        """On the loop's thread."""
        self._asked_ns = 0
        anyio = sys.modules.get("anyio.to_thread")
        if anyio is not None and self._limiter is None and hasattr(self._loop, "create_task"):
            self._limiter = False  # asked for once
            self._loop.create_task(self._ask_limiter(anyio))

    async def _ask_limiter(self, anyio: Any) -> None:
        """It can only be asked for in a task."""
        try:
            self._limiter = anyio.current_default_thread_limiter()
        except Exception:
            self._limiter = False

    def _runs(self) -> bool:
        is_running = getattr(self._loop, "is_running", None)
        return is_running is None or bool(is_running())

    def _find(self, threads: Iterable[Standing]) -> None:
        if self._finding:  # the main thread has not run Python since the last look: it sleeps, or is blocked already
            main = next((each for each in threads if each.thread is threading.main_thread()), None)
            if main is not None and (loop := _loop_of(main.frame)) is not None:
                self._ident, self._loop, self._wake = main.ident, loop, loop.call_soon_threadsafe
        elif "asyncio" in sys.modules or "gevent" in sys.modules:
            self._finding = call_in_main_thread(self._find_main_loop)

    def _find_main_loop(self) -> None:
        """On the main thread."""
        self._finding = False
        self._ident = get_ident()
        asyncio = sys.modules.get("asyncio")
        loop = asyncio._get_running_loop() if asyncio is not None else None
        if loop is not None:
            self._loop, self._wake = loop, loop.call_soon_threadsafe
            return
        local: Any = sys.modules.get("gevent._hub_local")
        hub = local.get_hub_if_exists() if local is not None else None
        if hub is not None:
            self._loop, self._wake = hub, hub.loop.run_callback_threadsafe


def _loop_of(frame: FrameType) -> Any:
    """The loop that a stack runs in, by the frames of what runs it; None = none is seen."""
    for each in outward(frame):
        if any(part in each.f_code.co_filename for part in _RUNNERS):
            runner = each.f_locals.get("self")
            for loop in (each.f_locals.get("loop"), getattr(runner, "_loop", None), runner):
                if hasattr(loop, "call_soon_threadsafe"):
                    return loop
    return None
