"""The threads that serve requests: one that is ended from outside takes no request with it."""

from __future__ import annotations

import ctypes
import queue
import threading
import time

import pytest

from greenlane.hosts.pool import Pool


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_exception_from_outside_in_an_idle_thread_loses_no_item() -> None:
    served: queue.SimpleQueue[int] = queue.SimpleQueue()
    pool = Pool(1, served.put)
    pool.submit(1)
    assert served.get(timeout=10) == 1
    (thread,) = [each for each in threading.enumerate() if each.name == "greenlane-1"]
    until(lambda: pool.in_progress == 0)
    ended = ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
    assert ended == 1
    pool.submit(2)
    assert served.get(timeout=10) == 2
    thread.join(10)
    assert not thread.is_alive()
    until(lambda: pool.in_progress == 0)
    assert pool.threads == 1
    pool.shutdown()


def until(condition) -> None:  # type: ignore[no-untyped-def]
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)
