"""What a look finds, without a server: how long a trouble lasts, shares of the time, words for a place."""

from __future__ import annotations

import contextvars
import gc
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from greenlane._native import CollectionTime, current_frames
from greenlane.troubles import stacks
from greenlane.troubles.shares import Collector, GilWaits, Quota, Recent
from greenlane.troubles.stacks import place
from greenlane.troubles.thread_pools import Threads, full_pools
from greenlane.troubles.trouble import Lasting, Trouble
from greenlane.wiring.health import _Looks

S = 1_000_000_000


def test_a_trouble_counts_once_it_lasts() -> None:
    lasting, full = Lasting(2 * S, 30 * S), Trouble("full", "full for {for_s}", hangs=True)
    assert lasting.take([full], 10 * S) == ([], False)
    assert lasting.take([full], 12 * S) == (["full for 2.0 s"], False)
    assert lasting.take([full], 40 * S) == (["full for 30.0 s"], True)
    assert lasting.take([], 41 * S) == ([], False)
    assert lasting.take([full], 42 * S) == ([], False)


def test_a_pool_that_is_full_for_long_hangs_only_once_it_does_not_move_for_long() -> None:
    lasting = Lasting(2 * S, 30 * S)
    for second in range(100):
        assert not lasting.take([Trouble("full", "full")], second * S)[1]
    hangs = Trouble("full", "full", hangs=True)
    assert not lasting.take([hangs], 100 * S)[1]
    assert not lasting.take([hangs], 129 * S)[1]
    assert lasting.take([hangs], 130 * S)[1]
    assert not lasting.take([Trouble("full", "full")], 131 * S)[1]
    assert not lasting.take([hangs], 132 * S)[1]


def test_a_trouble_that_knows_its_beginning_and_one_that_is_a_share_count_at_once() -> None:
    lasting = Lasting(2 * S, 30 * S)
    found = [Trouble("loop", "blocked {for_s}", since_ns=4 * S), Trouble("quota", "throttled", counts_now=True)]
    assert lasting.take(found, 10 * S) == (["blocked 6.0 s", "throttled"], False)


def test_a_share_is_of_the_last_seconds() -> None:
    recent = Recent(2 * S)
    for second in range(10):
        recent.take(second * S, second * 100)
    assert recent.take(10 * S, 900) == (100, 2 * S)


