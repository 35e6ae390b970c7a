"""Connection pools smaller than the number of threads: the classic deadlock of two resources taken in two orders."""

import contextlib
import http.server
import queue
import threading
import time

import pytest
import urllib3
from sqlalchemy import create_engine, pool, text
from tests.hazards.scenario import Flag, Threads, burn, job

JOBS = 8


@pytest.mark.parametrize("name", ["Queue", "LifoQueue", "PriorityQueue", "SimpleQueue"])
def test_one_connection_in_a_queue_serves_eight_heavy_jobs(run_jobs, name):
    connections = getattr(queue, name)()
    connections.put("connection")
    in_use, most = [], []

    def one() -> None:
        for _ in range(2):
            burn(1)
            connection = connections.get(timeout=15)
            in_use.append(1)
            most.append(len(in_use))
            time.sleep(0.001)  # the query: the permit goes to somebody, who comes here and waits
            burn(1)
            in_use.pop()
            connections.put(connection)
            burn(1)

    run_jobs([one] * JOBS)
    assert most == [1] * 2 * JOBS


def test_the_holder_of_the_connection_is_not_kept_from_it_by_the_holder_of_the_permit(running):
    connections: queue.Queue[str] = queue.Queue()
    connections.put("connection")
    has_connection, has_permit = Flag(), Flag()

    def first() -> str:
        with job(running):
            connection = connections.get()
            has_connection.set()
            has_permit.wait(10)
            burn(2)  # wants the permit, holds the connection
            connections.put(connection)
            return "first"

    def second() -> str:
        has_connection.wait(10)
        with job(running):
            has_permit.set()
            burn(5)
            connections.put(connections.get(timeout=15))  # wants the connection, holds the permit
            return "second"

    threads = Threads()
    threads.start(first)
    threads.start(second)
    assert threads.join() == ["first", "second"]


def test_a_bounded_queue_between_heavy_producers_and_consumers_drains(run_jobs):
    line: queue.Queue[int] = queue.Queue(maxsize=1)
    seen: list[int] = []

    def produce() -> None:
        for number in range(6):
            burn(1)
            line.put(number, timeout=15)

    def consume() -> None:
        for _ in range(6):
            seen.append(line.get(timeout=15))
            burn(1)
            line.task_done()

    run_jobs([produce, produce, consume, consume, line.join])
    assert sorted(seen) == sorted([*range(6), *range(6)])


def test_sqlalchemy_with_a_pool_of_one_serves_eight_heavy_jobs(run_jobs, tmp_path):
    engine = create_engine(
        f"sqlite:///{tmp_path / 'pool.db'}",
        poolclass=pool.QueuePool,
        pool_size=1,
        max_overflow=0,
        pool_timeout=15,
        connect_args={"check_same_thread": False},
    )
    with engine.begin() as connection:
        connection.execute(text("create table visit (who integer)"))

    def one(who: int):
        def run() -> int:
            with engine.begin() as connection:
                connection.execute(text("insert into visit values (:who)"), {"who": who})
                time.sleep(0.001)
                burn(2)
            burn(2)
            with engine.connect() as connection:
                return connection.execute(
                    text("select count(*) from visit where who = :who"), {"who": who}
                ).scalar_one()

        return run

    assert run_jobs([one(who) for who in range(JOBS)]) == [1] * JOBS
    engine.dispose()


@pytest.fixture
def server():
    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.path.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *ignored: object) -> None:
            pass

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    served.daemon_threads = True
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()
    thread.join(5)


def test_urllib3_with_a_blocking_pool_of_one_serves_eight_heavy_jobs(run_jobs, server):
    with contextlib.closing(urllib3.connection_from_url(server, maxsize=1, block=True)) as connections:

        def one(who: int):
            def run() -> list[bytes]:
                bodies = []
                for index in range(2):
                    burn(1)
                    answer = connections.request("GET", f"/{who}/{index}", preload_content=False)
                    burn(1)  # the connection is still out
                    bodies.append(answer.read())
                    answer.release_conn()
                return bodies

            return run

        answers = run_jobs([one(who) for who in range(JOBS)])
    assert answers == [[f"/{who}/{index}".encode() for index in range(2)] for who in range(JOBS)]
