"""Frameworks, databases and clients with pools smaller than the thread count, unchanged, under real servers."""

import json

import pytest

from tests.system import load


def holds(served) -> None:
    """A mixed load: every answer right, every effect there once, every permit back."""
    outcome = load.mixed(served.port)
    assert outcome.wrong == [], served.process.output
    assert outcome.heavy > 50 and outcome.light > 50 and outcome.failed > 0
    status, body = load.send(served.port, "/total")
    assert (status, json.loads(body)) == (200, {"total": outcome.heavy})
    counted = served.settled_counters()
    assert counted["jobs"] >= outcome.heavy + outcome.light
    # Each heavy request has 6 ms of CPU between its blocking calls. One whose heavy phases all begin inside a driver's
    # own lock gets its turn when that lock is released; else a service on such a driver would have no permits at all.
    assert counted["granted"] + counted["waited"] >= outcome.heavy // 2, counted


def pairs(*those, soak=()):
    """(host, application) each; what is left out of all pairs is in `make soak`."""
    return pytest.mark.parametrize(
        ("host", "app"), [*those, *(pytest.param(*one, marks=pytest.mark.soak) for one in soak)]
    )


@pairs(
    ("worker", "orm_django"), ("gthread", "orm_sqlalchemy"),
    soak=[("worker", "orm_sqlalchemy"), ("gthread", "orm_django")],
)  # fmt: skip
def test_an_orm_on_sqlite(serve, tmp_path, host, app):
    holds(serve(host, app, DATABASE_URL=f"sqlite:///{tmp_path / 'visits.db'}"))


@pytest.fixture
def database(postgres):
    """URL of an empty database."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("drop schema public cascade")
        connection.execute("create schema public")
    return postgres


@pairs(
    ("worker", "orm_sqlalchemy"), ("gthread", "orm_django"),
    ("worker", "driver_psycopg"), ("gthread", "driver_psycopg"),
    soak=[("worker", "orm_django"), ("gthread", "orm_sqlalchemy")],
)  # fmt: skip
def test_an_orm_and_a_driver_on_postgresql(serve, database, host, app):
    holds(serve(host, app, DATABASE_URL=database))


@pytest.mark.parametrize("host", ["worker", "gthread"])
def test_requests_and_urllib3_with_blocking_pools(serve, upstream, host):
    holds(serve(host, "http_client", UPSTREAM_URL=upstream))


@pytest.mark.parametrize("host", ["worker", "gthread"])
@pytest.mark.gate
def test_redis_with_a_blocking_pool_and_locks(serve, redis_url, host):
    holds(serve(host, "redis_client", REDIS_URL=redis_url))
