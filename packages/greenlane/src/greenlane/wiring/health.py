"""`greenlane.health`: answers over HTTP whether this process can serve, and why not."""

from __future__ import annotations

import _socket
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from greenlane._native import Health
from greenlane.errors import HostError
from greenlane.settings import load
from greenlane.threads import fork_warning
from greenlane.troubles.connection_pools import exhausted_pools
from greenlane.troubles.loops import MainLoop
from greenlane.troubles.shares import Collector, GilWaits, Quota
from greenlane.troubles.stacks import is_at, outward
from greenlane.troubles.supervisors import supervisor
from greenlane.troubles.thread_pools import Standing, Threads, full_pools
from greenlane.troubles.trouble import Lasting, Trouble

__all__ = ["health"]

#: Between two looks. A trouble is known so much later, and a look takes 0.1 to 0.3 ms.
_EVERY_NS: Final = 250_000_000
_S: Final = 1_000_000_000
#: A look that waits so long for the GIL has met a call that keeps it.
_LONG_WAIT_NS: Final = 50_000_000

_ARBITER: Final = "gunicorn/arbiter.py"
#: What runs calls in a pool's process, and what loads the parent's main module in a new one.
_POOLS: Final = (
    ("_process_worker", "concurrent/futures/process.py"),
    ("worker", "multiprocessing/pool.py"),
    ("_fixup_main_from_path", "multiprocessing/spawn.py"),
    ("_fixup_main_from_name", "multiprocessing/spawn.py"),
)

_service: _Service | None = None
_hooks_set = False


def health(bind: str) -> None:
    """Answer at `bind` whether this process can serve, and why not: a line for any server, also in the application.

    `GET /ready` gives 200 while a process of the service can serve, and `GET /live` while none hangs for good; else
    503. Both answer one JSON object: `{"ok": false, "reason": "event loop blocked 6.2 s by views.py:40", "processes":
    [...]}`. Processes that are given the same address answer for each other. Native threads answer: without the event
    loop, without a thread of the application, and without the GIL.

    `health_after_s` and `hung_after_s` say from when on a trouble counts. A gunicorn that preloads the application
    answers in its workers, and so does each process of Celery. Pools of processes do not answer. Another call replaces
    the first one's address.

    Args:
        bind: host:port; without a host, 127.0.0.1. A port for each service of the machine. "" = no longer.

    Raises:
        HostError: the address cannot be used.

    Cost: nothing a request. Four looks a second: 0.04 % of a core with one thread, 0.5 % with 64 busy ones.
    """
    global _service, _hooks_set
    _stop()
    if not bind or _is_in_pool():
        return
    service = _Service(bind)
    if not _preloads():
        service.start()
    _service = service
    if not _hooks_set:
        _hooks_set = True
        fork_warning.watch()
        os.register_at_fork(after_in_child=_forked)
    signals: Any = sys.modules.get("celery.signals")
    if signals is not None:
        signals.worker_process_init.connect(_start_in_child, dispatch_uid="greenlane.health")


def _stop() -> None:
    global _service
    service, _service = _service, None
    if service is not None:
        service.stop()


class _Service:
    """The answers of this process, once it is started."""

    def __init__(self, bind: str) -> None:
        settings = load()
        self._bind, self._address = bind, _resolved(bind)
        self._after_ns, self._hung_ns = int(settings.health_after_s * _S), int(settings.hung_after_s * _S)
        self._health: Health | None = None
        self._looks: _Looks | None = None
        self.preloads = _preloads()

    def start(self) -> None:
        looks = _Looks(self._after_ns, self._hung_ns)
        try:
            health = Health(self._address, _EVERY_NS, self._after_ns, self._hung_ns, looks.look)
        except (OSError, RuntimeError) as error:  # RuntimeError: no more threads
            looks.stop()
            rule = f"host:port where this process can listen ({error})"
            hint = "choose a free port, one for each service of this machine"
            raise HostError("answer health", name="bind", value=self._bind, rule=rule, hint=hint) from None
        looks.health = self._health = health
        self._looks = looks

    def stop(self) -> None:
        """Its threads end with their next turn."""
        if self._looks is not None:
            self._looks.stop()
        if self._health is not None and self._health.is_own():
            self._health.stop()
        self._looks = self._health = None


