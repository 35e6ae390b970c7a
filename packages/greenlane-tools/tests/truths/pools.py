"""Truths about pools of connections: each is full, and its holders do something else meanwhile."""

from __future__ import annotations

from tests.truths.truth import GTHREAD, UVICORN, Truth, edited, load, service

_POOL = ("connection_pool",)
_NEITHER = ("take_turns", "more_threads", "off_loop", "to_thread", "more_cores")

_DEPENDENCY = service("pool_dependency", UVICORN, load({"/quote": 40}), 300, postgres=True)
_STATS = service("pool_stats", GTHREAD, load({"/stats": 4}, {"/media": 10}), postgres=True)
_SQLALCHEMY = service("pool_sqlalchemy_async", UVICORN, load({"/order": 20}), 200, postgres=True)
_PSYCOPG = service("pool_psycopg_async", UVICORN, load({"/report": 4}, {"/user": 10}), postgres=True)
_ASYNCPG = service("pool_asyncpg", UVICORN, load({"/transfer": 20}), 200, postgres=True)
_ASYNCPG_REPORT = service("pool_asyncpg_report", UVICORN, load({"/report": 4}, {"/user": 10}), postgres=True)
_REDIS = service("pool_redis", GTHREAD, load({"/jobs": 4}, {"/cart": 8}), redis=True)
_REDIS_ASYNC = service("pool_redis_async", UVICORN, load({"/news": 4}, {"/cart": 10}), redis=True)
_REQUESTS = service("pool_requests", GTHREAD, load({"/price": 12}), 200)
_URLLIB3 = service("pool_urllib3", GTHREAD, load({"/track": 8}), 150)
_HTTPX = service("pool_httpx", GTHREAD, load({"/price": 12}), 200)
_HTTPX_ASYNC = service("pool_httpx_async", UVICORN, load({"/price": 20}), 200)
_DJANGO = service("pool_django", GTHREAD, load({"/invoice": 12}), 250, postgres=True)
_TWO_PSYCOPG = (("min_size=2, max_size=2", "min_size=8, max_size=8"),)

TRUTHS = {
    "pool_dependency": Truth(
        "The pool of 5 is empty: each session keeps its connection over an upstream call of 300 ms.",
        _DEPENDENCY, ("GET /quote",), _POOL, ("release_connection",), (*_NEITHER, "upstream"),
        "QueuePool", 5, "GET /quote", meanwhile="upstream|127.0.0.1", change="database.close() before the call",
        changed=edited(_DEPENDENCY, ("    answer = http", "    database.close()\n    answer = http")),
    ),
    "pool_stats": Truth(
        "The pool of 2 is held by /stats, which is 0.8 s in the database.",
        _STATS, ("GET /media",), _POOL, ("larger_pool",), (*_NEITHER, "upstream"),
        "psycopg", 2, "GET /stats", change="max_size=8", changed=edited(_STATS, *_TWO_PSYCOPG),
    ),
    "pool_sqlalchemy_async": Truth(
        "The pool of 3 is empty: each transaction stays open over an upstream call of 200 ms.",
        _SQLALCHEMY, ("GET /order",), _POOL, ("release_connection",), _NEITHER,
        "QueuePool", 3, "GET /order", meanwhile="upstream|127.0.0.1", change="the call after the block",
        changed=edited(_SQLALCHEMY, ("        await http", "    await http")),
    ),
    "pool_psycopg_async": Truth(
        "The pool of 2 is held by /report, which is 0.6 s in the database.",
        _PSYCOPG, ("GET /user",), _POOL, ("larger_pool",), _NEITHER,
        "psycopg", 2, "GET /report", change="max_size=8", changed=edited(_PSYCOPG, *_TWO_PSYCOPG),
    ),
    "pool_asyncpg": Truth(
        "The pool of 3 is empty: each transaction stays open over an upstream call of 200 ms.",
        _ASYNCPG, ("GET /transfer",), _POOL, ("release_connection",), _NEITHER,
        "asyncpg", 3, "GET /transfer", meanwhile="upstream|127.0.0.1", change="the call after the block",
        changed=edited(_ASYNCPG, ("        await http", "    await http")),
    ),
    "pool_asyncpg_report": Truth(
        "The pool of 2 is held by /report, which is 0.5 s in the database.",
        _ASYNCPG_REPORT, ("GET /user",), _POOL, ("larger_pool",), _NEITHER,
        "asyncpg", 2, "GET /report", change="max_size=8", changed=edited(_ASYNCPG_REPORT, *_TWO_PSYCOPG),
    ),
    "pool_redis": Truth(
        "The pool of 2 is held by /jobs, whose command blocks for a second.",
        _REDIS, ("GET /cart",), _POOL, ("larger_pool",), _NEITHER,
        "[Rr]edis", 2, "GET /jobs", change="max_connections=8",
        changed=edited(_REDIS, ("max_connections=2", "max_connections=8")),
    ),
    "pool_redis_async": Truth(
        "The pool of 2 is held by /news, whose command blocks for 0.8 s.",
        _REDIS_ASYNC, ("GET /cart",), _POOL, ("larger_pool",), _NEITHER,
        "[Rr]edis", 2, "GET /news", change="max_connections=8",
        changed=edited(_REDIS_ASYNC, ("max_connections=2", "max_connections=8")),
    ),
    "pool_requests": Truth(
        "The session has two connections for twelve threads; each is 200 ms with the upstream.",
        _REQUESTS, ("GET /price",), _POOL, ("larger_pool",), _NEITHER,
        "urllib3|requests", 2, "GET /price", change="pool_maxsize=16",
        changed=edited(_REQUESTS, ("pool_maxsize=2", "pool_maxsize=16")),
    ),
    "pool_urllib3": Truth(
        "The pool has one connection for eight threads; it is 150 ms with the upstream.",
        _URLLIB3, ("GET /track",), _POOL, ("larger_pool",), _NEITHER,
        "urllib3", 1, "GET /track", change="maxsize=16", changed=edited(_URLLIB3, ("maxsize=1", "maxsize=16")),
    ),
    "pool_httpx": Truth(
        "The client has two connections for twelve threads; each is 200 ms with the upstream.",
        _HTTPX, ("GET /price",), _POOL, ("larger_pool",), _NEITHER,
        "httpx|httpcore", 2, "GET /price", change="max_connections=16",
        changed=edited(_HTTPX, ("max_connections=2", "max_connections=16")),
    ),
    "pool_httpx_async": Truth(
        "The client has three connections for twenty requests; each is 200 ms with the upstream.",
        _HTTPX_ASYNC, ("GET /price",), _POOL, ("larger_pool",), _NEITHER,
        "httpx|httpcore", 3, "GET /price", change="max_connections=30",
        changed=edited(_HTTPX_ASYNC, ("max_connections=3", "max_connections=30")),
    ),
    "pool_django": Truth(
        "Django's pool of 2 is empty: a request keeps its connection over an upstream call of 250 ms.",
        _DJANGO, ("GET /invoice", "GET invoice"), _POOL, ("release_connection", "larger_pool"), _NEITHER,
        "psycopg|[Dd]jango", 2, "invoice", meanwhile="upstream|127.0.0.1", change="max_size 16",
        changed=edited(_DJANGO, ('"max_size": 2', '"max_size": 16')),
    ),
}  # fmt: skip
