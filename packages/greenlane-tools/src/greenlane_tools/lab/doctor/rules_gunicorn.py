"""What gunicorn's settings really do, rule by rule: each read in the source of what it names, most of them run.

A rule takes a subject and gives a finding or None. What the installed source does decides, not a table of versions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from greenlane_tools.lab.doctor.subject import Finding, Subject, finding

# Kinds of worker whose requests are not one at a time on a thread of their own.
_LOOPS: Final = ("gevent", "eventlet", "asgi", "uvicorn", "tornado")
# Kinds that compare the number of their connections with `worker_connections`.
_COUNTS: Final = ("gevent", "eventlet", "gthread")
# Below it a few idle connections of a proxy's pool take a noticeable part of the slots.
_FEW_CONNECTIONS: Final = 200
_GTHREAD: Final = "gthread.accept asks for no free thread; run: bursts of 20 on 4 workers split 17/2/1/0"
_MEMORY: Final = ("tmpfs", "ramfs")


def worker_class(subject: Subject) -> Finding | None:
    """It must load."""
    if not subject.failure:
        return None
    return finding(
        subject, "worker_class", "does not start", f"it cannot be loaded: {subject.failure}",
        "correct its name, or install what it imports for the interpreter of this command",
        "loaded by this interpreter",
        value=subject.worker_class,
    )  # fmt: skip


def reuse_port(subject: Subject) -> Finding | None:
    """One socket for all, one each, or none at all."""
    if not subject.value("reuse_port"):
        return None
    own = bool(subject.mechanics.get("socket_per_worker"))
    if subject.unix:
        return _reuse_port_unix(subject, own)
    if all(address.startswith("fd:") for address in subject.addresses):
        return finding(
            subject, "reuse_port", "does nothing", "the listener is an inherited descriptor: all workers share it",
            "leave it out", "sock.create_sockets",
        )  # fmt: skip
    if not own:
        because = (
            f"{subject.named} makes one listening socket before it forks and sets SO_REUSEPORT on that one: all "
            "workers "
            "share it as they would without the option. A socket for each worker came with 24.0.0"
        )
        remedy = "leave it out, or take gunicorn 24 or newer (and then read what it does there)"
        return finding(subject, "reuse_port", "does nothing", because, remedy, "arbiter.spawn_worker makes no socket")
    if subject.number("workers") < 2:
        because = "there is one worker, and so one listener either way"
        return finding(subject, "reuse_port", "does nothing", because, "leave it out", "workers=1")
    reset = "" if subject.kernel.migrates else "; what waits in the queue of a worker that ends is reset"
    because = (
        "each worker has a socket and a queue of its own, and the kernel chooses by a hash of the addresses: "
        "connections "
        f"are even, load is not, and a connection behind a busy worker stays there{reset}"
    )
    remedy = "keep it for many short connections; for few or uneven ones one shared socket serves idle workers first"
    if not subject.kernel.migrates:
        remedy += ". `sysctl net.ipv4.tcp_migrate_req=1` saves the queues of ending workers (Linux 5.14)"
    return finding(subject, "reuse_port", "is not what it seems", because, remedy, "arbiter.spawn_worker makes sockets")


def _reuse_port_unix(subject: Subject, own: bool) -> Finding:
    if error := subject.kernel.unix_reuse_port:
        because = (
            f"this kernel ({subject.kernel.release}) refuses SO_REUSEPORT on a Unix socket ({error}), and "
            f"{subject.named} takes that for an error: "
            + ("no worker boots" if own else "the master gives up after five attempts")
        )
        evidence = f"tried here: setsockopt gives {error}; sock.set_options lets only ENOPROTOOPT and EINVAL pass"
        return finding(subject, "reuse_port", "does not start", because, "leave it out", evidence)
    if not own:
        return finding(
            subject, "reuse_port", "does nothing", "SO_REUSEPORT means nothing to a Unix socket; all workers share one",
            "leave it out", "tried here: setsockopt is taken; arbiter.spawn_worker makes no socket",
        )  # fmt: skip
    because = (
        "each worker removes the socket's file and binds its own: only the one that came last is reached, the others "
        "wait "
        "on sockets without a name"
    )
    return finding(subject, "reuse_port", "harms", because, "leave it out", "sock.UnixSocket removes what it finds")


def backlog_metric(subject: Subject) -> Finding | None:
    """It sums the master's listeners."""
    if not subject.value("enable_backlog_metric"):
        return None
    if not subject.value("statsd_host"):
        because, remedy = "only the statsd logger sends it, and there is no statsd_host", "set statsd_host"
    elif subject.value("reuse_port") and subject.mechanics.get("socket_per_worker"):
        because = "it sums the queues of the master's sockets, and with reuse_port the workers have them all: always 0"
        remedy = "leave reuse_port out, or read the queues by `ss -lt`"
    elif subject.unix:
        because = "the queue of a Unix socket is reported as -1, and what is below 0 is never sent"
        remedy = "listen on TCP, or read the queue by `ss -lx`"
    else:
        return None
    return finding(
        subject, "enable_backlog_metric", "does nothing", because, remedy, "arbiter.manage_workers, sock.get_backlog"
    )


