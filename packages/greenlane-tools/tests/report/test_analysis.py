"""Analyses of rows: each on rows small enough to know the answer."""

from __future__ import annotations

from typing import Any

import pytest
from tests.report.rows_of_a_bad_day import CROWD, MS, Made, S, a_day

from greenlane_tools.reader.rows import Blame, Call, Job, Process, Sample, Segment, Stack, Turns
from greenlane_tools.report import culprits
from greenlane_tools.report.brief import brief_lines
from greenlane_tools.report.clocks import branches_of, route_clocks, upstreams
from greenlane_tools.report.culprits import matrix_of, own_frame, places
from greenlane_tools.report.differences import unlike
from greenlane_tools.report.json_rows import rows_of
from greenlane_tools.report.split import nearest, neighbours, split_routes
from greenlane_tools.report.study import study_of
from greenlane_tools.report.tail import excesses
from greenlane_tools.report.text import sections
from greenlane_tools.report.turns import RouteTurns, counted_turns
from greenlane_tools.report.uncut import uncut_fracs
from greenlane_tools.report.workers import balance_of, busy_over_time, load_of

BAD = a_day(seconds=30)
OVERCOMMITTED = a_day(CROWD, 10, (1.0,))


def job(number: int = 1, **fields: Any) -> Job:
    """A job that took 10 ms of CPU unless said otherwise; its latency is the sum of its parts."""
    cpu_ns, io_ns, wait_ns = fields.pop("cpu_ns", 10 * MS), fields.pop("io_ns", {}), fields.pop("wait_ns", {})
    arrival_ns = fields.pop("arrival_ns", 0)
    end_ns = arrival_ns + cpu_ns + sum(io_ns.values()) + sum(wait_ns.values())
    common = {"process": 0, "route": "/a", "host": "", "status": 200, "clock": "kernel", "spawn_ns": 0}
    common |= {"handler_ns": arrival_ns, "deadline_ns": 0, "residual_ns": 0, "uncertain_ns": 0, "culprits": []}
    times = {"arrival_ns": arrival_ns, "end_ns": end_ns, "cpu_ns": cpu_ns, "io_ns": io_ns, "wait_ns": wait_ns}
    return Job(**{**common, **times, "job": number, **fields})


