"""C libraries that hold a mutex of their own over Python code: sqlite3's connection and file locks, lxml's parser."""

import sqlite3
import threading
import time

import pytest
from tests.hazards.scenario import Flag, Threads, burn, job


def test_a_user_function_that_blocks_in_a_query_on_a_shared_connection(run_jobs, tmp_path):
    """One connection, one lock around it, as in-memory databases are shared; the query calls Python, which blocks."""
    connection = sqlite3.connect(tmp_path / "shared.db", check_same_thread=False)
    lock = threading.Lock()

    def slow(value: int) -> int:
        time.sleep(0)  # ends the phase with sqlite's mutex held
        burn(0.2)
        return value + 1

    connection.create_function("slow", 1, slow)

    def one() -> int:
        total = 0
        for _ in range(3):
            burn(0.5)
            with lock:
                total += connection.execute("select slow(1) + slow(2)").fetchone()[0]
        return total

    assert run_jobs([one] * 5) == [15] * 5
    connection.close()


def test_a_query_that_waits_inside_for_another_heavy_jobs_query(running, tmp_path):
    inside, computes = Flag(), Flag()

    def slow() -> int:
        inside.set()
        computes.wait(10)
        burn(2)
        return 1

    def first() -> int:
        connection = sqlite3.connect(":memory:")
        connection.create_function("slow", 0, slow)
        with job(running):
            value = connection.execute("select slow()").fetchone()[0]
        connection.close()
        return value

    def second() -> int:
        inside.wait(10)
        connection = sqlite3.connect(":memory:")
        with job(running):
            burn(2)
            value = connection.execute("select 2").fetchone()[0]
            computes.set()
            burn(5)
        connection.close()
        return value

    threads = Threads()
    threads.start(first)
    threads.start(second)
    assert threads.join() == [1, 2]


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_writers_wait_for_each_others_file_lock(run_jobs, tmp_path, journal):
    file = tmp_path / "journal.db"
    with sqlite3.connect(file) as connection:
        connection.execute(f"pragma journal_mode={journal}")
        connection.execute("create table visit (who integer)")
    connection.close()

    def one(who: int):
        def run() -> None:
            mine = sqlite3.connect(file, timeout=15, isolation_level=None)
            for _ in range(2):
                mine.execute("begin immediate")
                mine.execute("insert into visit values (?)", (who,))
                time.sleep(0.001)  # the permit goes to one who will want the file lock
                burn(1)
                mine.execute("commit")
            mine.close()

        return run

    run_jobs([one(who) for who in range(5)])
    connection = sqlite3.connect(file)
    assert connection.execute("select count(*) from visit").fetchone() == (10,)
    connection.close()


def test_who_wants_the_file_lock_with_the_permit_does_not_keep_its_holder_from_committing(running, tmp_path):
    file = tmp_path / "locked.db"
    sqlite3.connect(file).execute("create table visit (who integer)").connection.close()
    has_lock, computes = Flag(), Flag()

    def write(who: int, first: bool) -> str:
        mine = sqlite3.connect(file, timeout=15, isolation_level=None)
        if not first:
            has_lock.wait(10)
        with job(running):
            if not first:
                computes.set()
                burn(3)
            mine.execute("begin immediate")
            mine.execute("insert into visit values (?)", (who,))
            if first:
                has_lock.set()
                computes.wait(10)
                burn(2)
            mine.execute("commit")
        mine.close()
        return "committed"

    threads = Threads()
    threads.start(lambda: write(1, True))
    threads.start(lambda: write(2, False))
    assert threads.join() == ["committed"] * 2


def test_progress_and_trace_callbacks_inside_jobs(run_jobs):
    def one() -> tuple[int, bool]:
        connection = sqlite3.connect(":memory:")
        steps: list[int] = []
        connection.set_progress_handler(lambda: steps.append(1) or time.sleep(0), 500)
        total = connection.execute(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000) select sum(i) from n"
        ).fetchone()[0]
        connection.close()
        return total, bool(steps)

    assert run_jobs([one] * 4) == [(2001000, True)] * 4


def test_a_parser_whose_lock_is_held_over_a_python_resolver(running):
    etree = pytest.importorskip("lxml.etree", reason="lxml is not installed: pip install lxml")
    inside, computes = Flag(), Flag()

    class Resolver(etree.Resolver):
        def resolve(self, url, public_id, context):
            inside.set()
            computes.wait(10)
            burn(2)
            return self.resolve_string("<!ENTITY word 'resolved'>", context)

    parser = etree.XMLParser(load_dtd=True, resolve_entities=True, no_network=True)
    parser.resolvers.add(Resolver())
    document = b'<!DOCTYPE page SYSTEM "words.dtd"><page>&word;</page>'

    def first() -> str:
        with job(running):
            return etree.fromstring(document, parser).text

    def second() -> str:
        inside.wait(10)
        with job(running):
            computes.set()
            burn(5)
            return etree.fromstring(b"<page>plain</page>", parser).text

    threads = Threads()
    threads.start(first)
    threads.start(second)
    assert threads.join() == ["resolved", "plain"]
