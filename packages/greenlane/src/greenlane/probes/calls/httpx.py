"""Calls over httpx, sync and async."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from greenlane.probes.calls import span
from greenlane.probes.calls.naming import PORTS, http_operation, seconds, upstream
from greenlane.probes.calls.own_clock import own_ns
from greenlane.probes.patching import Patches

__all__ = ["place"]


def place(patches: Patches, module: ModuleType) -> None:
    """Place the spans in `httpx`."""
    patches.replace(module.Client, "send", span.call(_send, own_ns))
    patches.replace(module.AsyncClient, "send", span.awaited(_send, own_ns))


def _send(self: Any, request: Any, **_kwargs: Any) -> span.Call:
    url = request.url
    timeout_s = seconds(request.extensions.get("timeout", {}).get("read"))
    port = url.port or PORTS.get(url.scheme)
    return span.Call(upstream(url.host, port), http_operation(request.method, url.path), timeout_s)
