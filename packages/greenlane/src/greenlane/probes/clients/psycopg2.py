"""psycopg2: connections and cursors made by `psycopg2.connect` end a phase where they wait for the server.

Its connection and cursor are C types that cannot be patched, so `psycopg2.connect` asks for subclasses of what it would
have made, the caller's own factories included, and the subclasses' methods are wrapped: `isinstance` holds, `type(...)`
has the same name. `set_wait_callback` would see every wait, but it turns COPY and large objects off: not used.

Left to the stand-still fallback: `psycopg2.extensions.connection(...)` called directly, factories that are not
classes, large objects, replication. Asynchronous connections do not block and are made as they were.
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

__all__ = ["Seen", "connecting", "place", "place_extras"]

_CONNECTION_WAITS: Final = ("commit", "rollback", "reset", "cancel")
_CURSOR_WAITS: Final = ("execute", "executemany", "callproc", "copy_from", "copy_to", "copy_expert")
# These wait only on a named cursor, whose rows stay on the server; a plain one has them all after `execute`.
_NAMED_CURSOR_WAITS: Final = ("fetchone", "fetchmany", "fetchall", "scroll")
#: Marks a `cursor` method of ours.
_OURS: Final = "_greenlane_cursor"


@dataclass(frozen=True)
class Seen:
    """How each method is wrapped, by its name."""

    connect: Make
    connection: Mapping[str, Make]
    cursor: Mapping[str, Make]


def place(patches: Patches, module: ModuleType) -> None:
    """Place the probe in `psycopg2`."""
    patches.replace(module, "connect", functools.partial(connecting, module.extensions, _PHASES))


def place_extras(patches: Patches, module: ModuleType) -> None:
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
        # A class with a `cursor` of its own has a cursor type in mind (those of `extras` are seen by `place_extras`).
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
    """The method beneath those of ours: two groups of probes may be in place."""
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
