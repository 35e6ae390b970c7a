"""Blocking calls of CPython's C functions: which are seen, and when one is taken to block.

The functions themselves stay where they are and what they are; only the word in their method tables that CPython reads
at each call is changed (docs/design/0023-method-tables.md). What was copied or made before is seen as well. Python code
that waits (`Condition`, `Event`, `Queue`, `Future`, `Thread.join`, `Popen.wait`, `selectors` ...) ends in one of these
calls; `_WITHIN` says what such a wait is for, where the call alone does not.

Rules, by row:

- `always`: DNS (a look-up of a numeric address takes the resolver's locks, too), `sleep` (`sleep(0)` is how code says
  "somebody else's turn" while it spins: kept out, a spinning permit holder would keep the permit from the job that it
  waits for), signals.
- `not_zero`, `positive`, `without`: by a time-out, or by a flag such as WNOHANG and LOCK_NB.
- `while`, `until`, `tried`: a queue that has something, a thread that has ended, a semaphore that is free end no phase.
- `socket`, `sends`, `sends_all`: not on a non-blocking socket and not with MSG_DONTWAIT. Whether data is there is not
  asked: that would be a system call. Where permits are on, what a job sends over TCP, UDP or a Unix socket (up to 16 kB
  of bytes that fit into its buffer) is sent with the GIL kept, and ends no phase: nobody waits, and an HTTP client's
  request would lose its turn three times (send, wait, receive).
- `receives`, `receives_into`, `connects`, `looks_up`, `closes`: there, too, what needs no wait keeps the GIL (a close
  ends no phase, the others do as ever): data that has come, a connection that stands at once, a numeric
  address. A receive or a connect with a time-out waits without the GIL, and then loses it no second time.
- `tls`, `tls_reads`: what OpenSSL has decrypted already is handed out without an end of the phase; memory BIOs
  (`ssl.SSLObject`, asyncio) never block.
- `acquires`, `releases` ...: a lock that is free ends no phase. Which locks a job holds is counted: a phase that
  begins while it holds one never queues for a permit.
- `by_reader`, `by_writer`: `os.read` and its like only for pipes of `multiprocessing` and `socket.sendfile`. Nothing
  cheap tells other pipes from files in the page cache; the permits' stand-still fallback covers them.

Not seen: a C library that waits by itself. A permit holder whose thread CPU clock stands still lends its permit.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, Final

from greenlane import _native, phase
from greenlane.phase import Kind
from greenlane.probes.patching import Patches

__all__ = ["absent", "install", "seen", "uninstall"]

_SOCKET: Final = "_socket.socket"
_GETBLOCKING: Final = f"{_SOCKET}.getblocking"
_WAIT_OPTIONS: Final = {"rule": "without", "kind": Kind.PROCESS, "name": "options", "mask": os.WNOHANG}
#: Then what a lock says of itself is still true when it is acquired: asking costs less than trying.
_has_gil: Final = getattr(sys, "_is_gil_enabled", lambda: True)()
# Linux' LOCK_NB and LOCK_UN: neither waits for anybody. (`fcntl` need not be loaded yet.)
_FILE_LOCK: Final = {"rule": "without", "kind": Kind.LOCK, "at": 1, "mask": 4 | 8}


def _socket_rows() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "_socket.getaddrinfo", {"rule": "looks_up", "kind": Kind.DNS}
    for name in ("gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo"):
        yield f"_socket.{name}", {"rule": "always", "kind": Kind.DNS}
    # Where each takes its flags; 0 = nowhere.
    flags = {"_accept": 0, "connect_ex": 0, "recvfrom": 1, "recvfrom_into": 2, "recvmsg": 2, "recvmsg_into": 2}
    flags |= {"sendto": 0, "sendmsg": 2}
    for name, at in flags.items():
        yield f"{_SOCKET}.{name}", {"rule": "socket", "kind": Kind.SOCKET, "at": at, "asks": [_GETBLOCKING]}
    for name, rule in (("send", "sends"), ("sendall", "sends_all")):
        yield f"{_SOCKET}.{name}", {"rule": rule, "kind": Kind.SOCKET, "asks": [_GETBLOCKING]}
    for name, rule in (("recv", "receives"), ("recv_into", "receives_into"), ("connect", "connects")):
        asks = [_GETBLOCKING, f"{_SOCKET}.gettimeout"]
        yield f"{_SOCKET}.{name}", {"rule": rule, "kind": Kind.SOCKET, "asks": asks}
    yield f"{_SOCKET}.close", {"rule": "closes", "kind": Kind.SOCKET, "asks": [f"{_SOCKET}.detach"]}


def _lock_rows() -> Iterator[tuple[str, dict[str, Any]]]:
    does = {"acquire": "acquires", "__enter__": "acquires", "release": "releases", "__exit__": "releases"}
    does |= {"_at_fork_reinit": "forgets"}
    plain = does | {"acquire_lock": "acquires", "release_lock": "releases"}
    recursive = does | {"_release_save": "releases_all", "_acquire_restore": "acquires_all"}
    for lock, methods, locked in (("LockType", plain, _has_gil), ("RLock", recursive, False)):
        asks = [f"_thread.{lock}.acquire", *([f"_thread.{lock}.locked"] if locked else [])]
        for name, rule in methods.items():
            yield f"_thread.{lock}.{name}", {"rule": rule, "kind": Kind.LOCK, "asks": asks}


#: Module of the program -> the C functions that are seen from its import on. A row that begins with "?" is not there in
#: every version.
_SEEN: Final[Mapping[str, Mapping[str, dict[str, Any]]]] = {
    "time": {"time.sleep": {"rule": "always", "kind": Kind.SLEEP}},
    "threading": {
        **dict(_lock_rows()),
        "?_thread._ThreadHandle.join": {
            "rule": "until",
            "kind": Kind.FUTURE,
            "asks": ["_thread._ThreadHandle.is_done"],
        },
    },
    "select": {
        "select.select": {"rule": "not_zero", "kind": Kind.SELECT, "at": 3},
        "select.poll().poll": {"rule": "not_zero", "kind": Kind.SELECT},
        "select.epoll.poll": {"rule": "not_zero", "kind": Kind.SELECT, "name": "timeout"},
    },
    "queue": {
        "_queue.SimpleQueue.get": {
            "rule": "while",
            "kind": Kind.QUEUE,
            "at": 1,
            "asks": ["_queue.SimpleQueue.empty"],
        }
    },
    "socket": {**dict(_socket_rows()), "posix.sendfile": {"rule": "by_writer", "kind": Kind.SOCKET}},
    "ssl": {
        **{
            f"_ssl._SSLSocket.{name}": {"rule": "tls", "kind": Kind.SSL, "asks": [_GETBLOCKING]}
            for name in ("write", "do_handshake", "shutdown")
        },
        "_ssl._SSLSocket.read": {
            "rule": "tls_reads",
            "kind": Kind.SSL,
            "asks": [_GETBLOCKING, "_ssl._SSLSocket.pending"],
        },
    },
    "os": {
        "posix.wait": {"rule": "always", "kind": Kind.PROCESS},
        "posix.waitpid": {**_WAIT_OPTIONS, "at": 1},
        "posix.wait3": _WAIT_OPTIONS,
        "posix.wait4": {**_WAIT_OPTIONS, "at": 1},
        "posix.waitid": {**_WAIT_OPTIONS, "at": 2},
    },
    "signal": {
        **{f"_signal.{name}": {"rule": "always", "kind": Kind.PROCESS} for name in ("pause", "sigwait", "sigwaitinfo")},
        "_signal.sigtimedwait": {"rule": "positive", "kind": Kind.PROCESS, "at": 1},
    },
    "fcntl": {"fcntl.flock": _FILE_LOCK, "fcntl.lockf": _FILE_LOCK},
    "multiprocessing.connection": {
        "posix.read": {"rule": "by_reader", "kind": Kind.PROCESS},
        "posix.write": {"rule": "by_writer", "kind": Kind.PROCESS},
    },
    "multiprocessing.synchronize": {
        f"_multiprocessing.SemLock.{name}": {
            "rule": "tried",
            "kind": Kind.LOCK,
            "at": 1,
            "asks": ["_multiprocessing.SemLock.acquire"],
        }
        for name in ("acquire", "__enter__")
    },
}

#: Python functions of the standard library that wait in a call above -> what their waits are for.
_WITHIN: Final[Mapping[str, Mapping[str, Kind]]] = {
    "threading": {"Thread.join": Kind.FUTURE},
    "queue": {"Queue.get": Kind.QUEUE, "Queue.put": Kind.QUEUE, "Queue.join": Kind.QUEUE},
    "concurrent.futures._base": {"Future.result": Kind.FUTURE, "Future.exception": Kind.FUTURE},
    "subprocess": {"Popen.wait": Kind.PROCESS, "Popen.communicate": Kind.PROCESS},
    "socket": {
        "socket.sendfile": Kind.SOCKET,
        "socket._sendfile_use_sendfile": Kind.SOCKET,
        "?socket._sendfile_zerocopy": Kind.SOCKET,
    },
    "multiprocessing.pool": {"ApplyResult.wait": Kind.FUTURE},
    "multiprocessing.connection": {"Connection._recv": Kind.PROCESS, "Connection._send": Kind.PROCESS},
}


def install() -> None:
    """See the calls from now on; those of modules that are not imported yet, from their import. Idempotent."""
    phase.changed = _choose_reported_threads
    _choose_reported_threads()
    _patches.install()


def uninstall() -> None:
    """Put the method tables back. Idempotent; calls under way end as they began."""
    _patches.uninstall()
    _native.blocking_put_back()
    _placed.clear()
    phase.changed = phase._nothing


def absent() -> tuple[str, ...]:
    """Functions that the imported versions do not have, or have in another shape, each with the reason."""
    return _patches.absent()


def seen() -> tuple[str, ...]:
    """Functions whose method tables lead to us now."""
    return tuple(sorted(_placed))


def _choose_reported_threads() -> None:
    """Threads without a job are reported only on request: a recording needs them, permits do not."""
    _native.blocking_report_all(
        any(hasattr(each, "leave") and not getattr(each, "jobs_only", False) for each in phase.subscribers())
    )


def _place(name: str, patches: Patches, module: ModuleType) -> None:
    for path, row in _SEEN.get(name, {}).items():
        try:
            asks = [_find(each) for each in row.get("asks", ())]
            _native.blocking_see(_find(path.lstrip("?")), **{**row, "asks": asks})
            _placed.add(path.lstrip("?"))
        except (ImportError, AttributeError, ValueError) as error:
            if not (path.startswith("?") and isinstance(error, AttributeError)):
                patches.miss(f"{path.lstrip('?')}: {error}")
    for path, kind in _WITHIN.get(name, {}).items():
        try:
            function = _find(f"{name}:{path.lstrip('?')}")
        except AttributeError as error:
            if not path.startswith("?"):
                patches.miss(f"{name}.{path}: {error}")
        else:
            if isinstance(function, FunctionType):  # else somebody has put something else there
                _native.blocking_within(function.__code__, kind)


def _find(path: str) -> Any:
    """Give what `module.Class.method` names; `select.poll()` is an object whose class has no name of its own."""
    module, _, rest = path.partition(":") if ":" in path else path.partition(".")
    found: Any = importlib.import_module(module)
    for name in rest.split("."):
        found = type(getattr(found, name[:-2])()) if name.endswith("()") else getattr(found, name)
    return found


_placed: Final[set[str]] = set()
_patches: Final = Patches({name: partial(_place, name) for name in {**_SEEN, **_WITHIN}})
