"""The control socket of one process: what it answers. A native thread listens; see `_native.ControlSocket`."""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from greenlane._native import ControlSocket
from greenlane.control.protocol import (
    LISTENS,
    MODES,
    OPEN,
    REQUEST_MAX_BYTES,
    SOCKET_NAME,
    Controlled,
    connecting,
    prepared,
    reason,
)
from greenlane.errors import ControlError, GreenlaneError
from greenlane.threads.unforked import unforked

__all__ = ["Server", "remove_stale"]

#: Fields of a request to attach, and of what type they are.
_ATTACHING = (("record_folder", str), ("control_dir", str), ("record_max_mb", int | float), ("record_stacks", bool))


class Server:
    """The control socket of this process.

    After a fork the child has none until it calls `start()` itself; the parent's is not touched. `start()` and `stop()`
    may be called again and again, by one thread at a time.

    Args:
        controlled: what to show and switch.
        control_dir: directory of the sockets; made with mode 0700 where it is missing.
    """

    def __init__(self, controlled: Controlled, control_dir: str | Path) -> None:
        self._controlled = controlled
        self._directory = Path(control_dir).absolute()
        self._socket: ControlSocket | None = None

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
        if self._socket is not None and self._socket.is_own():
            return
        prepared(self.path)
        remove_stale(self._directory)
        if connecting(self.path) in LISTENS:
            rule = "no other socket of this process id (another container shares the directory)"
            hint = "give each container a control_dir of its own"
            raise ControlError(OPEN, name="path", value=str(self.path), rule=rule, hint=hint)
        try:
            self._socket = ControlSocket(str(self.path), REQUEST_MAX_BYTES, self._answer)
        except (OSError, RuntimeError) as error:  # RuntimeError: no more threads
            rule = f"a place where a socket can be made and served ({reason(error)})"
            hint = "set control_dir to a local directory that the service's user owns"
            raise ControlError(OPEN, name="path", value=str(self.path), rule=rule, hint=hint) from None
        # A process that ends in order leaves no file behind; what is killed leaves one for remove_stale().
        atexit.unregister(self.stop)
        atexit.register(self.stop)

    def stop(self) -> None:
        """Stop listening and remove the socket's file; without effect when it does not listen. Never raises."""
        atexit.unregister(self.stop)
        serving, self._socket = self._socket, None
        if serving is not None:
            serving.stop()

    def _answer(self, line: bytes | None) -> bytes:
        if line is None:
            wrong = f"read a request: expected one line of at most {REQUEST_MAX_BYTES} bytes"
            answer = _refusal(wrong, "send less")
        else:
            answer = _answer(line, self._controlled)
        return json.dumps(answer).encode() + b"\n"


def remove_stale(control_dir: str | Path) -> None:
    """Remove sockets without a listener. What cannot be read or removed is left alone."""
    with contextlib.suppress(OSError):
        for name in os.listdir(control_dir):
            path = Path(control_dir, name)
            if SOCKET_NAME.fullmatch(name) and path.is_socket() and connecting(path) == errno.ECONNREFUSED:
                with contextlib.suppress(OSError):
                    path.unlink()


# --- what is answered ---------------------------------------------------------------------------------------------


def _answer(line: bytes, controlled: Controlled) -> dict[str, object]:
    try:
        request = json.loads(line)
        do = request["do"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return _refusal("read a request: expected a line of JSON", 'send {"do": "show"}')
    try:
        if do == "show":
            shown = {**_describe(controlled), "counters": dict(controlled.counters()), "learned": _rows(controlled)}
            besides = {name: _ask(controlled, what) for name, what in _BESIDES.items()}
            return shown | {name: found for name, found in besides.items() if found is not None}
        if isinstance(do, str) and do in _SWITCHES:
            with unforked():
                return _SWITCHES[do](request, controlled)
    except GreenlaneError as error:
        return _refusal(str(error).partition("\n")[0], error.hint)
    except Exception as error:  # ours, but the client should see it and the process should not
        return _refusal(f"answer a request: {type(error).__name__}: {error}", "report this as a bug of Greenlane")
    return _refusal(
        f"read a request: do={do!r}, expected show, mode, record, attach, detach or breaker",
        "use the Greenlane version of the process",
    )


def _switch(request: Mapping[str, Any], controlled: Controlled) -> dict[str, object]:
    mode, route = request.get("mode"), request.get("route")
    if mode not in MODES:
        return _refusal(f"switch the mode: mode={mode!r}, expected one of {', '.join(MODES)}", "name a mode")
    if route is not None and (not isinstance(route, str) or not route):
        return _refusal(f"switch the mode: route={route!r}, expected a route's name or null", "name a route")
    controlled.set_mode(mode, route)
    return _describe(controlled)


def _record(request: Mapping[str, Any], controlled: Controlled) -> dict[str, object]:
    on, end = request.get("on"), request.get("end", False)
    if not isinstance(on, bool) or not isinstance(end, bool):
        return _refusal(f"switch the recording: on={on!r}, expected true or false", 'send {"do": "record", "on": true}')
    switch = getattr(controlled, "record", None)
    if switch is None:
        return _refusal("switch the recording: nothing records here", "start the service with `greenlane record`")
    switch(on, end)
    return {**_describe(controlled), "record": _ask(controlled, "recorded")}


def _attach(request: Mapping[str, Any], controlled: Controlled) -> dict[str, object]:
    """Record a process that runs, into a folder, or end that."""
    attach, detach = getattr(controlled, "attach", None), getattr(controlled, "detach", None)
    if attach is None or detach is None:
        return _refusal("attach: this process cannot be recorded", "start the service with `greenlane record`")
    if request["do"] == "detach":
        detach(request.get("record_folder"))
        return _describe(controlled)
    wanted = {name: request.get(name) for name, _ in _ATTACHING}
    wrong = next((name for name, kinds in _ATTACHING if not isinstance(wanted[name], kinds)), None)
    if wrong is not None:
        return _refusal(f"attach: {wrong}={wanted[wrong]!r}, expected another type", "use `greenlane record --pid`")
    attach(wanted)
    return {**_describe(controlled), "record": _ask(controlled, "recorded")}


def _breaker(request: Mapping[str, Any], controlled: Controlled) -> dict[str, object]:
    key, wanted = request.get("key"), request.get("state")
    if not isinstance(key, str) or re.search("[\ud800-\udfff]", key):
        return _refusal(f"switch a breaker: key={key!r}, expected a text", "write it as `greenlane top` shows it")
    if wanted not in ("open", "closed"):
        return _refusal(f"switch a breaker: state={wanted!r}, expected open or closed", "name a key and a state")
    switch = getattr(controlled, "breaker", None)
    if switch is None or _ask(controlled, "tasks") is None:
        return _refusal(
            "switch a breaker: no orders are worked off here", "ask a worker that `greenlane celery` started"
        )
    switch(key, wanted == "open")
    return _describe(controlled)


def _ask(controlled: Controlled, what: str) -> object:
    """What a process tells besides; None where it has no such part."""
    asked = getattr(controlled, what, None)
    return None if asked is None else asked()


def _describe(controlled: Controlled) -> dict[str, object]:
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


def _refusal(error: str, hint: str) -> dict[str, object]:
    return {"ok": False, "error": error, "hint": hint}


#: Fields of an answer, and the part that gives them: recording, orders, state of the service, permits.
_BESIDES: Final = {"record": "recorded", "tasks": "tasks", "serve": "served", "turns": "turns", "gang": "gang"}
_SWITCHES: Final = {"mode": _switch, "record": _record, "breaker": _breaker, "attach": _attach, "detach": _attach}
