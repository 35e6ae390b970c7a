"""All clients' call spans at once."""

from __future__ import annotations

from typing import Final

from greenlane._native import Recorder
from greenlane.probes.calls import span
from greenlane.probes.patching import Patches

__all__ = ["absent", "install", "uninstall"]


def install(sink: span.Sink | None = None) -> None:
    """Place the spans in the clients that are imported, and in the others when they are. Idempotent.

    Args:
        sink: what stores them; None = this process's recorder.
    """
    span.send_to(sink or Recorder())
    _patches.install()


def uninstall() -> None:
    """Put the clients back as they were. Idempotent."""
    _patches.uninstall()


def absent() -> tuple[str, ...]:
    """Names that the imported clients' versions do not have although the spans ask for them."""
    return _patches.absent()


#: Our own code of them is loaded with the client.
_patches: Final = Patches(
    {
        "requests.sessions": "greenlane.probes.calls.http:place_requests",
        "urllib3.connectionpool": "greenlane.probes.calls.http:place_urllib3",
        "http.client": "greenlane.probes.calls.http:place_http_client",
        "httpx": "greenlane.probes.calls.http:place_httpx",
        "httpcore": "greenlane.probes.calls.pools:place_httpcore",
        "aiohttp.client": "greenlane.probes.calls.aiohttp:place",
        "aiohttp.connector": "greenlane.probes.calls.pools:place_aiohttp",
        "redis.client": "greenlane.probes.calls.redis:place",
        "redis.asyncio.client": "greenlane.probes.calls.redis:place_asyncio",
        "psycopg": "greenlane.probes.calls.sql:place_psycopg",
        "psycopg2": "greenlane.probes.calls.sql:place_psycopg2",
        "psycopg_pool.pool": "greenlane.probes.calls.pools:place_psycopg",
        "psycopg_pool.pool_async": "greenlane.probes.calls.pools:place_psycopg_async",
        "sqlalchemy.engine.default": "greenlane.probes.calls.sql:place_sqlalchemy",
        "sqlalchemy.pool.impl": "greenlane.probes.calls.pools:place_sqlalchemy",
        "sqlalchemy.util.queue": "greenlane.probes.calls.pools:place_sqlalchemy_queue",
        "asyncpg": "greenlane.probes.calls.sql:place_asyncpg",
        "asyncpg.pool": "greenlane.probes.calls.pools:place_asyncpg",
        "redis.connection": "greenlane.probes.calls.pools:place_redis",
        "redis.asyncio.connection": "greenlane.probes.calls.pools:place_redis_asyncio",
        "kombu.messaging": "greenlane.probes.calls.celery:place_kombu",
        "celery.app.base": "greenlane.probes.calls.celery:place_celery",
    }
)
