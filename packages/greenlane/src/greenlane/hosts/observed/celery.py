"""Celery observed: each execution of a task is a job, from its publication, or its ETA, until its result is known.

Publishing adds the headers of `greenlane.probes.enqueued` to the message, which workers without us ignore. Messages of
publishers that are not recorded have none: they arrive when the worker takes them from its broker (clock "accept").

Under `greenlane celery` the worker itself opens the jobs (`greenlane_work.worker.jobs`), and nothing happens here.

Job status: 0 = succeeded, or asked to be run again later (`retry`, a new message with a new arrival); 1 = failed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder
from greenlane.probes import enqueued
from greenlane.probes.patching import Patches

__all__ = ["place"]

_FAILURE: Final = "FAILURE"

_recorder: Final = Recorder()
#: Task id -> the job of its execution in this process.
_jobs: dict[str, int] = {}


def place(_patches: Patches, module: ModuleType) -> None:
    """Listen to `celery.signals`."""
    # Strong references: signals forget functions that nobody else holds.
    module.task_received.connect(_receive, weak=False)
    module.task_prerun.connect(_begin, weak=False)
    module.task_postrun.connect(_end, weak=False)


def _receive(request: Any = None, **_ignored: Any) -> None:
    if _recorder.recording():
        enqueued.received(request.request_dict)


def _begin(task_id: str = "", task: Any = None, **_ignored: Any) -> None:
    if not _recorder.recording():
        return
    _close_forgotten()
    request = task.request
    told = {name: _header(request, name) for name in enqueued.NAMES}
    arrival_ns = _arrival_ns(request, told)
    clock = "accept" if told[enqueued.RECEIVED] else "enqueue"
    job = _recorder.open(
        arrival_ns=arrival_ns,
        deadline_ns=enqueued.moment_ns(request.expires),
        clock=clock if arrival_ns else "handler",
        host="celery",
    )
    if job:
        _jobs[task_id] = job
        _recorder.name(str(task.name))


def _end(task_id: str = "", state: Any = None, **_ignored: Any) -> None:
    job = _jobs.pop(task_id, 0)
    if job:
        _recorder.close(job, 1 if state == _FAILURE else 0)


def _close_forgotten() -> None:
    """End what this thread or greenlet still has open: Celery sends no end for some revoked tasks."""
    left = _recorder.job()
    if left:
        for task_id, job in list(_jobs.items()):
            if job == left:
                del _jobs[task_id]
                _recorder.close(job, 1)


def _arrival_ns(request: Any, told: Mapping[str, object]) -> int:
    """Give when the task could have started; 0 = unknown."""
    arrival_ns = enqueued.arrival_ns(told)
    return min(max(arrival_ns, enqueued.moment_ns(request.eta)), time.monotonic_ns()) if arrival_ns else 0


def _header(request: Any, name: str) -> object:
    # Celery makes attributes of a message's headers; some versions keep those that it does not know in `headers`.
    value = getattr(request, name, None)
    headers = getattr(request, "headers", None)
    return headers.get(name) if value is None and isinstance(headers, dict) else value
