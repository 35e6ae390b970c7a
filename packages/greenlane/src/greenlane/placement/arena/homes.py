"""Where answers arrive: on the caller's loop, or on the keeper's thread.

A home is an epoll set of its workers' channels, and that set is itself one descriptor which a loop watches. So a worker
moves to another home from any thread (two system calls), whatever its old loop does or no longer does.

An answer is read, unpickled and given to its call where it rings: on an asyncio loop that is the caller's own thread,
and the answer costs no thread switch.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, Protocol

from greenlane._native import Poll

__all__ = ["Home", "HubHome", "LoopHome", "caller_loop", "loop_home"]


class Home(Protocol):
    """Has workers' channels and calls `ring(home)` on its thread when one can be read."""

    poll: Poll

    def runs(self) -> bool:
        """Whether anybody watches; False = its workers must move before they are used again."""

    def end(self) -> None:
        """Stop watching, from whatever thread."""


class LoopHome:
    """On an asyncio or uvloop loop. Made on its thread."""

    def __init__(self, loop: Any, ring: Callable[[Home], None]) -> None:
        self.loop = loop
        self.poll = Poll()
        #: Whether the loop runs now; a stopped one does not ring.
        self.runs: Callable[[], bool] = loop.is_running
        loop.add_reader(self.poll.fileno(), ring, self)

    def end(self) -> None:
        """Leave the loop; on its own thread, unless it is stopped."""
        if self.loop.is_running() and caller_loop() is not self.loop:
            # Closed before it was its turn: then it is no longer watched.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._leave)
            return
        self._leave()

    def _leave(self) -> None:
        if not self.loop.is_closed():
            self.loop.remove_reader(self.poll.fileno())
        self.poll.close()


class HubHome:
    """On a gevent hub. Made on its thread; rings in the hub, where nothing may block."""

    def __init__(self, hub: Any, ring: Callable[[Home], None]) -> None:
        self.loop = hub
        self.poll = Poll()
        self._watcher = hub.loop.io(self.poll.fileno(), 1)
        self._watcher.start(ring, self)

    def runs(self) -> bool:
        """Whether the hub is there."""
        return not self.loop.dead

    def end(self) -> None:
        """Leave the hub; elsewhere than on its thread only the set is emptied."""
        if caller_loop() is self.loop or self.loop.dead:
            # The loop may have been destroyed, and its watchers with it.
            with contextlib.suppress(ValueError):
                self._watcher.stop()
                self._watcher.close()
            self.poll.close()
            return
        with contextlib.suppress(Exception):
            self.loop.loop.run_callback_threadsafe(self.end)


def caller_loop() -> Any:
    """The asyncio loop or gevent hub that the caller runs on; None = a plain thread. Cost: about 0.15 us."""
    asyncio = sys.modules.get("asyncio.events")
    if asyncio is not None:
        loop = asyncio._get_running_loop()
        if loop is not None:
            return loop
    hubs = sys.modules.get("gevent._hub_local")
    return None if hubs is None else _hub(hubs)


def _hub(hubs: Any) -> Any:
    """The thread's hub, if the caller would wait on it: a greenlet, or the main one of a patched program."""
    hub = hubs.get_hub_if_exists()
    if hub is None or hub.dead:
        return None
    monkey: Any = sys.modules.get("gevent.monkey")
    if sys.modules["greenlet"].getcurrent().parent is hub or (monkey and monkey.is_module_patched("threading")):
        return hub
    return None


def loop_home(loop: Any, ring: Callable[[Home], None]) -> Home:
    """Give a home on what `caller_loop` gave."""
    return LoopHome(loop, ring) if hasattr(loop, "add_reader") else HubHome(loop, ring)
