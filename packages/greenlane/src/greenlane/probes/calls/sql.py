"""Calls of databases, by verb and table: psycopg 3 (sync and async), psycopg2, asyncpg, and SQLAlchemy over any driver.

psycopg: statements, commits, and connecting. A commit outside of a transaction sends nothing and is no call. `stream`
and `copy` are left out: they are as long as their caller takes to read. psycopg2 is placed as its phase probes are.
asyncpg: likewise, without its cursors.

SQLAlchemy: a statement, whatever the driver, with the engine's URL for a name. Commits are the drivers' own calls.
SQLite is no upstream: its time is CPU and page cache of this process.

A statement's verb and first table are recorded; values never are. A table is looked for only in front of the first
literal, so that words inside of one cannot be taken for it.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from greenlane.probes.calls import span
from greenlane.probes.calls.naming import PORTS, operation, origin, seconds, upstream
from greenlane.probes.drivers import Seen, connecting
from greenlane.probes.patching import Patches

__all__ = [
    "named",
    "place_asyncpg",
    "place_psycopg",
    "place_psycopg2",
    "place_sqlalchemy",
    "text_of",
]

#: The attribute of a connection that holds its server's name.
_UPSTREAM: Final = "_greenlane_upstream"
_QUOTES_ARE_VALUES: Final = ("mysql", "mariadb")

#: A statement's head: longer ones name their table in it, or do without.
_HEAD: Final = 2048
_REMEMBERED: Final = 512

_COMMENT: Final = re.compile(r"\s*(?:/\*.*?\*/|--[^\n]*(?:\n|$)|\()\s*", re.DOTALL)
_VERB: Final = re.compile(r"\s*([A-Za-z]{1,16})\b")
#: A literal begins: a quote, a dollar quote (not a parameter $1), a number sign (a comment of MySQL).
_LITERAL: Final = re.compile(r"'|\$(?!\d)|#|--|/\*")
_NAME: Final = r'((?:[A-Za-z_]\w{0,62}|"[A-Za-z_]\w{0,62}"|`[A-Za-z_]\w{0,62}`|\.){1,5})'
_AFTER: Final = {
    "SELECT": re.compile(rf"\bFROM\s+(?:ONLY\s+)?{_NAME}", re.IGNORECASE),
    "DELETE": re.compile(rf"\bFROM\s+(?:ONLY\s+)?{_NAME}", re.IGNORECASE),
    "INSERT": re.compile(rf"\bINTO\s+{_NAME}", re.IGNORECASE),
    "REPLACE": re.compile(rf"\bINTO\s+{_NAME}", re.IGNORECASE),
    "MERGE": re.compile(rf"\bINTO\s+{_NAME}", re.IGNORECASE),
    "UPDATE": re.compile(rf"\bUPDATE\s+(?:ONLY\s+)?{_NAME}", re.IGNORECASE),
    "COPY": re.compile(rf"\bCOPY\s+{_NAME}", re.IGNORECASE),
}


def named(statement: Any, *, quotes_are_names: bool = True) -> str:
    """Name a statement: `SELECT bikes`.

    Args:
        statement: text, bytes, or what psycopg composes.
        quotes_are_names: `"..."` encloses a name (the standard); False for MySQL, where it encloses a value.
    """
    return _named(text_of(statement)[:_HEAD], quotes_are_names)


def text_of(statement: Any) -> str:
    """Give the text of a statement; of a composed one, its parts that are no values."""
    if isinstance(statement, str):
        return statement
    if isinstance(statement, bytes):
        return statement[:_HEAD].decode("utf-8", "replace")
    # psycopg's name of it, and psycopg2's.
    parts = getattr(statement, "_obj", getattr(statement, "_wrapped", None))
    if isinstance(parts, str):
        return parts
    if type(statement).__name__ == "Identifier" and isinstance(parts, tuple | list):
        return ".".join(f'"{part}"' for part in parts)
    if type(statement).__name__ == "Composed" and isinstance(parts, tuple | list):
        # A literal ends the text that is looked at, as inside a string.
        return "".join("'" if type(part).__name__ == "Literal" else text_of(part) for part in parts)
    return ""


@functools.lru_cache(_REMEMBERED)
def _named(head: str, quotes_are_names: bool) -> str:
    while comment := _COMMENT.match(head):
        head = head[comment.end() :]
    verb = _VERB.match(head)
    if verb is None:
        return "SQL"
    name = verb[1].upper()
    literal = _LITERAL.search(head)
    told = head[: literal.start()] if literal else head
    if not quotes_are_names:
        told = told.partition('"')[0]
    table = _AFTER[name].search(told) if name in _AFTER else None
    return operation(f"{name} {table[1].replace(chr(34), '').replace('`', '')}" if table else name)


# --- psycopg 3 --------------------------------------------------------------------------------------------------------


def place_psycopg(patches: Patches, module: ModuleType) -> None:
    """Place the spans in `psycopg`."""
    parse = module.conninfo.conninfo_to_dict

    def connect(_class: Any, conninfo: str = "", **kwargs: Any) -> span.Call:
        given = {key: value for key, value in kwargs.items() if key in ("host", "port", "connect_timeout")}
        return _connect(parse(conninfo, **given))

    for prefix, wrapped in (("", span.call), ("Async", span.awaited)):
        connection, cursor = getattr(module, f"{prefix}Connection"), getattr(module, f"{prefix}Cursor")
        server_cursor = getattr(module, f"{prefix}ServerCursor")
        patches.replace(connection, "connect", wrapped(connect))
        patches.replace(connection, "commit", wrapped(_ends("COMMIT")))
        patches.replace(connection, "rollback", wrapped(_ends("ROLLBACK")))
        for owner in (cursor, server_cursor):
            patches.replace(owner, "execute", wrapped(_execute))
        patches.replace(cursor, "executemany", wrapped(_execute))
        for name in ("fetchone", "fetchmany", "fetchall"):
            patches.replace(server_cursor, name, wrapped(_fetch))


def _execute(self: Any, query: Any, *_args: Any, **_kwargs: Any) -> span.Call:
    return span.Call(_server(self._conn), named(query))


def _fetch(self: Any, *_args: Any, **_kwargs: Any) -> span.Call:
    return span.Call(_server(self._conn), "FETCH")


def _ends(name: str) -> Callable[..., span.Call | None]:
    def describe(self: Any) -> span.Call | None:
        # 0: idle, no transaction.
        return span.Call(_server(self), name) if self.pgconn.transaction_status else None

    return describe


def _connect(told: Mapping[str, Any]) -> span.Call:
    host = told.get("host") or told.get("hostaddr") or os.environ.get("PGHOST")
    port = told.get("port") or os.environ.get("PGPORT") or 5432
    timeout = told.get("connect_timeout")
    return span.Call(upstream(host, port), "CONNECT", seconds(float(timeout)) if timeout else None)


def _server(connection: Any) -> str:
    known = connection.__dict__.get(_UPSTREAM)
    if known is None:
        info = connection.info
        known = connection.__dict__[_UPSTREAM] = upstream(info.host, info.port)
    return str(known)


# --- psycopg2 ---------------------------------------------------------------------------------------------------------


def place_psycopg2(patches: Patches, module: ModuleType) -> None:
    """Place the spans in `psycopg2`."""
    parse_dsn = module.extensions.parse_dsn

    def connect(dsn: Any = None, *_args: Any, **kwargs: Any) -> span.Call:
        return _connect({**(parse_dsn(dsn) if dsn else {}), **kwargs})

    seen = Seen(
        connect=span.call(connect),
        connection={
            name: span.call(functools.partial(_psycopg2_ends, name.upper())) for name in ("commit", "rollback")
        },
        cursor={
            **{name: span.call(_psycopg2_execute) for name in ("execute", "executemany", "copy_expert")},
            **{name: span.call(_psycopg2_fetch) for name in ("fetchone", "fetchmany", "fetchall")},
        },
    )
    patches.replace(module, "connect", functools.partial(connecting, module.extensions, seen))


def _psycopg2_execute(self: Any, query: Any, *_args: Any, **_kwargs: Any) -> span.Call:
    return span.Call(_server(self.connection), named(query))


def _psycopg2_fetch(self: Any, *_args: Any, **_kwargs: Any) -> span.Call | None:
    # Only a named cursor's rows are still at the server.
    return span.Call(_server(self.connection), "FETCH") if self.name is not None else None


def _psycopg2_ends(name: str, self: Any) -> span.Call | None:
    # 0: idle, no transaction.
    return span.Call(_server(self), name) if self.info.transaction_status else None


# --- asyncpg ----------------------------------------------------------------------------------------------------------


def place_asyncpg(patches: Patches, module: ModuleType) -> None:
    """Place the spans in `asyncpg`."""
    patches.replace(module, "connect", span.awaited(_asyncpg_connect))
    for name in ("execute", "_do_execute"):
        patches.replace(module.connection.Connection, name, span.awaited(_asyncpg))


def _asyncpg_connect(dsn: str | None = None, *, host: Any = None, port: Any = None, **_kwargs: Any) -> span.Call:
    to = origin(dsn)[0] if dsn and not host else upstream(str(host or os.environ.get("PGHOST") or ""), port or 5432)
    return span.Call(to, "CONNECT")


def _asyncpg(self: Any, query: Any, *_args: Any, **_kwargs: Any) -> span.Call:
    address = self._addr
    return span.Call(upstream(address) if isinstance(address, str) else upstream(*address), named(query))


# --- SQLAlchemy -------------------------------------------------------------------------------------------------------


def place_sqlalchemy(patches: Patches, module: ModuleType) -> None:
    """Place the spans in `sqlalchemy.engine.default`; dialects with functions of their own leave it to their driver."""
    for name in ("do_execute", "do_executemany"):
        patches.replace(module.DefaultDialect, name, span.call(_parameters))
    patches.replace(module.DefaultDialect, "do_execute_no_params", span.call(_statement))


def _parameters(self: Any, cursor: Any, statement: Any, _parameters: Any, context: Any = None) -> span.Call | None:
    return _statement(self, cursor, statement, context)


def _statement(self: Any, _cursor: Any, statement: Any, context: Any = None) -> span.Call | None:
    if self.name == "sqlite":
        return None
    what = named(statement, quotes_are_names=self.name not in _QUOTES_ARE_VALUES)
    if context is None:
        return span.Call(self.name, what)
    url = context.root_connection.engine.url
    host = url.host or (url.query.get("host") if isinstance(url.query.get("host"), str) else None)
    return span.Call(upstream(host, url.port or PORTS.get(self.name)), what)
