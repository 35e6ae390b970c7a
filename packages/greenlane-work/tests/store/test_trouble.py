"""A store that is locked, full, damaged, unreachable or refuses: said clearly, and no answer is lost."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.store.places import Place

from greenlane.errors import SettingsError, StoreRefused, StoreUnavailable
from greenlane_tools.lab.processes import descendants
from greenlane_work.drivers import without_password
from greenlane_work.store import Answer, Operation, Retention, State, Store, open_store
from greenlane_work.store.backend import Leaseholder
from greenlane_work.store.rules import Kind, Outcomes
from greenlane_work.store.shared import Ask
from greenlane_work.store.sqlite import SQLite
from tests.servers import Postgres, Redis


@pytest.fixture
def opened() -> Iterator[Callable[..., Store]]:
    with contextlib.ExitStack() as block:

        def give(url: str, **options: float) -> Store:
            store = open_store(url, **{"patience_s": 0.3, **options})
            block.callback(store.close, 0)
            return store

        yield give


def send(server: Redis | Postgres, number: signal.Signals) -> None:
    """Signal a server's every process; PostgreSQL's lead process groups of their own."""
    for pid in descendants(server.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def opens(store: Store) -> bool:
    """Whether it could be opened within its patience, which is short here and the machine may be busy."""
    with contextlib.suppress(StoreUnavailable):
        store.check()
        return True
    return False


def begun(store: Store, key: str) -> Answer:
    """What it says of an order once it answers within its patience, likewise."""
    answers: list[Answer] = []

    def answered() -> bool:
        with contextlib.suppress(StoreUnavailable):
            answers.append(store.begin(key))
        return bool(answers)

    until(answered)
    return answers[0]


def test_a_question_that_nobody_waits_for_is_taken_back(place: Place) -> None:
    store, other = place.open(patience_s=0.1), place.open()
    until(lambda: opens(store))
    held, go = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        visit = pool.submit(store.visit, lambda _: (held.set(), go.wait(10)))
        assert held.wait(10)
        with pytest.raises(StoreUnavailable, match=r"begin: ask the store: store=.*, expected an answer within 0.1 s"):
            store.begin("k")
        go.set()
        with contextlib.suppress(StoreUnavailable):
            visit.result()
    until(lambda: store.counts.withdrawn == 1 and not store.waiting)
    assert other.begin("k").state is State.NEW


def test_a_locked_file_makes_orders_wait_and_loses_no_ending(tmp_path: Path, opened: Callable[..., Store]) -> None:
    store = opened(f"sqlite:///{tmp_path}/orders.db")
    until(lambda: opens(store))
    begun(store, "called")
    stranger = sqlite3.connect(tmp_path / "orders.db", isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        store.begin("new")
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(store.done, "called", b"r")
        until(lambda: store.trouble is not None)
        assert "expected one that SQLite can use (database is locked)\nhint: look with `fuser`" in str(store.trouble)
        assert not ending.done()
        stranger.execute("ROLLBACK")
        assert ending.result(30).state is State.DONE
    stranger.close()
    assert begun(store, "called").result == b"r"
    assert begun(store, "new").state is State.NEW
    assert store.trouble is None


def test_shares_of_limits_that_are_asked_for_all_the_time_keep_no_question_waiting(
    tmp_path: Path, opened: Callable[..., Store]
) -> None:
    store = opened(f"sqlite:///{tmp_path}/orders.db")
    until(lambda: opens(store))
    began, answers = list[object](), list[object]()

    def again(_: object) -> None:
        """As a worker of many keys: there is always another one to ask for."""
        if not began:
            store.share([taco], again)

    taco = Ask("taco", 5, 5, 0)
    with contextlib.closing(sqlite3.connect(tmp_path / "orders.db", isolation_level=None)) as stranger:
        stranger.execute("BEGIN IMMEDIATE")
        store.share([taco], again)
        store.submit(Kind.BEGIN, "new", began.append)
        until(lambda: bool(began))
        assert isinstance(began[0], StoreUnavailable)
        # Half a second each would be too long: what is known of the store is the answer.
        for _ in range(100):
            store.share([taco], answers.append)
        until(lambda: len(answers) == 100)
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)


FULL = """
import resource, sys, threading
from pathlib import Path
from greenlane.errors import StoreUnavailable
from greenlane_work.store import State, open_store

path = Path(sys.argv[1])
store = open_store(f"sqlite:///{path}", patience_s=0.5)
store.begin("called")
# From here on no file of this process grows: the kernel refuses as a full disk does.
size = max(each.stat().st_size for each in path.parent.iterdir())
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
refused = 0
for number in range(200):
    try:
        store.begin(f"new-{number}")
        store.done(f"new-{number}", b"x" * 60_000, patience_s=0.5)
    except StoreUnavailable as error:
        print(error)
        break
