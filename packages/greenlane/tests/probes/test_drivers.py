"""Drivers that wait in C are phase ends by their Python entry points."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
from tests.probes.observer import Observer

from greenlane import probes
from greenlane.phase import Kind

DRIVER = [Kind.DRIVER]


@pytest.fixture
def channel(seen: Observer) -> Any:
    """A gRPC channel to a real server of this process with one method of each shape."""
    grpc = pytest.importorskip("grpc")

    def shout(requests: Any, context: Any) -> Any:
        yield from (request.upper() for request in requests)

    handlers = grpc.method_handlers_generic_handler(
        "Echo",
        {
            "Unary": grpc.unary_unary_rpc_method_handler(lambda request, context: request.upper()),
            "Fail": grpc.unary_unary_rpc_method_handler(lambda request, context: context.abort(5, "no such thing")),
            "Join": grpc.stream_unary_rpc_method_handler(lambda requests, context: b"".join(requests)),
            "Split": grpc.unary_stream_rpc_method_handler(lambda request, context: iter([request] * 2)),
            "Both": grpc.stream_stream_rpc_method_handler(shout),
        },
    )
    server = grpc.server(ThreadPoolExecutor(2), handlers=(handlers,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as made:
        yield made
    server.stop(None).wait()


def test_grpc(channel: Any, seen: Observer) -> None:
    import grpc

    assert probes.absent() == ()
    unary = channel.unary_unary("/Echo/Unary")
    assert seen.during(unary, b"a") == DRIVER
    assert seen.during(unary.with_call, b"a") == DRIVER
    with pytest.raises(grpc.RpcError, match="no such thing"):
        seen.during(channel.unary_unary("/Echo/Fail"), b"a")
    assert seen.ends[-1] is Kind.DRIVER
    assert seen.during(channel.stream_unary("/Echo/Join"), iter([b"a", b"b"]))[-1] is Kind.DRIVER
    future = unary.future(b"a")
    waited = seen.during(future.result)
    assert waited in (DRIVER, []), "it may have come already"
    assert seen.during(future.result) == []
    for call in (channel.unary_stream("/Echo/Split")(b"a"), channel.stream_stream("/Echo/Both")(iter([b"a", b"b"]))):
        assert seen.during(next, call) == DRIVER
        assert seen.during(next, call) == DRIVER
        with pytest.raises(StopIteration):
            seen.during(next, call)


MYSQLDB = '''
class C:
    """Stands for _mysql.connection: everything in C."""
    def __init__(self, *args, **kwargs): self.fields = 0
    def query(self, text): self.fields = text.startswith(b"SELECT")
    def store_result(self): return "rows" if self.fields else None
    def field_count(self): return int(self.fields)
    def commit(self): pass
    def rollback(self): pass
    def ping(self): pass
    def select_db(self, name): pass

class Connection(C):
    def __init__(self, *args, **kwargs): super().__init__(*args, **kwargs)
    def query(self, text): C.query(self, text)
'''


def test_mysqldb_by_a_stand_in(seen: Observer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "MySQLdb").mkdir()
    (tmp_path / "MySQLdb" / "__init__.py").touch()
    (tmp_path / "MySQLdb" / "connections.py").write_text(MYSQLDB)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "MySQLdb", raising=False)
    monkeypatch.delitem(sys.modules, "MySQLdb.connections", raising=False)
    from MySQLdb.connections import Connection  # type: ignore[import-untyped, import-not-found, unused-ignore]

    assert probes.absent() == ()
    assert seen.during(Connection, host="db") == DRIVER
    connection = Connection()
    assert seen.during(connection.query, b"SELECT 1") == DRIVER
    assert seen.during(connection.store_result) == DRIVER
    assert seen.during(connection.query, b"UPDATE x SET y = 1") == DRIVER
    assert seen.during(connection.store_result) == []
    for name in ("commit", "rollback", "ping"):
        assert seen.during(getattr(connection, name)) == DRIVER
    assert seen.during(connection.select_db, "other") == DRIVER


def test_psycopg_waits_in_its_wait_functions(seen: Observer) -> None:
    waiting: ModuleType = pytest.importorskip("psycopg.waiting")

    def nothing_to_wait_for() -> Any:
        return 7
        yield

    assert probes.absent() == ()
    assert waiting.wait(nothing_to_wait_for(), 0) == 7
    assert seen.ends == DRIVER
    with pytest.raises(Exception, match="refused"):
        seen.during(pytest.importorskip("psycopg").connect, "host=127.0.0.1 port=1")
    assert Kind.DRIVER in seen.ends[1:]


def test_sqlite_is_cpu_work(seen: Observer) -> None:
    import sqlite3

    connection = sqlite3.connect(":memory:")
    assert seen.during(connection.execute, "select 1") == []
    connection.close()


def test_a_pool_smaller_than_its_users_is_a_wait(seen: Observer) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(
        "sqlite://", poolclass=sqlalchemy.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.01
    )
    with engine.connect(), pytest.raises(sqlalchemy.exc.TimeoutError):
        seen.during(engine.connect)
    assert seen.ends == [Kind.LOCK]
    held = engine.connect()
    seen.meanwhile = held.close
    assert seen.during(lambda: engine.connect().close()) == [Kind.LOCK]
    engine.dispose()
