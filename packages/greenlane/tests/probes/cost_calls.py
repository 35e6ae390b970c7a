"""What a call span costs: `python -m tests.probes.cost_calls` prints nanoseconds; no test, timings fail nothing.

The client's own function is replaced by one that does nothing, so what remains is the span: off (recording switched
off), on, and beside it a client span of OpenTelemetry's SDK with as many attributes as its instrumentations set.
"""

from __future__ import annotations

import functools
import tempfile
import timeit
from types import SimpleNamespace
from typing import Any

import psycopg
import redis
import requests
from sqlalchemy import QueuePool, create_engine

from greenlane._native import Recorder
from greenlane.probes.calls import clients

REPEATS, CALLS = 40, 3_000

STATEMENTS = {
    "requests": "Session.send(session, prepared, timeout=5)",
    "redis": "Redis.execute_command(client, 'GET', 'bike')",
    "psycopg": "Cursor.execute(cursor, 'select id from bikes where id = %s', (7,))",
    # A connection taken and given back, ten frames below the application's.
    "pool": "within(10)",
}


def nanoseconds(statement: str, known: dict[str, Any]) -> float:
    return min(timeit.repeat(statement, number=CALLS, repeat=REPEATS, globals=known)) / CALLS * 1e9


def within(pool: Any, frames: int) -> None:
    if frames:
        within(pool, frames - 1)
    else:
        pool._do_return_conn(pool._do_get())


def main() -> None:
    requests.Session.send = lambda self, request, **kwargs: None  # type: ignore[method-assign, assignment, return-value]
    redis.Redis.execute_command = lambda self, *args, **options: None
    psycopg.Cursor.execute = lambda self, *args, **kwargs: self  # type: ignore[method-assign, assignment]
    info = SimpleNamespace(host="127.0.0.1", port=5432)
    known = {
        "Session": requests.Session,
        "Redis": redis.Redis,
        "Cursor": psycopg.Cursor,
        "session": requests.Session(),
        "prepared": requests.Request("GET", "http://127.0.0.1:8000/bikes/7").prepare(),
        "client": redis.Redis(),
        "within": functools.partial(within, create_engine("sqlite://", poolclass=QueuePool).pool),
        "cursor": SimpleNamespace(_conn=SimpleNamespace(info=info)),
    }
    bare = {name: nanoseconds(statement, known) for name, statement in STATEMENTS.items()}
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        recorder.start(folder, max_bytes=1 << 26, about="{}")
        clients.install(recorder)
        on = {name: nanoseconds(statement, known) for name, statement in STATEMENTS.items()}
        recorder.off()
        off = {name: nanoseconds(statement, known) for name, statement in STATEMENTS.items()}
        recorder.stop()
    for name in STATEMENTS:
        print(f"{name:10} off {off[name] - bare[name]:6.0f} ns   on {on[name] - bare[name]:6.0f} ns")
    print(f"a span of OpenTelemetry's SDK with 6 attributes, not exported: {_theirs():.0f} ns")


def _theirs() -> float:
    from opentelemetry.sdk.trace import TracerProvider

    tracer = TracerProvider().get_tracer("cost")
    attributes = dict.fromkeys(("method", "url", "host", "port", "status", "protocol"), "text")

    def one() -> None:
        with tracer.start_as_current_span("GET", attributes=attributes):
            pass

    return nanoseconds("one()", {"one": one})


if __name__ == "__main__":
    main()
