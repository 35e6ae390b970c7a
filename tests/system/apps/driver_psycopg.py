"""Flask with psycopg itself, which waits in C: a pool of three, and an advisory lock to wait for in PostgreSQL."""

import contextlib
import os
import queue

import flask
import psycopg

from tests.system.apps.work import Failure, burn

url = os.environ["DATABASE_URL"]
idle: queue.Queue = queue.Queue()


def prepare() -> None:
    with psycopg.connect(url) as connection:
        connection.execute("create table if not exists effect (who integer)")


@contextlib.contextmanager
def borrowed():
    if not idle.qsize() and len(made) < 3:
        made.append(psycopg.connect(url))
        idle.put(made[-1])
    connection = idle.get(timeout=30)
    try:
        with connection.transaction():
            yield connection
    finally:
        idle.put(connection)


made: list[psycopg.Connection] = []
application = flask.Flask(__name__)


@application.get("/heavy/<int:n>")
def heavy(n):
    with borrowed() as connection:
        # The next one with this lock waits inside PostgreSQL, so inside libpq, while we compute.
        connection.execute("select pg_advisory_xact_lock(%s)", (n % 2,))
        connection.execute("insert into effect values (%s)", (n,))
        total = burn(6)
    burn(6)
    with borrowed() as connection:
        effects = connection.execute("select count(*) from effect where who = %s", (n,)).fetchone()[0]
    return {"n": n, "effects": effects, "sum": total}


@application.get("/light/<int:n>")
def light(n):
    with borrowed() as connection:
        return {"n": n, "square": connection.execute("select pg_sleep(0.002), %s * %s", (n, n)).fetchone()[1]}


@application.get("/fail/<int:n>")
def fail(n):
    with borrowed() as connection:
        connection.execute("insert into effect values (%s)", (n,))
        raise Failure


@application.get("/total")
def total():
    with borrowed() as connection:
        return {"total": connection.execute("select count(*) from effect").fetchone()[0]}
