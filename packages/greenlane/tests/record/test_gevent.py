"""The recording of gevent programs: what belongs to whom, whatever the order of installation."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.record.gevent_programs import ran

pytestmark = pytest.mark.slow

MS = 1_000_000
LOOPS = ["libev-cext", "libev-cffi", "libuv"]

INSTALLED_FIRST = "begin()\nimport gevent, gevent.monkey, greenlet\n"
IMPORTED_FIRST = "import gevent, gevent.monkey, greenlet\nbegin()\n"
PATCHED_FIRST = "import gevent.monkey, greenlet; gevent.monkey.patch_all()\nimport gevent\nbegin()\n"
HUB_FIRST = "import gevent, gevent.monkey, greenlet; gevent.sleep(0.001)\nbegin()\n"
PATCHED_AFTER = "begin()\nimport gevent.monkey, greenlet; gevent.monkey.patch_all()\nimport gevent\n"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("first", [INSTALLED_FIRST, IMPORTED_FIRST, PATCHED_FIRST, HUB_FIRST, PATCHED_AFTER])
def test_any_order_of_installation_sees_the_same(first: str, loop: str, tmp_path: Path) -> None:
    program = """
def sleeps():
    with job("sleeps"):
        gevent.sleep(0.01)
        burn(1)

def burns():
    with job("burns"):
        burn(20)

gevent.joinall([gevent.spawn(sleeps), gevent.spawn(burns)])
end()
print(type(gevent.get_hub().loop).__module__)
"""
    found = ran(tmp_path, first + program, GEVENT_LOOP=loop)
    sleeps = found.job("sleeps")
    assert sleeps.io_ns["sleep"] >= 8 * MS
    assert sleeps.wait_ns["loop"] > 0
    assert sleeps.residual_ns <= MS
    assert sleeps.culprits


def test_children_belong_to_the_job_that_started_them(tmp_path: Path) -> None:
    program = """
begin()
import gevent, gevent.pool, greenlet

def child():
    burn(4)

def spawns():
    with job("spawns"):
        gevent.spawn(child).join()

def spawns_later():
    with job("spawns later"):
        gevent.spawn_later(0.002, child).join()

def spawns_raw():
    with job("spawns raw"):
        gevent.spawn_raw(child)
        gevent.sleep(0.01)

def switches():
    with job("switches"):
        here = greenlet.getcurrent()
        greenlet.greenlet(child, here).switch()

def maps():
    with job("maps"):
        gevent.pool.Pool(2).map(lambda _: burn(2), range(2))

def threads():
    with job("threads"):
        gevent.get_hub().threadpool.apply(child)

for one in (spawns, spawns_later, spawns_raw, switches, maps, threads):
    gevent.spawn(one).join()
end()
"""
    found = ran(tmp_path, program)
    assert len(found.recording.jobs) == 6
    for job in found.recording.jobs:
        assert job.cpu_ns >= 3.5 * MS, job.route


def test_waits_have_the_kind_of_what_is_waited_for(tmp_path: Path) -> None:
    program = """
begin()
import gevent, gevent.event, gevent.lock, gevent.queue, gevent.select, gevent.socket, gevent.subprocess
slow = time.sleep

def in_job(name, wait):
    with job(name):
        wait()

def socket():
    ours, theirs = gevent.socket.socketpair()
    gevent.spawn_later(0.02, theirs.sendall, b"x")
    ours.recv(1)

def select():
    reads, writes = os.pipe()
    gevent.spawn_later(0.02, os.write, writes, b"x")
    gevent.select.select([reads], [], [])

def lock():
    semaphore = gevent.lock.Semaphore(0)
    gevent.spawn_later(0.02, semaphore.release)
    semaphore.acquire()

def queue():
    queue = gevent.queue.Queue()
    gevent.spawn_later(0.02, queue.put, 1)
    queue.get()

