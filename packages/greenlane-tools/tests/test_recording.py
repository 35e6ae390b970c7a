"""A recording says where each job's time went and who took it; what is damaged or missing is said, not guessed."""

from __future__ import annotations

import ast
import random
import sys
import typing
from pathlib import Path

import pytest

from greenlane.errors import RecordingError
from greenlane.phase import Kind
from greenlane_testing import RecordingWriter
from greenlane_tools.reader import Job, Recording, open_recording, rows
from greenlane_tools.report import json_rows
from greenlane_tools.report.study import study_of
from tests.recordings import (
    ACCEPT,
    GIL,
    GREENLET,
    HELD,
    LOOP,
    MS,
    START_NS,
    THREAD,
    US,
    Cpu,
    GreenService,
    Request,
    Truth,
    Upstream,
    pricing,
    pricing_requests,
    write_pricing,
)


class Story:
    """A recording in the making: times in ms after its begin."""

    def __init__(self) -> None:
        self.writer = RecordingWriter(1, 100)

    def unit(self, unit: int, kind: int, thread: int = 1, name: str = "") -> None:
        self.writer.event("unit", at_ns=START_NS, unit=unit, kind=kind, thread=thread, name=name)

    def job(self, job: int, unit: int, at: float, end: float, route: str, arrival: float | None = None) -> None:
        arrival_ns = _ns(at if arrival is None else arrival)
        self.writer.event("job_open", at_ns=_ns(at), job=job, unit=unit, arrival_ns=arrival_ns)
        self.writer.event("job_name", at_ns=_ns(at), job=job, route=route)
        self.writer.event("job_close", at_ns=_ns(end), job=job, status=200)

    def spell(self, name: str, begin: float, end: float, **fields: int | str) -> None:
        self.writer.event(name, from_ns=_ns(begin), to_ns=_ns(end), **fields)

    def end(self) -> Recording:
        return Recording(self.writer.chunk())


def _ns(ms: float) -> int:
    return START_NS + round(ms * MS)


def _blame(recording: Recording, victim: str) -> dict[tuple[str, str], float]:
    """(kind, culprit) to ms."""
    found: dict[tuple[str, str], float] = {}
    for row in recording.blame:
        if row.victim == victim:
            found[row.kind, row.culprit] = found.get((row.kind, row.culprit), 0) + row.ns / MS
    return found


def _split(job: Job) -> tuple[int, int, dict[str, int], int]:
    return job.cpu_ns, sum(job.io_ns.values()), job.wait_ns, job.residual_ns


def _expected(truth: Truth) -> tuple[int, int, dict[str, int], int]:
    return truth.cpu_ns, truth.io_ns, truth.wait_ns, 0


def test_a_simulated_loop_is_found_again_to_the_nanosecond() -> None:
    service = GreenService(1, 1)
    truth = service.run(pricing_requests(seconds=4, seed=3))
    recording = Recording(service.chunk())
    assert len(recording.jobs) == len(truth) > 100
    for job in recording.jobs:
        assert _split(job) == _expected(truth[job.job])
        assert job.cpu_ns + sum(job.io_ns.values()) + sum(job.wait_ns.values()) == job.latency_ns
        assert (job.route, job.end_ns, job.uncertain_ns) == (truth[job.job].route, truth[job.job].end_ns, 0)


