"""psycopg and psycopg2 against a real PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest
from tests.probes.observer import Observer

from greenlane import probes
from greenlane.phase import Kind

pytestmark = [pytest.mark.system, pytest.mark.timeout(150)]
DRIVER = [Kind.DRIVER]


@pytest.fixture
def dsn(postgres: str) -> str:
    return postgres


def test_psycopg(dsn: str, seen: Observer) -> None:
    psycopg = pytest.importorskip("psycopg")
    made: list[Any] = []
    assert set(seen.during(lambda: made.append(psycopg.connect(dsn)))) >= {Kind.DRIVER}
    with made[0] as connection:
        connection.execute("select 1")
        assert seen.during(connection.execute, "select 1") == DRIVER
        cursor = connection.execute("select generate_series(1, 1000)")
        assert seen.during(cursor.fetchall) == []
        assert seen.during(connection.commit) == DRIVER
        with pytest.raises(psycopg.errors.DivisionByZero):
            seen.during(connection.execute, "select 1 / 0")
        assert seen.during(connection.rollback) == DRIVER
        with connection.cursor("server_side") as named:
            named.execute("select generate_series(1, 1000)")
            assert seen.during(named.fetchmany, 10) == DRIVER


def test_psycopg2(dsn: str, seen: Observer) -> None:
    psycopg2 = pytest.importorskip("psycopg2")
    from psycopg2 import extensions, extras

    assert probes.absent() == ()
    made: list[Any] = []
    assert seen.during(lambda: made.append(psycopg2.connect(dsn))) == DRIVER
    connection = made[0]
    assert isinstance(connection, extensions.connection)
    assert type(connection).__name__ == "connection"
    cursor = connection.cursor()
    assert isinstance(cursor, extensions.cursor)
    assert seen.during(cursor.execute, "select %s", (1,)) == DRIVER
    assert seen.during(cursor.fetchall) == []
    assert seen.during(connection.commit) == DRIVER
    with pytest.raises(psycopg2.errors.DivisionByZero):
        seen.during(cursor.execute, "select 1 / 0")
    assert seen.during(connection.rollback) == DRIVER
    named = connection.cursor("server_side")
    named.execute("select generate_series(1, 1000)")
    assert seen.during(named.fetchmany, 10) == DRIVER
    rows = connection.cursor(cursor_factory=extras.DictCursor)
    assert isinstance(rows, extras.DictCursor)
    assert seen.during(rows.execute, "select 1 as one") == DRIVER
    assert rows.fetchone()["one"] == 1
    positional = connection.cursor(None, extras.RealDictCursor)
    assert seen.during(positional.execute, "select 1 as one") == DRIVER
    connection.close()


@pytest.mark.parametrize("factory", ["connection_factory", "cursor_factory"])
def test_psycopg2_with_factories_of_the_caller(factory: str, dsn: str, seen: Observer) -> None:
    psycopg2 = pytest.importorskip("psycopg2")
    from psycopg2 import extras

    chosen = extras.DictConnection if factory == "connection_factory" else extras.DictCursor
    connection = psycopg2.connect(dsn, **{factory: chosen})
    cursor = connection.cursor()
    assert isinstance(cursor, extras.DictCursor)
    assert seen.during(cursor.execute, "select 1 as one") == DRIVER
    assert dict(cursor.fetchone()) == {"one": 1}
    assert seen.during(connection.commit) == DRIVER
    connection.close()


def test_psycopg2_without_probes_makes_its_own_types(dsn: str) -> None:
    psycopg2 = pytest.importorskip("psycopg2")
    probes.install()
    probes.uninstall()
    connection = psycopg2.connect(dsn)
    assert type(connection) is psycopg2.extensions.connection
    connection.close()
