"""All clients' call spans at once."""

from __future__ import annotations

from typing import Final

from greenlane._native import Recorder
from greenlane.probes.calls import aiohttp, celery, http, httpx, pools, psycopg2, psycopg3, redis, span, sqlalchemy
from greenlane.probes.patching import Patches, Place

__all__ = ["absent", "install", "uninstall"]


def install(sink: span.Sink | None = None) -> None:
    """Place the spans in the clients that are imported, and in the others when they are. Idempotent.

    Args:
        sink: who writes them down; None = this process's recorder.
    """
    span.send_to(sink or Recorder())
    _patches.install()


def uninstall() -> None:
    """Put the clients back as they were. Idempotent."""
    _patches.uninstall()


def absent() -> tuple[str, ...]:
    """Names that the imported clients' versions do not have although the spans ask for them."""
    return _patches.absent()


_PLAN: Final[dict[str, Place]] = {
    "requests.sessions": http.place_requests,
    "urllib3.connectionpool": http.place_urllib3,
    "http.client": http.place_http_client,
    "httpx": httpx.place,
    "httpcore": pools.place_httpcore,
    "aiohttp.client": aiohttp.place,
    "aiohttp.connector": pools.place_aiohttp,
    "redis.client": redis.place,
    "redis.asyncio.client": redis.place_asyncio,
    "psycopg": psycopg3.place,
    "psycopg2": psycopg2.place,
    "psycopg_pool.pool": pools.place_psycopg_pool,
    "psycopg_pool.pool_async": pools.place_psycopg_pool_async,
    "sqlalchemy.engine.default": sqlalchemy.place,
    "sqlalchemy.util.queue": pools.place_sqlalchemy,
    "kombu.messaging": celery.place_kombu,
    "celery.app.base": celery.place_celery,
}

_patches: Final = Patches(_PLAN)
