"""A process's control socket: what `greenlane top` reads and `greenlane mode` switches, live.

`show` of a process that records has a field "record": {"on", "jobs", "in_progress", "oldest_s", "lag_ms_p99",
"busy_ms", "busy_frac", "file_mb", "lost", "failed", "error", "routes": [{"route", "jobs", "mean_ms", "p50_ms",
"p99_ms", "cpu_ms", "io_ms", "wait_ms"}]}; counts and sums since the recording's start, `oldest_s`: age of the oldest
job in progress. `record` with "end": the recording of this process is over for good.

`learned` has a row a (route, phase): {"route", "phase", "samples", "expected_ms", "weight", "pinned", "released_frac"};
a placed function is one with "placement" and "reason" besides.

`show` of `greenlane serve` itself has a field "serve": see `greenlane_serve.status`.

`show` of a process that works off orders has a field "tasks": {"mode", "slots", "running", "parked", "most_parked",
"abandoned", "totals": {name: count}, "keys": [{"key", "running", "parked", "oldest_s", "limit", "breaker", "usual_ms",
"failed_frac", "slow_frac", "started", "ok", "failed", "timed_out", "refused"}]}; `breaker` opens or closes the breaker
of one key by hand.

Each process that is told a `control_dir` listens on `<control_dir>/<pid>.sock`, mode 0600. A connection carries one
request and one answer, a line of JSON each:

    {"do": "show"}                                        -> {"ok": true, "pid", "mode", "counters", "learned": [...]}
    {"do": "mode", "mode": "off", "route": null or text}  -> {"ok": true, "pid", "mode"}
    {"do": "record", "on": true, "end": false}            -> {"ok": true, "pid", "mode", "record"}
    {"do": "breaker", "key": text, "state": "open"}       -> {"ok": true, "pid", "mode"}
    anything else                                         -> {"ok": false, "error", "hint"}

One daemon thread serves one connection after the other, each bounded in size and time; idle, it costs nothing. Nothing
that a client does, and nothing that goes wrong in here, reaches the process that is served.

Why files and connections, not process ids, decide what is alive: containers that share a directory do not see each
other's processes. A socket is made under a private name, listens, and is renamed into place; so a socket in place that
refuses connections belongs to nobody and may be removed.

Why `_socket` and `greenlane.real`: sockets, polls and the thread are the operating system's, also in a process whose
modules gevent replaces, before or later. Green ones would answer only when the loop has time.
"""

from __future__ import annotations

import _socket
import atexit
import contextlib
import errno
import json
import os
import re
import stat
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from select import POLLIN
from typing import Any, Final, Protocol

from greenlane.errors import ControlError, GreenlaneError, SettingsError
from greenlane.fork_warning import mark_thread
from greenlane.metrics import Learned
from greenlane.real import poll, start_new_thread, threads_are_green

__all__ = ["Controlled", "Process", "Server", "ask", "check_directory", "processes"]

MODES: Final = ("on", "observe", "off")

# Linux: sockaddr_un.sun_path holds 108 bytes, the last of them NUL.
PATH_MAX_BYTES: Final = 107
# The largest process id that Linux can be told to give.
PID_MAX: Final = 4_194_304
# A route's name and its frame; arbitrary beyond that.
REQUEST_MAX_BYTES: Final = 8192
# 512 routes of 32 phases are 3 MB; more is no answer of ours.
ANSWER_MAX_BYTES: Final = 64 << 20
# How long one connection may hold the one thread. A client that is no program of ours does not keep the others out.
CONNECTION_S: Final = 1.0
# A client's patience: somebody else's connection, then its own, with the process's threads competing for the GIL.
ANSWER_S: Final = 5.0
# After a failing accept() (no file descriptors left): try again, do not spin.
_PAUSE_MS: Final = 500

# Error numbers of connect() where somebody listens: EAGAIN = and is busy, EACCES = for another user.
_LISTENS: Final = (0, errno.EAGAIN, errno.EACCES)
_OPEN: Final = "open the control socket"
_THREAD_NAME: Final = "greenlane-control"
_SOCKET_NAME: Final = re.compile(r"([1-9]\d*)\.sock")


