"""Calls of a real Redis, PostgreSQL and RabbitMQ."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from tests.probes.heard import Heard
from tests.probes.observer import Observer

from greenlane import probes
from greenlane.probes import enqueued
from greenlane.probes.calls import clients

pytestmark = [pytest.mark.system, pytest.mark.timeout(150)]
OK, ERROR, TIMEOUT = 0, 1, 2
SLOW_NS = 60_000_000
SLEEP = "select pg_sleep(0.06) from pg_class limit 1"


def where(url: str) -> str:
    """host:port of a URL."""
    return url.partition("//")[2].rpartition("@")[2].partition("/")[0]


@pytest.fixture
def redis_call(redis_url: str) -> Callable[[str], tuple[str, str, int]]:
    return lambda name: (where(redis_url), name, OK)


@pytest.mark.gate
def test_redis(redis_url: str, redis_call: Any, heard: Heard) -> None:
    redis = pytest.importorskip("redis")
    with redis.Redis.from_url(redis_url) as client:
        client.set("bike", "secret")
        assert client.get("bike") == b"secret"
        assert heard.told() == [redis_call("SET"), redis_call("GET")]
        with client.pipeline() as pipeline:
            pipeline.watch("bike")
            pipeline.multi()
            pipeline.get("bike").delete("bike").execute()
            assert heard.told() == [redis_call("WATCH"), redis_call("PIPELINE")]
            pipeline.execute()
            assert heard.told() == [], "nothing to send"
        with pytest.raises(redis.ResponseError):
            client.execute_command("NO SUCH")
        assert heard.told() == [(where(redis_url), "NO", ERROR)]
    with redis.Redis.from_url(redis_url, socket_timeout=0.02, retry=None) as client:
        with pytest.raises(redis.TimeoutError):
            client.blpop("empty", 1)
        assert heard.calls[-1].outcome == TIMEOUT


def test_a_redis_reply_is_ready_before_it_is_returned(redis_url: str, timed: Heard) -> None:
    redis = pytest.importorskip("redis")
    with redis.Redis.from_url(redis_url, socket_timeout=5) as client:
        client.ping()
        timed.calls.clear()
        client.eval("for i = 1, 300000 do redis.call('ping') end", 0)
    [call] = timed.calls
    assert call.from_ns < call.ready_ns <= call.to_ns
    assert call.deadline_ns == call.from_ns + 5 * 10**9


def test_redis_asyncio(redis_url: str, redis_call: Any, heard: Heard) -> None:
    redis = pytest.importorskip("redis.asyncio")

    async def main() -> None:
        async with redis.Redis.from_url(redis_url) as client:
            await client.set("bike", "secret")
            async with client.pipeline() as pipeline:
                await pipeline.get("bike").delete("bike").execute()

    asyncio.run(main())
    assert heard.told() == [redis_call("SET"), redis_call("PIPELINE")]


@pytest.mark.gate
def test_psycopg(postgres: str, timed: Heard) -> None:
    psycopg = pytest.importorskip("psycopg")
    server = where(postgres)
    with psycopg.connect(postgres, connect_timeout=7) as connection:
        assert timed.calls[-1].deadline_ns - timed.calls[-1].from_ns == 7 * 10**9
        assert timed.told() == [(server, "CONNECT", OK)]
        connection.execute(SLEEP)
        [call] = timed.calls
        assert call.told == (server, "SELECT pg_class", OK)
        assert call.from_ns + SLOW_NS <= call.ready_ns <= call.to_ns
        timed.calls.clear()
        connection.commit()
        connection.commit()
        assert timed.told() == [(server, "COMMIT", OK)], "the second one had nothing to commit"
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select 1 / %s", (0,))
        connection.rollback()
        assert timed.told() == [(server, "SELECT", ERROR), (server, "ROLLBACK", OK)]
        with connection.cursor("named") as cursor:
            cursor.execute("select relname from pg_class")
            cursor.fetchmany(3)
        assert timed.told()[:2] == [(server, "SELECT pg_class", OK), (server, "FETCH", OK)]


def test_psycopg_async(postgres: str, heard: Heard) -> None:
    psycopg = pytest.importorskip("psycopg")

    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(postgres) as connection:
            await connection.execute("select 1 from pg_class limit 1")

    asyncio.run(main())
    told = heard.told()
    assert told == [(where(postgres), name, OK) for name in ("CONNECT", "SELECT pg_class", "COMMIT")]


def test_the_wait_for_a_connection_of_psycopg_pool_is_a_pool_wait(postgres: str, heard: Heard) -> None:
    psycopg_pool = pytest.importorskip("psycopg_pool")
    with psycopg_pool.ConnectionPool(postgres, min_size=1, max_size=1) as pool:
        with pool.connection():
            with pytest.raises(psycopg_pool.PoolTimeout), pool.connection(timeout=0.03):
                pass
    assert max(to_ns - from_ns for kind, from_ns, to_ns in heard.waits if kind == "pool") > 20_000_000


@pytest.mark.parametrize("first", ["calls", "phases"])
def test_psycopg2_with_the_phase_probes_in_either_order(postgres: str, first: str) -> None:
    psycopg2 = pytest.importorskip("psycopg2")
    from greenlane import phase
    from greenlane.phase import Kind

    before, heard, observer, server = psycopg2.connect, Heard(), Observer(), where(postgres)
    with contextlib.ExitStack() as undone:
        undone.callback(lambda: phase.unsubscribe(observer))
        phase.subscribe(observer)
        for name in (first, "phases" if first == "calls" else "calls"):
            if name == "calls":
                clients.install(heard)
                undone.callback(clients.uninstall)
            else:
                probes.install()
                undone.callback(probes.uninstall)
        with contextlib.closing(psycopg2.connect(postgres)) as connection:
            assert heard.told() == [(server, "CONNECT", OK)]
            with connection.cursor() as cursor:
                assert observer.during(cursor.execute, SLEEP) == [Kind.DRIVER]
                assert heard.told() == [(server, "SELECT pg_class", OK)]
                assert observer.during(connection.commit) == [Kind.DRIVER]
                connection.commit()
                assert heard.told() == [(server, "COMMIT", OK)]
                with pytest.raises(psycopg2.errors.DivisionByZero):
                    cursor.execute("select 1 / 0")
                connection.rollback()
            assert heard.told() == [(server, "SELECT", ERROR), (server, "ROLLBACK", OK)]
            with connection.cursor("named") as cursor:
                cursor.execute("select relname from pg_class")
                assert observer.during(cursor.fetchmany, 3) == [Kind.DRIVER]
            assert heard.told()[:2] == [(server, "SELECT pg_class", OK), (server, "FETCH", OK)]
    assert psycopg2.connect is before


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_statement_of_sqlalchemy_is_one_call_whatever_the_driver(postgres: str, driver: str, heard: Heard) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    pytest.importorskip(driver)
    engine = sqlalchemy.create_engine(postgres.replace("postgresql:", f"postgresql+{driver}:"))
    with engine.connect() as connection:
        heard.calls.clear()
        bikes = sqlalchemy.table("pg_class", sqlalchemy.column("relname"))
        connection.execute(sqlalchemy.select(bikes).where(bikes.c.relname == "secret")).all()
        connection.commit()
    assert heard.told() == [(where(postgres), "SELECT pg_class", OK), (where(postgres), "COMMIT", OK)]
    engine.dispose()


def test_a_statement_of_sqlalchemy_asyncio_is_one_call(postgres: str, heard: Heard) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from sqlalchemy.ext.asyncio import create_async_engine

    async def main() -> None:
        engine = create_async_engine(postgres.replace("postgresql:", "postgresql+psycopg:"))
        async with engine.connect() as connection:
            heard.calls.clear()
            await connection.execute(sqlalchemy.text("select 1 from pg_class limit 1"))
            assert heard.told() == [(where(postgres), "SELECT pg_class", OK)]
        await engine.dispose()

    asyncio.run(main())


@pytest.mark.gate
def test_a_task_sent_to_rabbitmq_carries_its_moment(rabbitmq_url: str, heard: Heard) -> None:
    celery = pytest.importorskip("celery")
    with celery.Celery("shop", broker=rabbitmq_url, set_as_current=False) as app:

        @app.task(name="shop.render")
        def render() -> None:
            """Never run here."""

        render.apply_async(queue="pictures")
        assert heard.told() == [(where(rabbitmq_url), "PUBLISH shop.render", OK)]
        with app.connection_for_read() as connection, connection.SimpleQueue("pictures") as queue:
            message = queue.get(timeout=10)
            message.ack()
    assert enqueued.arrival_ns(message.headers) > 0
