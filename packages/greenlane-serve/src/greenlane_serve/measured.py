"""What the workers measure, read from their control sockets: CPU and I/O of the requests that have ended.

Workers record (`greenlane.bootstrap_recording`), into a small folder that nobody reads: the recorder's sums by route
are what is wanted, and of a process its I/O *until ready* is known nowhere else. Asking takes up to some 0.2 s a worker
(its thread needs the GIL, the recorder's writer comes round five times a second), so a thread does it; the tree reads
what came last. Workers that are told to rest record nothing meanwhile; when, `spells` says.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from greenlane.control import ask
from greenlane.errors import ControlError
from greenlane.settings import Settings
from greenlane_serve import folders
from greenlane_serve.group import Group, State

__all__ = ["Asking", "Came", "Ended", "Since", "Told", "is_ours", "measuring"]

#: (route, jobs, CPU, I/O until ready in ns) of requests that have ended, as `_native.AtOnce.look` takes it.
Ended = tuple[str, int, int, int]

_EVERY_S: Final = 1.0
_ANSWER_S: Final = 2.0
# What is recorded is thrown away: room for what a writer holds of each of some workers.
_RECORD_MB: Final = 16
_NS_PER_MS: Final = 1_000_000
_MEMORY: Final = Path("/dev/shm")


@contextlib.contextmanager
def measuring(settings: Settings, environ: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Let workers that are started from now on be asked, and measure if anything is set live: by their environment.

    What the settings say themselves (`record_folder`, `control_dir`) stays. Changes `environ`, and puts it back.
    """
    with contextlib.ExitStack() as stack:
        ours: dict[str, str] = {}
        if settings.origins.get("control_dir", "").startswith("flag"):
            ours["GREENLANE_CONTROL_DIR"] = settings.control_dir
        elif not settings.control_dir:
            # Short, since a socket's path has 107 bytes; and no home of others: only its owner may look into it.
            ours["GREENLANE_CONTROL_DIR"] = str(folders.made(stack, Path(tempfile.gettempdir())))
        if not settings.record_folder and (settings.auto_lane or not settings.at_once):
            in_memory = _MEMORY if os.access(_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
            folders.remove_left(in_memory)
            ours["GREENLANE_RECORD_FOLDER"] = str(folders.made(stack, in_memory))
            ours["GREENLANE_RECORD_MAX_MB"] = str(_RECORD_MB)
            ours["GREENLANE_RECORD_STACKS"] = "false"
        before = {name: environ.get(name) for name in ours}
        environ.update(ours)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    environ.pop(name, None)
                else:
                    environ[name] = value


def is_ours(record_folder: str) -> bool:
    """Whether what workers record into this folder is wanted by nobody but us: none is named, or one of `measuring`."""
    return not record_folder or folders.is_ours(Path(record_folder))


class Told(NamedTuple):
    """What a worker has said."""

    at_ns: int
    answer: Mapping[str, Any]
    # It has just been told to measure again: what it has said before is of another time.
    begins: bool = False

    @property
    def measures(self) -> bool:
        """Whether it can."""
        return "record" in self.answer

    @property
    def oldest_s(self) -> float:
        """Age of the oldest request in progress that began since it measures; 0 = none."""
        return float((self.answer.get("record") or {}).get("oldest_s", 0.0))


class Asking:
    """Asks the workers' control sockets once a second, in a thread of its own. `close` ends it.

    Args:
        control_dir: where the sockets are.
        every_s: pause between two rounds.
    """

    def __init__(self, control_dir: str, *, every_s: float = _EVERY_S) -> None:
        self._folder = Path(control_dir)
        self._every_s = every_s
        self._pids: tuple[int, ...] = ()
        # Who should not measure now, and who does not.
        self._resting: frozenset[int] = frozenset()
        self._rests: set[int] = set()
        #: By process id. Replaced, never changed.
        self.told: Mapping[int, Told] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="greenlane-control", daemon=True)
        self._thread.start()

    def of(self, groups: Iterable[Group]) -> None:
        """Ask the workers that serve now."""
        self._pids = tuple(slot.pid for group in groups for slot in group.of(State.SERVING, State.LEAVING))

    def rest(self, pids: Iterable[int]) -> None:
        """Let these not measure until they are not named any more. Only for a recording that nobody else wants."""
        self._resting = frozenset(pids)

    def close(self) -> None:
        """End the thread. Does not wait for an answer that is under way."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            told = {}
            for pid in self._pids:
                with contextlib.suppress(ControlError):  # it boots, has ended, or is too busy: the next round
                    told[pid] = self._ask(pid, self.told.get(pid))
            self._rests.intersection_update(self._pids)
            self.told = told

    def _ask(self, pid: int, before: Told | None) -> Told:
        """What it says now; what it said last, while it rests. A new process measures, until it is told otherwise."""
        rests, should = pid in self._rests, pid in self._resting
        if before is None or not before.measures or not (rests or should):
            return self._told(pid, {"do": "show"})
        if rests and should:
            return before
        told = self._told(pid, {"do": "record", "on": not should})
        self._rests.symmetric_difference_update({pid})
        return told._replace(begins=not should)

    def _told(self, pid: int, request: Mapping[str, object]) -> Told:
        answer = ask(self._folder / f"{pid}.sock", request, timeout_s=_ANSWER_S)
        return Told(time.monotonic_ns(), answer)


class Came(NamedTuple):
    """What has come from a worker between two answers."""

    span_ns: int
    ended: list[Ended]


class Since:
    """Sums since each process's start, turned into what has come since the last call."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, dict[str, Ended]]] = {}

    def take(self, told: Mapping[int, Told]) -> dict[int, Came]:
        """By process; of one that is new nothing, since nobody knows how long that took."""
        came: dict[int, Came] = {}
        kept: dict[int, tuple[int, dict[str, Ended]]] = {}
        for pid, one in told.items():
            before = self._before.get(pid)
            if before is not None and before[0] == one.at_ns:  # no answer since
                kept[pid] = before
                continue
            sums = {row[0]: row for row in _sums(one.answer)}
            kept[pid] = one.at_ns, sums
            if before is not None and not one.begins:
                ended = [_less(row, before[1].get(row[0])) for row in sums.values()]
                came[pid] = Came(one.at_ns - before[0], [row for row in ended if row[1]])
        self._before = kept
        return came


def _sums(answer: Mapping[str, Any]) -> Iterator[Ended]:
    for row in (answer.get("record") or {}).get("routes", ()):
        cpu_ns, io_ns = (round(float(row[name]) * _NS_PER_MS) for name in ("cpu_ms", "io_ms"))
        yield str(row["route"]), int(row["jobs"]), cpu_ns, io_ns


def _less(row: Ended, before: Ended | None) -> Ended:
    if before is None:
        return row
    jobs, cpu_ns, io_ns = (max(0, now - then) for now, then in zip(row[1:], before[1:], strict=True))
    return row[0], jobs, cpu_ns, io_ns
