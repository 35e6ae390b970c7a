"""Who waits for a place of a pool or an executor, how many there are, and who holds them meanwhile, from which line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.record.command import greenlane, recorded

from greenlane_tools.reader import Recording, Resource

pytestmark = [pytest.mark.slow]

# One job takes the only place and holds it until the other one waits for it. In asyncio's programs `the_holder` and
# `the_victim` are coroutine functions.
PRELUDE = """
import asyncio, http.server, sys, threading, time
from greenlane import record

url = sys.argv[1]


def until(happens):
    end_s = time.monotonic() + 20
    while not happens():
        assert time.monotonic() < end_s
        time.sleep(0.002)


async def until_awaited(happens):
    end_s = time.monotonic() + 20
    while not happens():
        assert time.monotonic() < end_s
        await asyncio.sleep(0.002)
"""
THREADS = """

def holder():
    with record.job("holder"):
        the_holder()


def victim():
    with record.job("victim"):
        the_victim()


held, waited = threading.Event(), threading.Event()
threads = [threading.Thread(target=holder), threading.Thread(target=victim)]
threads[0].start()
assert held.wait(20)
threads[1].start()
until(waits)
waited.set()
for thread in threads:
    thread.join(20)
"""
TASKS = """

async def holder():
    with record.job("holder"):
        await the_holder()


async def victim():
    with record.job("victim"):
        await the_victim()


async def main():
    global held, waited
    held, waited = asyncio.Event(), asyncio.Event()
    await before()
    tasks = [asyncio.create_task(holder())]
    await held.wait()
    tasks.append(asyncio.create_task(victim()))
    await until_awaited(waits)
    waited.set()
    await asyncio.gather(*tasks)
    await after()


asyncio.run(main())
"""

SQLALCHEMY = """
from sqlalchemy import create_engine, text

engine = create_engine("sqlite:///shop.db", pool_size=1, max_overflow=0)
engine.connect().close()  # alone: nobody waits


def the_holder():
    with engine.connect() as connection:  # takes
        connection.execute(text("select 1"))
        held.set()
        waited.wait(20)


def the_victim():
    with engine.connect() as connection:  # asks
        connection.execute(text("select 1"))


waits = lambda: engine.pool._pool.not_empty._waiters
"""

# A name of the URL's, and what of the session's URL SQLAlchemy calls differently.
SQLALCHEMY_ASYNC = """
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

engine = create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"), pool_size=1, max_overflow=0)


async def the_holder():
    async with engine.connect() as connection:  # takes
        await connection.execute(text("select 1"))
        held.set()
        await waited.wait()


async def the_victim():
    async with engine.connect() as connection:  # asks
        await connection.execute(text("select 1"))


async def before(): pass
after = engine.dispose
waits = lambda: engine.pool._pool._queue._getters
"""

PSYCOPG = """
from psycopg_pool import ConnectionPool

pool = ConnectionPool(url, min_size=1, max_size=1, open=True)
pool.wait(20)


def the_holder():
    with pool.connection() as connection:  # takes
        connection.execute("select 1")
        held.set()
        waited.wait(20)


def the_victim():
    with pool.connection() as connection:  # asks
        connection.execute("select 1")


waits = lambda: pool._waiting
"""

PSYCOPG_ASYNC = """
from psycopg_pool import AsyncConnectionPool

pool = AsyncConnectionPool(url, min_size=1, max_size=1, open=False)


async def the_holder():
    async with pool.connection() as connection:  # takes
        await connection.execute("select 1")
        held.set()
        await waited.wait()


async def the_victim():
    async with pool.connection() as connection:  # asks
        await connection.execute("select 1")


async def before():
    await pool.open(wait=True)


after = pool.close
waits = lambda: pool._waiting
"""

ASYNCPG = """
import asyncpg


async def the_holder():
    async with pool.acquire() as connection:  # takes
        await connection.fetchval("select 1")
        held.set()
        await waited.wait()


