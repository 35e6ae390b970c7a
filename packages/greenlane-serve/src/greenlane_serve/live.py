"""The round that sets limits and lanes by what the workers measure, and says how it all stands. Once a second.

What is said is what `greenlane top` and Prometheus show: it is made in the tree's thread and read in others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from greenlane.control import Server
from greenlane.errors import GreenlaneError
from greenlane.metrics import Learned
from greenlane.real import start_new_thread
from greenlane_serve import whereabouts
from greenlane_serve.cores import Cores, Got
from greenlane_serve.group import State
from greenlane_serve.haproxy.runtime import Row
from greenlane_serve.limits import Assignment, Limits, Worked
from greenlane_serve.measured import Asking, Came, Since, is_ours
from greenlane_serve.processes import LogLost
from greenlane_serve.resting import Resting
from greenlane_serve.rounds import Service
from greenlane_serve.status import Scrape, Status, status_of
from greenlane_serve.worker.asgi import page_of

__all__ = ["Live"]


class Live:
    """A `Round`, and what the control socket of the tree shows (`greenlane.control.Controlled`).

    Args:
        kind: of the application, `wsgi` or `asgi`.
    """

    every_s: float = 1.0

    def __init__(self, *, kind: str) -> None:
        self._kind = kind
        self._asking: tuple[str, Asking] | None = None
        self._server: Server | None = None
        self._scrape: Scrape | None = None
        self._since = Since()
        self._resting = Resting()
        self._cores = Cores()
        self._limits = Limits(threads=kind == "wsgi")
        self._assignment = Assignment()
        self._status: Status = {}
        self._sockets: list[Path] = []
        self._lost = LogLost()

    def look(self, service: Service, now_s: float) -> None:
        """Look, set what should be, say how it stands."""
        asking = self._asked(service)
        told = asking.told
        self._offer(service)
        rows = service.front.runtime.rows()
        came = self._since.take(told)
        worked = worked_by(service, came, rows, self._cores.take(told))
        blind = bool(told) and not any("record" in one.answer for one in told.values())
        try:
            self._limits.look(service, worked, blind=blind)
            self._assignment.look(service, worked)
            if is_ours(service.settings.record_folder):
                asking.rest(self._resting.look(service, now_s, told, rows))
        finally:
            self._status = status_of(service, rows, self._assignment.apart, self._log_lost(service, now_s))

    def close(self) -> None:
        """End the threads. Idempotent."""
        if self._asking is not None:
            self._asking[1].close()
        for one in (self._server, self._scrape):
            if one is not None:
                one.stop()
        self._asking = self._server = self._scrape = None

    # -- what is shown

    def served(self) -> Status:
        """How it stands; {} before the first look."""
        return self._status

    def mode(self) -> str:
        """Say that the tree has no permits: its workers do."""
        return "off"

    def set_mode(self, mode: str, route: str | None = None) -> None:
        """Do nothing: workers are told through sockets of their own."""

    def counters(self) -> Mapping[str, int]:
        """Give none."""
        return {}

    def learned(self) -> Sequence[Learned]:
        """Give nothing."""
        return []

    def _asked(self, service: Service) -> Asking:
        """Whoever asks the workers, made when it is first needed: other threads only once the tree runs."""
        folder = service.settings.control_dir
        if self._asking is None or self._asking[0] != folder:
            self.close()
            self._asking = folder, Asking(folder)
            self._begin_to_tell(service, folder)
        asking = self._asking[1]
        asking.of(service.groups.values())
        return asking

    def _offer(self, service: Service) -> None:
        """Let Prometheus ask, if the settings say where."""
        sockets = [slot.socket for group in service.groups.values() for slot in group.of(State.SERVING)]
        self._sockets = sockets if self._kind == "wsgi" else [page_of(one) for one in sockets]
        if service.settings.metrics_path and self._scrape is None:
            try:
                self._scrape = Scrape(service.folder, self.served, lambda: self._sockets)
            except OSError as error:
                service.say(f"no metrics: {error}")

    def _log_lost(self, service: Service, now_s: float) -> int | None:
        """What the access log has lost, which is said once a minute."""
        if not service.settings.access_log:
            return None
        lost = service.front.runtime.lost_lines()
        if line := self._lost.line(lost, now_s):
            service.say(line)
        return lost

    def _begin_to_tell(self, service: Service, folder: str) -> None:
        try:
            self._server = Server(self, folder, start_thread=start_new_thread)
            self._server.start()
        except GreenlaneError as error:  # the service goes on without
            service.say(str(error))
        else:
            whereabouts.lead(service.folder, Path(folder, f"{os.getpid()}.sock"))
            service.say(f"see it: greenlane top --control-dir {folder} --pid {os.getpid()}")


def worked_by(
    service: Service, came: Mapping[int, Came], rows: Sequence[Row], got: Mapping[int, Got]
) -> dict[str, Worked]:
    """By group, what its workers told, with how many requests each has at the front now, and what cores they got."""
    current = {(row.backend, row.server): row.current for row in rows}
    worked: dict[str, Worked] = {}
    for name, group in service.groups.items():
        of = [(came[slot.pid], slot) for slot in group.slots if slot.pid in came]
        if of:
            shares = [(one.span_ns, got.get(slot.pid, Got(0.0, 0.0))) for one, slot in of]
            worked[name] = Worked(
                sum(one.span_ns for one, _ in of),
                sum(one.span_ns * current.get((name, slot.name), 0) for one, slot in of),
                [row for one, _ in of for row in one.ended],
                round(sum(span_ns * share.ran for span_ns, share in shares)),
                round(sum(span_ns * share.starved for span_ns, share in shares)),
            )
    return worked
