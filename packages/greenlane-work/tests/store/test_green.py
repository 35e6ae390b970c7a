"""Under `monkey.patch_all()`: a greenlet that waits for the store lets the others go on, and no thread gets a hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.store.places import Place

from tests.servers import Redis

# The store's thread is a greenlet for Redis, and for PostgreSQL the same one, or that of a file.
_REDIS = pytest.param("redis", marks=pytest.mark.system)
_SOAK = [pytest.mark.system, pytest.mark.soak]
_POSTGRES = pytest.param("postgres", marks=_SOAK)

# The store answers only after another greenlet has had twenty turns.
HELD = """
import sys
from gevent import monkey
monkey.patch_all()
import gc, os, signal, sqlite3, threading, time
import gevent.hub
from greenlane_work.store import State, open_store

url, held = sys.argv[1:]
store = open_store(url, patience_s=60)
assert store.begin("a").state is State.NEW
if held.isdigit():
    os.kill(int(held), signal.SIGSTOP)
    let_go = lambda: os.kill(int(held), signal.SIGCONT)
else:
    stranger = sqlite3.connect(held, isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    let_go = lambda: stranger.execute("ROLLBACK")

turns = 0
def turn():
    global turns
    for turns in range(1, 21):
        time.sleep(0.005)
    let_go()

turning = threading.Thread(target=turn)
turning.start()
store.done("a", b"r")
assert turns == 20, turns
assert store.begin("a").result == b"r"

# From a real thread, too, which is none of gevent's.
assert gevent.get_hub().threadpool.apply(store.begin, ("b",)).state is State.NEW

# A greenlet that is killed while it waits takes its question back.
gone = gevent.spawn(store.visit, lambda _: None)
gone.kill()
timed = gevent.Timeout.start_new(0.001)
try:
    while True:
        store.begin("c")
except gevent.Timeout:
    pass
assert len([each for each in gc.get_objects() if isinstance(each, gevent.hub.Hub)]) <= 2  # the pool's thread has one
print("fine", store.counts.failures)
"""


@pytest.mark.slow
def test_greenlets_go_on_while_one_waits_for_a_file(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    path = tmp_path / "orders.db"
    assert run_python(HELD, f"sqlite:///{path}", str(path)).stdout.startswith("fine")


@pytest.mark.slow
@pytest.mark.system
def test_greenlets_go_on_while_one_waits_for_a_server(run_python: Callable[..., Any]) -> None:
    with Redis("--appendonly", "yes") as server:
        assert run_python(HELD, server.url, str(server.pid)).stdout == "fine 0\n"


MANY = """
from gevent import monkey
monkey.patch_all()
import sys
import gevent.pool
from greenlane_work.store import State, open_store

store = open_store(sys.argv[1])
def order(number):
    assert store.begin(f"k{number}").state is State.NEW
    return store.done(f"k{number}", b"r").state is State.DONE
print(sum(gevent.pool.Pool(100).imap_unordered(order, range(400))), store.close())
"""


@pytest.mark.slow
def test_a_hundred_greenlets_share_a_store(place: Place, run_python: Callable[..., Any]) -> None:
    assert run_python(MANY, place.url).stdout == "400 True\n"
    assert len(place.open().find(None, 1000)) == 400


FIRST = """
import sys
from gevent import monkey
monkey.patch_all()
import gevent
from greenlane.errors import StoreRefused
from greenlane_work.store import Kind, State, open_store

store = open_store(sys.argv[1])
# The first to ask is a real thread; then the main greenlet, whose hub serves the store.
assert gevent.get_hub().threadpool.apply(store.begin, ("a",)).state is State.NEW
assert store.done("a", b"r").state is State.DONE

refused, told = [], []
def in_the_hub():
    try:
        store.begin("b")
    except StoreRefused as error:
        refused.append(str(error))
    store.submit(Kind.BEGIN, "b", told.append)
gevent.get_hub().loop.run_callback(in_the_hub)
while not told:
    gevent.sleep(0.001)
assert told[0].state is State.NEW
print(*refused, store.close())
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["sqlite", _REDIS, _POSTGRES], indirect=True)
def test_a_store_serves_whoever_asks_first_and_the_hub_itself_only_without_waiting(
    place: Place, run_python: Callable[..., Any]
) -> None:
    said = run_python(FIRST, place.url).stdout
    assert said.startswith(
        'wait for the store: greenlet="gevent\'s hub", expected one that may wait\nhint: use Store.submit'
    )
    assert said.endswith(" True\n")


KILLED = """
import sys
from gevent import monkey
monkey.patch_all()
import gevent
from greenlane_work.store import Kind, State, open_store

store, other = open_store(sys.argv[1]), open_store(sys.argv[1])
hub, cut = gevent.get_hub(), 0
def ask(key):
    store.begin(key)
    store.failed(key, "not called")

for number in range(25):
    key = f"k{number}"
    # Told in the same commit as the question, before it: the kill and the answer are on their way at once.
    kill = lambda _: hub.loop.run_callback_threadsafe(lambda: asking.kill(block=False))
    asking = gevent.spawn(ask, key)
    store.submit(Kind.BEGIN, f"other-{number}", kill)
    asking.join(10)
    cut += isinstance(asking.value, gevent.GreenletExit)
    while store.waiting:
        gevent.sleep(0.001)
    assert other.begin(key).state is State.NEW, key
print(cut > 0, store.close())
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["sqlite", pytest.param("redis", marks=_SOAK), _POSTGRES], indirect=True)
def test_a_greenlet_killed_with_its_answer_on_the_way_leaves_the_order_free(
    place: Place, run_python: Callable[..., Any]
) -> None:
    assert run_python(KILLED, place.url).stdout == "True True\n"