async def the_victim():
    connection = await pool.acquire(timeout=20)  # asks
    await connection.fetchval("select 1")
    await pool.release(connection)


async def before():
    global pool
    pool = await asyncpg.create_pool(url, min_size=1, max_size=1)


async def after():
    await pool.close()


waits = lambda: pool._queue._getters
"""

REDIS = """
import redis

pool = redis.BlockingConnectionPool.from_url(url, max_connections=1, timeout=20)
client = redis.Redis(connection_pool=pool)
client.ping()


def the_holder():
    client.register_script("return 1")
    with client.pipeline() as pipeline:
        pipeline.watch("a")  # takes
        held.set()
        waited.wait(20)


def the_victim():
    client.get("a")  # asks


waits = lambda: pool.pool.not_empty._waiters
"""

REDIS_ASYNC = """
import redis.asyncio as redis

pool = redis.BlockingConnectionPool.from_url(url, max_connections=1, timeout=20)
client = redis.Redis(connection_pool=pool)


async def the_holder():
    async with client.pipeline() as pipeline:
        await pipeline.watch("a")  # takes
        held.set()
        await waited.wait()


async def the_victim():
    await client.get("a")  # asks


async def before():
    await client.ping()


after = pool.disconnect
waits = lambda: pool._condition._waiters
"""

SERVER = """

class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        if self.path == "/slow":
            held.set()
            waited.wait(20)
        self.wfile.write(b"ok")

    def log_message(self, *_): pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
"""

REQUESTS = (
    SERVER
    + """
import requests
from requests.adapters import HTTPAdapter

session = requests.Session()
session.mount("http://", HTTPAdapter(pool_connections=1, pool_maxsize=1, pool_block=True))


def the_holder():
    session.get(f"{url}/slow")  # takes


def the_victim():
    session.get(f"{url}/fast")  # asks


def waits():
    (pool,) = session.get_adapter(url).poolmanager.pools._container.values()
    return pool.pool.not_empty._waiters
"""
)

HTTPX = (
    SERVER
    + """
import httpx

client = httpx.Client(limits=httpx.Limits(max_connections=1), timeout=20)


def the_holder():
    client.get(f"{url}/slow")  # takes


def the_victim():
    client.get(f"{url}/fast")  # asks


waits = lambda: sum(one.is_queued() for one in client._transport._pool._requests)
"""
)

ASYNC_SERVER = """

async def answers(reader, writer):
    while head := await reader.readline():
        while (await reader.readline()).strip(): pass
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n")
        if b"/slow" in head:
            held.set()
            await waited.wait()
        writer.write(b"ok")
        await writer.drain()
    writer.close()


async def serve():
    global url
    server = await asyncio.start_server(answers, "127.0.0.1", 0)
    url = "http://127.0.0.1:%d" % server.sockets[0].getsockname()[1]
"""

HTTPX_ASYNC = (
    ASYNC_SERVER
    + """
import httpx

client = httpx.AsyncClient(limits=httpx.Limits(max_connections=1), timeout=20)


async def the_holder():
    await client.get(f"{url}/slow")  # takes


async def the_victim():
    await client.get(f"{url}/fast")  # asks


before, after = serve, client.aclose
waits = lambda: sum(one.is_queued() for one in client._transport._pool._requests)
"""
)

AIOHTTP = (
    ASYNC_SERVER
    + """
import aiohttp


async def the_holder():
    async with session.get(f"{url}/slow") as answer:  # takes
        await answer.read()


async def the_victim():
    async with session.get(f"{url}/fast") as answer:  # asks
        await answer.read()


async def before():
    global session
    await serve()
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1))


async def after():
    await session.close()


waits = lambda: any(session.connector._waiters.values())
"""
)

EXECUTOR = """
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(1, thread_name_prefix="render")


def draw():  # takes
    held.set()
    waited.wait(20)