def test_most_of_the_light_jobs_wait_is_blamed_on_the_heavy_route() -> None:
    recording = Recording(pricing(seconds=4))
    blame = _blame(recording, "GET /bikes")
    assert sum(ns for (_, culprit), ns in blame.items() if culprit == "GET /report") > 0.6 * sum(blame.values())
    assert blame["loop", "gc"] > 0 and blame["loop", "loop"] > 0 and blame["loop", "GET /legacy"] > 0
    waits_ns = sum(sum(job.wait_ns.values()) for job in recording.jobs)
    assert sum(row.ns for row in recording.blame) == waits_ns
    hog = next(row for row in recording.blame if (row.victim, row.culprit) == ("GET /bikes", "GET /report"))
    assert 50 * MS < hog.longest_ns < 90 * MS
    assert sum(hog.by_length_ns) == hog.ns and 1 <= hog.slices < hog.waits
    assert recording.stacks[0].culprit == "GET /report" and "pricing.py:88" in recording.stacks[0].stack
    assert [(row.route, row.call) for row in recording.held] == [("GET /legacy", "connect rates.legacy:21")]
    assert {call.outcome for call in recording.calls} == {"ok", "timeout"}
    assert [process.pid for process in recording.processes] == [4001, 4002, 4100]
    assert recording.processes[0].about["host"] == "gunicorn.gevent"
    assert {sample.process for sample in recording.samples} == {0, 1, 2}
    assert recording.notes == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_sums_are_exact_for_each_of_100_000_jobs() -> None:
    rng = random.Random(11)
    at_ns, requests = START_NS, []
    for number in range(100_000):
        at_ns += int(rng.expovariate(1 / (2 * MS)))
        reply = Upstream("inventory", "GET", rng.randrange(1 * MS, 20 * MS))
        first, last = Cpu(rng.randrange(50 * US, 400 * US)), Cpu(20 * MS if number % 50 == 0 else 100 * US)
        requests.append(Request(f"GET /{number % 7}", at_ns, (first, reply, last)))
    service = GreenService(1, 1)
    truth = service.run(requests)
    recording = Recording(service.chunk())
    assert len(recording.jobs) == 100_000
    wrong = [job for job in recording.jobs if _split(job) != _expected(truth[job.job])]
    assert not wrong
    by_sum = sum(job.latency_ns - job.cpu_ns - sum(job.io_ns.values()) for job in recording.jobs)
    assert sum(row.ns for row in recording.blame) == by_sum


def test_a_measured_slice_was_off_the_core_where_nothing_else_explains_it() -> None:
    story = Story()
    story.unit(1, THREAD)
    story.job(1, 1, 0, 100, "GET /a")
    story.spell("slice", 0, 100, unit=1, job=1, cpu_ns=70 * MS)
    story.spell("wait", 10, 20, unit=1, job=1, kind=GIL)
    recording = story.end()
    assert _split(recording.jobs[0]) == (70 * MS, 0, {"gil": 10 * MS, "os": 20 * MS}, 0)
    assert _blame(recording, "GET /a") == {("gil", "native"): 10, ("os", "os"): 20}


def test_children_count_for_their_job_and_compute_before_it_waits() -> None:
    story = Story()
    story.unit(1, GREENLET)
    story.unit(2, GREENLET)
    story.job(1, 1, 0, 30, "GET /a")
    story.writer.event("attach", at_ns=_ns(0), unit=2, job=1)
    story.spell("block", 0, 30, unit=1, job=1, kind=Kind.FUTURE)
    story.spell("block", 5, 15, unit=2, job=1, kind=Kind.SOCKET)
    story.spell("slice", 15, 25, unit=2, job=1)
    assert _split(story.end().jobs[0]) == (10 * MS, 10 * MS, {"pool": 10 * MS}, 0)


def test_a_wait_for_a_pool_is_blamed_on_whose_work_its_threads_had() -> None:
    story = Story()
    story.unit(1, GREENLET)
    story.unit(2, THREAD, thread=2)
    story.job(1, 1, 0, 30, "GET /a")
    story.job(2, 2, 0, 20, "POST /b")
    story.spell("block", 0, 30, unit=1, job=1, kind=Kind.FUTURE)
    story.spell("block", 0, 20, unit=2, job=2, kind=Kind.SOCKET)
    story.unit(3, GREENLET)
    story.job(3, 3, 20, 25, "GET /c")
    story.spell("slice", 20, 25, unit=3, job=3)
    expected = {("pool", "POST /b"): 20, ("pool", "GET /c"): 5, ("pool", "unknown"): 5}
    assert _blame(story.end(), "GET /a") == expected


def test_of_those_that_ran_at_the_same_time_the_one_that_began_last_had_the_gil() -> None:
    story = Story()
    for unit in (1, 2, 3):
        story.unit(unit, THREAD, thread=unit)
    story.job(1, 1, 0, 100, "GET /a")
    story.job(2, 2, 0, 100, "GET /b")
    story.job(3, 3, 0, 100, "GET /c")
    story.spell("wait", 0, 100, unit=1, job=1, kind=GIL)
    story.spell("slice", 0, 100, unit=2, job=2)
    for begin in range(0, 100, 2):
        story.spell("slice", begin, begin + 1, unit=3, job=3)
    blame = _blame(story.end(), "GET /a")
    assert blame == {("gil", "GET /b"): pytest.approx(50, abs=1), ("gil", "GET /c"): pytest.approx(50, abs=1)}
    assert sum(blame.values()) == 100


