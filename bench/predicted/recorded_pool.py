"""The article's gevent program with a recorder in it: `python -m bench.predicted.recorded_pool JOB FOLDER`.

The lab's own program, but that each request is a job of the recorder; its arrival is when its place became free.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

from greenlane._native import Recorder, calls_install
from greenlane.probes import gevent as probe
from greenlane_tools.lab.part3.programs import gevent_pool
from greenlane_tools.lab.part3.programs.program import Job, Places, main

__all__ = ["HOST", "ROUTE"]

HOST: Final = "gevent"
ROUTE: Final = "request"
_MOST_BYTES: Final = 1 << 28


@dataclass(frozen=True)
class _Recorded(Job):
    recorder: Recorder

    def serve(self, marks: list[int], sleep: Callable[[float], object]) -> None:
        """One request, as a job."""
        arrival_ns, spawn_ns = marks[:2]
        number = self.recorder.open(arrival_ns=arrival_ns, spawn_ns=spawn_ns, clock="given", host=HOST)
        self.recorder.name(ROUTE)
        try:
            super().serve(marks, sleep)
        finally:
            self.recorder.close(number)


def _run(job: Job, places: Places) -> None:
    recorder = Recorder()
    recorder.start(sys.argv[2], max_bytes=_MOST_BYTES, about="{}")
    calls_install()
    probe.install()
    try:
        same = {each.name: getattr(job, each.name) for each in fields(Job)}
        gevent_pool.run(_Recorded(**same, recorder=recorder), places)
    finally:
        probe.uninstall()
        recorder.stop()


if __name__ == "__main__":
    main("gevent, recorded", _run, lambda count: None)