def sketch():  # asks
    pass


def the_holder():
    pool.submit(draw).result()


def the_victim():
    pool.submit(sketch).result()


waits = lambda: pool._work_queue.qsize()
"""

DEFAULT_EXECUTOR = """
from concurrent.futures import ThreadPoolExecutor


def read_folder():  # takes
    loop.call_soon_threadsafe(held.set)
    until(waited.is_set)


async def the_holder():
    await asyncio.to_thread(read_folder)


async def the_victim():
    await loop.getaddrinfo("127.0.0.1", 80)


async def before():
    global loop, pool
    loop = asyncio.get_running_loop()
    pool = ThreadPoolExecutor(1, thread_name_prefix="asyncio")
    loop.set_default_executor(pool)


async def after(): pass
waits = lambda: pool._work_queue.qsize()
"""

ANYIO = """
import anyio


def read_folder():  # takes
    anyio.from_thread.run_sync(held.set)
    until(waited.is_set)


def read_file():  # asks
    pass


async def the_holder():
    await anyio.to_thread.run_sync(read_folder)


async def the_victim():
    await anyio.to_thread.run_sync(read_file)


async def before():
    global limiter
    limiter = anyio.to_thread.current_default_thread_limiter()
    limiter.total_tokens = 1


async def after(): pass
waits = lambda: limiter.statistics().tasks_waiting
"""


SEMAPHORE = """
places = threading.BoundedSemaphore(1)


def the_holder():
    with places:  # takes
        held.set()
        waited.wait(20)


def the_victim():
    with places:  # asks
        pass


waits = lambda: places._cond._waiters
"""

LOCK = """
places, asking, looks = threading.Lock(), [], []


def the_holder():
    with places:  # takes
        held.set()
        waited.wait(20)


def the_victim():
    asking.append(threading.get_native_id())
    with places:  # asks
        pass


def waits():  # it sleeps, also when it could have the GIL
    if not asking:
        return False
    with open(f"/proc/self/task/{asking[0]}/status") as status:
        looks.append([line for line in status if line.startswith(("State:\\tS", "voluntary"))])
    return len(looks) > 1 and len(looks[-1]) == 2 and looks[-1] == looks[-2]
"""
TWICE = LOCK.replace("Lock()", "RLock()").replace("places:  # takes", "places, places:  # takes")
#: The lock of a log's handler is taken six frames below the application's.
LOG = """
import logging


class Handler(logging.Handler):
    def emit(self, record):
        if not held.is_set():
            held.set()
            waited.wait(20)  # takes


log = logging.getLogger("app")
log.addHandler(Handler())
log.propagate = False
"""
SIGNAL = """
import threading
from greenlane import record

news = threading.Lock()
with record.job("waits"):
    news.acquire()
    threading.Timer(0.05, news.release).start()
    news.acquire()
"""
LOCK_ASYNC = """
places = asyncio.Lock()


async def the_holder():
    async with places:  # takes
        held.set()
        await waited.wait()


async def the_victim():
    async with places:  # asks
        pass


async def before(): pass
async def after(): pass
waits = lambda: places._waiters
"""

#: Its only process reads a pipe until the victim has given its call.
PROCESSES = """
import os
from concurrent.futures import ProcessPoolExecutor

reads, writes = os.pipe()
processes = ProcessPoolExecutor(1)


def the_holder():
    called = processes.submit(os.read, reads, 1)  # takes
    held.set()
    called.result()


def the_victim():
    called = processes.submit(abs, -7)  # asks
    asked.append(called)
    waited.wait(20)
    os.write(writes, b"1")
    called.result()


asked = []
waits = lambda: asked
"""
APPLY = """
import multiprocessing, os

reads, writes = os.pipe()
processes = multiprocessing.get_context("fork").Pool(1)


def the_holder():
    called = processes.apply_async(os.read, (reads, 1))  # takes
    held.set()
    called.get()