def test_the_accept_queue_of_threads_is_blamed_on_the_jobs_that_had_all_workers() -> None:
    story = Story()
    for unit in (1, 2):
        story.unit(unit, THREAD, thread=unit)
    story.job(1, 1, 0, 20, "GET /slow")
    story.job(2, 2, 0, 10, "GET /fast")
    story.job(3, 2, 10, 15, "GET /late", arrival=0)
    recording = story.end()
    assert recording.jobs[-1].wait_ns == {"accept": 10 * MS}
    assert _blame(recording, "GET /late") == {("accept", "GET /fast"): 5, ("accept", "GET /slow"): 5}


def test_what_was_parked_is_blamed_on_what_held_it_back() -> None:
    story = Story()
    for unit in (1, 2):
        story.unit(unit, THREAD, thread=unit)
    story.job(1, 1, 0, 100, "shop.other")
    story.job(2, 2, 60, 70, "shop.send", arrival=0)
    story.spell("parked", 10, 40, job=2, by="breaker m1")
    story.spell("parked", 40, 70, job=2, by="limit m1")  # what it says of the time after the begin does not count
    story.spell("slice", 60, 70, unit=2, job=2)
    recording = story.end()
    job = recording.jobs[-1]
    assert _split(job) == (10 * MS, 0, {"accept": 10 * MS, "parked": 50 * MS}, 0)
    assert job.culprits[:2] == [("breaker m1", 30 * MS), ("limit m1", 20 * MS)]
    assert _blame(recording, "shop.send")["parked", "limit m1"] == 20
    segments = [(one.kind, (one.to_ns - one.from_ns) // MS, one.label) for one in recording.segments(0, 2)]
    assert segments[1:] == [("parked", 30, "breaker m1"), ("parked", 20, "limit m1"), ("", 10, "")]


def test_who_waits_for_a_loop_that_waits_for_the_gil_blames_who_has_the_gil() -> None:
    story = Story()
    story.unit(1, GREENLET)
    story.unit(2, GREENLET)
    story.unit(3, THREAD, thread=2, name="Thread-7 (reload)")
    story.job(1, 1, 0, 40, "GET /a")
    story.job(2, 2, 0, 40, "GET /b")
    story.spell("block", 0, 40, ready_ns=_ns(10), unit=1, job=1, kind=Kind.SOCKET)
    story.spell("slice", 10, 20, unit=2, job=2)
    story.spell("wait", 20, 30, unit=2, job=2, kind=GIL)  # cuts a slice in two
    story.spell("slice", 30, 40, unit=2, job=2)
    story.spell("slice", 20, 30, unit=3)
    recording = story.end()
    assert _blame(recording, "GET /a") == {("loop", "GET /b"): 20, ("loop", "thread Thread-N (reload)"): 10}
    assert next(row for row in recording.blame if row.culprit == "GET /b").longest_ns == 30 * MS


def test_a_call_that_holds_the_loop_is_the_culprit_of_those_who_wait() -> None:
    story = Story()
    story.unit(1, GREENLET)
    story.unit(2, GREENLET)
    story.unit(3, LOOP)
    story.job(1, 1, 0, 40, "GET /a")
    story.job(2, 2, 0, 40, "GET /b")
    story.spell("block", 0, 40, ready_ns=_ns(10), unit=1, job=1, kind=Kind.SOCKET)
    story.spell("block", 10, 30, unit=2, job=2, kind=Kind.SOCKET, flags=HELD, call="connect", peer="db:1")
    story.spell("slice", 30, 35, unit=3)
    recording = story.end()
    assert _blame(recording, "GET /a") == {("loop", "GET /b"): 20, ("loop", "loop"): 5, ("loop", "unknown"): 5}
    assert [(row.call, row.ns) for row in recording.held] == [("connect db:1", 20 * MS)]


def test_what_was_running_when_its_process_was_killed_is_a_culprit() -> None:
    story = Story()
    story.unit(1, THREAD)
    story.unit(2, THREAD, thread=2)
    story.job(1, 1, 0, 300, "GET /a")
    story.spell("wait", 0, 300, unit=1, job=1, kind=GIL)
    for at in (200, 400):
        story.writer.event("running", at_ns=_ns(at), unit=2, job=9, from_ns=_ns(0))
    story.writer.event("job_name", at_ns=_ns(0), job=9, route="GET /hog")
    recording = story.end()
    assert _blame(recording, "GET /a") == {("gil", "GET /hog"): 300}
    assert recording.notes == [
        "process 100: 1 job is left out: its beginning or end is not in the recording",
    ]


def test_io_whose_end_is_a_bound_is_uncertain() -> None:
    story = Story()
    story.unit(1, GREENLET)
    story.job(1, 1, 0, 40, "GET /a")
    story.spell("block", 0, 40, known_ns=_ns(10), ready_ns=_ns(30), unit=1, job=1, kind=Kind.SSL)
    job = story.end().jobs[0]
    assert (job.io_ns, job.uncertain_ns, job.wait_ns) == ({"ssl": 30 * MS}, 20 * MS, {"loop": 10 * MS})


def test_the_segments_of_a_job_say_what_it_called_and_who_ran_instead() -> None:
    story = Story()
    story.unit(1, GREENLET, name="Greenlet-1")
    story.unit(2, GREENLET)
    story.job(1, 1, 5, 40, "GET /a", arrival=0)
    story.job(2, 2, 0, 40, "GET /b")
    story.spell("slice", 0, 5, unit=2, job=2)
    story.spell("slice", 5, 10, unit=1, job=1)
    story.spell("block", 10, 40, ready_ns=_ns(30), unit=1, job=1, kind=Kind.SOCKET, call="recv", peer="db:1")
    story.spell("slice", 10, 40, unit=2, job=2)
    recording = story.end()
    segments = [(one.state, one.kind, (one.to_ns - one.from_ns) // MS, one.label) for one in recording.segments(0, 1)]
    assert segments == [
        ("wait", "accept", 5, "GET /b"),
        ("cpu", "", 5, ""),
        ("io", "socket", 20, "recv db:1"),
        ("wait", "loop", 10, "GET /b"),
    ]
    assert {one.unit for one in recording.segments(0, 1)} == {"Greenlet-1"}
    assert recording.segments(0, 99) == recording.segments(7, 1) == []


def test_a_file_and_a_folder_of_segments_are_read_alike(tmp_path: Path) -> None:
    whole = open_recording(write_pricing(tmp_path / "whole.glr", seconds=2))
    folder = tmp_path / "segments"
    folder.mkdir()
    for number in range(2):
        service = GreenService(0xA0 + number, 4001 + number)
        service.run(pricing_requests(seconds=2, seed=7 + number))
        (folder / f"{4001 + number}-{number:016x}-0000.glr").write_bytes(service.chunk())
    parts = open_recording(folder)
    assert [job for job in whole.jobs if job.process < 2] == parts.jobs


def test_what_the_recorder_could_not_keep_is_said_with_its_reason() -> None:
    writer = RecordingWriter(1, 42)
    chunks = []
    for number in range(4):
        writer.event("mark", at_ns=START_NS + number, what="on")
        chunks.append(writer.chunk())
    assert Recording(b"".join(chunks)).lost == []
    assert Recording(chunks[1] + chunks[3]).lost == [
        "process 42: its beginning was dropped to keep the recording within its size (1 chunk)",
        "process 42: 1 chunk missing in between: no room on the disk, or a limit on files",
    ]


def test_a_chunk_of_a_later_format_is_not_one_that_was_dropped() -> None:
    writer = RecordingWriter(1, 42)
    chunks = []
    for number in range(2):
        writer.event("mark", at_ns=START_NS + number, what="on")
        chunks.append(bytearray(writer.chunk()))
    chunks[0][4] = 2
    assert Recording(bytes(chunks[0] + chunks[1])).lost == ["process 42: its beginning is missing (1 chunk)"]


def test_what_is_missing_is_noted() -> None:
    writer = RecordingWriter(1, 42)
    chunks = []
    for number in range(4):
        at_ns = START_NS + number * MS
        writer.event("job_open", at_ns=at_ns, job=number + 1, unit=1)
        if number < 3:
            writer.event("job_close", at_ns=at_ns + 1, job=number + 1)
        chunks.append(writer.chunk(lost=number * 2))
    assert len(Recording(b"".join(chunks)).jobs) == 3
    recording = Recording(chunks[1] + chunks[1] + chunks[3] + chunks[2][:50])
    assert len(recording.jobs) == 1
    assert recording.processes[0].lost_events == 6
    assert recording.notes == [
        "process 42: its beginning is missing (1 chunk)",
        "process 42: 1 chunk missing in between",
        "process 42: 6 events were lost because a buffer was full",
        "process 42: 1 job is left out: its beginning or end is not in the recording",
        "process 42: 1 thread, greenlet or task of unknown name started before the recording",
        "1 chunk damaged; 50 bytes were skipped",
        "1 chunk repeated; each counts once",
    ]
    torn = Recording(chunks[0] + chunks[1][:60])
    assert torn.processes[0].torn_bytes == 60
    assert "its last chunk is cut off (60 bytes)" in torn.notes[0]


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "a file with at least one chunk"),
        (b"PK\x03\x04" * 20, "a file that `greenlane record` has written"),
        (b"\x89GLR\x02\x00" + b"\x30" * 60, "format version 1"),
        (pricing(processes=0, seconds=1)[:-1], "at least one whole chunk"),
        (None, "a file that can be read (No such file or directory)"),
    ],
)
def test_what_is_no_recording_is_refused_with_a_hint(tmp_path: Path, content: bytes | None, rule: str) -> None:
    path = tmp_path / "some.glr"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordingError) as raised:
        open_recording(path)
    message = str(raised.value)
    assert message.startswith(f"read the recording: path={str(path)!r}, expected {rule}\nhint: ")


