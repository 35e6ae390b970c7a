"""Drivers that block in C: their Python entry points end a phase; one row a driver.

| driver | seen | left to the permits' stand-still fallback |
|---|---|---|
| psycopg 3 (Python or C) | every wait: `psycopg.waiting`'s functions | nothing known |
| psycopg2 | connect, commit, rollback, execute … (`psycopg2.py`) | connections not made by `psycopg2.connect` |
| MySQLdb (mysqlclient) | connect, query, store_result, commit, rollback, ping | `SSCursor`'s row fetches (a C type) |
| grpc | blocking unary and stream calls, iteration, a call's `result` | nothing known; callbacks have no job |

MySQLdb's `next_result` is left alone: it is called with every statement and almost never waits.

Clients that need nothing here, because they read Python sockets: redis-py (with hiredis too), pymongo, PyMySQL,
http.client, urllib3, requests, httpx, boto3, pika, kazoo.

Not probed on purpose: `sqlite3`. It has no server to wait for; a statement's time is CPU and page cache in this
process, and the thread's CPU clock must see it as part of the phase. Its GIL-free stretches lend the permit, its lock
waits stand still and lend it too.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

from greenlane.phase import Kind
from greenlane.probes.clients import psycopg2
from greenlane.probes.patching import Patches, Place
from greenlane.probes.wrapping import always, when

__all__ = ["absent", "install", "uninstall"]


def install() -> None:
    """Place the probes in the drivers that are imported, and in the others when they are. Idempotent."""
    _patches.install()


def uninstall() -> None:
    """Put the drivers back as they were. Idempotent."""
    _patches.uninstall()


def absent() -> tuple[str, ...]:
    """Names that the imported drivers' versions do not have although the probes ask for them."""
    return _patches.absent()


def _psycopg(patches: Patches, module: ModuleType) -> None:
    wait = always(Kind.DRIVER)
    for name in ("wait", "wait_conn"):
        patches.replace(module, name, wait)
    # `wait` is one of these; which ones exist depends on the platform and on the C implementation.
    for name in ("wait_c", "wait_selector", "wait_select", "wait_poll", "wait_epoll"):
        patches.replace(module, name, wait, optional=True)


def _mysqldb(patches: Patches, module: ModuleType) -> None:
    for name in ("__init__", "query", "commit", "rollback", "ping", "select_db"):
        patches.replace(module.Connection, name, always(Kind.DRIVER))
    # Only a statement with columns has rows to wait for.
    patches.replace(module.Connection, "store_result", when(Kind.DRIVER, lambda self: self.field_count()))


def _grpc(patches: Patches, module: ModuleType) -> None:
    for name in ("_UnaryUnaryMultiCallable", "_StreamUnaryMultiCallable"):
        patches.replace(getattr(module, name), "_blocking", always(Kind.DRIVER))
    for name in ("_SingleThreadedRendezvous", "_MultiThreadedRendezvous"):
        patches.replace(getattr(module, name), "_next", always(Kind.DRIVER))
    for name in ("result", "exception", "traceback", "code", "details", "trailing_metadata"):
        patches.replace(module._MultiThreadedRendezvous, name, when(Kind.DRIVER, _call_runs))


def _call_runs(self: Any, timeout: float | None = None) -> bool:
    return not self.done()


_PLAN: Final[dict[str, Place]] = {
    "psycopg.waiting": _psycopg,
    "psycopg2": psycopg2.place,
    "psycopg2.extras": psycopg2.place_extras,
    "MySQLdb.connections": _mysqldb,
    "grpc._channel": _grpc,
}

_patches: Final = Patches(_PLAN)
