"""The probes of asyncio and uvloop leave a program as it is: each test is a program in its own process."""

from __future__ import annotations

import sys

import pytest

BEGIN = """
import asyncio, gc, inspect, os, sys, threading, time, weakref
from greenlane._native import Recorder
from greenlane.probes import asyncio as probes

kind = sys.argv[1]
if kind == "uvloop":
    import uvloop
    new_event_loop, Loop = uvloop.new_event_loop, uvloop.Loop
else:
    new_event_loop, Loop = asyncio.new_event_loop, asyncio.BaseEventLoop
recorder = Recorder()

def start():
    probes.install()
    os.mkdir("recording"); recorder.start("recording", max_bytes=1 << 26, about="{}")

def run(main, *, debug=None):
    with asyncio.Runner(loop_factory=new_event_loop, debug=debug) as runner:
        return runner.run(main)
"""

pytestmark = pytest.mark.slow


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest, run_python):
    return lambda source: run_python(BEGIN + source, request.param)


def test_methods_stay_what_they_are_and_lead_to_us_and_are_given_back(run) -> None:
    run("""
import ctypes, types
names = ("call_soon", "call_soon_threadsafe", "call_at", "call_later", "run_forever")
def found():
    return [(name, vars(Loop).get(name), getattr(Loop, name), code(getattr(Loop, name))) for name in names]
def code(function):
    if isinstance(function, types.FunctionType):
        return function.__code__
    table = ctypes.c_size_t.from_address(id(function) + object.__basicsize__).value
    return ctypes.c_size_t.from_address(table + 8).value  # of a method in Cython: its function in C
before = found()
objects = lambda: [each[1:3] for each in found()]
stay = objects()
for _ in range(3):
    probes.install(); probes.install()
    assert probes.installed() and objects() == stay and probes.absent() == ()
    changed = {now[0] for now, was in zip(found(), before) if now != was}
    assert changed == {*names} - ({"call_at"} if kind == "uvloop" else {"call_later"}), changed
    probes.uninstall(); probes.uninstall()
    assert not probes.installed()
    assert found() == before
""")


def test_a_method_that_leads_to_us_does_what_it_did(run) -> None:
    run("""
original = Loop.call_soon
doc, name = original.__doc__, original.__name__
probes.install()
hook = Loop.call_soon
assert hook is original and (hook.__doc__, hook.__name__) == (doc, name)
loop = new_event_loop()
bound = loop.call_soon
assert inspect.ismethod(bound) and bound.__self__ is loop
ran = []
bound(ran.append, 1); loop.call_soon(callback=print, context=None) if kind == "never" else None
loop.call_soon(ran.append, 2, context=None)
loop.call_later(0.001, ran.append, 3); loop.call_at(loop.time() + 0.002, ran.append, 4)
loop.call_soon_threadsafe(ran.append, 5)
loop.run_until_complete(asyncio.sleep(0.02)); loop.close()
assert sorted(ran) == [1, 2, 3, 4, 5]
for wrong in ((), (1,)):
    try: original(loop, *wrong)
    except Exception as error: expected = type(error), str(error)
    else: expected = None
    try: hook(loop, *wrong)
    except Exception as error: assert (type(error), str(error)) == expected
    else: assert expected is None
""")


def test_debug_mode_says_what_it_always_says(run) -> None:
    run("""
start()
async def function(): pass
async def main():
    loop = asyncio.get_running_loop()
    if kind == "asyncio":
        for refused in (function, function()):
            try: loop.call_soon(refused)
            except TypeError as error: assert "coroutine" in str(error)
            else: raise AssertionError(refused)
            if inspect.iscoroutine(refused): refused.close()
    handle = loop.call_soon(len, "x")
    assert "len" in repr(handle), repr(handle)
    handle = loop.call_later(9, start)
    assert kind == "uvloop" or "start" in repr(handle), repr(handle)
    handle.cancel()
    await asyncio.sleep(0.01)
run(main(), debug=True)
recorder.stop()
""")


