"""Each run of an order is a job: for the recording, if there is one, and for the permits of its CPU work.

A job begins when the order could: the first at its publication, each later attempt at the time that it was due again.
What lies between that and its first instruction is split by what it waited for: the broker's queue, its key's breaker,
its key's limit, or a free slot.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any, Final

from greenlane._native import Recorder
from greenlane.probes import enqueued
from greenlane.wiring import process
from greenlane_work.order import Run
from greenlane_work.settings import WorkSettings

__all__ = ["PermittedJobs", "RecordedJobs"]

#: A phase of a task is heavy from here on, unless the settings say otherwise. Not the 4 ms of requests: a task with one
#: HTTP call is a phase of about 4 ms, and orders do not race for those. See docs/design/0015.
_HEAVY_MS: Final = 10.0
#: What a run that permits know nothing of is closed with.
_NOTHING: Final = (0, False)


class RecordedJobs:
    """Jobs of the recording of this process: `greenlane record`, or the setting `record_folder`.

    They stand around Celery's tracer, so what it does for a task is the task's. Cost without a recording: 0.1 us.
    """

    def __init__(self, settings: WorkSettings) -> None:
        """Start the recording, if there is to be one."""
        if settings.record_folder:
            from greenlane.wiring import recording as wired  # here: a worker that records nothing does not load it

            wired.start_recording(settings)
        self._recorder = Recorder()
        process.send_deadlines(settings)

    def open(self, run: Run) -> Any:
        """Begin a job on the run's own thread or greenlet. The result is for `close`."""
        return (self._record(run), False) if self._recorder.recording() else _NOTHING

    def close(self, opened: Any, failed: bool) -> None:
        """End it."""
        if opened[0]:
            self._recorder.close(opened[0], int(failed))

    def _record(self, run: Run) -> int:
        order = run.order
        parked_ns = sum(ns for _, ns in run.held)
        arrival_ns = order.arrival_ns if order.runs == 1 else run.begun_ns - parked_ns
        job = self._recorder.open(
            arrival_ns=min(arrival_ns, run.begun_ns),
            spawn_ns=run.begun_ns,
            deadline_ns=order.deadline_ns(time.monotonic_ns()),
            clock="accept" if enqueued.RECEIVED in order.request.request_dict else "enqueue",
            host="greenlane.work",
        )
        if job:
            self._recorder.name(order.name)
            at_ns = run.begun_ns - parked_ns
            for by, ns in run.held:
                self._recorder.parked(job, at_ns, at_ns + ns, f"{by} {order.key}" if by in ("breaker", "limit") else by)
                at_ns += ns
        return job


class PermittedJobs(RecordedJobs):
    """Jobs of this process's permits, too. Starts Greenlane in it.

    No socket call raises because its job is late (`deadline_cancel`): a task meets its soft limit as an exception, and
    what it publishes or stores after that has to go through.
    """

    def __init__(self, settings: WorkSettings) -> None:
        settings = dataclasses.replace(settings, deadline_cancel=False)
        if "heavy_ms" not in settings.origins:
            settings = dataclasses.replace(settings, heavy_ms=_HEAVY_MS)
        running = process.start(settings, host="celery")
        super().__init__(settings)
        self._open: Callable[[str, int, int], bool] = running.open_task
        self._close: Callable[[], object] = running.close

    def open(self, run: Run) -> Any:
        """See RecordedJobs."""
        job, _ = super().open(run)
        return job, self._open(run.order.name, run.order.arrival_ns or time.monotonic_ns(), run.due_ns)

    def close(self, opened: Any, failed: bool) -> None:
        """See RecordedJobs."""
        if opened[1]:
            self._close()
        super().close(opened, failed)
