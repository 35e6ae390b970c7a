"""Pools of threads: whether all are busy while work waits, and what most of them do.

Known are executors (also asyncio's default one and gunicorn gthread's), anyio's threads (Starlette, FastAPI), those of
Greenlane's gunicorn worker, and the one thread of gunicorn's sync worker.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FrameType
from typing import Any, Final

from greenlane._native import current_frames
from greenlane.threads.unpatched import get_ident
from greenlane.troubles.stacks import is_at, outward, place
from greenlane.troubles.trouble import Trouble

__all__ = ["Standing", "Threads", "full_pools"]

#: Less CPU than this from one look to the next is none.
_MOVED_NS: Final = 300_000
_SOCKETS: Final = ("/socket.py", "/ssl.py")
_CLIENTS: Final = ("/http/client.py", "/selectors.py", "/urllib/request.py")
_SERVERS: Final = (
    *("/gunicorn/", "/waitress/", "/cheroot/", "/werkzeug/serving.py", "/socketserver.py", "/wsgiref/"),
    "/greenlane/hosts/",
)
_LOCKS: Final = ("/threading.py", "/queue.py")
_EXECUTOR: Final = "concurrent/futures/thread.py"


@dataclass(frozen=True)
class Standing:
    """One thread, and where it stands."""

    ident: int
    #: None = Python did not start it, or gevent has patched `threading`.
    thread: threading.Thread | None
    frame: FrameType
    #: CPU time since the last look.
    spent_ns: int

    @property
    def name(self) -> str:
        """Of the thread; "?" = unknown."""
        return self.thread.name if self.thread else "?"

    @cached_property
    def place(self) -> str:
        """Where, in words."""
        return place(self.frame)

    @cached_property
    def is_idle(self) -> bool:
        """Whether a pool's thread waits for work."""
        if is_at(self.frame, "_worker", _EXECUTOR):
            return True
        for each in outward(self.frame, 5):
            if is_at(each, "get", "/queue.py"):
                caller = each.f_back
                return caller is not None and is_at(caller, "run", "anyio/_backends/_asyncio.py")
            if is_at(each, "_next", "greenlane/hosts/pool.py"):
                return True
        return False


@dataclass(frozen=True)
class _Pool:
    key: object
    #: `math.inf`, too.
    size: float
    threads: Sequence[Standing]
    queued: int


class Threads:
    """The threads of this process that run Python code, but the calling one."""

    def __init__(self) -> None:
        self._cpu_ns: dict[int, int] = {}

    def look(self) -> list[Standing]:
        """Where each stands now. Without a GIL they run on meanwhile: then nothing is known of them."""
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            return []
        # Not `threading.enumerate`: its lock may be gevent's, for which our thread must not wait.
        active: dict[int, threading.Thread] = dict(threading._active)  # type: ignore[attr-defined]
        before_ns, self._cpu_ns = self._cpu_ns, {}
        found = []
        for ident, frame in current_frames().items():
            if ident == get_ident():
                continue
            thread = active.get(ident)
            number = (thread and thread.native_id) or 0
            # The kernel's clock of one thread; Python's own way to it crashes where the thread has ended.
            with contextlib.suppress(OSError):
                self._cpu_ns[number] = time.clock_gettime_ns((~number << 3) | 6) if number else 0
            now_ns = self._cpu_ns.get(number, 0)
            found.append(Standing(ident, thread, frame, now_ns - before_ns.get(number, now_ns)))
        return found


def full_pools(threads: Sequence[Standing], limiter: Any) -> Iterator[Trouble]:
    """Pools whose threads are all busy, while work waits for them."""
    for pool in _pools(threads, limiter):
        size = len(pool.threads)
        if not pool.queued or size < pool.size or any(each.is_idle for each in pool.threads):
            continue
        doing = Counter((_does(each), each.place) for each in pool.threads)
        (what, where), count = doing.most_common(1)[0]
        waits = f"; {pool.queued} waiting" if pool.queued > 1 else ""
        text = f"{count} of {size} threads {what} {where} for {{for_s}}{waits}"
        still = all(each.spent_ns <= _MOVED_NS for each in pool.threads)
        yield Trouble(pool.key, text, hangs=still and "lock" in what)


def _pools(threads: Sequence[Standing], limiter: Any) -> Iterator[_Pool]:
    executors: Any = sys.modules.get("concurrent.futures.thread")
    # A worker of Celery has more to do than threads as a rule.
    if executors is not None and "celery.concurrency.thread" not in sys.modules:
        queue_of = dict(getattr(executors, "_threads_queues", {}).items())
        members: dict[int, tuple[Any, list[Standing]]] = {}
        for each in threads:
            if each.thread and (queue := queue_of.get(each.thread)) is not None:
                members.setdefault(id(queue), (queue, []))[1].append(each)
        for number, (queue, its) in members.items():
            yield _Pool(number, len(its), its, queue.qsize())
    if limiter:
        told = limiter.statistics()
        its = [each for each in threads if each.name == "AnyIO worker thread" and not each.is_idle]
        yield _Pool("anyio", told.total_tokens, its, told.tasks_waiting)
    ours: Any = sys.modules.get("greenlane.hosts.pool")
    for pool in list(ours.POOLS) if ours is not None else ():
        its = [each for each in threads if _within(each.frame, "_run", "greenlane/hosts/pool.py")]
        yield _Pool(id(pool), pool.ceiling, its, pool.queued)
    if "gunicorn.workers.sync" in sys.modules:
        for each in threads:
            if each.thread is not threading.main_thread():
                continue
            # One request at a time: it counts while it is the same one.
            if (frame := _within(each.frame, "handle_request", "workers/sync.py")) is not None:
                worker: Any = frame.f_locals.get("self")
                yield _Pool(("sync", getattr(worker, "nr", each.place)), 1, [each], 1)


def _within(frame: FrameType, function: str, file: str) -> FrameType | None:
    return next((each for each in outward(frame) if is_at(each, function, file)), None)


def _does(standing: Standing) -> str:
    """What a busy thread does, as a verb before a place."""
    if standing.spent_ns > _MOVED_NS:
        return "compute in"
    frame = standing.frame
    first = next((each for each in outward(frame) if not each.f_code.co_filename.endswith(_SOCKETS)), frame)
    file = first.f_code.co_filename
    if any(server in file for server in _SERVERS) and (
        "write" in first.f_code.co_name or "send" in first.f_code.co_name
    ):
        return "send answers to slow clients from"
    if first is not frame or file.endswith(_CLIENTS):
        return "wait for an answer at"
    if file.endswith(_LOCKS):
        return "wait for a lock at"
    return "wait at"