def test_a_folder_without_segments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"expected a folder with files named \*\.glr"):
        open_recording(tmp_path)


def test_any_prefix_of_a_recording_can_be_read_or_is_refused(tmp_path: Path) -> None:
    whole = pricing(processes=1, seconds=1)
    rng = random.Random(5)
    for length in (rng.randrange(len(whole)) for _ in range(60)):
        (tmp_path / "part.glr").write_bytes(whole[:length])
        try:
            recording = open_recording(tmp_path)
        except RecordingError:
            continue
        assert recording.jobs and recording.notes


def test_the_writer_refuses_what_no_event_has() -> None:
    writer = RecordingWriter(1, 1)
    with pytest.raises(KeyError, match="slice has no field colour"):
        writer.event("slice", from_ns=1, to_ns=2, colour=3)
    with pytest.raises(ValueError, match="expected a name"):
        writer.event("dinner", at_ns=1)
    with pytest.raises(ValueError, match="expected less than 8"):
        writer.event("wait", from_ns=1, to_ns=2, kind=ACCEPT + 5)
    assert writer.chunk() == b""


def _one_of_each() -> Recording:
    """Two jobs, of which one has ended, with a number of its own for each field."""
    story = Story()
    event = story.writer.event
    story.unit(3, THREAD, thread=5, name="worker")
    event("job_open", at_ns=_ns(3), job=7, unit=3, arrival_ns=_ns(1), spawn_ns=_ns(2), deadline_ns=_ns(900), clock=4,
          host="wsgi")  # fmt: skip
    event("job_name", at_ns=_ns(3), job=7, route="GET /x")
    event("traced", at_ns=_ns(3), job=7, trace_high=1, trace_low=2, span=3)
    story.spell("slice", 3, 10, unit=3, job=7)
    story.spell("block", 10, 20, known_ns=_ns(14), ready_ns=_ns(16), unit=3, job=7, kind=int(Kind.SOCKET), call="recv",
                peer="db:5")  # fmt: skip
    story.spell("wait", 20, 23, unit=3, job=7, kind=GIL)
    story.spell("slice", 23, 25, unit=3, job=7, phase=1)
    event("turn", at_ns=_ns(10), unit=3, job=7, how=1 + 2, stops=4)
    event("turn", at_ns=_ns(25), unit=3, job=7, how=1 + 4 + 8)
    event("job_close", at_ns=_ns(26), job=7, status=503)
    story.spell("call", 9, 20, ready_ns=_ns(16), deadline_ns=_ns(800), unit=3, job=7, upstream="db",
                operation="SELECT", outcome=2, own_ns=5)  # fmt: skip
    event("job_open", at_ns=_ns(30), job=8, unit=3, arrival_ns=_ns(29), host="wsgi")
    event("job_name", at_ns=_ns(30), job=8, route="GET /y")
    story.spell("slice", 30, 35, unit=3, job=8)
    event("turn", at_ns=_ns(35), unit=3, job=8, how=16)
    event("process", at_ns=_ns(40), cpu_ns=11, os_wait_ns=12, rss_bytes=13, threads=14, jobs=15, lag_ns=16, loop_ns=17,
          waking_ns=18, hand_overs=19)  # fmt: skip
    event("cost", at_ns=_ns(41), events=21, thousand_ns=22, writer_ns=23, sampler_ns=24)
    return story.end()


