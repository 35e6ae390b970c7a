"""`greenlane record --pid PID`: records a service that runs, with the processes below it, and leaves it as it was.

The processes let themselves be attached to: they have a control socket, and Greenlane is installed and off in them. On
CPython 3.14 and later others are asked to open one. Processes that the service starts meanwhile are attached to as
they come.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from greenlane.cli.output import Output
from greenlane.cli.record_command import Witness, children
from greenlane.cli.record_live import control_dir_of
from greenlane.cli.record_parts import CONTROL, Parts
from greenlane.cli.record_remote import Remote
from greenlane.control.client import Process, ask, processes
from greenlane.errors import ControlError, GreenlaneError
from greenlane.settings import Settings

__all__ = ["HOW", "Attached"]

_LOOK_S: Final = 0.5
#: Placing the probes takes milliseconds; a busy process lets its socket's thread have the GIL late.
_PLACED_S: Final = 20.0
#: What lets a process be recorded later.
HOW: Final = (
    "add `import greenlane.attachable` to what the service imports and start it with GREENLANE_CONTROL_DIR, "
    "or start it with `greenlane record -- COMMAND`"
)


class Attached:
    """The processes of a service while they are recorded.

    Args:
        pid: the service's, or one process of it.
        parts: where they record to.
        settings: bound of the recording, and whether stacks are looked at.
    """

    def __init__(self, pid: int, parts: Parts, settings: Settings, output: Output) -> None:
        self._pid = pid
        self._output = output
        self._parts = parts
        self._settings = settings
        self._known: dict[int, Process] = {}
        #: Those too whose answer did not come in time: they may record nevertheless.
        self._asked: dict[int, Process] = {}
        self._refused: dict[int, ControlError] = {}
        self._remote: Remote | None = None
        self._directory = _directory_of(pid)

    def record(self, seconds: float | None) -> int:
        """Record for this long, or until Ctrl-C; give how many processes were.

        Raises:
            ControlError: none could be.
        """
        interrupted = contextlib.suppress(KeyboardInterrupt)
        with _interrupted_by_ending(), interrupted, contextlib.ExitStack() as leaving:
            try:
                directory = self._prepare()
                witness = Witness(lambda: self._take_back(self._list_recorded(directory)))
                leaving.callback(witness.dismiss)
                patient_s = time.monotonic() + (_PLACED_S if self._remote else 0.0)
                self._attach(directory)
                while not self._known and self._pid not in self._refused and time.monotonic() < patient_s:
                    time.sleep(_LOOK_S / 10)
                    self._attach(directory)
                if not self._known:
                    raise next(iter(self._refused.values()), self._silent(directory))
                # A busy process is slow to begin.
                until_s = None if seconds is None else time.monotonic() + seconds
                self._output.say(f"greenlane: recording {_named(list(self._known))}; Ctrl-C ends it and leaves them")
                while self._is_alive() and (until_s is None or time.monotonic() < until_s):
                    left_s = _LOOK_S if until_s is None else min(_LOOK_S, until_s - time.monotonic())
                    time.sleep(max(0.0, left_s))
                    self._attach(directory)
            finally:
                self._detach()
        return len(self._known)

    def _prepare(self) -> Path:
        """Gives where they listen."""
        if self._directory is None:
            self._remote = Remote(self._pid)
            directory = self._remote.directory
        else:
            directory = self._directory
        (self._parts.folder / CONTROL).write_text(str(directory), encoding="utf-8")
        if os.geteuid() == 0:  # the processes write there as their own user
            about = Path(f"/proc/{self._pid}").stat()
            os.chown(self._parts.folder, about.st_uid, about.st_gid)
        return directory

    def _attach(self, directory: Path) -> None:
        wanted = {self._pid, *_below(self._pid)}
        if self._remote:
            for pid in sorted(wanted - self._known.keys() - self._refused.keys()):
                try:
                    self._remote.ask(pid)
                except ControlError as error:
                    self._refused[pid] = error
        request = {
            "do": "attach",
            "record_folder": str(self._parts.folder),
            "control_dir": str(directory),
            "record_max_mb": self._settings.record_max_mb,
            "record_stacks": self._settings.record_stacks,
        }
        for process in processes(directory):
            if process.pid in wanted and process.pid not in {*self._known, *self._refused}:
                self._asked[process.pid] = process
                try:
                    ask(process.socket, request, timeout_s=_PLACED_S)
                    self._known[process.pid] = process
                except ControlError as error:
                    self._refused[process.pid] = error
                    self._output.say(f"greenlane: process {process.pid} is not recorded: {error}")

    def _detach(self) -> None:
        self._take_back(self._asked.values())
        if self._remote:
            self._remote.end()

    def _list_recorded(self, directory: Path) -> list[Process]:
        written = self._parts.written()
        return [each for each in processes(directory) if each.pid in written]

    def _take_back(self, attached: Iterable[Process]) -> None:
        request = {"do": "detach", "record_folder": str(self._parts.folder)}
        for each in attached:
            if Path(f"/proc/{each.pid}").exists():
                try:
                    ask(each.socket, request, timeout_s=_PLACED_S)
                except GreenlaneError as error:
                    if Path(f"/proc/{each.pid}").exists():
                        self._output.say(f"greenlane: process {each.pid} may still record: {error}")

    def _silent(self, directory: Path) -> ControlError:
        if self._remote:
            rule = f"a process whose main thread runs Python within {_PLACED_S:g} s"
            hint = "it is in a call of C: send it a request meanwhile"
        else:
            rule = f"a process that lets itself be recorded (neither it nor one below it listens in {directory})"
            hint = HOW
        return ControlError("attach", name="--pid", value=self._pid, rule=rule, hint=hint)

    def _is_alive(self) -> bool:
        return any(Path(f"/proc/{pid}").exists() for pid in {self._pid, *self._known})


def _directory_of(pid: int) -> Path | None:
    """Where the process listens; None: it does not, but can be asked to."""
    if not Path(f"/proc/{pid}").exists():
        raise ControlError("attach", name="--pid", value=pid, rule="a process that runs", hint="`ps` lists them")
    try:
        return control_dir_of(pid)
    except GreenlaneError:
        if Remote.is_possible():
            return None
        rule = "a process that lets itself be recorded (it has no control_dir)"
        raise ControlError("attach", name="--pid", value=pid, rule=rule, hint=HOW) from None


def _below(pid: int) -> set[int]:
    found: set[int] = set()
    level = children(pid)
    while level:
        found.update(level)
        level = [child for each in level for child in children(each)]
    return found


def _named(pids: Sequence[int]) -> str:
    said = ", ".join(map(str, pids[:8])) + (" …" if len(pids) > 8 else "")
    return f"process {said}" if len(pids) == 1 else f"{len(pids)} processes ({said})"


@contextlib.contextmanager
def _interrupted_by_ending() -> Iterator[None]:
    """Let signals that end us end the recording first."""

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