def blame(culprit: str, slices: int, slice_ns: int, waits: int = 1, victim: str = "/a", kind: str = "loop") -> Blame:
    by_length = [0] * 32
    by_length[(slice_ns // 1000).bit_length() - 1] = slices * slice_ns
    return Blame(victim, kind, culprit, 0, slices * slice_ns, waits, slices, slice_ns, by_length)


# --- percentiles, split


def test_a_percentile_is_the_nearest_rank_and_its_neighbours_surround_it() -> None:
    assert [nearest(range(1, 101), at) for at in (0.5, 0.95, 0.99)] == [50, 95, 99]
    around = neighbours(range(10_000), 0.99)
    assert (around[0], around[-1], len(around)) == (9_849, 9_949, 101)
    assert list(neighbours([7], 0.99)) == [7]


def test_parts_of_every_level_add_up_to_about_its_latency() -> None:
    for split in split_routes(BAD.jobs):
        for name, level in split.levels.items():
            if name == "mean":
                assert sum(level.parts.values()) == pytest.approx(level.latency_ns)
            if name == "p50":
                assert sum(level.parts.values()) == pytest.approx(level.latency_ns, rel=0.1)


def test_p999_needs_ten_thousand_samples() -> None:
    few, many = ([job(n) for n in range(count)] for count in (9_999, 10_000))
    assert "p999" not in split_routes(few)[0].levels
    assert "p999" in split_routes(many)[0].levels


def test_late_and_failed_jobs_are_counted() -> None:
    (split,) = split_routes([job(1, deadline_ns=5 * MS), job(2, deadline_ns=50 * MS, status=503), job(3)])
    assert (split.late, split.with_deadline, split.failed) == (1, 2, 1)


# --- tail


def test_what_the_slow_ones_have_more_of_is_found_with_its_culprit() -> None:
    usual = [job(n, io_ns={"socket": 100 * MS}) for n in range(95)]
    slow = [
        job(n, io_ns={"socket": 110 * MS}, wait_ns={"loop": 400 * MS}, culprits=[("/r", 300 * MS), ("/q", 100 * MS)])
        for n in range(95, 100)
    ]
    (split,) = split_routes(usual + slow)
    found = {each.at: each for each in excesses(split)}
    assert found["p99"].excess_ns == 410 * MS
    assert found["p99"].parts["loop"] == 400 * MS and found["p99"].parts["io"] == pytest.approx(10 * MS)
    assert found["p99"].wait_frac == pytest.approx(400 / 410)
    assert found["p99"].culprits == [("/r", 0.75), ("/q", 0.25)]
    assert found["p99"].kind == "loop"


def test_a_tail_of_own_cpu_blames_nobody() -> None:
    (split,) = split_routes([job(n, cpu_ns=(n + 1) * MS) for n in range(100)])
    (_, p99) = excesses(split)
    assert (p99.kind, p99.wait_frac, list(p99.culprits)) == ("cpu", 0, [])


# --- matrix, places, costs


def test_the_matrix_keeps_sums_when_it_is_cut() -> None:
    whole = matrix_of([blame(f"/c{n}", 1, 2**n * MS, victim=f"/v{n}") for n in range(8)])
    cut = whole.cut(3)
    assert sum(cut.cells.values()) == sum(whole.cells.values()) == whole.whole_ns
    assert len(cut.victims) == len(cut.culprits) == 4
    assert whole.share("/v7", "/c7") == 1


def test_a_place_is_the_applications_line_and_not_the_librarys_below_it() -> None:
    stack = "run (/srv/wsgi.py:1);price (/srv/app/pricing.py:88);dumps (/usr/lib/python3.11/json/__init__.py:238)"
    frame = own_frame(stack)
    assert frame is not None and (frame.function, frame.place) == ("price", "pricing.py:88")
    short = own_frame(
        "run (site-packages/gunicorn/util.py:9);view (http/views.py:12);traced (greenlane/probes/threads.py:8);"
        "f (python3.13t/ssl.py:9);g (dist-packages/six.py:1);h (<frozen importlib._bootstrap>:4)"
    )
    assert short is not None and short.place == "views.py:12"
    demo = own_frame("price (greenlane/demo/pricing.py:5);open (greenlane/hosts/observed/wsgi.py:3)")
    assert demo is not None and demo.place == "pricing.py:5"
    assert own_frame("") is None
    assert own_frame("strange") == ("strange", "", 0, False)
    found = places([Stack("/r", "a (/x/a.py:1)", 5), Stack("/r", "b (/x/b.py:2)", 7), Stack("/r", "a (/x/a.py:1)", 3)])
    assert found["/r"].place == "a.py:1"


def test_small_costs_are_found_in_libraries() -> None:
    found = {cost.name: cost for cost in culprits.by_work(BAD.stacks)}
    assert {"JSON", "pickle", "templates"} <= found.keys()
    assert found["pickle"].place == "pickle.py:1213"
    assert sum(cost.lateness_frac for cost in found.values()) == pytest.approx(1)
    assert culprits.by_function(BAD.stacks)[0].place == "pricing.py:88"


# --- clocks


def call(wire_ms: int, late_ms: int, number: int = 1, timeout_ms: int = 0, outcome: str = "ok") -> Call:
    times = (0, wire_ms * MS, (wire_ms + late_ms) * MS, timeout_ms * MS)
    return Call(0, number, "/a", "db:1", "q", *times, outcome)


def test_upstreams_clock_stands_beside_the_applications_with_the_factor() -> None:
    (found,) = upstreams([call(110, 0)] * 90 + [call(110, 5190)] * 10)
    assert (found.slow_wire_ns, found.slow_late_ns) == (110 * MS, 5190 * MS)
    assert round(found.factor, 1) == 47.2
    assert (found.seen.p99_ns, found.wire and found.wire.p99_ns) == (5300 * MS, 110 * MS)


def test_data_after_its_deadline_is_counted_by_whose_fault_it_was() -> None:
    calls = [call(50, 170, timeout_ms=100), call(150, 1, timeout_ms=100), call(50, 1, timeout_ms=100)]
    (found,) = upstreams([*calls, call(50, 170, timeout_ms=100, outcome="timeout"), call(50, 999)])
    assert (found.late_resumed, found.late_replied, found.with_deadline, found.failed) == (1, 1, 4, 1)


def test_a_reply_of_unknown_moment_is_no_wait() -> None:
    (found,) = upstreams([Call(0, 1, "/a", "db", "q", 0, 0, 9 * MS, 0, "ok")])
    assert (found.known, found.wire, found.factor, found.late_ns) == (0, None, 0, 0)


def test_the_handlers_clock_leaves_out_what_waits_before_it() -> None:
    jobs = [
        job(n, wait_ns={"accept": 69 * MS}, cpu_ns=181 * MS, handler_ns=69 * MS, spawn_ns=41 * MS) for n in range(9)
    ]
    (found,) = route_clocks(jobs)
    assert [found.handler.p50_ns, found.spawn and found.spawn.p50_ns, found.arrival.p50_ns] == [
        181 * MS,
        209 * MS,
        250 * MS,
    ]


# --- balance


def process(number: int, pid: int, **about: object) -> Process:
    return Process(number, pid, about, 0, 10 * S, 0, 0)


def samples(number: int, busy: float) -> list[Sample]:
    waking = [(n * S // 20, n * 500) for n in range(7, 18)]  # since recording began
    return [Sample(number, n * S, int(n * busy * S), 0, 10**8, 3, 1, n * MS, 0, *waking[n]) for n in range(11)]


def test_one_worker_has_it_all_and_the_parent_is_no_worker() -> None:
    processes = [process(0, 10), *(process(n, 10 + n, parent_pid=10) for n in range(1, 9))]
    jobs = [job(n, process=1) for n in range(200)]
    found = balance_of(processes, jobs, samples(1, 0.99) + samples(2, 0.05))
    assert len(found.workers) == 8 and found.parents == [0]
    assert found.max_to_mean == 8
    assert found.gini == pytest.approx(1 - 1 / 8)
    assert found.hottest is not None and found.hottest.pid == 11
    assert found.hottest.busy_frac == pytest.approx(0.99) and found.mean_busy_frac == pytest.approx(0.52)
    hottest = found.hottest
    assert (hottest.waking_frac, hottest.hand_overs, hottest.mean_waking_ns) == (0.05, 5000, 100_000)
    assert found.workers[-1].waking_frac is None


def test_an_idle_worker_is_a_sibling_of_one_that_serves_and_nothing_else_is() -> None:
    server, other = {"parent_pid": 10, "argv": ["gunicorn"]}, {"parent_pid": 10, "argv": ["collector"]}
    processes = [process(0, 10), process(1, 11, **server), process(2, 12, **server), process(3, 13, **other)]
    found = balance_of(processes, [job(n, process=1) for n in range(9)], [])
    assert [worker.pid for worker in found.workers] == [11, 12] and found.parents == [0, 3]


def test_even_workers_have_no_gini_and_none_without_jobs() -> None:
    processes = [process(n, 10 + n) for n in range(4)]
    assert balance_of(processes, [job(n, process=n) for n in range(4)], []).gini == 0
    assert balance_of(processes, [], []).max_to_mean is None


def test_load_over_time_is_the_cpu_since_the_sample_before() -> None:
    assert busy_over_time(samples(0, 0.5), 0)[0] == [(n * S, 0.5) for n in range(1, 11)]


# --- C calls that hold the GIL


def gil_day(pieces_ms: list[int]) -> Made:
    """/a waits for the GIL while /c computes in pieces: between two of them it gave the GIL away for 1 ms."""
    life, at = [], 0
    for piece in pieces_ms:
        life += [Segment("cpu", "", at, at + piece * MS, "t2", "")]
        life += [Segment("wait", "gil", at + piece * MS, at + (piece + 1) * MS, "t2", "/a")]
        at += (piece + 1) * MS
    made = Made(processes=[process(0, 1, interval_ms=5.0)])
    made.jobs = [job(1, wait_ns={"gil": at}), job(2, route="/c", cpu_ns=sum(pieces_ms) * MS, io_ns={"socket": 9 * MS})]
    made.lives = {(0, 1): [Segment("wait", "gil", 0, at, "t1", "/c")], (0, 2): life}
    return made


def test_python_code_is_cut_and_a_c_call_is_not_even_off_its_core() -> None:
    assert uncut_fracs(gil_day([5] * 20)) == {}
    assert uncut_fracs(gil_day([5, 5, 80, 5])) == {"/c": pytest.approx(80 / 99)}
    made = gil_day([80])
    first, wait = made.lives[0, 2]
    middle_ns = 40 * MS
    made.lives[0, 2] = [
        Segment("cpu", "", 0, middle_ns - 5 * MS, "t2", ""),
        Segment("wait", "os", middle_ns - 5 * MS, middle_ns, "t2", "os"),
        Segment("cpu", "", middle_ns, first.to_ns, "t2", ""),
        wait,
    ]
    assert uncut_fracs(made) == {"/c": pytest.approx(80 / 81)}


# --- outputs


def test_on_one_screen_it_is_said_that_only_a_part_was_read() -> None:
    day = a_day(seconds=5)
    day.notes = ["this is of its last 300 MB of 1000"]
    assert "note     this is of its last 300 MB of 1000" in list(brief_lines(study_of(day), "day.glr"))


def test_who_waited_for_a_permit_pays_and_whom_they_waited_for_gains() -> None:
    waits_ns = {"permit": 30 * MS, "stopped": 20 * MS}
    made = Made(jobs=[job(1, wait_ns=waits_ns), job(2), job(3, route="/c"), job(4, route="/d")])
    made.blame = [blame("/c", 1, waits_ns[kind], kind=kind) for kind in waits_ns]
    made.blame += [blame("/d", 1, 9 * MS, kind="gil")]
    study = study_of(made)
    assert study.turns == [RouteTurns("/a", 2, 1, 50 * MS, 0), RouteTurns("/c", 1, 0, 0, 50 * MS)]
    assert all("turns" not in row for row in rows_of(study) if row["view"] == "turns")
    made.turns = [Turns("/d", 3, 1, 0, 0, 2, 1)]
    *_, last = study_of(made).turns
    assert (last.route, last.waited, counted_turns(last)) == ("/d", 0, {
        "turns": 3, "express": 1, "shared": 0, "charged": 0, "skipped": 1
    })  # fmt: skip
    assert [row["express"] for row in rows_of(study_of(made)) if row["view"] == "turns"] == [0, 0, 1]
    assert "turns for permits: who pays, who gains" in [heading for heading, _, _ in sections(study)]
    assert study_of(BAD).turns == []


def test_what_was_not_recorded_alike_is_said_in_words_of_the_processes_that_serve() -> None:
    def made(patched: bool, cores: int) -> Made:
        parent = Process(0, 10, {"threads_are_greenlets": False, "cores": cores}, 0, S, 0, 0)
        worker = Process(1, 11, {"threads_are_greenlets": patched, "cores": cores}, 0, S, 0, 0)
        return Made([parent, worker], [job(1, process=1)])

    assert unlike(made(True, 2), made(True, 2)) == []
    assert unlike(made(True, 2), made(False, 4)) == [
        "cores: 2 before, 4 after",
        "gevent replaces threads: yes before, no after",
    ]


# --- stacks


def test_collapsed_stacks_add_up() -> None:
    rows = [Stack("GET /a;b", "f (x.py:1);g (y.py:2)", 5), Stack("GET /a;b", "f (x.py:1);g (y.py:2)", 6)]
    assert culprits.folded_lines(rows) == ["GET /a:b;f (x.py:1);g (y.py:2) 11"]


# --- deadlines of branches, the load's form


def test_the_branch_that_misses_the_deadline_is_named_with_whose_fault_it_was() -> None:
    jobs = {(0, 1): job(1, deadline_ns=100 * MS), (0, 2): job(2)}
    (found,) = branches_of([call(50, 170), call(150, 1), call(50, 1), call(50, 999, number=2)], jobs)
    assert (found.calls, found.missed, found.was_ready) == (3, 2, 1)


def test_a_load_of_waiting_clients_is_told_from_arrivals() -> None:
    closed = [job(n, arrival_ns=(n // 10) * 50 * MS, cpu_ns=50 * MS) for n in range(400)]
    found = load_of(closed)
    assert found.closed and found.most_in_progress == 10
    assert found.per_s * found.latency_ns / 1e9 == pytest.approx(10, rel=0.1)
    assert not load_of(BAD.jobs).closed
    assert load_of([]).per_s == 0


def test_the_script_of_a_command_is_nobodys_line() -> None:
    script = "<module> (bin/datasette:8)"
    execute = "execute (site-packages/datasette/database.py:238)"
    found = own_frame(f"{script};main (site-packages/click/core.py:1);{execute}")
    assert found is not None and found.place == "database.py:238"
    found = own_frame(f"{script};view (shop/app.py:7);{execute}")
    assert found is not None and found.place == "app.py:7"
