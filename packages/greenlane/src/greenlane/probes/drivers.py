"""Drivers that block in C: their Python entry points end a phase; one row a driver.

| driver | seen | left to the permits' stand-still fallback |
|---|---|---|
| psycopg 3 (Python or C) | every wait: `psycopg.waiting`'s functions | nothing known |
| psycopg2 | connect, commit, rollback, execute … | connections not made by `psycopg2.connect` |
| MySQLdb (mysqlclient) | connect, query, store_result, commit, rollback, ping | `SSCursor`'s row fetches (a C type) |
| grpc | blocking unary and stream calls, iteration, a call's `result` | nothing known; callbacks have no job |

MySQLdb's `next_result` is left alone: it is called with every statement and almost never waits.

Clients that need nothing here, because they read Python sockets: redis-py (with hiredis too), pymongo, PyMySQL,
http.client, urllib3, requests, httpx, boto3, pika, kazoo.

Not probed on purpose: `sqlite3`. It has no server to wait for; a statement's time is CPU and page cache in this
process, and the thread's CPU clock must see it as part of the phase. Its GIL-free stretches lend the permit, its lock
waits stand still and lend it too.

psycopg2's connection and cursor are C types that cannot be patched, so `psycopg2.connect` asks for subclasses of what
it would have made, the caller's own factories included, and the subclasses' methods are wrapped: `isinstance` holds,
`type(...)` has the same name. `set_wait_callback` would see every wait, but it turns COPY and large objects off: not
used. Left to the fallback there: `psycopg2.extensions.connection(...)` called directly, factories that are not classes,
large objects, replication. Asynchronous connections do not block and are made as they were.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from greenlane.phase import Kind
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import Make, always, dress, when

__all__ = [
    "Seen",
    "connecting",
    "place_grpc",
    "place_mysqldb",
    "place_psycopg",
    "place_psycopg2",
    "place_psycopg2_extras",
]


def place_psycopg(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `psycopg.waiting`."""
    wait = always(Kind.DRIVER)
    for name in ("wait", "wait_conn"):
        patches.replace(module, name, wait)
    # `wait` is one of these; which ones exist depends on the platform and on the C implementation.
    for name in ("wait_c", "wait_selector", "wait_select", "wait_poll", "wait_epoll"):
        patches.replace(module, name, wait, optional=True)


def place_mysqldb(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `MySQLdb.connections`."""
    for name in ("__init__", "query", "commit", "rollback", "ping", "select_db"):
        patches.replace(module.Connection, name, always(Kind.DRIVER))
    # Only a statement with columns has rows to wait for.
    patches.replace(module.Connection, "store_result", when(Kind.DRIVER, lambda self: self.field_count()))


def place_grpc(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `grpc._channel`."""
    for name in ("_UnaryUnaryMultiCallable", "_StreamUnaryMultiCallable"):
        patches.replace(getattr(module, name), "_blocking", always(Kind.DRIVER))
    for name in ("_SingleThreadedRendezvous", "_MultiThreadedRendezvous"):
        patches.replace(getattr(module, name), "_next", always(Kind.DRIVER))
    for name in ("result", "exception", "traceback", "code", "details", "trailing_metadata"):
        patches.replace(module._MultiThreadedRendezvous, name, when(Kind.DRIVER, _call_runs))


def _call_runs(self: Any, timeout: float | None = None) -> bool:
    return not self.done()


# --- psycopg2 ---------------------------------------------------------------------------------------------------------

_CONNECTION_WAITS: Final = ("commit", "rollback", "reset", "cancel")
_CURSOR_WAITS: Final = ("execute", "executemany", "callproc", "copy_from", "copy_to", "copy_expert")
# These wait only on a named cursor, whose rows stay on the server; a plain one has them all after `execute`.
_NAMED_CURSOR_WAITS: Final = ("fetchone", "fetchmany", "fetchall", "scroll")
#: Marks our `cursor` method.
_OURS: Final = "_greenlane_cursor"


@dataclass(frozen=True)
class Seen:
    """How each method is wrapped, by its name."""

    connect: Make
    connection: Mapping[str, Make]
    cursor: Mapping[str, Make]


def place_psycopg2(patches: Patches, module: ModuleType) -> None:
    """Place the probe in `psycopg2`."""
    patches.replace(module, "connect", functools.partial(connecting, module.extensions, _PHASES))


def place_psycopg2_extras(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `psycopg2.extras`, whose cursors are Python classes."""
    for cursor in (module.DictCursor, module.RealDictCursor, module.NamedTupleCursor, module.LoggingCursor):
        for name in ("execute", "callproc"):
            patches.replace(cursor, name, always(Kind.DRIVER))


def connecting(
    extensions: ModuleType, seen: Seen, original: Callable[..., Any], silent: list[bool]
) -> Callable[..., Any]:
    """Make `connect` such that what it makes is seen."""
    waited = seen.connect(original, silent)

    @functools.cache
    def seen_cursor(base: type) -> type:
        return _subclass(base, {name: _method(base, name, make, silent) for name, make in seen.cursor.items()})

    @functools.cache
    def seen_connection(base: Any) -> type:
        def cursor(self: Any, *args: Any, **kwargs: Any) -> Any:
            factory = kwargs.get("cursor_factory", args[1] if len(args) > 1 else None) or self.cursor_factory
            if len(args) < 2 and (factory is None or isinstance(factory, type)):
                kwargs["cursor_factory"] = seen_cursor(factory or extensions.cursor)
            return base.cursor(self, *args, **kwargs)

        body: dict[str, Any] = {name: _method(base, name, make, silent) for name, make in seen.connection.items()}
        # A class with a `cursor` of its own has a cursor type in mind (those of `extras` are seen anyway).
        if _innermost(base.cursor) is extensions.connection.cursor:
            body["cursor"] = dress(cursor, base.cursor, base)
            setattr(body["cursor"], _OURS, True)
        return _subclass(base, body)

    def connect(dsn: Any = None, connection_factory: Any = None, cursor_factory: Any = None, **kwargs: Any) -> Any:
        if silent or kwargs.get("async") or kwargs.get("async_"):
            return original(dsn, connection_factory, cursor_factory, **kwargs)
        connection = connection_factory or extensions.connection
        if isinstance(connection, type):
            connection = seen_connection(connection)
        if isinstance(cursor_factory, type):
            cursor_factory = seen_cursor(cursor_factory)
        return waited(dsn, connection, cursor_factory, **kwargs)

    return connect


def _innermost(cursor: Any) -> Any:
    """The method beneath ours: two groups of probes may be in place."""
    while getattr(cursor, _OURS, False):
        cursor = cursor.__wrapped__
    return cursor


def _method(base: type, name: str, make: Make, silent: list[bool]) -> Any:
    original = getattr(base, name)
    return dress(make(original, silent), original, base)


def _subclass(base: type, body: dict[str, Any]) -> type:
    return type(base.__name__, (base,), {**body, "__module__": base.__module__, "__doc__": base.__doc__})


_named: Final = when(Kind.DRIVER, lambda self, *_args, **_kwargs: self.name is not None)
_PHASES: Final = Seen(
    connect=always(Kind.DRIVER),
    connection=dict.fromkeys(_CONNECTION_WAITS, always(Kind.DRIVER)),
    cursor=dict.fromkeys(_CURSOR_WAITS, always(Kind.DRIVER)) | dict.fromkeys(_NAMED_CURSOR_WAITS, _named),
)
