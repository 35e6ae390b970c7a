"""Calls over redis-py, sync and asyncio: commands by name, pipelines as one call. Subscriptions are none: they wait."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from greenlane.probes.calls import span
from greenlane.probes.calls.naming import operation, seconds, upstream
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import Make

__all__ = ["place", "place_asyncio"]

#: Commands that wait in the server for as long as their caller wants: a reply that is late by their own timeout is not.
_BLOCKING = ("BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BZPOPMIN", "BZPOPMAX", "XREAD", "XREADGROUP", "WAIT")

#: Commands whose second word belongs to the name; any other one's is a key.
_FAMILIES = frozenset(
    "ACL CLIENT CLUSTER COMMAND CONFIG DEBUG FUNCTION LATENCY MEMORY MODULE OBJECT PUBSUB SCRIPT SENTINEL".split()
) | {"SLOWLOG", "XGROUP", "XINFO"}


def place(patches: Patches, module: ModuleType) -> None:
    """Place the spans in `redis.client`."""
    _place(patches, module, span.call)


def place_asyncio(patches: Patches, module: ModuleType) -> None:
    """Place the spans in `redis.asyncio.client`."""
    _place(patches, module, span.awaited)


def _place(patches: Patches, module: ModuleType, wrapped: Any) -> None:
    command: Make = wrapped(_command)
    patches.replace(module.Redis, "execute_command", command)
    patches.replace(module.Pipeline, "immediate_execute_command", command)
    patches.replace(module.Pipeline, "execute", wrapped(_pipeline))


def _command(self: Any, *args: Any, **_options: Any) -> span.Call:
    # "CLIENT SETNAME" is one argument of redis-py's, and so may be "SET key value"; a name is bytes for some callers.
    text = args[0].decode("ascii", "replace") if isinstance(args[0], bytes) else str(args[0])
    words = text.upper().split(None, 2)
    name = " ".join(words[: 2 if words and words[0] in _FAMILIES else 1])
    return _call(self, operation(name), None if name in _BLOCKING else _timeout_s(self))


def _pipeline(self: Any, *_args: Any, **_kwargs: Any) -> span.Call | None:
    # Nothing collected, nothing watched: it does not call.
    return _call(self, "PIPELINE", _timeout_s(self)) if self.command_stack or self.watching else None


def _timeout_s(self: Any) -> float | None:
    return seconds(self.connection_pool.connection_kwargs.get("socket_timeout"))


def _call(self: Any, name: str, timeout_s: float | None) -> span.Call:
    settings = self.connection_pool.connection_kwargs
    path = settings.get("path")
    where = upstream(path) if path else upstream(settings.get("host", "localhost"), settings.get("port", 6379))
    return span.Call(where, name, timeout_s)