waits = {
    "socket": socket,
    "select": select,
    "sleep": lambda: gevent.sleep(0.02),
    "lock": lock,
    "queue": queue,
    "event": lambda: gevent.event.Event().wait(0.02),
    "process": lambda: gevent.subprocess.Popen(["sleep", "0.02"]).wait(),
    "thread": lambda: gevent.get_hub().threadpool.apply(slow, (0.02,)),
}
for name, wait in waits.items():
    gevent.spawn(in_job, name, wait).join()
end()
"""
    found = ran(tmp_path, program)
    for kind in ("socket", "select", "sleep", "process"):
        assert found.job(kind).io_ns[kind] >= 10 * MS, kind
    for route in ("lock", "queue", "event"):
        assert found.job(route).wait_ns["lock"] >= 10 * MS, route
    # The worker sleeps for the job: its I/O counts before the wait for it.
    assert found.job("thread").io_ns["sleep"] >= 10 * MS


def test_a_call_that_holds_the_loop_is_told_with_its_line(tmp_path: Path) -> None:
    program = """
begin()
import gevent

def holds():
    with job("holds"):
        time.sleep(0.03)

def waits():
    with job("waits"):
        gevent.sleep(0.001)

gevent.joinall([gevent.spawn(waits), gevent.spawn(holds)])
end()
"""
    found = ran(tmp_path, program)
    held = max(found.recording.held, key=lambda one: one.ns)
    assert held.route == "holds"
    assert held.call == "clock_nanosleep"
    assert held.stack.split(";")[-1].startswith("holds (")
    assert found.job("waits").wait_ns["loop"] >= 15 * MS


def test_each_thread_has_its_own_hub(tmp_path: Path) -> None:
    program = """
import threading
begin()
import gevent

def in_thread(name):
    def sleeps():
        with job(name):
            gevent.sleep(0.01)
    gevent.joinall([gevent.spawn(sleeps) for _ in range(3)])
    gevent.get_hub().destroy()

threads = [threading.Thread(target=in_thread, args=(f"in {number}",)) for number in range(3)]
for thread in threads:
    thread.start()
in_thread("in main")
for thread in threads:
    thread.join()
end()
print(Switches.followed())
"""
    found = ran(tmp_path, program)
    for route in ("in main", "in 0", "in 1", "in 2"):
        assert [job.io_ns["sleep"] >= 5 * MS for job in found.jobs(route)] == [True] * 3


@pytest.mark.gate
def test_a_forked_child_records_on_its_own(tmp_path: Path) -> None:
    program = """
begin()
import gevent, gevent.os

def forks():
    pid = gevent.os.fork()
    if not pid:
        recorder.start(sys.argv[1], max_bytes=1 << 26, about="{}")
        with job("child"):
            gevent.sleep(0.01)
            gevent.spawn(burn, 3).join()
        recorder.stop()
        os._exit(0)
    with job("parent"):
        gevent.os.waitpid(pid, 0)

gevent.spawn(forks).join()
end()
"""
    found = ran(tmp_path, program)
    child, parent = found.job("child"), found.job("parent")
    assert child.process != parent.process
    assert child.io_ns["sleep"] >= 8 * MS
    assert child.cpu_ns >= 3 * MS
    assert child.residual_ns <= MS


@pytest.mark.gate
def test_uninstalled_nothing_is_left(tmp_path: Path) -> None:
    program = """
import gevent, gevent.event, gevent.hub, gevent.lock, gevent.queue, gevent.threadpool, gevent.timeout, greenlet
import ctypes, gc, types

def word(function):
    if isinstance(function, types.FunctionType):
        return function.__code__
    table = ctypes.c_size_t.from_address(id(function) + object.__basicsize__).value
    return ctypes.c_size_t.from_address(table + 8).value  # of a method in Cython: its function in C