def test_an_error_in_a_callback_names_the_callback(run) -> None:
    run("""
start()
told = []
def fails(): raise KeyError("seven")
async def main():
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: told.append(context))
    loop.call_soon(fails)
    await asyncio.sleep(0.01)
run(main())
assert "fails" in told[0]["message"] and isinstance(told[0]["exception"], KeyError), told
recorder.stop()
""")


def test_tasks_stay_what_they_are(run) -> None:
    run("""
start()
async def deep():
    task = asyncio.current_task()
    assert inspect.iscoroutine(task.get_coro())
    await asyncio.sleep(0.001)
    raise KeyError("x")
async def work():
    await deep()
async def main():
    task = asyncio.create_task(work(), name="seven")
    await asyncio.sleep(0)
    assert [frame.f_code.co_name for frame in task.get_stack()] == ["work"]
    assert "work" in repr(task) and "seven" in repr(task)
    try: await task
    except KeyError as error:
        frame, names = error.__traceback__, []
        while frame: names.append(frame.tb_frame.f_code.co_name); frame = frame.tb_next
        assert names == ["main", "work", "deep"], names
    else: raise AssertionError
    task = asyncio.create_task(asyncio.sleep(9)); await asyncio.sleep(0)
    task.cancel("why")
    try: await task
    except asyncio.CancelledError as error: assert error.args == ("why",)
run(main())
recorder.stop()
""")


def test_who_gives_others_their_turn_waits_for_the_loop(run) -> None:
    run("""
from greenlane_tools.reader import open_recording
start()
ended = []
async def holds():
    while not ended:
        until = time.thread_time() + 0.01
        while time.thread_time() < until: pass
        await asyncio.sleep(0)
async def main():
    hog = asyncio.create_task(holds())
    number = recorder.open(host="test")
    for _ in range(4): await asyncio.sleep(0)
    recorder.close(number)
    ended.append(number)
    await hog
run(main())
recorder.stop()
(job,) = open_recording("recording").jobs
assert job.wait_ns["loop"] >= 39_000_000, job
assert sum(job.io_ns.values()) == 0, job
assert not {"lock", "pool"} & {kind for kind, ns in job.wait_ns.items() if ns}, job
""")


def test_contexts_are_the_programs_own(run) -> None:
    run("""
import contextvars
start()
name = contextvars.ContextVar("name", default="none")
seen = []
async def child():
    seen.append(name.get()); name.set("child"); await asyncio.sleep(0); seen.append(name.get())
async def main():
    name.set("main")
    await asyncio.create_task(child())
    own = contextvars.copy_context(); own.run(name.set, "own")
    await asyncio.create_task(child(), context=own)
    asyncio.get_running_loop().call_soon(lambda: seen.append(name.get()), context=own)
    await asyncio.sleep(0)
    await asyncio.to_thread(lambda: seen.append(name.get()))
    seen.append(name.get())
run(main())
assert seen == ["main", "child", "own", "child", "child", "main", "main"], seen
recorder.stop()
""")


def test_nothing_keeps_tasks_and_loops_alive(run) -> None:
    run("""
start()
async def pending(): await asyncio.get_running_loop().create_future()
async def main():
    alive = [weakref.ref(asyncio.create_task(asyncio.sleep(0.001))) for _ in range(3000)]
    await asyncio.sleep(0.05)
    await asyncio.gather(*(asyncio.sleep(0) for _ in range(3000)))
    gc.collect()
    assert sum(task() is not None for task in alive) == 0
    return weakref.ref(asyncio.get_running_loop())
loop = run(main())
gc.collect()
assert loop() is None
# A loop that is dropped with work in its queue.
loop = new_event_loop()
task = loop.create_task(asyncio.sleep(1)); task._log_destroy_pending = False
gone = weakref.ref(task), weakref.ref(loop)
loop.close(); del loop, task
gc.collect()
assert [one() for one in gone] == [None, None], gone
recorder.stop()
""")


