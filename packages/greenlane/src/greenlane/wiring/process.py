"""Settings, probes and permits of one process, put together for its host.

Hosts call `start` once a process and then `Running.open` and `Running.close` around each job. Everything else here is
set-up and take-down. What a process may do without is loaded when its settings ask for it: the control socket, the
recording.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from greenlane import deadline, phase, probes
from greenlane.errors import PlatformError
from greenlane.lanes.permits import LearnedRow, Permits, learned_rows, make_permits
from greenlane.lanes.rules import LaneLimits, LaneRules
from greenlane.policy.permits import MAX_ROUTES
from greenlane.probes import deadline_out
from greenlane.probes.patching import Patches
from greenlane.probes.routes import shape
from greenlane.settings import Settings, load
from greenlane.threads import fork_warning
from greenlane.wiring import gang

__all__ = [
    "LANE_KEY",
    "Running",
    "check_platform",
    "add_counters",
    "add_learner",
    "running",
    "send_deadlines",
    "start",
]

#: Under which a WSGI environ has the lane that the front of `greenlane serve` has told; absent = none.
LANE_KEY: Final = "HTTP_X_GREENLANE_LANE"

_lock = threading.Lock()
_running: Running | None = None
_fork_hooks_set = False
_more_counters: list[Callable[[], Mapping[str, int]]] = []
_more_learned: list[Callable[[], Sequence[LearnedRow]]] = []


def start(settings: Settings | None = None, *, host: str, worker_index: int = 0) -> Running:
    """Start Greenlane in this process, or give what runs already.

    Args:
        settings: None = `greenlane.toml`, environment. Ignored when Greenlane runs already.
        host: the caller, for messages.
        worker_index: which worker of its siblings this is, from 0: decides who is a canary.

    Raises:
        GreenlaneError: settings, platform, or a host that cannot work (gevent has patched it).

    Cost: some milliseconds; starts a daemon thread, if `control_dir` is set.
    """
    global _running
    with _lock:
        if _running is None:
            check_platform()
            _running = Running(load() if settings is None else settings, host=host, worker_index=worker_index)
        return _running


def add_counters(counters: Callable[[], Mapping[str, int]]) -> None:
    """Count these, too, among the counters of the process."""
    _more_counters.append(counters)


def send_deadlines(settings: Settings) -> None:
    """Let upstream calls of this process carry the time that is left, where the settings say so. Idempotent."""
    if settings.deadline_out:
        deadline_out.install()


def add_learner(rows: Callable[[], Sequence[LearnedRow]]) -> None:
    """Show these rows, too, with what the permits have learned."""
    _more_learned.append(rows)


def running() -> Running | None:
    """Give what runs in this process; None before `start` and after `stop`."""
    return _running


def check_platform() -> None:
    """Raise PlatformError unless this is CPython 3.11 or later on Linux."""
    if sys.platform != "linux" or platform.python_implementation() != "CPython" or sys.version_info < (3, 11):
        found = f"{platform.python_implementation()} {platform.python_version()} on {sys.platform}"
        raise PlatformError(
            "start Greenlane",
            name="platform",
            value=found,
            rule="CPython 3.11 or later on Linux",
            hint="run the service without Greenlane there",
        )


class Running:
    """Greenlane in this process. Made by `start`."""

    def __init__(self, settings: Settings, *, host: str, worker_index: int) -> None:
        """Wire everything; see `start`."""
        self.settings = settings
        self.host = host
        self._rules = LaneRules(settings)
        self.limits = LaneLimits(self._rules, settings)
        self.deadline_names = deadline.environ_names(settings.deadline_headers)
        self.permits = self._permits = make_permits(settings, mode=_mode_of(settings, worker_index))
        self._lanes_from_front = False
        self._observer = _Observer(self._permits, self._rules)
        self._permits.read_requests(
            deadlines=self.deadline_names, due=self.due_ns, always=self._rules.any, shape=self._shape()
        )
        # Whether a route may be on while the process is off.
        self._own_modes = any(lane.mode for lane in settings.lanes)
        self._host_probes: list[Patches] = []
        try:
            self._listen()
            if settings.record_folder:
                from greenlane.wiring.recording import start_recording

                start_recording(settings)
        except BaseException:
            self._take_probes()
            self._withdraw()
            raise
        if settings.mode != "off" or self._own_modes:
            self._give_probes()
        phase.offer(self._permits, first=True)
        #: Opens a job on this thread for a request, by its WSGI environ and its arrival in monotonic ns (0 = now): its
        #: first phase may wait, bounded, for a permit. False: the thread runs a job already and this one belongs to it,
        #: or the mode is off. Do not close then.
        self.open: Callable[[dict[str, object], int], bool]
        self._set_state(stopped=False, asleep=False)
        _set_fork_hooks()
        self.close = self._permits.close
        self.deadline_ns = self._permits.deadline_ns
        self.pause = self._permits.pause
        self.pressure = self._permits.pressure
        self.gang = gang.shown

    def add_host_probes(self, probes_of_host: Patches) -> None:
        """Let a host's own probes come and go with those of the permits. Idempotent."""
        if probes_of_host not in self._host_probes:
            self._host_probes.append(probes_of_host)
        if self._observer in phase.subscribers():
            probes_of_host.install()

    def due_ns(self, environ: Mapping[str, object], arrival_ns: int) -> int:
        """Give when a request is due by its headers, as a WSGI environ has them, or by its lane; 0 = never."""
        due_ns = deadline.due_ns(environ, self.deadline_names, arrival_ns)
        if self._rules.any:
            if self._lanes_from_front:
                lane_due_ns = self._rules.due_ns_of(str(environ.get(LANE_KEY, "")), arrival_ns)
            else:
                lane_due_ns = self._rules.due_ns(str(environ.get("PATH_INFO", "")), arrival_ns)
            due_ns = min(due_ns, lane_due_ns) if due_ns and lane_due_ns else due_ns or lane_due_ns
        return due_ns

    def take_lanes_from_front(self) -> None:
        """From now on the front of `greenlane serve` names a request's lane: no other peer reaches this process."""
        self._lanes_from_front = True

    def open_task(self, name: str, arrival_ns: int, due_ns: int) -> bool:
        """Open a job on this thread for a task; see `open`. `name` is its route."""
        if self._asleep:
            self._wake()
        if self._stopped:
            return False
        return self._permits.open(arrival_ns, due_ns, self._observer.known(name))

    def mode(self) -> str:
        """Give the mode of this process: "on", "observe" or "off"."""
        return self._permits.mode()

    def set_mode(self, mode: str, route: str | None = None) -> None:
        """Switch this process, or one route, live. Waiting phases go on at once unless the new mode is "on".

        "off" for the whole process takes the probes out as well, unless routes or lanes have modes of their own.
        """
        self._permits.set_mode(mode, route)
        self._own_modes = self._own_modes or route is not None
        if mode != "off" or self._own_modes:
            self._give_probes()
        else:
            self._take_probes()

    def counters(self) -> dict[str, int]:
        """Give the counters by name; see `greenlane.metrics`."""
        counted = self._permits.counters()
        for each in _more_counters:
            counted.update(each())
        return counted

    def turns(self) -> dict[str, dict[str, int]]:
        """Give the counters of each route whose phases were heavy; see `greenlane.metrics`."""
        return self._permits.turns()

    def learned(self) -> list[LearnedRow]:
        """Give what is known of each (route, phase)."""
        rows = learned_rows(self._permits)
        for each in _more_learned:
            besides = each()
            known = {(row.route, row.phase) for row in besides}
            rows = [row for row in rows if (row.route, row.phase) not in known] + list(besides)
        return rows

    def stop(self) -> None:
        """Take Greenlane out of this process: nothing is patched and no thread waits afterwards. Never raises."""
        global _running
        with _lock:
            if _running is self:
                _running = None
        self._set_state(stopped=True, asleep=False)
        self._permits.set_mode("off")
        phase.withdraw(self._permits)
        self._take_probes()
        self._withdraw()

    def _withdraw(self) -> None:
        if self.settings.control_dir:
            from greenlane.wiring import control_endpoint

            control_endpoint.withdraw("permits")

    def _give_probes(self) -> None:
        probes.install()
        send_deadlines(self.settings)
        for each in self._host_probes:
            each.install()
        phase.subscribe(self._observer)
        gang.start(self.settings, self.mode())

    def _take_probes(self) -> None:
        gang.stop()
        phase.unsubscribe(self._observer)
        for each in self._host_probes:
            each.uninstall()
        deadline_out.uninstall()
        if not phase.subscribers():  # else a recording hears them
            probes.uninstall()

    def _after_fork_in_child(self) -> None:
        self._permits.forked()
        self.limits.forked()
        # A child that runs another program gets none of our threads; one that stays gets them with its first job.
        if not self._stopped:
            self._set_state(stopped=False, asleep=True)

    def _set_state(self, *, stopped: bool, asleep: bool) -> None:
        """Stopped, or asleep in a forked child until its first job; `open` is that state's."""
        self._stopped, self._asleep = stopped, asleep
        self.open = _open_nothing if stopped else self._open_awake if asleep else self._permits.open_request

    def _open_awake(self, environ: dict[str, object], arrival_ns: int) -> bool:
        self._wake()
        return self.open(environ, arrival_ns)

    def _wake(self) -> None:
        """Start, in a forked child, what its parent has."""
        self._set_state(stopped=self._stopped, asleep=False)
        # What cannot be started is missing; the program runs on.
        with contextlib.suppress(Exception):
            self._listen()

    def _shape(self) -> Callable[[str, str], str]:
        """Give what names a request; lanes want to hear of its name."""
        return (lambda method, path: self._observer.known(shape(method, path))) if self._rules.any else shape

    def _listen(self) -> None:
        if self.settings.control_dir:
            from greenlane.wiring import control_endpoint

            control_endpoint.serve(self.settings.control_dir, "permits", self)


