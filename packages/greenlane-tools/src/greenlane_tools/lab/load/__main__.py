"""The generator's process: an order on stdin, progress and columns on stdout. Only `generate` talks to it.

Imports no numpy: it starts in a fraction of the time, and only carries bytes from the pipe to the native loop and back.
"""

from __future__ import annotations

import errno
import json
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import IO, Any, Final

from greenlane_tools import _native

# Bytes of one at_ns, stream and work_ms.
_WIDTHS: Final = (8, 2, 8)
# By name, in numpy's words.
_COLUMNS: Final = {
    "begun_ns": "<i8",
    "sent_ns": "<i8",
    "first_byte_ns": "<i8",
    "done_ns": "<i8",
    "status": "<i2",
    "worker": "<i4",
}
_NUMBERS: Final = ("began_ns", "cpu_ns", "took_ns", "connections", "sent_again", "failures")
_PROGRESS_NS: Final = 200_000_000


def main(order: IO[bytes], out: IO[bytes]) -> int:
    """Runs one order. 0 = columns were written, 1 = an error was."""
    fields = json.loads(order.readline())
    size = fields["size"]
    at_ns, stream, work_ms = (order.read(size * width) for width in _WIDTHS)
    streams = [
        (address, *(part.encode("latin-1") for part in parts), *rest)
        for address, *parts, rest in ((row[0], row[1], row[2], row[3], row[4:]) for row in fields["streams"])
    ]
    tick = _progress(out) if fields["progress"] else None
    try:
        outcome = _native.load_run(streams, at_ns, stream, work_ms, worker_header=fields["worker_header"], tick=tick)
    except ValueError as error:
        what, value, why = error.args
        _say(out, {"error": what, "value": value, "why": why})
        return 1
    except OSError as error:
        _say(out, _exhausted(error))
        return 1
    _say(out, {"columns": list(_COLUMNS.items()), **{name: outcome[name] for name in _NUMBERS}})
    for name in _COLUMNS:
        out.write(outcome[name])
    out.flush()
    return 0


def _progress(out: IO[bytes]) -> Callable[[int, int], None]:
    last_ns = 0

    def tick(sent: int, over: int) -> None:
        nonlocal last_ns
        now_ns = time.monotonic_ns()
        if now_ns - last_ns >= _PROGRESS_NS:
            last_ns = now_ns
            _say(out, {"sent": sent, "over": over})

    return tick


def _say(out: IO[bytes], words: Mapping[str, Any]) -> None:
    out.write(json.dumps(words).encode() + b"\n")
    out.flush()


def _exhausted(error: OSError) -> dict[str, Any]:
    match error.errno:
        case errno.EMFILE | errno.ENFILE:
            return {"error": "descriptors", "value": resource.getrlimit(resource.RLIMIT_NOFILE)[0]}
        case errno.EADDRNOTAVAIL:
            return {"error": "ports"}
    return {"error": "kernel", "value": error.errno}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main(sys.stdin.buffer, sys.stdout.buffer))
