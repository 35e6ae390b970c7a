"""Waits for a free connection of a pool: of the kind pool, whatever lock or queue the pool waits with."""

from __future__ import annotations

from types import ModuleType

from greenlane.probes.calls.span import pool_wait, pool_wait_awaited
from greenlane.probes.patching import Patches

__all__ = [
    "place_aiohttp",
    "place_httpcore",
    "place_psycopg_pool",
    "place_psycopg_pool_async",
    "place_sqlalchemy",
    "place_urllib3",
]


def place_urllib3(patches: Patches, module: ModuleType) -> None:
    """Place the probe in `urllib3.connectionpool`."""
    patches.replace(module.HTTPConnectionPool, "_get_conn", pool_wait)


def place_sqlalchemy(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `sqlalchemy.util.queue`, where a QueuePool waits; making a connection is not in it."""
    for queue in (module.Queue, module.AsyncAdaptedQueue):
        patches.replace(queue, "get", pool_wait)


def place_httpcore(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `httpcore`, beneath httpx."""
    for name, prefix, make in (("_sync", "", pool_wait), ("_async", "Async", pool_wait_awaited)):
        pool = getattr(module, name).connection_pool
        patches.replace(getattr(pool, f"{prefix}PoolRequest"), "wait_for_connection", make)


def place_aiohttp(patches: Patches, module: ModuleType) -> None:
    """Place the probe in `aiohttp.connector`."""
    patches.replace(module.BaseConnector, "_wait_for_available_connection", pool_wait_awaited, optional=True)


def place_psycopg_pool(patches: Patches, module: ModuleType) -> None:
    """Place the probe in `psycopg_pool.pool`."""
    patches.replace(module.WaitingClient, "wait", pool_wait)


def place_psycopg_pool_async(patches: Patches, module: ModuleType) -> None:
    """Place the probe in `psycopg_pool.pool_async`."""
    patches.replace(module.WaitingClient, "wait", pool_wait_awaited)