class _Observer:
    """Phase events to the permits; what lanes say of a route is applied when it is first named."""

    #: See `phase.subscribe`.
    jobs_only = True

    def __init__(self, permits: Permits, rules: LaneRules) -> None:
        self.leave = permits.leave
        self.enter = permits.enter
        self.pin = permits.pin
        self._permits = permits
        self._rules = rules
        self._seen: set[str] = set()
        self._name = permits.name

    def name(self, route: str, /) -> None:
        """File this thread's job under the framework's route."""
        self._name(self.known(route))

    def known(self, route: str) -> str:
        """Give `route` back, after its lane's pin and mode have been applied if it is new."""
        if self._rules.any and route not in self._seen and len(self._seen) < MAX_ROUTES:
            self._seen.add(route)
            self._rules.apply_to(route, self._permits.pin, self._permits.set_mode)
        return route


def _open_nothing(_environ: dict[str, object], _arrival_ns: int) -> bool:
    return False


def _mode_of(settings: Settings, worker_index: int) -> str:
    """Spread `canary_frac` of the workers evenly over their indices; the others observe."""
    if settings.mode != "on":
        return settings.mode
    share = settings.canary_frac
    chosen = int((worker_index + 1) * share + 1e-9) > int(worker_index * share + 1e-9)
    return "on" if chosen else "observe"


def _set_fork_hooks() -> None:
    global _fork_hooks_set
    if not _fork_hooks_set:
        _fork_hooks_set = True
        fork_warning.watch()
        os.register_at_fork(after_in_child=_restart_in_child)


def _restart_in_child() -> None:
    if _running is not None:
        _running._after_fork_in_child()
