"""The round that sets limits and lanes by what the workers measure, and says how it all stands. Once a second.

This is what `greenlane top` and Prometheus show: written in the tree's thread, read in others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from greenlane.control.server import Server
from greenlane.errors import GreenlaneError
from greenlane.metrics import Learned
from greenlane_serve import folders
from greenlane_serve.at_once import Assignment, Limits, Room
from greenlane_serve.folders import account_of
from greenlane_serve.group import State
from greenlane_serve.haproxy.configuration import METRICS
from greenlane_serve.measured import Cores, Since, work_of_groups
from greenlane_serve.processes import LogLost
from greenlane_serve.rounds import Service
from greenlane_serve.status import Scrape, Status, status_of
from greenlane_serve.worker.asgi import page_of
from greenlane_serve.worker.ledger import Sums

# A parent that has not looked for this long does not turn. A start of a front, the longest of its steps, may take 10 s.
_ALIVE_S: Final = 15.0


class Live:
    """A `Round`, and what the control socket of the tree shows (`greenlane.control.Controlled`).

    Args:
        kind: of the application, `wsgi` or `asgi`.
    """

    every_s: float = 1.0

    def __init__(self, *, kind: str) -> None:
        self._kind = kind
        self._folder: str | None = None
        self._server: Server | None = None
        self._scrape: Scrape | None = None
        self._since = Since()
        self._cores = Cores()
        self._limits = Limits(threads=kind == "wsgi")
        #: A round of its own.
        self.room = Room(self._limits)
        self._assignment = Assignment()
        self._status: Status = {}
        self._sockets: list[Path] = []
        self._lost = LogLost()
        self._told: Mapping[int, Sums] = {}
        self._alive_path = ""
        self._looked_s = 0.0

    def look(self, service: Service, now_s: float) -> None:
        """Look, set what should be, say how it stands."""
        self._looked_s = now_s
        self._tell_at(service, service.settings.control_dir)
        self._offer(service)
        slots = [slot for group in service.groups.values() for slot in group.of(State.SERVING, State.LEAVING)]
        told = {slot.pid: sums for slot in slots if (sums := service.told(slot)) is not None}
        self._told = told
        rows = service.front.runtime.rows()
        worked = work_of_groups(service, self._since.take(told), self._cores.take(told))
        try:
            self._limits.look(service, worked)
            self._assignment.look(service, worked)
        finally:
            self._status = status_of(service, rows, self._assignment.apart, self._log_lost(service, now_s))

    def close(self) -> None:
        """End the threads. Idempotent."""
        for one in (self._server, self._scrape):
            if one is not None:
                one.stop()
        self._folder = self._server = self._scrape = None

    # -- what is shown

    def served(self) -> Status:
        """How it stands; {} before the first look."""
        return self._status

    def mode(self) -> str:
        """Say that the tree has no permits: its workers do."""
        return "off"

    def set_mode(self, mode: str, route: str | None = None) -> None:
        """Do nothing: workers have control sockets of their own."""

    def counters(self) -> Mapping[str, int]:
        """Give none."""
        return {}

    def learned(self) -> Sequence[Learned]:
        """Give nothing."""
        return []

    def _offer(self, service: Service) -> None:
        """Let Prometheus ask, if the settings say where."""
        sockets = [slot.socket for group in service.groups.values() for slot in group.of(State.SERVING)]
        self._sockets = sockets if self._kind == "wsgi" else [page_of(one) for one in sockets]
        self._alive_path = service.settings.alive_path
        if (service.settings.metrics_path or self._alive_path) and self._scrape is None:
            try:
                self._scrape = Scrape(
                    service.folder, self.served, lambda: self._sockets, lambda: self._told, self._alive
                )
                if (account := account_of(service.settings.user)) is not None:
                    account.give(service.folder / METRICS)
            except OSError as error:
                service.say(f"no metrics: {error}")

    def _alive(self, target: str) -> bool | None:
        if not self._alive_path or target.partition("?")[0] != self._alive_path:
            return None
        return time.monotonic() - self._looked_s < _ALIVE_S

    def _log_lost(self, service: Service, now_s: float) -> int | None:
        """What the access log has lost; logged once a minute."""
        if not service.settings.access_log:
            return None
        lost = service.front.runtime.lost_lines()
        if line := self._lost.line(lost, now_s):
            service.say(line)
        return lost

    def _tell_at(self, service: Service, folder: str) -> None:
        """Listen on a control socket, when that is first needed: other threads only once the tree runs."""
        if self._folder == folder:
            return
        self.close()
        self._folder = folder
        try:
            self._server = Server(self, folder)
            self._server.start()
        except GreenlaneError as error:  # the service goes on without
            service.say(str(error))
        else:
            folders.lead(service.folder, Path(folder, f"{os.getpid()}.sock"))
            service.say(f"see it: greenlane top --control-dir {folder} --pid {os.getpid()}")
