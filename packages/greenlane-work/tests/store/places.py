"""Every kind of store, on a real file or server of the session: each test's own, by folder, database or prefix."""

from __future__ import annotations

import contextlib
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from greenlane_work.store import Store, open_store
from tests.servers import Redis

__all__ = ["Place", "durable_redis", "place"]


class Place:
    """Where orders are kept; `open` gives the store of one more worker process, closed with the test."""

    def __init__(self, kind: str, url: str, block: contextlib.ExitStack) -> None:
        self.kind = kind
        self.url = url
        self._block = block

    def open(self, **options: Any) -> Store:
        store = open_store(self.url, **options)
        self._block.callback(store.close, 1)
        return store

    def damage(self, key: str) -> None:
        """Write nonsense over an order's record, as somebody else's program would."""
        _DAMAGE[self.kind](self.url, key)

    def limits_kept(self) -> int:
        """Rows of shared limits that stay there for ever."""
        return _LIMITS_KEPT[self.kind](self.url)


@pytest.fixture(scope="session")
def durable_redis() -> Iterator[str]:
    with Redis("--appendonly", "yes") as server:
        yield server.url


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=[pytest.mark.system, pytest.mark.slow]),
        pytest.param("redis", marks=[pytest.mark.system, pytest.mark.slow]),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A place that nobody has used."""
    with contextlib.ExitStack() as block:
        yield Place(request.param, _URLS[request.param](request, tmp_path), block)


def _sqlite(_: pytest.FixtureRequest, folder: Path) -> str:
    return f"sqlite:///{folder}/orders.db"


def _postgres(request: pytest.FixtureRequest, _: Path) -> str:
    url: str = request.getfixturevalue("postgres")
    name = f"orders_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{url}?options=-csearch_path%3D{name}"


def _redis(request: pytest.FixtureRequest, _: Path) -> str:
    return f"{request.getfixturevalue('durable_redis')}?prefix={uuid.uuid4().hex[:12]}:"


_URLS: dict[str, Callable[[pytest.FixtureRequest, Path], str]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "redis": _redis,
}


def _damage_sqlite(url: str, key: str) -> None:
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("UPDATE orders SET record = x'ff00' WHERE key = ?", (key,))


def _damage_postgres(url: str, key: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE greenlane_orders SET record = '\\xff00' WHERE key = %s", (key,))


def _damage_redis(url: str, key: str) -> None:
    server, _, prefix = url.partition("?prefix=")
    with redis.Redis.from_url(server) as client:
        client.set(f"{prefix}order:{key}", b"\xff\x00")


_DAMAGE: dict[str, Callable[[str, str], None]] = {
    "sqlite": _damage_sqlite,
    "postgres": _damage_postgres,
    "redis": _damage_redis,
}


def _limits_in_sqlite(url: str) -> int:
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return int(connection.execute("SELECT count(*) FROM limits").fetchone()[0])


def _limits_in_postgres(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM greenlane_limits").fetchone()
        assert row is not None
        return int(row[0])


def _limits_in_redis(url: str) -> int:
    server, _, prefix = url.partition("?prefix=")
    with redis.Redis.from_url(server) as client:
        return sum(client.pttl(name) < 0 for name in client.scan_iter(match=f"{prefix}limit:*"))


_LIMITS_KEPT: dict[str, Callable[[str], int]] = {
    "sqlite": _limits_in_sqlite,
    "postgres": _limits_in_postgres,
    "redis": _limits_in_redis,
}
