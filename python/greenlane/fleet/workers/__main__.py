"""The process of a worker: `python -m greenlane.fleet.workers KIND APPLICATION SOCKET_FD INDEX READY_FD STOP_S`.

With KIND `kind` it prints the application's kind and ends. Started by the tree only: the arguments are its own.
Exit codes: 3 = the application cannot be loaded (its traceback is on stderr), otherwise as the command line's.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Final

from greenlane.errors import GreenlaneError
from greenlane.fleet.workers import application, asgi, wsgi

#: The application cannot be loaded.
UNLOADABLE: Final = 3


def main(argv: list[str]) -> int:
    """Run one worker."""
    kind, name, *rest = argv
    try:
        if kind == "kind":
            sys.stdout.write(application.kind_of(application.load(name)) + "\n")
            return 0
        _serve(kind, name, *rest)
    except GreenlaneError as error:
        sys.stderr.write(f"greenlane: {error}\n")
        return error.exit_code
    except Exception:
        traceback.print_exc()
        return UNLOADABLE
    return 0


def _serve(kind: str, name: str, socket_fd: str, index: str, ready_fd: str, stop_s: str) -> None:
    for fd in (int(socket_fd), int(ready_fd)):
        os.set_inheritable(fd, False)

    def ready() -> None:
        os.write(int(ready_fd), b"ready\n")
        os.close(int(ready_fd))

    if kind == "asgi":
        asgi.serve(name, int(socket_fd), int(index), ready, float(stop_s))
    else:
        wsgi.serve(name, int(socket_fd), int(index), ready)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
