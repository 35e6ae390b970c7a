"""Pools of connections: who waits for a place, who holds one, and where the application took it.

| pool | a place is taken by | and given back by | its wait |
|---|---|---|---|
| SQLAlchemy `QueuePool`, `AsyncAdaptedQueuePool` | `_do_get` | `_do_return_conn` | its queue's `get` |
| psycopg_pool, sync and asyncio | `getconn` | `putconn` | `WaitingClient.wait` |
| asyncpg | `PoolConnectionHolder.acquire` | its `_release` | `Pool._acquire` until then |
| redis-py `BlockingConnectionPool` | `get_connection` | `release` | all of it; asyncio: until it connects |
| urllib3, and with it requests | `_get_conn` | `_put_conn` | all of it; only with `block=True` |
| httpcore, and with it httpx | `handle_request` | the body's `close` | `wait_for_connection` |
| aiohttp | `connect` | `_release` | `_wait_for_available_connection` |

Pools that do not limit anything (`NullPool`, redis-py's plain one, urllib3's without `block`) have no places.

Cost: `python -m tests.probes.cost_calls`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Final

from greenlane._native import Resource
from greenlane.probes.calls import span
from greenlane.probes.calls.naming import origin, upstream
from greenlane.probes.patching import Patches
from greenlane.probes.resources import Describe, resource_of
from greenlane.probes.wrapping import Make

__all__ = [
    "place_aiohttp",
    "place_asyncpg",
    "place_httpcore",
    "place_psycopg",
    "place_psycopg_async",
    "place_redis",
    "place_redis_asyncio",
    "place_sqlalchemy",
    "place_sqlalchemy_queue",
    "place_urllib3",
]


def _takes(describe: Describe, key: Callable[[Any], int] = id, frame: Callable[[], Any] | None = None) -> Make:
    """Make a wrapper for a method that takes a place; `key` tells which, from what the method gives."""

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def take(self: Any, *args: Any, **kwargs: Any) -> Any:
            if silent:
                return original(self, *args, **kwargs)
            resource = resource_of(self, "connections", describe)
            asked_ns = resource.ask()
            try:
                taken = original(self, *args, **kwargs)
            except BaseException:
                resource.fail(asked_ns, frame and frame())
                raise
            resource.take(key(taken), asked_ns, frame and frame())
            return taken

        return take

    return make


def _takes_awaited(describe: Describe, key: Callable[[Any], int] = id) -> Make:
    """Likewise for a coroutine function."""

    def make(original: Callable[..., Awaitable[Any]], silent: list[bool]) -> Callable[..., Any]:
        async def take(self: Any, *args: Any, **kwargs: Any) -> Any:
            if silent:
                return await original(self, *args, **kwargs)
            resource = resource_of(self, "connections", describe)
            asked_ns = resource.ask()
            try:
                taken = await original(self, *args, **kwargs)
            except BaseException:
                resource.fail(asked_ns)
                raise
            resource.take(key(taken), asked_ns)
            return taken

        return take

    return make


class _Asked:
    """A task's wait for a place, whose end another function sees.

    Args:
        over: there is a place.
    """

    __slots__ = ("from_ns", "over")

    def __init__(self, from_ns: int, *, over: bool) -> None:
        self.from_ns = from_ns
        self.over = over

    def end(self) -> None:
        """It is over, or was."""
        if not self.over:
            self.over = True
            span.pool_waited(self.from_ns)


_asked: Final[ContextVar[_Asked | None]] = ContextVar("greenlane_asked", default=None)


def _asks(resource_for: Callable[[Any], Resource], is_free: Callable[[Any], object]) -> Make:
    """Make a wrapper for a coroutine function that waits for a place, then calls one that `_goes_on` wraps."""

    def make(original: Callable[..., Awaitable[Any]], silent: list[bool]) -> Callable[..., Any]:
        async def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
            if silent:
                return await original(self, *args, **kwargs)
            resource = resource_for(self)
            try:
                free = bool(is_free(self))
            except Exception:  # a version that looks different
                free = True
            asked = _Asked(resource.ask(), over=free)
            before = _asked.set(asked)
            try:
                taken = await original(self, *args, **kwargs)
            except BaseException:
                asked.end()
                resource.fail(asked.from_ns)
                raise
            finally:
                _asked.reset(before)
            resource.take(id(taken), asked.from_ns)
            return taken

        return ask

    return make


def _goes_on(original: Callable[..., Awaitable[Any]], silent: list[bool]) -> Callable[..., Any]:
    async def go_on(self: Any, *args: Any, **kwargs: Any) -> Any:
        asked = _asked.get()
        if asked is not None and not silent:
            asked.end()
        return await original(self, *args, **kwargs)

    return go_on


def _gives(describe: Describe) -> Make:
    """Make a wrapper for a method that gives a place back, its first argument; of a coroutine function, too."""

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def give(self: Any, taken: Any, *args: Any, **kwargs: Any) -> Any:
            if not silent:
                resource_of(self, "connections", describe).give(id(taken))
            return original(self, taken, *args, **kwargs)

        return give

    return make


def _named(library: str, pool: Any, host: Any = None, port: Any = None) -> str:
    name = f"{library} {type(pool).__name__}"
    return f"{name} to {upstream(str(host), port)}" if host else name


# --- SQLAlchemy -------------------------------------------------------------------------------------------------------


def place_sqlalchemy(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `sqlalchemy.pool.impl`."""
    patches.replace(module.QueuePool, "_do_get", _takes(_sqlalchemy, frame=_frame_around_greenlet))
    patches.replace(module.QueuePool, "_do_return_conn", _gives(_sqlalchemy))