StartThread = Callable[[Callable[..., None], tuple[Any, ...]], object]


class Controlled(Protocol):
    """What a control socket shows and switches; called on the control thread."""

    def mode(self) -> str:
        """The mode in force."""

    def set_mode(self, mode: str, route: str | None = None) -> None:
        """Switch the process, or one route of it."""

    def counters(self) -> Mapping[str, int]:
        """Counters by name."""

    def learned(self) -> Sequence[Learned]:
        """What is known of each (route, phase)."""


class Server:
    """The control socket of this process.

    After a fork the child has none until it calls `start()` itself; the parent's is not touched. `start()` and `stop()`
    may be called again and again, by one thread at a time.

    Args:
        controlled: what to show and switch.
        control_dir: directory of the sockets; made with mode 0700 where it is missing.
        start_thread: called with a function and its arguments. `real.start_new_thread` makes a thread that `threading`
            does not know; None = one that it knows, unless those are greenlets.
    """

    def __init__(
        self, controlled: Controlled, control_dir: str | Path, *, start_thread: StartThread | None = None
    ) -> None:
        self._start_thread = _start_named if start_thread is None else start_thread
        self._controlled = controlled
        self._directory = Path(control_dir)
        self._listening: _Listening | None = None

    @property
    def path(self) -> Path:
        """The socket of this process, whether it listens or not."""
        return self._directory / f"{os.getpid()}.sock"

    def start(self) -> None:
        """Listen; without effect when it does already.

        Raises:
            SettingsError: the directory cannot be used or its name is too long.
            ControlError: the socket cannot be made, or another process has it.
        """
        if self._listening is not None and self._listening.pid == os.getpid():
            return
        _prepare(self.path)
        remove_stale(self._directory)
        listening = _listen(self.path)
        _forget_after_fork(self)
        try:
            self._start_thread(_serve, (listening, self._controlled))
        except RuntimeError as error:  # no more threads
            listening.end()
            listening.close()
            raise _unmade(self.path, error) from None
        self._listening = listening
        # A process that ends in order leaves no file behind; what is killed leaves one for remove_stale().
        atexit.register(self.stop)

    def stop(self) -> None:
        """Stop listening and remove the socket's file; without effect when it does not listen. Never raises."""
        atexit.unregister(self.stop)
        listening, self._listening = self._listening, None
        if listening is not None and listening.pid == os.getpid():
            listening.end()

    def _after_fork(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()


@dataclass(frozen=True)
class Process:
    """A process that has a control socket."""

    pid: int
    socket: Path


def processes(control_dir: str | Path) -> list[Process]:
    """The processes that listen in the directory, by process id; sockets that dead ones left are not among them.

    Raises:
        ControlError: the directory cannot be read.
    """
    try:
        names = os.listdir(control_dir)
    except (OSError, ValueError) as error:
        raise ControlError(
            "list the processes",
            name="control_dir",
            value=str(control_dir),
            rule=f"a directory that can be read ({_reason(error)})",
            hint="start a service with this control_dir, as the same user",
        ) from None
    matches = (_SOCKET_NAME.fullmatch(name) for name in names)
    found = [Process(int(match[1]), Path(control_dir, match[0])) for match in matches if match]
    return sorted((each for each in found if _connecting(each.socket) in _LISTENS), key=lambda process: process.pid)


def ask(path: str | Path, request: Mapping[str, object], *, timeout_s: float = ANSWER_S) -> dict[str, Any]:
    """The answer of the process behind a control socket.

    Raises:
        ControlError: nobody listens, no answer in time, no answer of ours, or a refusal (with its reason and hint).
    """
    until = time.monotonic() + timeout_s
    try:
        with _Socket(_socket.AF_UNIX, _socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(os.fspath(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            line = _line(connection, until, ANSWER_MAX_BYTES)
        answer = json.loads(line)
    except TimeoutError:
        raise _unreached(path, f"an answer within {timeout_s:g} s", "try again, or look whether it hangs") from None
    except OSError as error:
        raise _unreached(
            path, f"a running process ({_reason(error)})", "start the service again, or ask another process"
        ) from None
    except (ValueError, RecursionError):
        raise _unreached(path, "an answer in JSON", "use the Greenlane version of the process") from None
    if not isinstance(answer, dict) or answer.get("ok") is not True:
        told = answer if isinstance(answer, dict) else {}
        raise ControlError(str(told.get("error", "ask a process: no answer of ours")), hint=str(told.get("hint", "")))
    return answer


def check_directory(control_dir: str | Path) -> None:
    """Refuse a directory in which no process could make its socket; makes nothing.

    Raises:
        SettingsError: its name is too long, it is no directory, others may write to it, or we may not.
    """
    directory = Path(control_dir)
    _check_length(directory / f"{PID_MAX}.sock")
    try:
        mode = directory.stat().st_mode
    except FileNotFoundError:
        return _check_parents(directory)
    except (OSError, ValueError) as error:
        raise _unusable(directory, error) from None
    _check_mode(directory, mode)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise _unusable(directory, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def remove_stale(control_dir: str | Path) -> None:
    """Remove the sockets that nobody listens on any more. What cannot be read or removed is left alone."""
    with contextlib.suppress(OSError):
        for name in os.listdir(control_dir):
            path = Path(control_dir, name)
            if _SOCKET_NAME.fullmatch(name) and path.is_socket() and _connecting(path) == errno.ECONNREFUSED:
                with contextlib.suppress(OSError):
                    path.unlink()


class _Socket(_socket.socket):
    """A socket of the operating system, also where green threads have replaced `socket.socket` by theirs."""

    def __enter__(self) -> _Socket:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def accept(self) -> tuple[_Socket, object]:
        """As in `socket.socket`."""
        descriptor, address = self._accept()  # type: ignore[attr-defined] # what `socket.socket.accept` calls
        return _Socket(fileno=descriptor), address


# --- making the socket --------------------------------------------------------------------------------------------


class _Listening:
    """A listening socket with its file and the means to end its thread."""

    def __init__(self, listener: _Socket, path: Path, inode: int) -> None:
        self.pid = os.getpid()
        self.listener = listener
        self.ended, self._end = _socket.socketpair()
        self._path = path
        self._inode = inode

    def end(self) -> None:
        """Remove the file, then let the thread end; it closes the sockets."""
        with contextlib.suppress(OSError):
            if os.lstat(self._path).st_ino == self._inode:
                self._path.unlink()
        self._end.close()

    def close(self) -> None:
        """Give up the file descriptors: in the thread when it ends, in a forked child at once."""
        for each in (self.listener, self.ended, self._end):
            each.close()


def _listen(path: Path) -> _Listening:
    if _connecting(path) in _LISTENS:
        rule = "no other socket of this process id (another container shares the directory)"
        hint = "give each container a control_dir of its own"
        raise ControlError(_OPEN, name="path", value=str(path), rule=rule, hint=hint)
    private = path.with_name(f".{os.getpid()}.new")  # as long as the name in place, so it fits as well
    listener = _Socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        private.unlink(missing_ok=True)
        listener.bind(os.fspath(private))
        # Before listen(): until then connect() is refused, so there is no moment at which others may come in.
        os.chmod(private, 0o600)
        listener.listen(8)
        # accept() must not block when the client has gone between poll() and accept().
        listener.setblocking(False)
        inode = os.lstat(private).st_ino
        os.rename(private, path)
        return _Listening(listener, path, inode)
    except OSError as error:
        listener.close()
        with contextlib.suppress(OSError):
            private.unlink(missing_ok=True)
        raise _unmade(path, error) from None


def _prepare(path: Path) -> None:
    """Makes the directory of a socket, or refuses it."""
    _check_length(path)
    directory = path.parent
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        mode = directory.stat().st_mode
    except (OSError, ValueError) as error:
        raise _unusable(directory, error) from None
    _check_mode(directory, mode)


def _check_length(path: Path) -> None:
    length = len(os.fsencode(path))
    if length > PATH_MAX_BYTES:
        rule = f"a directory that leaves {path.name} at most {PATH_MAX_BYTES} bytes in all (it has {length})"
        hint = "use a shorter directory, such as /run/greenlane"
        raise SettingsError("control_dir", str(path.parent), rule, hint, attempted=_OPEN)


def _check_mode(directory: Path, mode: int) -> None:
    if not stat.S_ISDIR(mode):
        hint = "name a directory; it is made where it is missing"
        raise SettingsError("control_dir", str(directory), "a directory", hint, attempted=_OPEN)
    if mode & 0o022:
        # Others could put their own socket where somebody expects ours.
        rule = f"a directory that only its owner may write to (its mode is {stat.S_IMODE(mode):o})"
        hint = f"use {directory / 'greenlane'}: it is made with mode 700"
        raise SettingsError("control_dir", str(directory), rule, hint, attempted=_OPEN)


def _check_parents(directory: Path) -> None:
    there = next(parent for parent in directory.absolute().parents if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise _unusable(directory, PermissionError(errno.EACCES, f"{there} is not writable"))


def _unusable(directory: Path, error: Exception) -> SettingsError:
    rule = f"a directory that can be made and written to ({_reason(error)})"
    hint = "use a directory that the service's user owns"
    return SettingsError("control_dir", str(directory), rule, hint, attempted=_OPEN)


def _connecting(path: Path) -> int:
    """The error number of connecting; ECONNREFUSED at a socket = nobody listens any more."""
    with _Socket(_socket.AF_UNIX, _socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(os.fspath(path))


# --- serving ------------------------------------------------------------------------------------------------------


def _start_named(function: Callable[..., None], args: tuple[Any, ...]) -> None:
    if threads_are_green():
        start_new_thread(function, args)
    else:
        threading.Thread(target=function, args=args, name=_THREAD_NAME, daemon=True).start()


def _serve(listening: _Listening, controlled: Controlled) -> None:
    mark_thread()
    try:
        while _wait(listening):
            _accept(listening, controlled)
    except Exception:
        # The guest's threading.excepthook is the guest's. Without this socket it runs as well as before.
        pass
    finally:
        listening.close()


def _wait(listening: _Listening) -> bool:
    """Until a client comes; False = stop."""
    waiting = poll()
    waiting.register(listening.ended, POLLIN)
    waiting.register(listening.listener, POLLIN)
    return all(descriptor != listening.ended.fileno() for descriptor, _ in waiting.poll())


def _accept(listening: _Listening, controlled: Controlled) -> None:
    try:
        connection, _ = listening.listener.accept()
    except (BlockingIOError, ConnectionError):
        return
    except OSError:
        waiting = poll()
        waiting.register(listening.ended, POLLIN)
        waiting.poll(_PAUSE_MS)
        return
    with connection, contextlib.suppress(OSError):
        _converse(connection, controlled)


def _converse(connection: _Socket, controlled: Controlled) -> None:
    until = time.monotonic() + CONNECTION_S
    try:
        line = _line(connection, until, REQUEST_MAX_BYTES)
    except ValueError:
        answer = _refused(f"read a request: expected one line of at most {REQUEST_MAX_BYTES} bytes", "send less")
    else:
        if not line:
            return
        answer = _answer(line, controlled)
    connection.settimeout(CONNECTION_S)
    connection.sendall(json.dumps(answer).encode() + b"\n")


def _line(connection: _Socket, until: float, most: int) -> bytes:
    """One line, or what came before the end; TimeoutError after `until`, ValueError when it is longer than `most`."""
    pieces: list[bytes] = []
    size = 0
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        piece = connection.recv(65_536)
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise ValueError(f"over {most} bytes")
        if not piece or b"\n" in piece:
            return b"".join(pieces).partition(b"\n")[0]


def _answer(line: bytes, controlled: Controlled) -> dict[str, object]:
    try:
        request = json.loads(line)
        do = request["do"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return _refused("read a request: expected a line of JSON", 'send {"do": "show"}')
    try:
        if do == "show":
            shown = {**_told(controlled), "counters": dict(controlled.counters()), "learned": _rows(controlled)}
            served = getattr(controlled, "served", None)
            told = {"record": _recorded(controlled), "tasks": _tasks(controlled), "serve": served and served()}
            return shown | {name: found for name, found in told.items() if found is not None}
        if do == "mode":
            return _switch(request, controlled)
        if do == "record":
            return _record(request, controlled)
        if do == "breaker":
            return _breaker(request, controlled)
    except GreenlaneError as error:
        return _refused(str(error).partition("\n")[0], error.hint)
    except Exception as error:  # ours, but the client should see it and the process should not
        return _refused(f"answer a request: {type(error).__name__}: {error}", "report this as a bug of Greenlane")
    return _refused(
        f"read a request: do={do!r}, expected show, mode, record or breaker", "use the Greenlane version of the process"
    )


def _switch(request: Mapping[str, Any], controlled: Controlled) -> dict[str, object]:
    mode, route = request.get("mode"), request.get("route")
    if mode not in MODES:
        return _refused(f"switch the mode: mode={mode!r}, expected one of {', '.join(MODES)}", "name a mode")
    if route is not None and (not isinstance(route, str) or not route):
        return _refused(f"switch the mode: route={route!r}, expected a route's name or null", "name a route")
    controlled.set_mode(mode, route)
    return _told(controlled)


def _record(request: Mapping[str, Any], controlled: Controlled) -> dict[str, object]:
    on, end = request.get("on"), request.get("end", False)
    if not isinstance(on, bool) or not isinstance(end, bool):
        return _refused(f"switch the recording: on={on!r}, expected true or false", 'send {"do": "record", "on": true}')
    switch = getattr(controlled, "record", None)
    if switch is None:
        return _refused("switch the recording: nothing records here", "start the service with `greenlane record`")
    switch(on, end)
    return {**_told(controlled), "record": _recorded(controlled)}


def _breaker(request: Mapping[str, Any], controlled: Controlled) -> dict[str, object]:
    key, wanted = request.get("key"), request.get("state")
    if not isinstance(key, str) or re.search("[\ud800-\udfff]", key):
        return _refused(f"switch a breaker: key={key!r}, expected a text", "write it as `greenlane top` shows it")
    if wanted not in ("open", "closed"):
        return _refused(f"switch a breaker: state={wanted!r}, expected open or closed", "name a key and a state")
    switch = getattr(controlled, "breaker", None)
    if switch is None or _tasks(controlled) is None:
        return _refused("switch a breaker: no orders are worked off here", "ask a worker that `greenlane work` started")
    switch(key, wanted == "open")
    return _told(controlled)


def _tasks(controlled: Controlled) -> object:
    """What orders do here; None where the process works off none."""
    tasks = getattr(controlled, "tasks", None)
    return None if tasks is None else tasks()


def _recorded(controlled: Controlled) -> object:
    """What is recorded; None where the process has no recorder."""
    recorded = getattr(controlled, "recorded", None)
    return None if recorded is None else recorded()


def _told(controlled: Controlled) -> dict[str, object]:
    return {"ok": True, "pid": os.getpid(), "mode": controlled.mode()}


def _rows(controlled: Controlled) -> list[dict[str, object]]:
    names = ("route", "phase", "samples", "expected_ms", "weight", "pinned", "released_frac")
    rows = []
    for row in controlled.learned():
        shown = {name: getattr(row, name) for name in names}
        if getattr(row, "placement", ""):  # a placed function
            shown |= {name: getattr(row, name) for name in ("placement", "reason")}
        rows.append(shown)
    return rows


def _refused(error: str, hint: str) -> dict[str, object]:
    return {"ok": False, "error": error, "hint": hint}


def _unmade(path: Path, error: Exception) -> ControlError:
    rule = f"a place where a socket can be made and served ({_reason(error)})"
    hint = "set control_dir to a local directory that the service's user owns"
    return ControlError(_OPEN, name="path", value=str(path), rule=rule, hint=hint)


def _unreached(path: str | Path, rule: str, hint: str) -> ControlError:
    return ControlError("ask a process", name="socket", value=str(path), rule=rule, hint=hint)


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


# --- fork ---------------------------------------------------------------------------------------------------------

_servers: weakref.WeakSet[Server] = weakref.WeakSet()
_registered = False


def _forget_after_fork(server: Server) -> None:
    """Close the inherited socket in forked children: the parent's clients would hang on it once the parent is gone."""
    global _registered
    _servers.add(server)
    if not _registered:
        _registered = True
        os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    for server in list(_servers):
        server._after_fork()