class _Looks:
    """One look after the other, by one thread."""

    def __init__(self, after_ns: int, hung_ns: int) -> None:
        self.health: Health | None = None
        self._lasting = Lasting(after_ns, hung_ns)
        self._loop, self._threads = MainLoop(), Threads()
        self._quota, self._gil, self._collector = Quota(after_ns), GilWaits(after_ns), Collector(after_ns)

    def stop(self) -> None:
        self._collector.stop()

    def look(self, waited_ns: int) -> None:
        """Look, and tell what was found. `waited_ns`: for the GIL."""
        health = self.health
        if health is None:
            return
        try:
            now_ns, threads = time.monotonic_ns(), list[Standing]()
            with contextlib.suppress(Exception):
                threads = self._threads.look()
            texts, hung = self._lasting.take(self._found(threads, now_ns, waited_ns), now_ns)
            # If the next look gets no GIL, the one that computes is named.
            named = [
                (each.thread.native_id or 0, f"thread {each.name}, last seen at {each.place}")
                for each in threads
                if each.thread
            ]
            health.tell(not texts, not hung, "; ".join(texts) or "fine", named)
        except Exception as error:  # ours: no probe may end a service for it
            health.tell(True, True, f"fine, as far as is known ({type(error).__name__}: {error})", [])

    def _found(self, threads: list[Standing], now_ns: int, waited_ns: int) -> Iterator[Trouble]:
        """Give causes before what they cause. What one cannot see, the others still do."""
        by = ""
        if waited_ns > _LONG_WAIT_NS and threads:
            with contextlib.suppress(Exception):
                by = max(threads, key=lambda each: each.spent_ns).place
        for found in (
            supervisor(threads),
            self._quota.look(now_ns),
            self._gil.look(now_ns, waited_ns, by),
            self._collector.look(now_ns),
            self._loop.look(threads, now_ns),
            exhausted_pools(threads),
            full_pools(threads, self._loop.limiter),
        ):
            with contextlib.suppress(Exception):
                yield from found


def _resolved(bind: str) -> str:
    host, _, port = bind.rpartition(":")
    try:
        name = host.strip("[]") or "127.0.0.1"
        address = _socket.getaddrinfo(name, int(port), 0, _socket.SOCK_STREAM)[0][4]
    except (OSError, ValueError) as error:
        raise HostError(
            "answer health", name="bind", value=bind, rule=f"host:port ({error})", hint='write "127.0.0.1:8081"'
        ) from None
    return f"[{address[0]!s}]:{port}" if len(address) == 4 else f"{address[0]!s}:{port}"


def _preloads() -> bool:
    """Whether this is gunicorn's master, which loads the application for its workers and serves nothing."""
    in_gunicorn = any(frame.f_code.co_filename.endswith(_ARBITER) for frame in outward(sys._getframe()))
    return in_gunicorn and not _is_within(("spawn_worker", _ARBITER))


def _is_in_pool() -> bool:
    """Whether this process is a pool's, or one that only loads what its parent runs: it serves nobody."""
    inside: Any = sys.modules.get("greenlane.placement.processes.inside")
    return (inside is not None and inside.WORKER) or _is_within(*_POOLS)


def _is_within(*functions: tuple[str, str]) -> bool:
    frames = outward(sys._getframe())
    return any(is_at(frame, function, file) for frame in frames for function, file in functions)


def _forked() -> None:
    """In a child: what the parent has is not its business. A worker of a gunicorn that preloads answers itself."""
    service = _service
    if service is not None:
        service.stop()
        if service.preloads:
            service.preloads = False  # a child of this child is no worker
            if _is_within(("spawn_worker", _ARBITER)):
                _start_in_child()


def _start_in_child(**_of_celery: object) -> None:
    with contextlib.suppress(Exception):  # the child runs as well without it
        if _service is not None:
            _service.start()
