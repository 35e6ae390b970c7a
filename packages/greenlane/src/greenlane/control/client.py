"""Commands ask processes: which ones listen in a directory, and what one of them answers."""

from __future__ import annotations

import _socket
import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from greenlane.control.protocol import ANSWER_MAX_BYTES, LISTENS, SOCKET_NAME, connecting, reason
from greenlane.errors import ControlError

__all__ = ["ANSWER_S", "Process", "ask", "processes"]

# A client's patience: somebody else's connection, then its own, with the process's threads competing for the GIL.
ANSWER_S: Final = 5.0


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
            rule=f"a directory that can be read ({reason(error)})",
            hint="start a service with this control_dir, as the same user",
        ) from None
    matches = (SOCKET_NAME.fullmatch(name) for name in names)
    found = [Process(int(match[1]), Path(control_dir, match[0])) for match in matches if match]
    return sorted((each for each in found if connecting(each.socket) in LISTENS), key=lambda process: process.pid)


def ask(path: str | Path, request: Mapping[str, object], *, timeout_s: float = ANSWER_S) -> dict[str, Any]:
    """The answer of the process behind a control socket.

    Raises:
        ControlError: nothing listens, no answer in time, another program's answer, or a refusal (with reason and hint).
    """
    until = time.monotonic() + timeout_s
    try:
        with contextlib.closing(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)) as connection:
            connection.settimeout(timeout_s)
            connection.connect(os.fspath(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            line = _read_line(connection, until, ANSWER_MAX_BYTES)
        answer = json.loads(line)
    except TimeoutError:
        raise _unreachable_error(
            path, f"an answer within {timeout_s:g} s", "try again, or look whether it hangs"
        ) from None
    except OSError as error:
        raise _unreachable_error(
            path, f"a running process ({reason(error)})", "start the service again, or ask another process"
        ) from None
    except (ValueError, RecursionError):
        raise _unreachable_error(path, "an answer in JSON", "use the Greenlane version of the process") from None
    if not isinstance(answer, dict) or answer.get("ok") is not True:
        told = answer if isinstance(answer, dict) else {}
        raise ControlError(
            str(told.get("error", "ask a process: its answer is not Greenlane's")), hint=str(told.get("hint", ""))
        )
    return answer


def _unreachable_error(path: str | Path, rule: str, hint: str) -> ControlError:
    return ControlError("ask a process", name="socket", value=str(path), rule=rule, hint=hint)


def _read_line(connection: _socket.socket, until: float, most: int) -> bytes:
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