def test_each_field_stands_where_the_rows_declare_it() -> None:
    found = _one_of_each()
    assert found.jobs == [
        Job(
            process=0, job=7, route="GET /x", host="wsgi", status=503, clock="header", arrival_ns=_ns(1),
            spawn_ns=_ns(2), handler_ns=_ns(3), end_ns=_ns(26), deadline_ns=_ns(900), cpu_ns=9 * MS,
            io_ns={"socket": 6 * MS}, wait_ns={"gil": 3 * MS, "accept": 2 * MS, "os": 4 * MS}, residual_ns=1 * MS,
            uncertain_ns=2 * MS, culprits=[("os", 4 * MS), ("native", 3 * MS), ("unknown", 2 * MS)],
            trace_id=(1 << 64) + 2, span_id=3,
        )
    ]  # fmt: skip
    assert found.calls == [
        rows.Call(
            process=0, job=7, route="GET /x", upstream="db", operation="SELECT", from_ns=_ns(9), ready_ns=_ns(16),
            to_ns=_ns(20), deadline_ns=_ns(800), outcome="timeout", waited_ns=0, own_ns=5,
        )
    ]  # fmt: skip
    assert found.unfinished == [
        rows.Unfinished(
            process=0, job=8, route="GET /y", host="wsgi", arrival_ns=_ns(29), handler_ns=_ns(30), last_ns=_ns(35),
            cpu_ns=5 * MS, io_ns={}, wait_ns={"accept": 1 * MS}, running_ns=0, stack="", held=False,
        )
    ]  # fmt: skip
    assert found.samples == [
        rows.Sample(
            process=0, at_ns=_ns(40), cpu_ns=11, os_wait_ns=12, rss_bytes=13, threads=14, jobs=15, lag_ns=16,
            loop_ns=17, waking_ns=18, hand_overs=19,
        )
    ]  # fmt: skip
    assert found.turns == [
        rows.Turns("GET /x", taken=2, express=1, shared=1, charged=1, stopped=4, skipped=0),
        rows.Turns("GET /y", taken=0, express=0, shared=0, charged=0, stopped=0, skipped=1),
    ]
    assert found.costs == [rows.Cost(process=0, at_ns=_ns(41), events=21, thousand_ns=22, writer_ns=23, sampler_ns=24)]


