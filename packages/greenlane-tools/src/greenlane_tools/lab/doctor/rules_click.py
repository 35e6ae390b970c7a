"""What settings of uvicorn and granian really do, rule by rule; as `rules_gunicorn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from greenlane_tools.lab.doctor.subject import Finding, Subject, Verdict, finding

# granian's first release with a listener for each worker.
_OWN_LISTENERS: Final = (2, 8)
_PERMITS: Final = "src/workers.rs takes a permit before accept; run: 3 permits, 12 kept connections: 9 never answered"
_MOST_BACKLOG: Final = "the kernel cuts it to net.core.somaxconn = {most}"


def limit_concurrency(subject: Subject) -> Finding | None:
    """A refusal, not a queue."""
    limit = subject.number("limit_concurrency")
    if not limit:
        return None
    because = (
        f"once {limit} connections are open, idle ones included, every request of this worker is answered 503 at once, "
        "also on the connections that came first; nothing waits"
    )
    if subject.times is not None:
        because += f". {subject.times.enough} requests in progress fill a core at this CPU and waiting"
    remedy = (
        "a limit with a queue in front (a proxy's maxconn), or a limit well above the connections that clients keep"
    )
    verdict: Verdict = "harms" if subject.number("timeout_keep_alive") else "is not what it seems"
    evidence = "protocols/http/*_impl.py; run: limit 3, 12 clients at once: 10 to 12 × 503"
    return finding(subject, "limit_concurrency", verdict, because, remedy, evidence)


def accepts_at_once(subject: Subject) -> Finding | None:
    """How many connections one wake-up takes."""
    if _workers(subject) < 2 or _uvloop(subject) or not subject.mechanics.get("accepts_backlog_at_once"):
        return None
    because = (
        "workers share one listener, and asyncio's loop takes every waiting connection when it wakes, up to "
        "`backlog` of "
        "them, whatever the other workers do: a burst lands on one worker"
    )
    remedy = "--loop uvloop, which takes one at a time; or a lower backlog, which is also how many one wake-up takes"
    evidence = (
        "asyncio.selector_events._accept_connection; run: bursts of 20 on 4 workers split 20/0/0/0, with uvloop 0.23 "
        "about "
        "5/5/5/5"
    )
    return finding(subject, "backlog", "is not what it seems", because, remedy, evidence)


def reload_and_workers(subject: Subject) -> Finding | None:
    """One excludes the other."""
    if not subject.value("reload") or _workers(subject) < 2:
        return None
    because = "with reload there is one process"
    return finding(subject, "workers", "does nothing", because, "leave one of them out", "config.py warns of it")


def health_check(subject: Subject) -> Finding | None:
    """A thread answers, not the loop."""
    name = "timeout_worker_healthcheck"
    if not subject.given(name):
        return None
    because = (
        "a thread of the worker answers the check, not its event loop: a dead process is found, and one that holds "
        "the GIL; a "
        "loop that is blocked is not"
    )
    remedy = "check the loop from outside: a request with a deadline"
    return finding(subject, name, "is not what it seems", because, remedy, "supervisors/multiprocess.py always_pong")


def backpressure(subject: Subject) -> Finding | None:
    """Permits are held by connections."""
    if not subject.given("backpressure"):
        return None
    limit = subject.number("backpressure")
    because = (
        f"its {limit} permits are held by connections for as long as they are open, not by requests: idle connections "
        "of a "
        "proxy use them up, and further connections are not accepted"
    )
    remedy = "--no-http1-keep-alive with it, or a limit above the connections that all clients keep"
    verdict: Verdict = "harms" if subject.value("http1_keep_alive") else "note"
    return finding(subject, "backpressure", verdict, because, remedy, _PERMITS)


def own_listeners(subject: Subject) -> Finding | None:
    """SO_REUSEPORT without a switch."""
    if _workers(subject) < 2 or subject.unix or subject.release < _OWN_LISTENERS:
        return None
    reset = "" if subject.kernel.migrates else "; what waits in the queue of a worker that ends is reset"
    because = (
        "since 2.8 each worker has a listener of its own and the kernel chooses by a hash: connections are even, "
        "load is "
        f"not, and a connection behind a busy worker stays there{reset}"
    )
    remedy = "spread uneven work in front (a proxy with least_conn, one address a worker)"
    evidence = "run: 4 listeners on TCP, 1 on a Unix socket (2.8.7)"
    return finding(subject, "workers", "is not what it seems", because, remedy, evidence)


def blocking_threads(subject: Subject) -> Finding | None:
    """Only WSGI has several; and their default is large."""
    wsgi = str(subject.value("interface")) == "wsgi"
    count = subject.number("blocking_threads")
    if not wsgi:
        if count < 2:
            return None
        because = "more than one is refused for ASGI and RSGI"
        return finding(subject, "blocking_threads", "does not start", because, "leave it out", "server/common.py")
    if subject.given("blocking_threads"):
        return None
    workers = max(1, _workers(subject))
    held = subject.number("backpressure") or subject.number("backlog") // workers
    because = f"the default is half of backpressure: up to {max(1, held // 2)} threads a worker that share one GIL"
    remedy = "--blocking-threads with what the waiting of your requests needs"
    return finding(
        subject, "blocking_threads", "note", because, remedy, "server/common.py", value=max(1, held // 2)
    )  # fmt: skip


def backlog(subject: Subject) -> Finding | None:
    """The kernel has the last word."""
    most = subject.kernel.somaxconn
    if not subject.given("backlog") or not most or subject.number("backlog") <= most:
        return None
    return finding(
        subject, "backlog", "does nothing", _MOST_BACKLOG.format(most=most), f"at most {most}, or raise the sysctl",
        "/proc/sys/net/core/somaxconn, listen(2)",
    )  # fmt: skip


UVICORN: Final[tuple[Callable[[Subject], Finding | None], ...]] = (
    limit_concurrency, accepts_at_once, reload_and_workers, health_check, backlog,
)  # fmt: skip
GRANIAN: Final[tuple[Callable[[Subject], Finding | None], ...]] = (
    backpressure, own_listeners, blocking_threads, backlog,
)  # fmt: skip


def _workers(subject: Subject) -> int:
    return subject.number("workers") or 1


def _uvloop(subject: Subject) -> bool:
    loop = str(subject.value("loop"))
    return loop == "uvloop" or (loop == "auto" and "uvloop" in subject.versions)
