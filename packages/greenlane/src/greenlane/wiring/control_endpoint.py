"""What the control sockets of this process show and switch: permits, the recording, and orders that are worked off.

Permits and a recording may be told different directories, or the same one, in which a process has one socket only.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from greenlane.control.server import Server
from greenlane.errors import ControlError
from greenlane.threads.unpatched import allocate_lock

if TYPE_CHECKING:
    from greenlane.metrics import Learned

__all__ = ["serve", "withdraw"]

#: Knows the hosts, as we do not: loaded when somebody attaches.
_ATTACHES: Final = "greenlane.hosts.observed.import_trigger"

_lock = allocate_lock()
#: A child that was forked while another thread had the lock would wait for ever.
_PATIENCE_S: Final = 1.0
#: "permits", "record" and "tasks" -> who answers, and the directory of the socket.
_parts: dict[str, tuple[Any, Path]] = {}
_servers: dict[Path, Server] = {}


def serve(directory: str, name: str, part: Any) -> None:
    """Let this process be seen and switched through a socket in `directory`. Again, in a forked child, likewise.

    Raises:
        SettingsError, ControlError: the socket cannot be made.
    """
    where = Path(directory).absolute()
    with _lock_parts():
        if where not in _servers:
            _servers[where] = Server(_Parts(), where)
        try:
            _servers[where].start()
        except BaseException:
            if not any(where == used for _, used in _parts.values()):
                del _servers[where]
            raise
        _parts[name] = part, where


def withdraw(name: str) -> None:
    """Forget a part, and close the socket if no other part uses it. Never raises."""
    with _lock_parts():
        _parts.pop(name, None)
        used = {where for _, where in _parts.values()}
        for where in [where for where in _servers if where not in used]:
            _servers.pop(where).stop()


@contextlib.contextmanager
def _lock_parts() -> Iterator[None]:
    taken = _lock.acquire(timeout=_PATIENCE_S)
    try:
        yield
    finally:
        if taken:
            _lock.release()


class _Parts:
    """The parts together, as `greenlane.control.protocol.Controlled`."""

    def mode(self) -> str:
        permits = _part("permits")
        return "off" if permits is None else str(permits.mode())

    def set_mode(self, mode: str, route: str | None = None) -> None:
        permits = _part("permits")
        if permits is None:
            raise ControlError(
                "switch the mode",
                name="mode",
                value=mode,
                rule="a process with permits",
                hint="this one only records: `greenlane record --on` and `--off` switch that",
            )
        permits.set_mode(mode, route)

    def counters(self) -> Mapping[str, int]:
        permits = _part("permits")
        return {} if permits is None else permits.counters()

    def turns(self) -> Mapping[str, Mapping[str, int]] | None:
        permits = _part("permits")
        return None if permits is None else permits.turns()

    def gang(self) -> Mapping[str, object] | None:
        permits = _part("permits")
        return None if permits is None else permits.gang()

    def learned(self) -> Sequence[Learned]:
        permits = _part("permits")
        return [] if permits is None else permits.learned()

    def record(self, on: bool, end: bool) -> None:
        recording = _part("record")
        if recording is None:
            raise ControlError(
                "switch the recording",
                name="record_folder",
                value="",
                rule="a process that was started with one",
                hint="start the service with `greenlane record -- COMMAND`",
            )
        recording.record(on)
        if end:
            recording.finish()

    def attach(self, settings: Mapping[str, object]) -> None:
        if _part("record") is not None:
            raise ControlError(
                "attach",
                name="pid",
                value=os.getpid(),
                rule="a process that is not recorded already",
                hint="`greenlane record --status PID` shows its recording, `--on` and `--off` switch it",
            )
        importlib.import_module(_ATTACHES).attach(settings)

    def detach(self, folder: object) -> None:
        """End a recording into `folder`; None = any. Another one goes on."""
        recording = _part("record")
        if folder is not None and recording is not None and recording.settings.record_folder != folder:
            return
        importlib.import_module(_ATTACHES).detach()

    def recorded(self) -> dict[str, object] | None:
        recording = _part("record")
        return None if recording is None else recording.shown()

    def tasks(self) -> dict[str, object] | None:
        orders = _part("tasks")
        return None if orders is None else orders.shown()

    def breaker(self, key: str, wanted_open: bool) -> None:
        _part("tasks").breaker(key, wanted_open)


def _part(name: str) -> Any:
    found = _parts.get(name)
    return None if found is None else found[0]
