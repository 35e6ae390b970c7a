"""Calls over SQLAlchemy: a statement, whatever the driver, with the engine's URL for a name.

Commits are the drivers' own calls. SQLite is no upstream: its time is CPU and page cache of this process. Waits for a
connection of the pool are in `pools`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from greenlane.probes.calls import span
from greenlane.probes.calls.naming import PORTS, upstream
from greenlane.probes.calls.statement import named
from greenlane.probes.patching import Patches

__all__ = ["place"]

_QUOTES_ARE_VALUES = ("mysql", "mariadb")


def place(patches: Patches, module: ModuleType) -> None:
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