def the_victim():
    asked.append(processes.apply_async(abs, (-7,)))  # asks
    waited.wait(20)
    os.write(writes, b"1")
    asked[0].get()


asked = []
waits = lambda: asked
"""

SEMAPHORE_ASYNC = """
places = asyncio.Semaphore(1)


async def the_holder():
    async with places:  # takes
        held.set()
        await waited.wait()


async def the_victim():
    async with places:  # asks
        pass


async def before(): pass
async def after(): pass
waits = lambda: places._waiters
"""


def resource_of(program: str, folder: Path, url: str = "", kind: str = "") -> tuple[Resource, Recording]:
    """Records the program, and gives the only thing of its kind that was waited for."""
    (folder / "app.py").write_text(program, encoding="utf-8")
    ended = greenlane("record", "-o", "r.glr", "--", sys.executable, "app.py", url, cwd=folder)
    assert ended.code == 0, ended.err
    recording = recorded(folder)
    (resource,) = (each for each in recording.resources if kind in ("", each.kind))
    return resource, recording


def check(program: str, folder: Path, url: str = "", *, kind: str = "connections") -> Resource:
    """Victim, holder and their lines are named, and the wait is the holder's doing."""
    resource, recording = resource_of(program, folder, url, kind)
    assert (resource.kind, resource.capacity) == (kind, 1)
    assert (resource.waits, resource.gave_up) == (1, 0)
    lines = program.splitlines()

    def marked(line: str) -> str:
        return lines[int(line.rpartition(":")[2].rstrip(")")) - 1] if line else ""

    (victim,), (holder,) = resource.victims, resource.holders
    assert (victim.route, victim.waits) == ("victim", 1)
    assert "# asks" not in program or "# asks" in marked(victim.line), victim
    assert (holder.route, holder.holds) == ("holder", 1)
    assert "# takes" in marked(holder.line), holder
    assert holder.ns <= resource.ns
    # asyncio's pools make a task wait for a lock or an event of their own.
    blamed = {row.kind for row in recording.blame if (row.victim, row.culprit) == ("victim", "holder")}
    assert blamed & {"pool", "lock"}
    return resource


def test_a_sqlalchemy_pool(tmp_path: Path) -> None:
    assert check(PRELUDE + SQLALCHEMY + THREADS, tmp_path).name == "SQLAlchemy QueuePool"


@pytest.mark.parametrize(
    ("program", "name"), [(REQUESTS, "urllib3 HTTPConnectionPool to "), (HTTPX, "httpcore ConnectionPool")]
)
def test_the_limits_of_http_clients(program: str, name: str, tmp_path: Path) -> None:
    assert check(PRELUDE + program + THREADS, tmp_path).name.startswith(name)


@pytest.mark.parametrize(
    ("program", "name"), [(HTTPX_ASYNC, "httpcore AsyncConnectionPool"), (AIOHTTP, "aiohttp TCPConnector")]
)
def test_the_limits_of_asyncio_http_clients(program: str, name: str, tmp_path: Path) -> None:
    assert check(PRELUDE + program + TASKS, tmp_path).name == name


def test_an_executor_by_the_prefix_of_its_threads(tmp_path: Path) -> None:
    resource = check(PRELUDE + EXECUTOR + THREADS, tmp_path, kind="threads")
    assert resource.name == "ThreadPoolExecutor render"


def test_a_look_up_of_a_name_waits_in_the_default_executor(tmp_path: Path) -> None:
    resource = check(PRELUDE + DEFAULT_EXECUTOR + TASKS, tmp_path, kind="threads")
    assert resource.name == "asyncio's default executor"
    assert "getaddrinfo" in resource.victims[0].line


def test_the_threads_of_anyio_and_starlette(tmp_path: Path) -> None:
    resource = check(PRELUDE + ANYIO + TASKS, tmp_path, kind="threads")
    assert resource.name == "anyio's threads, CapacityLimiter"


