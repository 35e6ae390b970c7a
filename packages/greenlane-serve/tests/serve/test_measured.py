"""What workers tell in their ledgers, and what has come since."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from greenlane.settings import load
from greenlane_serve.folders import with_control
from greenlane_serve.measured import Since
from greenlane_serve.settings import ServeSettings
from greenlane_serve.worker.ledger import Ledger, RouteSums, Sums

MS = 1_000_000


def told(
    at_ns: int, *, lag: tuple[int, int] = (0, 0), blocked: tuple[int, int] = (0, 0), **routes: tuple[int, int, int]
) -> Sums:
    """`lag`: wake-ups, and how late they were together; `blocked`: for how long, and how often."""
    return Sums(at_ns, {name: RouteSums(*row) for name, row in routes.items()}, *blocked, [lag[0]], lag[1])


def test_what_has_come_is_the_difference_to_the_last_answer() -> None:
    since = Since()
    assert since.take({1: told(1_000, blocked=(50 * MS, 10), bikes=(10, 5 * MS, 10))}) == {}
    later = told(3_000, blocked=(52 * MS, 14), bikes=(14, 7 * MS, 14), hogs=(1, 30 * MS, 1))
    came = since.take({1: later})[1]
    assert (came.span_ns, came.jobs, came.blocked_ns) == (2_000, 5, 2 * MS)
    assert came.ended == [("bikes", 4, 2 * MS), ("hogs", 1, 30 * MS)]


def test_what_was_looked_at_stands_for_the_rest() -> None:
    since = Since()
    since.take({1: told(1, a=(0, 0, 0))})
    came = since.take({1: told(2, a=(100, 30 * MS, 10), never=(5, 0, 0))})
    assert came[1].ended == [("a", 100, 300 * MS)], "of the other one nothing is known yet"
    came = since.take({1: told(3, a=(101, 30 * MS, 10))})
    assert came[1].ended == [("a", 1, 3 * MS)], "none was looked at: the mean of all"


def test_the_wait_until_code_goes_on_is_no_io() -> None:
    since = Since()
    since.take({1: told(1, lag=(10, 10 * MS))})
    # 20 wake-ups were 5 ms late each meanwhile.
    came = since.take({1: told(2, lag=(30, 110 * MS), blocked=(600 * MS, 10))})[1]
    assert (came.blocked_ns, came.wakes, came.late_ns) == (550 * MS, 20, 100 * MS)
    assert since.take({1: told(3, lag=(50, 210 * MS), blocked=(690 * MS, 30))})[1].blocked_ns == 0


def test_an_answer_counts_once_and_a_new_process_begins_anew() -> None:
    since = Since()
    first = told(1_000, blocked=(50, 0), bikes=(10, 5, 10))
    since.take({1: first})
    assert since.take({1: first}) == {}
    assert since.take({2: told(2_000, bikes=(3, 30, 3))}) == {}
    assert since.take({2: told(3_000, bikes=(4, 35, 4))})[2].ended == [("bikes", 1, 5)]


def test_both_sides_of_a_ledger_see_the_same() -> None:
    parent = Ledger()
    worker = Ledger(os.dup(parent.fd))
    try:
        assert (parent.last_s(), parent.read()) == (0.0, None)
        worker.beat()
        assert parent.last_s() > 0
        for sums in (told(7, lag=(3, 4), blocked=(5, 6), a=(1, 2, 3), b=(0, 0, 0)), told(8, a=(9, 2, 3))):
            worker.write(sums)
            assert parent.read() == sums
        os.pwrite(worker.fd, b"torn", 40)
        assert parent.read() is None
    finally:
        worker.close()
        parent.close()


def test_workers_have_control_sockets_in_a_folder_that_goes_with_us() -> None:
    environ: dict[str, str] = {}
    with with_control(ServeSettings(), environ):
        settings: Any = load(environ={**environ, "GREENLANE_CONFIG": ""}, kind=ServeSettings)
        folder = Path(settings.control_dir)
        assert folder.stat().st_mode & 0o077 == 0
        assert not settings.record_folder, "nothing is recorded that nobody asked for"
        with with_control(ServeSettings(), {}):  # another service takes nothing away
            assert folder.exists()
    assert environ == {}
    assert not folder.exists()


def test_what_the_settings_say_stays() -> None:
    environ: dict[str, str] = {}
    with with_control(ServeSettings(control_dir="/run/shop"), environ):
        assert environ == {}
    with with_control(
        load({"control_dir": "/run/shop"}, environ={"GREENLANE_CONFIG": ""}, kind=ServeSettings), environ
    ):
        assert environ == {"GREENLANE_CONTROL_DIR": "/run/shop"}, "workers get the flag by their environment"
