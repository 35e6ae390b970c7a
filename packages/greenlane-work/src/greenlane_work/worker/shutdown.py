"""The end of a worker: bounded, and its exit code says how it went.

First SIGTERM (or Ctrl-C, or SIGQUIT): receiving stops; what was not begun is returned now; what runs has
`task_shutdown_s`, and so have results that are still to be written down. Then, for a few seconds, what is on its way to
the broker is waited for. The second signal ends both waits. What still runs then stays unacknowledged: the broker gives
it to another worker, and the store says that its outcome is unknown.

Exit codes: 0 = all that ran ended (130 after Ctrl-C), 1 = some were cut off.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from celery import signals
from celery.worker import state

from greenlane_work.worker.flow import OrderFlow
from greenlane_work.worker.owner import Owner

__all__ = ["Shutdown"]

_log = logging.getLogger("greenlane.work")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_INTERRUPTED: Final = 130
#: Once nothing runs, what is on its way to the broker has this long; then it stays unacknowledged. With the default of
#: `task_shutdown_s` and the store's time at the end it is within Kubernetes' 30 s.
_LETTERS_S: Final = 5.0
_CUT_OFF: Final = 1


class Shutdown:
    """How long the end may take, and how it went."""

    def __init__(self, owner: Owner, grace_s: float) -> None:
        self._owner = owner
        self._grace_s = grace_s
        self._began = 0.0
        self._signals = 0
        self._listening = False
        self.given_back = 0
        self.cut_off = 0
        # Threads are left that nothing can end.
        self.stuck = False
        self.controller: Any = None

    def listen(self) -> None:
        """Take the signals over from Celery; once."""
        if self._listening or threading.current_thread() is not threading.main_thread():
            return
        self._listening = True
        for number in _SIGNALS:
            signal.signal(number, self._signalled)
        signals.worker_shutdown.connect(self._leave, weak=False)

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals == 1:
            self._began = time.monotonic()
            code = state.should_stop = _INTERRUPTED if number == signal.SIGINT else 0
            name = getattr(self.controller, "hostname", None)
            signals.worker_shutting_down.send(sender=name, sig=signal.Signals(number).name, how="Warm", exitcode=code)
        self._owner.wake()

    def wait(self, flow: OrderFlow, connection: Any) -> None:
        """Let what runs end, for so long as it may; the owner goes on acknowledging."""
        self._began = self._began or time.monotonic()
        until = self._began + self._grace_s
        if connection is None and flow.line.leases is not None:
            # Celery does not stop the steps of a consumer that is about to connect.
            self.given_back = flow.give_all_back()
        running = flow.parked.running
        _log.warning(
            "ending: %d orders that were not begun went back, %d running have up to %g s",
            *(self.given_back, running, self._grace_s),
        )
        self._wait_while(lambda: flow.parked.running or flow.effects.unwritten, until, connection)
        self._owner.post(flow.effects.stop_waiting)
        self._wait_while(flow.untold, time.monotonic() + _LETTERS_S, connection)
        self.cut_off = flow.parked.running
        self.stuck = bool(self.cut_off or flow.runner.abandoned())
        if self.cut_off:
            _log.error("ending: %d orders were cut off; the broker gives them to other workers", self.cut_off)
            if self.controller is not None:
                self.controller.exitcode = _CUT_OFF

    def _wait_while(self, busy: Callable[[], int], until: float, connection: Any) -> None:
        beat = time.monotonic()
        while self._signals < 2 and time.monotonic() < until and busy():
            self._owner.wait(min(0.2, max(0.0, until - time.monotonic())))
            if time.monotonic() - beat > 1:
                beat = time.monotonic()
                _keep_alive(connection)

    @property
    def exit_code(self) -> int:
        """What the process ends with, as far as is known."""
        code = getattr(self.controller, "exitcode", None)
        return code if isinstance(code, int) else state.should_stop or 0

    def _leave(self, **_ignored: Any) -> None:
        """Threads that will not end must not keep the process: the connection is closed, all that counts is written."""
        if self.stuck:
            code = getattr(self.controller, "exitcode", _CUT_OFF)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            logging.shutdown()
            os._exit(code if isinstance(code, int) else _CUT_OFF)


def _keep_alive(connection: Any) -> None:
    """The loop has ended: what it did for the connection is done here, or the broker takes us for dead."""
    if connection is None:
        return
    with contextlib.suppress(Exception):
        if connection.supports_heartbeats and connection.get_heartbeat_interval():
            connection.heartbeat_check(rate=2)
    with contextlib.suppress(Exception):
        connection.drain_events(timeout=0.001)