def places():
    return {
        (owner.__name__, name): (vars(owner)[name], word(vars(owner)[name]))
        for owner, name in [
            (type(gevent.get_hub().loop), "run_callback"), (gevent.hub.WaitOperationsGreenlet, "wait"),
            (gevent.hub.Hub, "__init__"), (gevent.event.Event, "wait"), (gevent.lock.Semaphore, "acquire"),
            (gevent.queue.SimpleQueue, "get"), (gevent.timeout.Timeout, "_on_expiration"),
            (gevent.threadpool.ThreadPool, "spawn"), (gevent.threadpool.ThreadResult, "set"),
        ]
    }

gevent.sleep(0.001)
before = places()
begin()
within = places()
gevent.joinall([gevent.spawn(gevent.sleep, 0.001) for _ in range(100)])
end()
print(all(within[place][0] is before[place][0] for place in before))
print(all(within[place][1] != before[place][1] for place in before))
print(all(places()[place] == before[place] for place in before))
gevent.sleep(0.001)
gc.collect()
print(greenlet.gettrace(), Switches.followed())
begin()
with job("again"):
    gevent.sleep(0.01)
end()
"""
    found = ran(tmp_path, program)
    assert found.printed == ["True", "True", "True", "None 0"]
    assert found.job("again").io_ns["sleep"] >= 8 * MS


def test_ended_greenlets_are_forgotten(tmp_path: Path) -> None:
    program = """
begin()
import gc, gevent

gevent.sleep(0)
before = Switches.followed()
for _ in range(20):
    gevent.joinall([gevent.spawn(gevent.sleep, 0) for _ in range(100)])
    never = [gevent.Greenlet(burn, 1) for _ in range(100)]
    for one in never:
        one.start()
        one.kill(block=False)
gevent.sleep(0.01)
del never, one
gc.collect()
print(Switches.followed() - before)
end()
"""
    assert ran(tmp_path, program).printed == ["0"]


MONITOR = "gevent.config.monitor_thread = True"
OTHERS = """
told = []

def other(event, greenlets):
    told.append(event)

def forgetful():
    greenlet.settrace(other)

def chaining():
    before = greenlet.gettrace()
    greenlet.settrace(lambda event, greenlets: (other(event, greenlets), before and before(event, greenlets)))

def raising():
    def trace(event, greenlets):
        told.append(event)
        raise ValueError("a trace function that fails")
    greenlet.settrace(trace)
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("other", ["forgetful", "chaining"])
def test_another_trace_function_and_ours_are_both_called(other: str, when: str, tmp_path: Path) -> None:
    steps = [f"{other}()", "begin()"] if when == "before" else ["begin()", "gevent.sleep(0)", f"{other}()"]
    program = f"""
import gevent, greenlet
{OTHERS}
{chr(10).join(steps)}
for _ in range(3):
    gevent.sleep(0.001)
told.clear()
with job("sleeps"):
    gevent.sleep(0.01)
print(told)
end()
told.clear()
gevent.sleep(0.001)
print(told)
"""
    found = ran(tmp_path, program)
    assert found.printed == ["['switch', 'switch']"] * 2
    assert found.job("sleeps").io_ns["sleep"] >= 8 * MS


def test_a_trace_function_that_fails_ends_itself_only(tmp_path: Path) -> None:
    program = f"""
import gevent, greenlet
{OTHERS}
gevent.sleep(0.001)
raising()
begin()
try:
    greenlet.greenlet(lambda: None).switch()
except ValueError:
    told.append("caught")
gevent.sleep(0.001)
gevent.sleep(0.001)
with job("sleeps"):
    gevent.sleep(0.01)
print(told)
end()
"""
    found = ran(tmp_path, program)
    assert found.printed == ["['switch', 'caught']"]
    assert found.job("sleeps").io_ns["sleep"] >= 8 * MS