def test_loops_in_several_threads_and_loops_made_again(run) -> None:
    run("""
start()
async def work(number):
    job = recorder.open(); assert job
    await asyncio.gather(*(asyncio.sleep(0.001) for _ in range(5)))
    assert recorder.job() == job
    recorder.close(job)
    return number
async def main():
    return await asyncio.gather(*(asyncio.create_task(work(number)) for number in range(50)))
results = []
def thread():
    for _ in range(3): results.append(run(main()))
threads = [threading.Thread(target=thread) for _ in range(3)]
for one in threads: one.start()
for one in threads: one.join()
assert results == [list(range(50))] * 9
# Made on one thread, run by another.
loop = new_event_loop()
task = loop.create_task(main())
one = threading.Thread(target=loop.run_until_complete, args=(task,)); one.start(); one.join()
assert task.result() == list(range(50)); loop.close()
recorder.stop()
assert recorder.stats()["jobs"] == 500 and recorder.stats()["lost"] == 0, recorder.stats()
""")


def test_on_and_off_and_on_while_tasks_run(run) -> None:
    run("""
async def ticks(ended):
    while not ended: await asyncio.sleep(0)
async def main():
    ended = []
    tasks = [asyncio.create_task(ticks(ended)) for _ in range(5)]
    await asyncio.sleep(0.01)
    start()
    for _ in range(20):
        await asyncio.sleep(0.001); recorder.off()
        await asyncio.sleep(0.001); recorder.on()
        if _ % 5 == 0:
            probes.uninstall(); await asyncio.sleep(0.001); probes.install()
    ended.append(1)
    await asyncio.gather(*tasks)
run(main())
recorder.stop()
assert recorder.stats()["events"] > 100
""")


def test_tasks_in_python_are_seen_too(run) -> None:
    run("""
start()
Task = asyncio.tasks._PyTask
async def work():
    job = recorder.open(); assert job
    await asyncio.sleep(0.001)
    assert recorder.job() == job
    recorder.close(job)
async def main():
    loop = asyncio.get_running_loop()
    loop.set_task_factory(lambda loop, coro, **more: Task(coro, loop=loop, **more))
    await asyncio.gather(work(), work())
run(main())
recorder.stop()
assert recorder.stats()["jobs"] == 2
""")


def test_a_fork_records_its_own(run) -> None:
    run("""
import os
start()
async def work():
    job = recorder.open(); assert job
    await asyncio.sleep(0.001)
    recorder.close(job)
run(work())
child = os.fork()
if not child:
    os.mkdir("child"); recorder.start("child", max_bytes=1 << 26, about="{}")
    run(work()); recorder.flush(); recorder.stop()
    os._exit(recorder.stats()["jobs"])
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
run(work())
recorder.stop()
""")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with CPython 3.12")
def test_a_job_of_an_eager_task_is_not_its_creator_s(run) -> None:
    run("""
start()
async def work(number):
    assert recorder.job() == 0, number
    job = recorder.open(); assert job
    probes.JOB.set(job)
    await asyncio.sleep(0.001)
    assert recorder.job() == job, (recorder.job(), job)
    recorder.close(job)
async def ends():
    return 1
async def main():
    def factory(loop, coro, name=None, context=None, **more):
        return asyncio.eager_task_factory(loop, coro, name=name, context=context)
    asyncio.get_running_loop().set_task_factory(factory)
    made = [asyncio.create_task(work(1)), asyncio.create_task(ends()), asyncio.create_task(work(2))]
    assert recorder.job() == 0
    await asyncio.gather(*made)
run(main())
recorder.stop()
jobs, = [recorder.stats()["jobs"]]
assert jobs == 2, jobs
""")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with CPython 3.12")
def test_eager_tasks_belong_to_the_job_in_their_context(run) -> None:
    run("""
start()
async def child(job):
    await asyncio.sleep(0.001)
    assert recorder.job() == job, (recorder.job(), job)
async def work():
    recorder.attach(0)
    job = recorder.open(); assert job
    probes.JOB.set(job)
    await asyncio.gather(child(job), child(job))
    recorder.close(job)
async def main():
    # uvloop hands over more than the factory of some versions takes.
    def factory(loop, coro, name=None, context=None, **more):
        return asyncio.eager_task_factory(loop, coro, name=name, context=context)
    asyncio.get_running_loop().set_task_factory(factory)
    await asyncio.gather(work(), work())
run(main())
recorder.stop()
""")