def worker_connections(subject: Subject) -> Finding | None:
    """Which thread or process compares it with what."""
    if subject.kind == "gthread":
        return _gthread_connections(subject)
    if subject.kind not in _COUNTS:
        if not subject.given("worker_connections") or subject.kind == "unknown":
            return None
        if subject.kind == "asgi" and subject.mechanics.get("asgi_limits"):
            return None
        because = {
            "sync": "the sync worker has one connection at a time",
            "asgi": "the asgi worker reads it and never compares it with anything",
        }.get(subject.kind, f"the {subject.kind} worker does not read it")
        remedy = "leave it out; a limit needs a proxy in front, or a worker that has one"
        return finding(subject, "worker_connections", "does nothing", because, remedy, f"workers of {subject.named}")
    return _slots(subject)


def _slots(subject: Subject) -> Finding | None:
    limit, keepalive_s = subject.number("worker_connections"), subject.number("keepalive")
    times = subject.times
    if times is not None and limit > 2 * times.enough:
        slowest_s = limit * times.cpu_ms / 1000
        because = (
            f"with {times.cpu_ms:g} ms of CPU and {times.network_ms:g} ms of waiting, {times.enough} requests in "
            "progress "
            f"fill a core; {limit} of them wait {slowest_s:.1f} s for each other"
        )
        remedy = (
            f"{times.enough} (1 + waiting/CPU), and keepalive 0 with it: it counts connections, and idle ones hold "
            "their "
            "slot; it pays where another worker has room, or where what waits too long is refused"
        )
        return finding(subject, "worker_connections", "harms", because, remedy, "R = N × C once a core is full")
    if not subject.given("worker_connections"):
        because = f"{limit} is no limit in practice: it suits 1 ms of CPU per second of waiting"
        remedy = "give --cpu-ms and --network-ms of a typical request, and the number that suits them is printed here"
        return finding(subject, "worker_connections", "note", because, remedy, "1 + waiting/CPU requests fill a core")
    if keepalive_s and limit < _FEW_CONNECTIONS:
        because = (
            f"it counts connections, not requests: a client or proxy that keeps its connection holds one of {limit} "
            "slots "
            f"for {keepalive_s} s after its answer, and the next ones are answered {keepalive_s} s later"
        )
        remedy = "keepalive 0 with it, or a limit above the connections that all clients keep"
        evidence = "run: 3 slots, keep-alive 5 s, 12 clients: 3 answers each after 0.05, 5.1, 10.2 and 15.2 s"
        return finding(subject, "worker_connections", "harms", because, remedy, evidence)
    return None


def _gthread_connections(subject: Subject) -> Finding | None:
    limit, threads = subject.number("worker_connections"), subject.number("threads")
    if limit <= threads:
        if not subject.number("keepalive"):
            return None
        because = f"gthread keeps at most worker_connections - threads = {limit - threads} idle connections: none"
        return finding(
            subject, "keepalive", "does nothing", because, "worker_connections above threads, or keepalive 0",
            "gthread.max_keepalived",
        )  # fmt: skip
    if subject.number("workers") < 2:
        return None
    because = (
        f"a worker accepts up to {limit} connections whether or not one of its {threads} threads is free: what comes "
        "after "
        "waits behind busy threads while another worker idles"
    )
    remedy = f"worker_connections {threads} and keepalive 0, so that a worker takes what it can serve at once"
    return finding(subject, "worker_connections", "is not what it seems", because, remedy, _GTHREAD)


def threads(subject: Subject) -> Finding | None:
    """Only one kind of worker has them."""
    if not subject.given("threads"):
        return None
    count = subject.number("threads")
    if subject.kind in _LOOPS and count > 1:
        because = f"the {subject.kind} worker has no thread pool"
        return finding(subject, "threads", "does nothing", because, "leave it out", f"workers of {subject.named}")
    configured = subject.value("worker_class")
    if subject.kind == "gthread" and str(configured) == "sync" and count > 1:
        because = "with the sync worker, more than one thread makes it a gthread worker"
        return finding(
            subject, "threads", "note", because, "say -k gthread, so that readers see it", "config.worker_class"
        )
    return None


def keepalive(subject: Subject) -> Finding | None:
    """The sync worker closes each connection."""
    if subject.kind != "sync" or not subject.given("keepalive") or not subject.number("keepalive"):
        return None
    because = "the sync worker closes every connection after its answer"
    return finding(subject, "keepalive", "does nothing", because, "leave it out, or -k gthread", "sync.handle_request")


