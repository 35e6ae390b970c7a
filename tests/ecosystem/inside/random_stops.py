"""Stops at random: the thread of a job that holds a permit stands still at bytecode boundaries that a coin chooses.

Nobody is stopped unless somebody waits: the harness has a thread that asks for a permit all the time, and computes for
a moment. Beside the coin `preempt_ms` is at its least, so that the waiter asks for stops as in a service, too.
"""

from __future__ import annotations

import _thread
import random
import sys
import time
from pathlib import Path
from typing import Any

import greenlane
from greenlane import _native
from greenlane.policy import permits
from greenlane.settings import Settings, load

ROUTE = "what tests are stopped for"
#: One boundary in this many is chosen.
_ONE_IN = 500
#: In `sys.monitoring`; ours is 4.
_TOOL = 3
_OURS = str(Path(greenlane.__file__).parent) + "/"
_COMPUTES_NS = 100_000
_PAUSE_S = 0.0003
# Tests replace them.
_sleep, _cpu_ns, _now_ns = time.sleep, time.thread_time_ns, time.monotonic_ns


def settings() -> Settings:
    """Phases of 25 us and more take turns: fewer than these many samples and they do anyway."""
    permits.LEARN_AFTER = 100  # type: ignore[misc] # here alone
    return load({"permits": 1, "heavy_ms": 0.1, "preempt_ms": 1.0}, environ={})


class Stops:
    """From `start` to `stop`."""

    def __init__(self, running: Any, seed: int) -> None:
        self._running = running
        self._chosen = random.Random(seed).random
        self._enough = False
        self._competes = _thread.allocate_lock()

    def start(self) -> None:
        """Begin."""
        self._running.permits.pin(ROUTE, "heavy")
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        monitoring.use_tool_id(_TOOL, "stops at random")
        events = monitoring.events
        watched = (events.LINE, events.JUMP, events.PY_RETURN, events.PY_START, events.PY_YIELD, events.BRANCH)
        for event in watched:
            monitoring.register_callback(_TOOL, event, self._boundary)
        monitoring.set_events(_TOOL, sum(watched))
        self._competes.acquire()
        _thread.start_new_thread(self._compete, ())

    def stop(self) -> None:
        """End."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        monitoring.set_events(_TOOL, 0)
        self._enough = True
        self._competes.acquire()
        monitoring.free_tool_id(_TOOL)

    def number(self) -> int:
        """How many stops there were."""
        return int(self._running.counters()["stopped"])

    def _boundary(self, code: Any, *_where: object) -> None:
        # In our own code nobody stands still: its frame would hide behind this one.
        if self._chosen() * _ONE_IN < 1 and not code.co_filename.startswith(_OURS):
            _native.boundary_of_all()

    def _compete(self) -> None:
        try:
            while not self._enough:
                if self._running.open_task(ROUTE, _now_ns(), 0):
                    until_ns = _cpu_ns() + _COMPUTES_NS
                    while _cpu_ns() < until_ns:
                        pass
                    self._running.close()
                _sleep(_PAUSE_S)
        finally:
            self._competes.release()