#: The native reader's method that gives rows of each kind.
_GIVEN: dict[str, type] = {
    "jobs": rows.Job, "blame": rows.Blame, "calls": rows.Call, "held": rows.Held, "unfinished": rows.Unfinished,
    "costs": rows.Cost, "stacks": rows.Stack, "looks": rows.Look, "turns": rows.Turns,
    "samples": rows.Sample, "segments": rows.Segment,
}  # fmt: skip


@pytest.mark.parametrize("method", _GIVEN)
def test_the_native_readers_stub_has_the_types_that_the_rows_declare(method: str) -> None:
    native = sys.modules[type(_one_of_each()._native).__module__]
    stub = ast.parse(Path(str(native.__file__)).with_name("_native.pyi").read_text("utf-8"))
    (reader,) = (each for each in stub.body if isinstance(each, ast.ClassDef) and each.name == "Recording")
    (given,) = (each for each in reader.body if isinstance(each, ast.FunctionDef) and each.name == method)
    assert given.returns is not None
    hints = typing.get_type_hints(_GIVEN[method]).values()
    declared = ", ".join(each.__name__ if isinstance(each, type) else str(each) for each in hints)
    said = ast.unparse(given.returns).removesuffix(" | None")
    # `Any, ...`: as the rows say it.
    assert said in (f"list[tuple[{declared}]]", "list[tuple[Any, ...]]")