def timeout(subject: Subject) -> Finding | None:
    """A heartbeat of the worker, not a limit of a request."""
    if not subject.given("timeout"):
        return None
    seconds = subject.number("timeout")
    if not seconds:
        because = "0 switches the heartbeat off: a worker that hangs stays"
        return finding(subject, "timeout", "note", because, "a number of seconds", "arbiter.murder_workers")
    if subject.kind in (*_LOOPS, "gthread"):
        because = (
            f"it limits no request: the {subject.kind} worker beats while its loop runs, so a request may take for "
            "ever, and "
            f"one that blocks the loop for {seconds} s has all requests of its worker killed"
        )
        remedy = "limit requests where they are made: time-outs of clients and drivers, deadlines"
        return finding(
            subject, "timeout", "is not what it seems", because, remedy, "arbiter.murder_workers, the worker's run"
        )
    return None


def accepts_at_once(subject: Subject) -> Finding | None:
    """How many connections one wake-up takes."""
    if subject.number("workers") < 2 or (subject.value("reuse_port") and subject.mechanics.get("socket_per_worker")):
        return None
    if subject.kind == "gevent" and not subject.mechanics.get("max_accept_one"):
        because = (
            f"in {subject.named} a gevent worker that wakes takes up to 100 waiting connections, whatever the others "
            "do: a "
            "burst lands on one worker"
        )
        evidence = (
            "ggevent.py leaves gevent's max_accept = 100; run: bursts of 20 on 4 workers split up to 20/0/0/0, and "
            "since 20.1.0 about 5/5/5/5"
        )
        return finding(
            subject, "max_accept", "harms", because, "gunicorn 20.1.0 or newer", evidence, value=100
        )  # fmt: skip
    if subject.kind in ("asgi", "uvicorn") and not _uvloop(subject):
        because = (
            "asyncio's loop takes every waiting connection when it wakes, up to `backlog` of them, whatever the "
            "other workers "
            "do: a burst lands on one worker"
        )
        remedy = "uvloop (install it; --asgi-loop auto then takes it), which takes one at a time, or a lower backlog"
        evidence = "asyncio.selector_events._accept_connection; run: bursts of 20 on 4 workers split 20/0/0/0"
        return finding(subject, "backlog", "is not what it seems", because, remedy, evidence)
    return None


def _uvloop(subject: Subject) -> bool:
    return "uvloop" in subject.versions and str(subject.value("asgi_loop") or "auto") != "asyncio"


def backlog(subject: Subject) -> Finding | None:
    """The kernel has the last word."""
    most = subject.kernel.somaxconn
    if not subject.given("backlog") or not most or subject.number("backlog") <= most:
        return None
    because = f"the kernel cuts it to net.core.somaxconn = {most}"
    remedy = f"at most {most}, or raise the sysctl"
    return finding(subject, "backlog", "does nothing", because, remedy, "/proc/sys/net/core/somaxconn, listen(2)")


def preload(subject: Subject) -> Finding | None:
    """gevent patches in the worker, after the application was imported."""
    if not subject.value("preload_app") or subject.kind != "gevent" or subject.mechanics.get("gevent_patched"):
        return None
    because = (
        "the application is imported in the master, and gevent patches in the worker afterwards: modules that took "
        "their "
        "names by then (`from time import sleep`) block the whole worker"
    )
    remedy = "`from gevent import monkey; monkey.patch_all()` on top of the configuration file, or no preload"
    return finding(
        subject, "preload_app", "harms", because, remedy, "ggevent.init_process; the configuration does not patch"
    )


def jitter(subject: Subject) -> Finding | None:
    """It is added to nothing."""
    if not subject.number("max_requests_jitter") or subject.number("max_requests"):
        return None
    because = "without max_requests no worker is recycled, and the jitter is never drawn"
    return finding(subject, "max_requests_jitter", "does nothing", because, "set max_requests", "workers/base.py")


def dirty_workers(subject: Subject) -> Finding | None:
    """They need something to run."""
    if not subject.number("dirty_workers") or subject.value("dirty_apps"):
        return None
    because = "without dirty_apps the process pool is not started"
    return finding(subject, "dirty_workers", "does nothing", because, "set dirty_apps", "arbiter.start")


def worker_tmp_dir(subject: Subject) -> Finding | None:
    """The heartbeat is a file."""
    folder = str(subject.value("worker_tmp_dir") or "") or next(iter(subject.kernel.filesystems), "")
    kind = subject.kernel.filesystems.get(folder, "")
    if not kind or kind in _MEMORY:
        return None
    because = f"the heartbeat is written to {folder} ({kind}): a disk that stalls stops the worker's loop with it"
    return finding(
        subject, "worker_tmp_dir", "note", because, "--worker-tmp-dir /dev/shm", "/proc/mounts, workers/workertmp.py"
    )


RULES: Final[tuple[Callable[[Subject], Finding | None], ...]] = (
    worker_class, reuse_port, accepts_at_once, worker_connections, threads, keepalive, timeout, backlog, backlog_metric,
    preload, jitter, dirty_workers, worker_tmp_dir,
)  # fmt: skip
