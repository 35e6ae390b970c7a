"""Calls over psycopg 3, sync and async: statements by verb and table, commits, and connecting.

A commit outside of a transaction sends nothing and is no call. `stream` and `copy` are left out: they are as long as
their caller takes to read.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from greenlane.probes.calls import span
from greenlane.probes.calls.naming import seconds, upstream
from greenlane.probes.calls.statement import named
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import Make, dress

__all__ = ["place"]

#: The attribute of a connection that holds its server's name.
_NAME = "_greenlane_upstream"


def place(patches: Patches, module: ModuleType) -> None:
    """Place the spans in `psycopg`."""
    conninfo = module.conninfo.conninfo_to_dict

    def connect(_class: Any, info: str = "", **kwargs: Any) -> span.Call:
        given = {key: value for key, value in kwargs.items() if key in ("host", "port", "connect_timeout")}
        told = conninfo(info, **given)
        host = told.get("host") or told.get("hostaddr") or os.environ.get("PGHOST")
        port = told.get("port") or os.environ.get("PGPORT") or 5432
        timeout = told.get("connect_timeout")
        return span.Call(upstream(host, port), "CONNECT", seconds(float(timeout)) if timeout else None)

    # The module's `connect` is the class method as it was when psycopg was imported.
    patches.replace(module, "connect", span.call(functools.partial(connect, None)))
    for prefix, wrapped in (("", span.call), ("Async", span.awaited)):
        connection, cursor = getattr(module, f"{prefix}Connection"), getattr(module, f"{prefix}Cursor")
        server_cursor = getattr(module, f"{prefix}ServerCursor")
        patches.replace(connection, "connect", _of_class(wrapped(connect)))
        patches.replace(connection, "commit", wrapped(_ends("COMMIT")))
        patches.replace(connection, "rollback", wrapped(_ends("ROLLBACK")))
        for owner in (cursor, server_cursor):
            patches.replace(owner, "execute", wrapped(_statement))
        patches.replace(cursor, "executemany", wrapped(_statement))
        for name in ("fetchone", "fetchmany", "fetchall"):
            patches.replace(server_cursor, name, wrapped(_fetch))


def _of_class(make: Make) -> Make:
    """Make a class method from a class method."""

    def made(original: Any, silent: list[bool]) -> Any:
        function = original.__func__
        return classmethod(dress(make(function, silent), function, original.__self__))

    return made


def _statement(self: Any, query: Any, *_args: Any, **_kwargs: Any) -> span.Call:
    return span.Call(_server(self._conn), named(query))


def _fetch(self: Any, *_args: Any, **_kwargs: Any) -> span.Call:
    return span.Call(_server(self._conn), "FETCH")


def _ends(name: str) -> Callable[..., span.Call | None]:
    def describe(self: Any) -> span.Call | None:
        # 0: idle, no transaction.
        return span.Call(_server(self), name) if self.pgconn.transaction_status else None

    return describe


def _server(connection: Any) -> str:
    known = connection.__dict__.get(_NAME)
    if known is None:
        info = connection.info
        known = connection.__dict__[_NAME] = upstream(info.host, info.port)
    return str(known)