def test_gevents_monitor_still_reports(tmp_path: Path) -> None:
    program = """
import gevent
gevent.config.monitor_thread = True
gevent.config.max_blocking_time = 0.05
gevent.config.print_blocking_reports = False
import gevent.events
found = []
gevent.events.subscribers.append(found.append)
begin()
gevent.sleep(0.01)

def holds():
    with job("holds"):
        burn(200)

gevent.spawn(holds).join()
gevent.sleep(0.01)
print(any(isinstance(event, gevent.events.EventLoopBlocked) for event in found))
end()
"""
    found = ran(tmp_path, program)
    assert found.printed == ["True"]
    assert found.job("holds").cpu_ns >= 190 * MS


def test_timeouts_are_ready_when_they_are_due(tmp_path: Path) -> None:
    program = """
begin()
import gevent

def times_out():
    with job("times out"):
        with gevent.Timeout(0.01, False):
            gevent.sleep(10)

def holds():
    with job("holds"):
        burn(40)

gevent.joinall([gevent.spawn(times_out), gevent.spawn(holds)])
end()
"""
    found = ran(tmp_path, program).job("times out")
    assert 9 * MS <= found.io_ns["sleep"] <= 12 * MS
    assert found.wait_ns["loop"] >= 25 * MS
    assert found.uncertain_ns == 0


#: Ways to give others their turn, and whether `ours` has something to read.
YIELDS = {
    "sleep": "gevent.sleep(0)",
    "poll": "poll.poll(0)",
    "poll, readable": "poll.poll(0)",
    "poll of 0.0": "poll.poll(0.0)",
    "select": "gevent.select.select([ours], [], [], 0)",
    "select, readable": "gevent.select.select([ours], [], [])",
    "event": "gevent.event.Event().wait(0)",
    "event by name": "gevent.event.Event().wait(timeout=0)",
    "semaphore": "gevent.lock.Semaphore(0).acquire(timeout=0)",
    "queue": "suppressed(gevent.queue.Queue().get, timeout=0)",
    "result": "suppressed(gevent.event.AsyncResult().get, timeout=0)",
    "join": "hog.join(0)",
    "timeout": "suppressed(with_timeout, 0, gevent.sleep, 9)",
    "callback": "hub.loop.run_callback(gevent.getcurrent().switch); hub.switch()",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_who_gives_others_their_turn_waits_for_the_loop(loop: str, tmp_path: Path) -> None:
    program = """
begin()
import gevent, gevent.event, gevent.lock, gevent.queue, gevent.select, gevent.socket
from gevent.timeout import with_timeout

def suppressed(call, *args, **named):
    try:
        call(*args, **named)
    except (gevent.Timeout, gevent.queue.Empty):
        pass

def holds():
    recorder.attach(0)  # Not the work of the greenlet that started it.
    burn(10)

def yields(name, act):
    ours, theirs = gevent.socket.socketpair()
    poll = gevent.select.poll()
    poll.register(ours, gevent.select.POLLIN)
    if "readable" in name:
        theirs.send(b"x")
    with job(name):
        for _ in range(2):
            hog = gevent.spawn(holds)
            exec(act, {**globals(), **locals()})

hub = gevent.get_hub()
for name, act in YIELDS.items():
    gevent.spawn(yields, name, act).join()
end()
"""
    found = ran(tmp_path, f"YIELDS = {YIELDS!r}\n{program}", GEVENT_LOOP=loop)
    for name in YIELDS:
        job = found.job(name)
        assert job.wait_ns["loop"] >= 19 * MS, (name, job.io_ns, job.wait_ns)
        others = sum(job.io_ns.values()) + sum(job.wait_ns.get(kind, 0) for kind in ("lock", "pool"))
        assert others <= 0.05 * job.wait_ns["loop"], (name, job.io_ns, job.wait_ns)


def test_it_does_nothing_without_gevent(tmp_path: Path) -> None:
    program = """
begin()
print(probe.installed(), Switches.installed(), "gevent" in sys.modules, "greenlet" in sys.modules)
with job("plain"):
    burn(1)
end()
print(probe.installed())
"""
    assert ran(tmp_path, program).printed == ["True False False False", "False"]