@pytest.mark.parametrize(
    ("program", "run", "name"),
    [(SEMAPHORE, THREADS, "threading.BoundedSemaphore"), (SEMAPHORE_ASYNC, TASKS, "asyncio.Semaphore")],
    ids=["threads", "asyncio"],
)
def test_a_semaphore(program: str, run: str, name: str, tmp_path: Path) -> None:
    assert check(PRELUDE + program + run, tmp_path, kind="semaphore").name == name


@pytest.mark.parametrize(
    ("program", "run", "name"),
    [
        (LOCK, THREADS, "__main__.places"),
        (
            LOCK.replace("Lock()", "RLock()").replace("places:  # takes", "places, places:  # takes"),
            THREADS,
            "__main__.places",
        ),
        (LOCK.replace("Lock()", "Condition()"), THREADS, "threading.RLock"),
        (LOCK_ASYNC, TASKS, "asyncio.Lock"),
    ],
    ids=["lock", "recursive", "condition", "asyncio"],
)
def test_a_lock(program: str, run: str, name: str, tmp_path: Path) -> None:
    assert check(PRELUDE + program + run, tmp_path, kind="lock").name == name
    (victim,) = [job for job in recorded(tmp_path).jobs if job.route == "victim"]
    assert victim.wait_ns.get("lock", 0) > 0 and not victim.wait_ns.get("pool")


def test_a_lock_that_a_library_takes_is_told_by_the_applications_line(tmp_path: Path) -> None:
    program = LOCK.replace("with places:  # takes\n        held.set()\n        waited.wait(20)", "log.warning(held)")
    program = program.replace("    with places:  # asks\n        pass", "    log.warning(held)  # asks")
    assert check(PRELUDE + LOG + program + THREADS, tmp_path, kind="lock").name == "threading.RLock"


def test_a_lock_that_its_own_thread_waits_for_is_a_signal(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SIGNAL, encoding="utf-8")
    ended = greenlane("record", "-o", "r.glr", "--", sys.executable, "app.py", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert not recorded(tmp_path).resources


@pytest.mark.parametrize(
    ("program", "run", "name"),
    [(PROCESSES, THREADS, "ProcessPoolExecutor"), (APPLY, THREADS, "multiprocessing Pool")],
    ids=["executor", "multiprocessing"],
)
def test_a_pool_of_processes(program: str, run: str, name: str, tmp_path: Path) -> None:
    assert check(PRELUDE + program + run, tmp_path, kind="processes").name == name


@pytest.mark.system
@pytest.mark.parametrize(
    ("program", "run", "name"),
    [
        (PSYCOPG, THREADS, "psycopg_pool ConnectionPool to "),
        (PSYCOPG_ASYNC, TASKS, "psycopg_pool AsyncConnectionPool to "),
        (SQLALCHEMY_ASYNC, TASKS, "SQLAlchemy AsyncAdaptedQueuePool to "),
        (ASYNCPG, TASKS, "asyncpg Pool to "),
    ],
    ids=["psycopg", "psycopg-async", "sqlalchemy-async", "asyncpg"],
)
def test_pools_of_postgresql(program: str, run: str, name: str, postgres: str, tmp_path: Path) -> None:
    if "asyncpg" in program:
        pytest.importorskip("asyncpg")
    assert check(PRELUDE + program + run, tmp_path, postgres).name.startswith(name)


@pytest.mark.system
@pytest.mark.parametrize(("program", "run"), [(REDIS, THREADS), (REDIS_ASYNC, TASKS)], ids=["threads", "asyncio"])
def test_the_blocking_pool_of_redis(program: str, run: str, redis_url: str, tmp_path: Path) -> None:
    assert check(PRELUDE + program + run, tmp_path, redis_url).name.startswith("redis-py BlockingConnectionPool to ")
