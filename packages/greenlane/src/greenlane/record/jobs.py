"""Jobs of programs that have no host: a loop over a queue, a cron job, a batch.

    import greenlane.record

    for order in orders:
        with greenlane.record.job("order", arrival_ns=order.arrival_ns):
            handle(order)

Outside a recording it does nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from greenlane._native import Recorder

__all__ = ["current", "job"]

_recorder: Final = Recorder()


@contextlib.contextmanager
def job(name: str, *, arrival_ns: int = 0, deadline_ns: int = 0) -> Iterator[int]:
    """Record the block as a job of this thread, greenlet or task. Its status is 1 if it raises, else 0.

    Args:
        name: its route: few distinct names, never an id or a URL.
        arrival_ns: when it arrived, as `time.monotonic_ns()`; 0 = now.
        deadline_ns: when its result is due, on the same clock; 0 = never.

    Yields:
        Its number; 0 = nothing is recorded, or this belongs to a job that runs already.

    Cost: about 2 us.
    """
    outer, number = _recorder.job(), None
    try:
        number = _recorder.open(
            arrival_ns=arrival_ns, deadline_ns=deadline_ns, clock="given" if arrival_ns else "handler", host="program"
        )
        if number:
            _recorder.name(name)
        yield number
    except BaseException:
        if number is None and _recorder.job() != outer:
            number = _recorder.job()  # an interrupt came before `open` could give it
            _recorder.name(name)
        _recorder.close(number or 0, 1)
        raise
    _recorder.close(number)


def current() -> int:
    """Give the number of the job that runs here; 0 = none, or nothing is recorded."""
    return _recorder.job()
