"""What is posted is done by the owner, soon, in order, and whatever fails keeps nobody else."""

from __future__ import annotations

import threading
import time

import pytest

from greenlane_work.worker.owner import Alarm
from greenlane_work.worker.threads import ThreadOwner
from tests.fixtures import RunPython

S = 1_000_000_000


def test_the_owner_does_what_other_threads_post_in_order() -> None:
    owner = ThreadOwner()
    done: list[tuple[int, int]] = []
    me = threading.get_ident()

    def post() -> None:
        for number in range(100):
            owner.post(lambda number=number: done.append((number, threading.get_ident())))  # type: ignore[misc]

    thread = threading.Thread(target=post)
    thread.start()
    until = time.monotonic() + 10
    while len(done) < 100 and time.monotonic() < until:
        owner.wait(1)
    thread.join()
    assert done == [(number, me) for number in range(100)]


def test_what_fails_keeps_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    owner = ThreadOwner()
    done: list[int] = []
    owner.post(lambda: 1 // 0)
    owner.post(lambda: done.append(1))
    owner.run()
    assert done == [1]
    assert "a bug of Greenlane" in caplog.text


def test_an_alarm_rings_in_the_order_of_times_and_not_what_was_cancelled() -> None:
    owner = ThreadOwner()
    alarm = Alarm(owner)
    rung: list[str] = []
    now_ns = time.monotonic_ns()
    alarm.at(now_ns + S // 20, lambda: rung.append("second"))
    cancelled = alarm.at(now_ns + S // 30, lambda: rung.append("cancelled"))
    alarm.at(now_ns + S // 100, lambda: rung.append("first"))
    alarm.at(now_ns + 3600 * S, lambda: rung.append("never"))
    cancelled.cancel()
    until = time.monotonic() + 10
    while len(rung) < 2 and time.monotonic() < until:
        owner.wait(1)
    assert rung == ["first", "second"]


def test_green_threads_have_an_owner_that_other_threads_reach_too(run_python: RunPython) -> None:
    run_python(
        """
from gevent import monkey
monkey.patch_all()
import time
import gevent
from greenlane.threads.unpatched import start_new_thread
from greenlane_work.worker.owner import Alarm
from greenlane_work.worker.green import GreenOwner

owner = GreenOwner()
done = []
owner.post(lambda: done.append(("green", gevent.getcurrent())))
start_new_thread(lambda: owner.post(lambda: done.append(("native", gevent.getcurrent()))), ())
alarm = Alarm(owner)
alarm.at(time.monotonic_ns() + 10**7, lambda: done.append(("alarm", gevent.getcurrent())))
until = time.monotonic() + 10
while len(done) < 3 and time.monotonic() < until:
    owner.wait(1)
assert {word for word, _ in done} == {"green", "native", "alarm"}, done
assert len({who for _, who in done}) == 1
assert done[0][1] is not gevent.getcurrent()
"""
    )
