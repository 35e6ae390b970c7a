"""The socket of one process: a thread that answers one connection after the other."""

from __future__ import annotations

import _socket
import atexit
import contextlib
import errno
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from select import POLLIN
from typing import Any, Final

from greenlane._native import Descriptor
from greenlane.control.protocol import (
    LISTENS,
    MODES,
    OPEN,
    REQUEST_MAX_BYTES,
    SOCKET_NAME,
    Controlled,
    Socket,
    StartThread,
    connecting,
    prepared,
    read_line,
    reason,
)
from greenlane.errors import ControlError, GreenlaneError
from greenlane.threads.fork_warning import mark_thread
from greenlane.threads.unpatched import poll, signals_blocked, start_new_thread, threads_are_green

__all__ = ["Server", "remove_stale"]

# How long one connection may hold the one thread. A client that is no program of ours does not keep the others out.
CONNECTION_S: Final = 1.0
# After a failing accept() (no file descriptors left): try again, do not spin.
_PAUSE_MS: Final = 500

_THREAD_NAME: Final = "greenlane-control"


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
        prepared(self.path)
        remove_stale(self._directory)
        listening = _listen(self.path)
        try:
            self._start_thread(_serve, (listening, self._controlled, self._lost))
        except RuntimeError as error:  # no more threads
            listening.end()
            listening.close()
            raise _unmade(self.path, error) from None
        atexit.unregister(self.stop)
        self._listening = listening
        # A process that ends in order leaves no file behind; what is killed leaves one for remove_stale().
        atexit.register(self.stop)

    def stop(self) -> None:
        """Stop listening and remove the socket's file; without effect when it does not listen. Never raises."""
        atexit.unregister(self.stop)
        listening, self._listening = self._listening, None
        if listening is not None and listening.pid == os.getpid():
            listening.end()

    def _lost(self, listening: _Listening) -> None:
        """The program has closed the socket with all descriptors that it did not know: make another."""
        if self._listening is listening:
            self._listening = None
            self.start()


def remove_stale(control_dir: str | Path) -> None:
    """Remove the sockets that nobody listens on any more. What cannot be read or removed is left alone."""
    with contextlib.suppress(OSError):
        for name in os.listdir(control_dir):
            path = Path(control_dir, name)
            if SOCKET_NAME.fullmatch(name) and path.is_socket() and connecting(path) == errno.ECONNREFUSED:
                with contextlib.suppress(OSError):
                    path.unlink()


# --- making the socket --------------------------------------------------------------------------------------------


class _Listening:
    """A listening socket with its file and the means to end its thread.

    The program may close its descriptors, and use their numbers again. Forked children have none of them.
    """

    def __init__(self, listener: Socket, path: Path, inode: int) -> None:
        self.pid = os.getpid()
        ended, end = _socket.socketpair()
        self.listener, self.ended, self._end = (Descriptor(each.detach()) for each in (listener, ended, end))
        self._path = path
        self._inode = inode

    def is_ours(self) -> bool:
        """Whether the program has left the descriptors alone."""
        return self.listener.is_ours() and self.ended.is_ours()

    def accept(self) -> Socket:
        """Give the next connection; as `socket.accept`."""
        listener = Socket(fileno=self.listener.fileno())
        try:
            return listener.accept()[0]
        finally:
            listener.detach()

    def end(self) -> None:
        """Remove the file, then let the thread end; it closes the sockets."""
        with contextlib.suppress(OSError):
            if os.lstat(self._path).st_ino == self._inode:
                self._path.unlink()
        self._end.close()

    def close(self) -> None:
        """Give up the descriptors."""
        for each in (self.listener, self.ended, self._end):
            each.close()


def _listen(path: Path) -> _Listening:
    if connecting(path) in LISTENS:
        rule = "no other socket of this process id (another container shares the directory)"
        hint = "give each container a control_dir of its own"
        raise ControlError(OPEN, name="path", value=str(path), rule=rule, hint=hint)
    private = path.with_name(f".{os.getpid()}.new")  # as long as the name in place, so it fits as well
    listener = Socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
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


# --- serving ------------------------------------------------------------------------------------------------------


def _start_named(function: Callable[..., None], args: tuple[Any, ...]) -> None:
    if threads_are_green():
        start_new_thread(function, args)
    else:
        with signals_blocked():
            threading.Thread(target=function, args=args, name=_THREAD_NAME, daemon=True).start()


def _serve(listening: _Listening, controlled: Controlled, lost: Callable[[_Listening], None]) -> None:
    mark_thread()
    # The guest's threading.excepthook is the guest's. Without this socket it runs as well as before.
    with contextlib.suppress(Exception):
        try:
            while _wait(listening):
                _accept(listening, controlled)
        finally:
            was_ours = listening.is_ours()
            listening.close()
        if not was_ours:
            lost(listening)


def _wait(listening: _Listening) -> bool:
    """Until a client comes; False = stop, or the program has closed our descriptors."""
    waiting = poll()
    waiting.register(listening.ended, POLLIN)
    waiting.register(listening.listener, POLLIN)
    heard = dict(waiting.poll())
    return listening.ended.fileno() not in heard and listening.is_ours()


def _accept(listening: _Listening, controlled: Controlled) -> None:
    try:
        connection = listening.accept()
    except (BlockingIOError, ConnectionError):
        return
    except OSError:
        waiting = poll()
        waiting.register(listening.ended, POLLIN)
        waiting.poll(_PAUSE_MS)
        return
    with connection, contextlib.suppress(OSError):
        _converse(connection, controlled)


def _converse(connection: Socket, controlled: Controlled) -> None:
    until = time.monotonic() + CONNECTION_S
    try:
        line = read_line(connection, until, REQUEST_MAX_BYTES)
    except ValueError:
        answer = _refused(f"read a request: expected one line of at most {REQUEST_MAX_BYTES} bytes", "send less")
    else:
        if not line:
            return
        answer = _answer(line, controlled)
    connection.settimeout(CONNECTION_S)
    connection.sendall(json.dumps(answer).encode() + b"\n")


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
    rule = f"a place where a socket can be made and served ({reason(error)})"
    hint = "set control_dir to a local directory that the service's user owns"
    return ControlError(OPEN, name="path", value=str(path), rule=rule, hint=hint)
