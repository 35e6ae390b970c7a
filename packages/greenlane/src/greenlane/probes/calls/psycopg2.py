"""Calls over psycopg2: statements by verb and table, commits, and connecting; placed as the phase probes are."""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import Any

from greenlane.probes.calls import span
from greenlane.probes.calls.naming import seconds, upstream
from greenlane.probes.calls.statement import named
from greenlane.probes.clients.psycopg2 import Seen, connecting
from greenlane.probes.patching import Patches

__all__ = ["place"]


def place(patches: Patches, module: ModuleType) -> None:
    """Place the spans in `psycopg2`."""
    told = functools.partial(_connect, module.extensions.parse_dsn)
    seen = Seen(
        connect=span.call(told),
        connection={name: span.call(functools.partial(_ends, name.upper())) for name in ("commit", "rollback")},
        cursor={
            **{name: span.call(_statement) for name in ("execute", "executemany", "copy_expert")},
            **{name: span.call(_fetch) for name in ("fetchone", "fetchmany", "fetchall")},
        },
    )
    patches.replace(module, "connect", functools.partial(connecting, module.extensions, seen))


def _connect(parse_dsn: Any, dsn: Any = None, *_args: Any, **kwargs: Any) -> span.Call:
    told = {**(parse_dsn(dsn) if dsn else {}), **kwargs}
    host = told.get("host") or told.get("hostaddr") or os.environ.get("PGHOST")
    port = told.get("port") or os.environ.get("PGPORT") or 5432
    timeout = told.get("connect_timeout")
    return span.Call(upstream(host, port), "CONNECT", seconds(float(timeout)) if timeout else None)


def _statement(self: Any, query: Any, *_args: Any, **_kwargs: Any) -> span.Call:
    return span.Call(_server(self.connection), named(query))


def _fetch(self: Any, *_args: Any, **_kwargs: Any) -> span.Call | None:
    # Only a named cursor's rows are still at the server.
    return span.Call(_server(self.connection), "FETCH") if self.name is not None else None


def _ends(name: str, self: Any) -> span.Call | None:
    # 0: idle, no transaction.
    return span.Call(_server(self), name) if self.info.transaction_status else None


def _server(connection: Any) -> str:
    return upstream(connection.info.host, connection.info.port)
