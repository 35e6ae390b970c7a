"""Names of calls are few and hold no value; publishers' headers; waits for pools."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from tests.probes.heard import Heard

from greenlane.probes import enqueued
from greenlane.probes.calls import naming
from greenlane.probes.calls.sql import named


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins without names."""
    monkeypatch.setattr(naming, "_upstreams", set())
    monkeypatch.setattr(naming, "_operations", set())
    yield


def test_upstreams_are_host_and_port() -> None:
    assert naming.upstream("db", 5432) == "db:5432"
    assert naming.upstream("::1", 80) == "[::1]:80"
    assert naming.upstream("/run/redis.sock") == "/run/redis.sock"
    assert naming.upstream(None, None) == "(local)"
    assert naming.origin("https://user:secret@example.org/a/b?c=d") == ("example.org:443", "/a/b")
    assert naming.origin("memory://") == ("memory", "")


def test_at_most_256_upstreams_have_names() -> None:
    names = [naming.upstream(f"host{n}", 80) for n in range(300)]
    assert len(set(names)) == 257
    assert names[-1] == "(other)"
    assert naming.upstream("host7", 80) == "host7:80", "who has a name keeps it"


def test_beyond_1024_operations_only_the_first_word_is_told() -> None:
    names = [naming.operation(f"PUBLISH task{n}") for n in range(1030)]
    assert names[1023] == "PUBLISH task1023"
    assert names[1024:] == ["PUBLISH"] * 6


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("select * from bikes where id = 7", "SELECT bikes"),
        (b"SELECT 1", "SELECT"),
        ('SELECT "b"."id" FROM "bikes" "b"', "SELECT bikes"),
        ("select a, (select 1) from shop.bikes", "SELECT shop.bikes"),
        ("INSERT INTO bikes (name) VALUES ('from secrets')", "INSERT bikes"),
        ("insert into `bikes` values ($1)", "INSERT bikes"),
        ("update only bikes set name = 'x'", "UPDATE bikes"),
        ("DELETE FROM bikes", "DELETE bikes"),
        ("/* from secrets */ -- from secrets\n (SELECT 1 FROM bikes)", "SELECT bikes"),
        ("select 'from secrets' as x from bikes", "SELECT"),
        ("select $$ from secrets $$", "SELECT"),
        ("select $x$ from secrets $x$", "SELECT"),
        ("select 1 -- from secrets", "SELECT"),
        ("with recent as (select 1) select * from recent", "WITH"),
        ("BEGIN", "BEGIN"),
        ("", "SQL"),
        ("7", "SQL"),
        (None, "SQL"),
    ],
)
def test_of_a_statement_verb_and_table_are_told_and_no_value(statement: object, name: str) -> None:
    assert named(statement) == name


def test_what_mysql_encloses_in_double_quotes_is_a_value() -> None:
    assert named('select " from secrets"', quotes_are_names=False) == "SELECT"
    assert named("select `a` from `bikes`", quotes_are_names=False) == "SELECT bikes"


def test_a_composed_statement_tells_its_names_and_not_its_values() -> None:
    sql = pytest.importorskip("psycopg").sql
    assert named(sql.SQL("select {} from {}").format(sql.Identifier("id"), sql.Identifier("bikes"))) == "SELECT bikes"
    assert named(sql.SQL("select {} from {}").format(sql.Literal(" from secrets "), sql.Identifier("b"))) == "SELECT"
    sql = pytest.importorskip("psycopg2.sql")
    assert named(sql.SQL("delete from {}").format(sql.Identifier("shop", "bikes"))) == "DELETE shop.bikes"


def test_headers_tell_their_moment_by_the_wall_clock_when_they_are_of_another_boot() -> None:
    before_ns = time.monotonic_ns()
    told = enqueued.headers()
    assert before_ns <= enqueued.arrival_ns(told) <= time.monotonic_ns()
    elsewhere = {**told, enqueued.AT: 7, enqueued.BOOT: "another"}
    assert enqueued.arrival_ns(elsewhere) > 7
    assert enqueued.arrival_ns({**told, enqueued.AT: before_ns * 2}) <= time.monotonic_ns(), "not in the future"
    assert enqueued.arrival_ns({**elsewhere, enqueued.AT_UNIX: 7}) == 0, "1970"
    for foreign in (None, "7", b"7"):
        assert enqueued.arrival_ns({**elsewhere, enqueued.AT_UNIX: foreign}) == 0


def test_a_task_that_is_sent_is_one_call_and_carries_its_moment(heard: Heard) -> None:
    celery = pytest.importorskip("celery")
    with celery.Celery("shop", broker="memory://", set_as_current=False) as app:
        before_ns = time.monotonic_ns()
        app.send_task("shop.render", args=("secret",), queue="pictures", headers={"theirs": "7"})
        assert heard.told() == [("memory", "PUBLISH shop.render", 0)]
        with app.connection_for_read() as connection, connection.SimpleQueue("pictures") as queue:
            headers = queue.get(timeout=5).headers
    assert headers["theirs"] == "7"
    assert before_ns <= enqueued.arrival_ns(headers) <= time.monotonic_ns()


def test_a_message_published_over_kombu_is_one_call_and_carries_its_moment(heard: Heard) -> None:
    kombu = pytest.importorskip("kombu")
    with kombu.Connection("memory://") as connection, connection.SimpleQueue("bikes") as queue:
        queue.put({"bike": 7})
        message = queue.get(timeout=5)
        assert message.payload == {"bike": 7}
        assert enqueued.arrival_ns(message.headers) > 0
        assert [call.operation for call in heard.calls] == ["PUBLISH bikes"]
        heard.on = False
        queue.put({"bike": 8})
        assert enqueued.AT not in queue.get(timeout=5).headers
    assert len(heard.calls) == 1


def test_sqlite_is_no_upstream_and_the_wait_for_its_pool_is_a_pool_wait(heard: Heard) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    pool = {"poolclass": sqlalchemy.QueuePool, "pool_size": 1, "max_overflow": 0}
    engine = sqlalchemy.create_engine("sqlite://", connect_args={"check_same_thread": False}, **pool)
    held, asked = engine.connect(), threading.Event()

    def other() -> None:
        asked.set()
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("select 1"))

    thread = threading.Thread(target=other)
    thread.start()
    asked.wait()
    time.sleep(0.15)  # what is measured: the other one waits meanwhile, from when it gets a core
    held.close()
    thread.join()
    engine.dispose()
    assert heard.calls == []
    assert max(to_ns - from_ns for kind, from_ns, to_ns in heard.waits if kind == "pool") > 10_000_000