def place_sqlalchemy_queue(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `sqlalchemy.util.queue`, where a QueuePool waits; making a connection is not in it."""
    for queue in (module.Queue, module.AsyncAdaptedQueue):
        patches.replace(queue, "get", span.pool_wait)


def _sqlalchemy(pool: Any) -> tuple[str, int]:
    given: Mapping[str, Any] = {}
    with contextlib.suppress(Exception):
        # The creator of an engine's pool: what it connects to stands nowhere else.
        creator = pool._creator
        within = dict(zip(creator.__code__.co_freevars, creator.__closure__, strict=True))
        given = within["cparams"].cell_contents
    unlimited = pool._max_overflow < 0
    name = _named("SQLAlchemy", pool, given.get("host"), given.get("port"))
    return name, 0 if unlimited else pool.size() + pool._max_overflow


def _frame_around_greenlet() -> Any:
    """Give the frame that waits for SQLAlchemy's greenlet: its asyncio engines call their pools in one."""
    greenlet: Any = sys.modules.get("greenlet")
    around = greenlet and greenlet.getcurrent().parent
    return around and around.gr_frame


# --- psycopg_pool, asyncpg --------------------------------------------------------------------------------------------


def place_psycopg(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `psycopg_pool.pool`."""
    patches.replace(module.WaitingClient, "wait", span.pool_wait)
    patches.replace(module.ConnectionPool, "getconn", _takes(_psycopg))
    patches.replace(module.ConnectionPool, "putconn", _gives(_psycopg))


def place_psycopg_async(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `psycopg_pool.pool_async`."""
    patches.replace(module.WaitingClient, "wait", span.pool_wait_awaited)
    patches.replace(module.AsyncConnectionPool, "getconn", _takes_awaited(_psycopg))
    patches.replace(module.AsyncConnectionPool, "putconn", _gives(_psycopg))


def _psycopg(pool: Any) -> tuple[str, int]:
    given: dict[str, Any] = {}
    with contextlib.suppress(Exception):  # given by a function, or wrong
        more = pool.kwargs if isinstance(pool.kwargs, dict) else {}
        given = sys.modules["psycopg"].conninfo.conninfo_to_dict(pool.conninfo, **more)
    return _named("psycopg_pool", pool, given.get("host") or given.get("hostaddr"), given.get("port")), pool.max_size


def place_asyncpg(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `asyncpg.pool`."""
    patches.replace(module.Pool, "_acquire", _asks(_resource_of_asyncpg, lambda pool: not pool._queue.empty()))
    patches.replace(module.PoolConnectionHolder, "acquire", _goes_on)
    patches.replace(module.PoolConnectionHolder, "_release", _gives_asyncpg)


def _gives_asyncpg(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def _release(self: Any) -> Any:
        if not silent:
            _resource_of_asyncpg(self._pool).give(id(self._proxy))
        return original(self)

    return _release


def _resource_of_asyncpg(pool: Any) -> Resource:
    # A pool cannot be referred to weakly. Its queue can, and must not keep it alive.
    name, size = type(pool).__name__, pool._maxsize
    with contextlib.suppress(Exception):
        (dsn,), given = pool._connect_args, pool._connect_kwargs
        host = given.get("host")
        to = upstream(str(host), given.get("port") or 5432) if host else origin(dsn)[0]
        name = f"{name} to {to}"
    return resource_of(pool._queue, "connections", lambda _queue: (f"asyncpg {name}", size))


# --- redis-py ---------------------------------------------------------------------------------------------------------


def place_redis(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `redis.connection`."""
    take = _takes(_redis)
    pool = module.BlockingConnectionPool
    patches.replace(pool, "get_connection", lambda original, silent: take(_waits(original, silent), silent))
    patches.replace(pool, "release", _gives(_redis))


def place_redis_asyncio(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `redis.asyncio.connection`."""
    ask = _asks(_resource_of_redis, lambda pool: pool.can_get_connection())
    patches.replace(module.BlockingConnectionPool, "get_connection", ask)
    patches.replace(module.BlockingConnectionPool, "release", _gives(_redis))
    patches.replace(module.ConnectionPool, "ensure_connection", _goes_on)


def _resource_of_redis(pool: Any) -> Resource:
    return resource_of(pool, "connections", _redis)


def _waits(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def get_connection(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            full = not silent and self.pool.empty()
        except Exception:  # a version that looks different
            full = False
        from_ns = span.now_ns() if full else 0
        try:
            return original(self, *args, **kwargs)
        finally:
            if from_ns:
                span.pool_waited(from_ns)

    return get_connection


def _redis(pool: Any) -> tuple[str, int]:
    given = pool.connection_kwargs
    host = given.get("path") or given.get("host", "localhost")
    return _named("redis-py", pool, host, None if given.get("path") else given.get("port", 6379)), pool.max_connections


# --- HTTP clients -----------------------------------------------------------------------------------------------------


def place_urllib3(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `urllib3.connectionpool`."""
    take = _takes(_urllib3)

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        waits = span.pool_wait(original, silent)
        takes = take(waits, silent)

        def _get_conn(self: Any, *args: Any, **kwargs: Any) -> Any:
            return (takes if self.block else waits)(self, *args, **kwargs)

        return _get_conn

    patches.replace(module.HTTPConnectionPool, "_get_conn", make)
    patches.replace(module.HTTPConnectionPool, "_put_conn", _gives(_urllib3))


def _urllib3(pool: Any) -> tuple[str, int]:
    return _named("urllib3", pool, pool.host, pool.port), pool.pool.maxsize if pool.block else 0


def place_httpcore(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `httpcore`, beneath httpx."""
    sync, asynchronous = module._sync.connection_pool, module._async.connection_pool
    patches.replace(sync.PoolRequest, "wait_for_connection", span.pool_wait)
    patches.replace(sync.ConnectionPool, "handle_request", _takes(_httpcore, _stream))
    patches.replace(sync.PoolByteStream, "close", _gives_stream)
    patches.replace(asynchronous.AsyncPoolRequest, "wait_for_connection", span.pool_wait_awaited)
    patches.replace(asynchronous.AsyncConnectionPool, "handle_async_request", _takes_awaited(_httpcore, _stream))
    patches.replace(asynchronous.PoolByteStream, "aclose", _gives_stream)


def _stream(response: Any) -> int:
    return id(response.stream)


def _gives_stream(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def close(self: Any) -> Any:
        if not silent:
            resource_of(self._pool, "connections", _httpcore).give(id(self))
        return original(self)

    return close


def _httpcore(pool: Any) -> tuple[str, int]:
    return _named("httpcore", pool), pool._max_connections


def place_aiohttp(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `aiohttp.connector`."""
    connector = module.BaseConnector
    patches.replace(connector, "_wait_for_available_connection", span.pool_wait_awaited, optional=True)
    patches.replace(connector, "connect", _takes_awaited(_aiohttp, lambda connection: id(connection.protocol)))
    patches.replace(connector, "_release", _gives_protocol)


def _gives_protocol(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def _release(self: Any, key: Any, protocol: Any, *args: Any, **kwargs: Any) -> Any:
        if not silent:
            resource_of(self, "connections", _aiohttp).give(id(protocol))
        return original(self, key, protocol, *args, **kwargs)

    return _release


def _aiohttp(connector: Any) -> tuple[str, int]:
    return _named("aiohttp", connector), connector.limit
