"""The process of a worker.

    python -m greenlane_serve.worker KIND APPLICATION SOCKET_FD,… SLOT INDEX READY_FD LEDGER_FD ALIVE_FD STOP_S
    python -m greenlane_serve.worker kind APPLICATION FD

`ready` goes to READY_FD once it serves; signs of life and what its requests cost to LEDGER_FD; ALIVE_FD ends with the
parent. On SIGUSR2 it says on stderr where its threads are.

The second form writes the kind of the application to FD and ends. Started by the tree and the command line only: the
arguments are theirs.

Exit codes: 3 = the application cannot be loaded (its traceback is on stderr), otherwise as the command line's.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import select
import signal
import sys
from pathlib import Path
from typing import Final

from greenlane.errors import GreenlaneError
from greenlane.threads import unpatched
from greenlane_serve import folders
from greenlane_serve.worker import application
from greenlane_serve.worker.ledger import Ledger

#: The application cannot be loaded.
UNLOADABLE: Final = 3
# Without a configuration of the application's own it goes to stderr as it is.
_log: Final = logging.getLogger("greenlane")


def main(argv: list[str]) -> int:
    """Run one worker."""
    kind, name, *rest = argv
    try:
        if kind == "kind":
            os.write(int(rest[0]), application.kind_of(application.load(name)).encode())
        else:
            _serve(kind, name, *rest)
    except GreenlaneError as error:
        _log.error("greenlane: %s", error)
        return error.exit_code
    except Exception:
        _log.exception("greenlane: the application %s cannot be loaded", name)
        return UNLOADABLE
    return 0


def _serve(
    kind: str,
    name: str,
    socket_fd: str,
    slot: str,
    index: str,
    ready_fd: str,
    ledger_fd: str,
    alive_fd: str,
    stop_s: str,
) -> None:
    for fd in (socket_fd, ready_fd, ledger_fd, alive_fd):
        os.set_inheritable(int(fd), False)
    folder = Path(slot).parent.parent
    end_with_parent(int(alive_fd), float(stop_s), folder / folders.FRONT_PID)
    _settle(folder)
    signal.signal(signal.SIGTERM, _end)

    def ready() -> None:
        # Again: what a host does to signals, it has done by now.
        faulthandler.register(signal.SIGUSR2, chain=kind == "asgi")
        os.write(int(ready_fd), b"ready\n")
        os.close(int(ready_fd))

    ledger = Ledger(int(ledger_fd))
    if kind == "asgi":
        from greenlane_serve.worker import asgi

        asgi.serve(name, int(socket_fd), Path(slot), int(index), ready, ledger, float(stop_s))
    else:
        from greenlane_serve.worker import wsgi

        wsgi.serve(name, int(socket_fd), int(index), ready, ledger)


def _end(number: int, frame: object) -> None:
    """While the application is loaded, and what uvicorn raises again when it has ended: what is registered is done."""
    sys.exit(0)


def _settle(place: Path) -> None:
    """Before anything else registers what is done at the end: the folders go last."""
    folders.live_in(place)
    if folder := os.environ.get("GREENLANE_CONTROL_DIR"):
        folders.live_in(Path(folder))


# What a worker that ends in time needs after its last request.
_MORE_S: Final = 1.0


def end_with_parent(alive_fd: int, stop_s: float, front: Path | None = None) -> None:
    """Kill this process `stop_s` and a second after the parent has ended, in a thread that costs nothing until then.

    Args:
        alive_fd: read end of a pipe whose other end the parent alone holds.
        stop_s: what requests in progress may still take.
        front: has the process id of the front, which ends too. One that has become another user is not told by the
            kernel that its parent has ended.
    """

    def watch() -> None:
        waiting = unpatched.poll()
        waiting.register(alive_fd, select.POLLIN)
        waiting.poll()
        if front is not None:
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(front.read_text()), signal.SIGTERM)
        unpatched.sleep(stop_s + _MORE_S)
        try:
            folders.leave()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)

    unpatched.start_new_thread(watch, ())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