ended = threading.Thread(target=store.done, args=("called", b"r"))
ended.start()
ended.join(0.5)
print("still waiting:", ended.is_alive())
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
ended.join(30)
print("then:", store.begin("called"))
print(store.close())
"""


@pytest.mark.slow
def test_a_full_disk_makes_orders_wait_and_loses_no_ending(tmp_path: Path, run_python: Callable[..., object]) -> None:
    said = run_python(FULL, str(tmp_path / "orders.db")).stdout  # type: ignore[attr-defined]
    assert "still waiting: True" in said
    assert "Answer(state=<State.DONE: 'done'>, result=b'r'" in said
    assert "hint: make room on its disk" in said
    assert said.endswith("True\n")


def test_a_store_that_has_reached_its_own_bound_says_so(tmp_path: Path, opened: Callable[..., Store]) -> None:
    store = opened(f"sqlite:///{tmp_path}/orders.db?max_mb=1", patience_s=5)
    with pytest.raises(StoreUnavailable, match=r"disk is full\)\nhint: make room on its disk, or raise max_mb"):
        for number in range(100):
            store.begin(str(number))
            store.done(str(number), b"x" * 60_000, patience_s=1)
    assert (tmp_path / "orders.db").stat().st_size <= 2**20


def test_a_file_that_is_damaged_makes_orders_wait(tmp_path: Path, opened: Callable[..., Store]) -> None:
    path = tmp_path / "orders.db"
    store = opened(f"sqlite:///{path}", patience_s=10)
    for number in range(50):
        store.begin(str(number))
        store.done(str(number), b"x" * 1000)
    store.close()
    raw = path.read_bytes()
    path.write_bytes(raw[:4096] + b"\xa5" * (len(raw) - 4096))
    damaged = opened(f"sqlite:///{path}", patience_s=10)
    with pytest.raises(StoreRefused, match=r"malformed.*\nhint: stop the workers, then `sqlite3 FILE .recover"):
        damaged.begin("1")


def test_a_file_that_is_deleted_or_replaced_is_noticed_and_opened_anew(
    tmp_path: Path, opened: Callable[..., Store]
) -> None:
    path, url = tmp_path / "orders.db", f"sqlite:///{tmp_path}/orders.db"
    store, late = opened(url, patience_s=10), opened(url, patience_s=10)
    for each, key in ((store, "a"), (late, "b")):
        each.begin(key)
    for file in tmp_path.iterdir():
        file.rename(tmp_path / f"moved-{file.name}")
    assert store.done("a", b"r").state is State.DONE
    assert store.counts.failures == 1
    store.begin("new")
    # The one that still has the old file leaves the new one's log alone.
    late.close()
    assert path.with_name("orders.db-wal").exists()
    other = opened(url, patience_s=10)
    assert other.begin("a").result == b"r"
    assert other.begin("new").state is State.RUNNING
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_rows_that_somebody_else_wrote_stop_neither_tidying_nor_other_orders(
    tmp_path: Path, opened: Callable[..., Store]
) -> None:
    one, other = (opened(f"sqlite:///{tmp_path}/orders.db", patience_s=10) for _ in range(2))
    for key in ("done", "odd"):
        one.begin(key)
    one.done("done")
    with contextlib.closing(sqlite3.connect(tmp_path / "orders.db")) as connection, connection:
        connection.execute("UPDATE orders SET state = 'lost', changed = 0 WHERE key = 'done'")
        connection.execute("UPDATE owners SET process = 'somebody'")
    assert other.visit(lambda backend: backend.tidy()) == (0, False)
    with pytest.raises(StoreRefused, match="key='odd', expected a plain answer, not ValueError"):
        other.begin("odd")
    assert other.begin("done").state is State.DONE
    assert other.begin("new").state is State.NEW


class _Renewless(SQLite):
    """A file in which a lease cannot be renewed, for a reason that nobody has thought of."""

    def apply(self, operations: Sequence[Operation], owner: Leaseholder, renew: bool) -> Outcomes:
        if not operations:
            raise LookupError("odd")
        return super().apply(operations, owner, renew)


def test_an_error_that_nobody_has_thought_of_is_told_and_not_tried_without_end(tmp_path: Path) -> None:
    store = Store(lambda: _Renewless(tmp_path / "orders.db", Retention()), lease_s=0.1)
    store.begin("k")
    until(lambda: store.trouble is not None)
    assert "renew a lease" in str(store.trouble) and "LookupError: odd" in str(store.trouble)
    assert store.done("k").state is State.DONE
    assert store.close()


def _text(path: Path) -> None:
    path.write_text("not a database " * 100)


def _somebody_s(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE users (name TEXT)")


def _later(path: Path) -> None:
    open_store(f"sqlite:///{path}").check()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_text, r"file is not a database\)\nhint: name another file, or move this one away"),
        (_somebody_s, r"expected a store of orders, or a file that is not there yet; it is somebody else's database"),
        (_later, r"expected at most format 1, which this release reads; it is format 99"),
        (Path.mkdir, r"unable to open database file\)\nhint: make its folder, writable for this user"),
    ],
)
def test_a_file_that_is_no_store_is_refused(
    tmp_path: Path, opened: Callable[..., Store], make: Callable[[Path], object], says: str
) -> None:
    make(tmp_path / "orders.db")
    before = (tmp_path / "orders.db").stat().st_size
    store = opened(f"sqlite:///{tmp_path}/orders.db", patience_s=10)
    for ask in (store.check, lambda: store.begin("k")):
        with pytest.raises(StoreRefused, match=says):
            ask()
    assert (tmp_path / "orders.db").stat().st_size == before


def test_a_folder_that_is_not_there_is_refused_by_name(tmp_path: Path, opened: Callable[..., Store]) -> None:
    with pytest.raises(StoreRefused, match=r"file='.*/absent/orders.db'.*\n?.*hint: make its folder"):
        opened(f"sqlite:///{tmp_path}/absent/orders.db", patience_s=10).check()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "expected sqlite:///relative/file"),
        ("orders.db", "expected sqlite:///relative/file"),
        ("mysql://user:secret@host/x", "task_store='mysql://user@host/x', expected sqlite"),
        ("sqlite://orders.db", "three slashes before a relative path"),
        ("sqlite:///", "three slashes"),
        ("sqlite:///x?sync=off", "expected no option but max_mb"),
        ("sqlite:///x?max_mb=lots", "expected max_mb as a whole number"),
        ("sqlite:///a%00b", "three slashes"),
        ("sqlite:/x", "expected sqlite:///relative/file"),
        ("redis://host?may_forget=maybe", "expected may_forget=1 or nothing"),
        ("redis://host/orders", "expected redis://:PASSWORD@HOST:PORT/NUMBER"),
        ("redis://host?sockettimeout=1", "with options of redis-py"),
        ("redis://:sec/ret@host:1/0", "task_store='redis://host:1/0', .*\nhint: write % and two digits"),
        ("redis://[::1/0", "expected redis://"),
        ("unix:///socket?db=x", "expected redis://"),
        ("postgresql://me:sec/ret@host/orders", "task_store='postgresql://me@host/orders', expected postgresql://"),
        ("postgresql://host/orders?sslmod=require", "with options of libpq"),
    ],
)
def test_a_url_of_no_store_is_refused_without_its_password(url: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as refused:
        open_store(url)
    assert not {"secret", "sec", "ret"} & set(re.findall(r"[a-z]+", str(refused.value)))


@pytest.mark.parametrize(
    ("url", "printed"),
    [
        ("amqp://me:secret@host:1//", "amqp://me@host:1//"),
        ("amqp://:s/e?c#r@t@host", "amqp://host"),
        ("amqp:/me:secret@host", "host"),
        ("amqp://a:secret@one;amqp://b:secret@two", "two"),
        ("postgresql://me@host/orders?password=secret@x", "postgresql://me@x"),
        ("sqlite:////var/a@b.db?max_mb=1", "sqlite:////var/a@b.db"),
        ("redis://[::1]:1/0", "redis://[::1]:1/0"),
    ],
)
def test_a_url_is_printed_without_its_password_also_where_that_is_not_escaped(url: str, printed: str) -> None:
    assert without_password(url) == printed


@pytest.mark.system
@pytest.mark.slow
def test_sockets_of_the_file_system_are_found(tmp_path: Path, opened: Callable[..., Store], postgres: str) -> None:
    import psycopg

    with Redis("--appendonly", "yes", "--unixsocket", str(tmp_path / "redis")):
        assert opened(f"unix://{tmp_path}/redis?prefix=x:", patience_s=10).begin("k").state is State.NEW
    with psycopg.connect(postgres) as connection:
        folder, port = (connection.execute(f"SHOW {name}").fetchone() for name in ("unix_socket_directories", "port"))
    assert folder is not None and port is not None
    opened(f"postgresql:///postgres?user=greenlane&host={folder[0]}&port={port[0]}", patience_s=10).check()


@pytest.mark.system
@pytest.mark.slow
def test_a_database_that_cannot_write_every_name_is_refused(opened: Callable[..., Store], postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    store = opened(postgres.rpartition("/")[0] + "/latin", patience_s=10)
    with pytest.raises(StoreRefused, match=r"server_encoding='LATIN1', expected 'UTF8'\nhint: CREATE DATABASE"):
        store.begin("заказ")


class _Guarded(Postgres):
    """A PostgreSQL that asks everybody but its superuser for a password."""

    def prepare(self) -> None:
        super().prepare()
        rules = "host all greenlane 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        (self.folder / "cluster" / "pg_hba.conf").write_text(rules)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Postgres]:
    with _Guarded() as server:
        yield server


@pytest.fixture(scope="module")
def killable_redis() -> Iterator[Redis]:
    with Redis("--appendonly", "yes") as server:
        yield server


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["killable_redis", "guarded"])
def test_a_server_that_is_killed_stopped_and_missed_loses_no_answer(
    kind: str, opened: Callable[..., Store], request: pytest.FixtureRequest
) -> None:
    server: Redis | Postgres = request.getfixturevalue(kind)
    with ThreadPoolExecutor(1) as pool:
        store = opened(server.url)
        until(lambda: opens(store))
        store.begin("before")
        store.done("before", b"1")
        store.begin("called")
        # It stands still: what is asked now may have been recorded when it goes on.
        send(server, signal.SIGSTOP)
        with pytest.raises(StoreUnavailable):
            store.begin("stopped")
        ending: Future[object] = pool.submit(store.done, "called", b"2")
        # It is killed and stays away for a while.
        send(server, signal.SIGKILL)
        server.stop()
        until(lambda: store.trouble is not None)
        with pytest.raises(StoreUnavailable, match=r"store='.*127\.0\.0\.1"):
            store.begin("away")
        assert not ending.done()
        server.start()
        ending.result(30)
        other = opened(server.url, patience_s=10)
        assert [other.begin(key).result for key in ("before", "called")] == [b"1", b"2"]
        until(lambda: not store.waiting)
        assert [other.begin(key).state for key in ("stopped", "away")] == [State.NEW, State.NEW]


@pytest.mark.system
@pytest.mark.slow
def test_postgres_refuses_who_may_not_and_the_orders_wait(opened: Callable[..., Store], guarded: Postgres) -> None:
    import psycopg

    with psycopg.connect(guarded.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE clerk LOGIN PASSWORD 'right'")
        connection.execute("CREATE DATABASE office")
    at = f"127.0.0.1:{guarded.port}"
    for url, says in (
        (f"postgresql://clerk:wrong@{at}/office", 'password authentication failed for user "clerk"'),
        (f"postgresql://clerk:right@{at}/absent", 'database "absent" does not exist'),
        (f"postgresql://clerk:right@{at}/office", "permission denied for schema public"),
    ):
        store = opened(url, patience_s=10)
        with pytest.raises(StoreRefused, match=says) as refusal:
            store.begin("k")
        assert "hint: look at user, password and privileges" in str(refusal.value)
        assert "wrong" not in str(refusal.value) and ":right" not in str(refusal.value)
    with psycopg.connect(guarded.url.replace("/postgres", "/office"), autocommit=True) as connection:
        connection.execute("GRANT ALL ON SCHEMA public TO clerk")
    until(lambda: store.trouble is None)
    assert store.begin("k").state is State.NEW


@pytest.mark.system
@pytest.mark.slow
def test_redis_refuses_who_may_not_and_what_would_forget(opened: Callable[..., Store]) -> None:
    with Redis("--requirepass", "right") as server:
        at = f"127.0.0.1:{server.port}/0"
        for url, says in (
            (f"redis://{at}", "Authentication required"),
            (f"redis://:wrong@{at}", "invalid username-password pair"),
            (f"redis://:right@{at}", r"appendonly='no', expected 'yes': orders must not be forgotten"),
        ):
            with pytest.raises(StoreRefused, match=says):
                opened(url, patience_s=10).begin("k")
        store = opened(f"redis://:right@{at}?may_forget=1", patience_s=10)
        assert store.begin("k").state is State.NEW
    with Redis("--appendonly", "yes", "--maxmemory-policy", "volatile-lru") as server:
        with pytest.raises(StoreRefused, match="maxmemory-policy='volatile-lru', expected 'noeviction'"):
            opened(server.url, patience_s=10).begin("k")


@pytest.mark.system
@pytest.mark.slow
def test_a_full_redis_makes_orders_wait(opened: Callable[..., Store]) -> None:
    import redis

    with Redis("--appendonly", "yes", "--maxmemory", "1mb", "--maxmemory-policy", "noeviction") as server:
        store = opened(server.url)
        with pytest.raises(StoreUnavailable, match="used memory > 'maxmemory'"):
            store.check()
            store.begin("k")
        with redis.Redis.from_url(server.url) as client:
            client.config_set("maxmemory", "100mb")
        until(lambda: store.trouble is None)
        assert store.begin("k").state is State.NEW