def test_a_reports_row_of_a_job_has_the_rows_fields() -> None:
    (row,) = (row for row in json_rows.rows_of(study_of(_one_of_each())) if row["view"] == "job")
    own = {name.removesuffix("_ns") + "_ms" if name.endswith("_ns") else name for name in Job._fields}
    assert row.keys() - own == {"view", "trace", "latency_ms", "wait_by_kind_ms"}


def test_a_hostile_description_is_no_description() -> None:
    story = Story()
    story.unit(1, THREAD)
    story.job(1, 1, 0, 1, "/r")
    story.writer.event("about", at_ns=START_NS, json="[" * 200_000)
    recording = story.end()
    assert recording.processes[0].about == {} and len(recording.jobs) == 1


def test_time_off_the_core_beyond_what_the_scheduler_counts_is_unseen() -> None:
    story = Story()
    story.unit(1, THREAD, thread=7)
    story.job(1, 1, 0, 100, "/r")
    story.writer.event("cores", at_ns=_ns(0), thread=7, waited_ns=5 * MS, withheld_ns=0)
    story.writer.event("slice", from_ns=_ns(0), to_ns=_ns(100), unit=1, job=1, cpu_ns=40 * MS)
    story.writer.event("cores", at_ns=_ns(101), thread=7, waited_ns=15 * MS, withheld_ns=4 * MS)
    job = story.end().jobs[0]
    assert job.wait_ns == {"os": pytest.approx(14 * MS, abs=100), "blocked": pytest.approx(46 * MS, abs=100)}
    assert (job.cpu_ns, job.residual_ns) == (40 * MS, 0)
    assert dict(job.culprits).keys() == {"os", "blocked"}


def test_a_result_from_elsewhere_is_no_wait_for_a_place() -> None:
    story = Story()
    story.unit(1, THREAD, thread=7)
    story.unit(2, THREAD, thread=8)
    for job, at in ((1, 0), (2, 100)):
        story.job(job, 1, at, at + 50, "/r")
        story.spell("block", at, at + 50, known_ns=_ns(at + 50), ready_ns=_ns(at + 50), unit=1, job=job, kind=7)
    story.spell("slice", 130, 140, unit=2, job=2, cpu_ns=10 * MS)
    elsewhere, here = story.end().jobs
    assert (elsewhere.io_ns, elsewhere.wait_ns) == ({"future": 50 * MS}, {})
    assert (here.wait_ns, here.cpu_ns, here.io_ns) == ({"pool": 30 * MS}, 10 * MS, {"future": 10 * MS})


def _answered(*, idle: tuple[int, int]) -> Recording:
    """A job waits for a thread of a library that answers another one first, at 20, and it at 30."""
    story = Story()
    story.unit(1, 2, thread=7)  # a task
    story.unit(2, THREAD, thread=8, name="sqlite")
    # A request has started the thread, and is long over.
    story.job(1, 1, 0, 1, "GET /first")
    story.writer.event("attach", at_ns=_ns(0), unit=2, job=1)
    story.job(2, 1, 5, 30, "GET /a")
    story.spell("block", *idle, ready_ns=_ns(idle[1]), unit=2, job=1, kind=Kind.QUEUE)
    story.spell("slice", idle[1], 30, unit=2, job=1)
    for at in (20, 30):
        story.writer.event("answer", at_ns=_ns(at), unit=2)
    story.spell("block", 5, 30, known_ns=_ns(30), ready_ns=_ns(30), unit=1, job=2, kind=Kind.FUTURE)
    return story.end()


def test_what_a_busy_thread_answers_later_has_waited_in_its_queue() -> None:
    recording = _answered(idle=(2, 6))
    job = recording.jobs[1]
    assert (job.wait_ns, job.io_ns) == ({"queue": 15 * MS}, {"future": 10 * MS})
    assert job.culprits == [("thread sqlite", 15 * MS)]
    assert [segment.label for segment in recording.segments(0, 2)] == ["thread sqlite", "future thread sqlite"]


def test_a_thread_that_only_passes_on_what_others_have_computed_has_no_queue() -> None:
    job = _answered(idle=(2, 19)).jobs[1]
    assert (job.wait_ns, job.io_ns) == ({}, {"future": 25 * MS})