def test_throttling_is_a_share_of_the_periods(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000")
    (membership := tmp_path / "membership").write_text("0::/\n")
    quota = Quota(2 * S, tmp_path, membership)
    assert list(quota.look(0)) == []  # nothing is known yet
    stat = tmp_path / "cpu.stat"
    stat.write_text("nr_periods 10\nnr_throttled 0\n")
    quota = Quota(2 * S, tmp_path, membership)
    assert list(quota.look(0)) == []
    stat.write_text("nr_periods 30\nnr_throttled 9\n")
    assert list(quota.look(2 * S)) == []
    stat.write_text("nr_periods 50\nnr_throttled 25\n")
    (found,) = quota.look(4 * S)
    assert found.text == "no core: the CPU quota of 0.5 cores throttles 80 % of the time"


def test_the_gil_is_held_when_most_of_the_time_is_a_wait_for_it() -> None:
    waits = GilWaits(2 * S)
    assert list(waits.look(0, 0, "")) == []
    assert list(waits.look(2 * S, S // 2, "views.py:4")) == []
    (found,) = waits.look(4 * S, 3 * S // 2, "views.py:4")
    assert found.text == "the GIL is held 75 % of the time by views.py:4"


def test_nobody_listens_to_the_collector_until_old_objects_are_collected() -> None:
    before, collector = list(gc.callbacks), Collector(S)
    assert (list(collector.look(0)), gc.callbacks) == ([], before)
    gc.collect()
    assert list(collector.look(S)) == []
    assert len(gc.callbacks) == len(before) + 1
    gc.collect()
    list(collector.look(30 * S))
    list(collector.look(60 * S))
    assert gc.callbacks == before
    collector.stop()


def test_a_look_that_is_under_way_at_the_end_leaves_no_callback() -> None:
    before, collector = list(gc.callbacks), Collector(S)
    list(collector.look(0))
    gc.collect()
    collector.stop()
    list(collector.look(S))
    assert gc.callbacks == before


def test_time_of_collections_is_counted_without_bytecode() -> None:
    spent = CollectionTime()
    assert not hasattr(spent.__call__, "__code__")
    spent("stop", {})  # it began before we listened
    assert spent.spent_ns() == 0
    spent("start", {})
    spent("stop", {})
    assert spent.spent_ns() > 0


def test_frames_are_those_of_all_threads_and_collections_go_on() -> None:
    assert current_frames().keys() == sys._current_frames().keys()
    assert gc.isenabled()


def test_a_look_leaves_its_own_thread_out() -> None:
    assert threading.get_ident() not in {each.ident for each in Threads().look()}


def test_equal_code_of_two_files_has_two_places() -> None:
    text = "import sys\ndef here(): return sys._getframe()"
    places = []
    for file in ("/app/one.py", "/app/two.py"):
        names: dict[str, Any] = {}
        exec(compile(text, file, "exec"), names)
        places.append(place(names["here"]()))
    assert places == ["app/one.py:2", "app/two.py:2"]


def test_a_place_has_words_without_a_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(OSError):
        os.getcwd()
    assert stacks._short("/app/one.py") == "/app/one.py"


def test_each_request_of_a_sync_worker_is_a_trouble_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gunicorn.workers.sync", SimpleNamespace())
    names: dict[str, Any] = {}
    exec(compile("def handle_request(self, look): return look()", "/gunicorn/workers/sync.py", "exec"), names)
    threads = Threads()
    with ThreadPoolExecutor(1) as executor:

        def look() -> list[Trouble]:
            return executor.submit(lambda: list(full_pools(threads.look(), None))).result()

        keys = [each.key for nr in (1, 2) for each in names["handle_request"](SimpleNamespace(nr=nr), look)]
    assert keys == [("sync", 1), ("sync", 2)]


def test_what_one_probe_cannot_see_the_others_still_do() -> None:
    looks, goes = _Looks(0, S), threading.Event()
    looks._loop._limiter = object()  # an anyio that looks different
    with ThreadPoolExecutor(1) as executor:
        for _ in range(2):
            executor.submit(goes.wait)
        until = time.monotonic() + 10
        found: list[Trouble] = []
        while not found and time.monotonic() < until:
            found = list(looks._found(looks._threads.look(), time.monotonic_ns(), 0))
        goes.set()
    assert found[0].text.startswith("1 of 1 threads wait for a lock at ")


def test_a_place_is_the_applications_line_and_what_it_calls() -> None:
    assert place(sys._getframe()).endswith("(place)")
    assert "test_looks.py:" in place(sys._getframe())


def test_a_thread_of_an_executor_without_the_applications_code_is_at_what_it_was_given() -> None:
    threads = Threads()
    with ThreadPoolExecutor(2) as executor:
        executor.submit(time.sleep, 0.2)
        executor.submit(partial(contextvars.copy_context().run, time.sleep, 0.2))
        until, places = time.monotonic() + 10, list[str]()
        while places != ["time.sleep"] * 2 and time.monotonic() < until:
            places = [each.place for each in threads.look() if each.name.startswith("ThreadPoolExecutor")]
    assert places == ["time.sleep"] * 2


def test_a_pool_is_full_while_all_its_threads_are_busy_and_work_waits() -> None:
    threads, goes = Threads(), threading.Event()
    with ThreadPoolExecutor(2) as executor:
        for _ in range(4):
            executor.submit(goes.wait)
        until = time.monotonic() + 10
        found: list[Trouble] = []
        while not found and time.monotonic() < until:
            found = list(full_pools(threads.look(), None))
        goes.set()
    assert found[0].text.startswith("2 of 2 threads wait for a lock at ")
    assert found[0].text.endswith(" for {for_s}; 2 waiting")


def test_an_exit_within_a_call_of_ours_ends_the_program(run_python: Any) -> None:
    run_python(_EXITS)


@pytest.mark.skipif(
    tuple(map(int, os.uname().release.split(".")[:2])) < (6, 12) or os.uname().machine != "x86_64",
    reason="Linux before 6.12 has no slices of one thread",
)
def test_its_threads_alone_ask_for_short_slices(run_python: Any, free_ports: Any) -> None:
    assert run_python(_SLICES, str(free_ports())).stdout.split() == ["False", "True", "True"]


_SLICES = """
import ctypes, os, struct, sys, time
import greenlane

def is_short(thread):
    attributes = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(315, int(thread), attributes, 48, 0) == 0
    return struct.unpack_from("Q", attributes, 24)[0] == 100_000

greenlane.health("127.0.0.1:" + sys.argv[1])
end_s = time.monotonic() + 20
while True:  # Each asks as it begins.
    short = [is_short(thread) for thread in sorted(os.listdir("/proc/self/task"), key=int)]
    if all(short[1:]) or time.monotonic() > end_s:
        break
    time.sleep(0.01)
print(*short)
"""
_EXITS = """
import sys
from greenlane._native import call_in_main_thread

def leave(): sys.exit(0)
def fail(): raise ValueError

assert call_in_main_thread(fail)
for _ in range(100_000): pass
assert call_in_main_thread(leave)
for _ in range(100_000): pass
sys.exit("it runs on")
"""
