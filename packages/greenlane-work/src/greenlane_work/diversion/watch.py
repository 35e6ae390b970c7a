"""A producer's view of a flow's share: looked at five times a second beside the publishing, which never waits for it.

What cannot be reached leaves the share that was seen last in force, and says so once. What is there and is no share
means the old side. So does the time before anything was ever seen.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from typing import Final

from greenlane.errors import DiversionError, DiversionUnreadable
from greenlane.threads.unpatched import in_forked_child
from greenlane_work.diversion.share import Share, SharePlace, Sighting

__all__ = ["LOOK_S", "ShareWatch"]

#: Two looks and a slow round trip make less than a second.
LOOK_S: Final = 0.2
#: Between two words of a producer that has nothing new to say.
_SAY_S: Final = 5.0

_log = logging.getLogger("greenlane.diversion")


class ShareWatch:
    """One flow as this process sees it. Its thread starts with the first question, also again in a forked child."""

    def __init__(self, place: SharePlace, flow: str) -> None:
        """Nothing is read yet."""
        self._place = place
        self._flow = flow
        self._reset_state()
        in_forked_child(self._reset_state)

    @property
    def share(self) -> Share:
        """The share in force. Cost: an attribute, except the first time, when it is read."""
        if not self._started:
            self._start()
        return self._share

    def close(self) -> None:
        """Look no further."""
        self._stop.set()

    def _reset_state(self) -> None:
        # Of the process's kind, as what it guards: the first look may wait for a server, and greenlets wait for that.
        self._lock = threading.RLock()
        self._started = False
        self._stop = threading.Event()
        self._share = Share(self._flow)
        self._seen_s = 0.0
        self._said_ns = 0
        self._trouble = ""
        self._kind: type[DiversionError] | None = None
        self._producer = f"{socket.gethostname()}:{os.getpid()}"

    def _start(self) -> None:
        with self._lock:
            if self._started:
                return
            self._look()
            self._started = True
            threading.Thread(target=self._run, args=(self._stop,), name="greenlane-diversion", daemon=True).start()

    def _run(self, stop: threading.Event) -> None:
        self._say()
        while not stop.wait(LOOK_S):
            if self._look() or time.monotonic_ns() - self._said_ns > _SAY_S * 1e9:
                self._say()

    def _look(self) -> bool:
        """Read the share; True = something is new."""
        before = (self._share, self._trouble)
        kind: type[DiversionError] | None = None
        try:
            share, trouble = self._place.read(self._flow), ""
        except DiversionUnreadable as error:
            kind = DiversionUnreadable
            share, trouble = Share(self._flow), f"{error}; all orders go to the old side"
        except DiversionError as error:
            kind = DiversionError
            share, trouble = self._share, self._in_force(f"{error}")
        except Exception as error:  # a thread that ended here would leave this share in force for ever
            kind = DiversionError
            share, trouble = self._share, self._in_force(f"read the diversion: {type(error).__name__}: {error}")
        if share != self._share or not self._seen_s:
            self._share, self._seen_s = share, time.time()
        if kind is not self._kind and kind is not None:
            _log.warning(trouble)
        elif kind is not self._kind:
            _log.warning("the diversion of %s is seen again: %.4g %%", self._flow, share.share_frac * 100)
        self._trouble, self._kind = trouble, kind
        return before != (self._share, self._trouble)

    def _in_force(self, trouble: str) -> str:
        return f"{trouble}; the share seen last, {self._share.share_frac:.0%}, stays in force"

    def _say(self) -> None:
        """Report to `--status`. A failed report is not worth a warning of its own."""
        self._said_ns = time.monotonic_ns()
        share = self._share
        try:
            trouble = self._trouble.partition("\n")[0]
            seen = (share.revision, share.share_frac, self._seen_s)
            sighting = Sighting(self._producer, *seen, time.time(), trouble)
            self._place.say(self._flow, sighting)
        except Exception:
            return
