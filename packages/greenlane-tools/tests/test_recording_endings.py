"""What was in progress when a process ended, and what recording cost: chosen events, known answers."""

from __future__ import annotations

from greenlane.phase import Kind
from greenlane_testing import RecordingWriter
from greenlane_tools.reader import Recording
from greenlane_tools.report.ending import ending_sentence, endings_of
from greenlane_tools.report.overhead import overhead_of, overhead_sentence
from greenlane_tools.report.study import study_of
from greenlane_tools.report.subject import of_route
from tests.recordings import GIL, GREENLET, HELD, LOOP, MS, START_NS, THREAD

STACK = "run (site-packages/gunicorn/util.py:9);export (shop/views.py:7)"


def _ns(ms: float) -> int:
    return START_NS + round(ms * MS)


class Story:
    """A recording in the making: times in ms after its begin."""

    def __init__(self) -> None:
        self.writer = RecordingWriter(1, 100)

    def at(self, name: str, at: float, /, **fields: int | str) -> None:
        self.writer.event(name, at_ns=_ns(at), **fields)

    def spell(self, name: str, begin: float, end: float, /, **fields: int | str) -> None:
        self.writer.event(name, from_ns=_ns(begin), to_ns=_ns(end), **fields)

    def open(self, job: int, unit: int, at: float, route: str, arrival: float | None = None) -> None:
        arrival_ns = _ns(at if arrival is None else arrival)
        self.at("job_open", at, job=job, unit=unit, arrival_ns=arrival_ns, host="gunicorn.gevent")
        self.at("job_name", at, job=job, route=route)

    def end(self) -> Recording:
        return Recording(self.writer.chunk())


def _loop() -> Story:
    """An export computes from 10 ms on; a ping sleeps since 8 ms."""
    story = Story()
    story.at("unit", 0, unit=1, kind=LOOP, thread=7, name="Hub")
    for unit in (2, 3):
        story.at("unit", 1, unit=unit, kind=GREENLET, thread=7)
    story.open(1, 2, 5, "/ping", arrival=4)
    story.spell("slice", 5, 8, unit=2, job=1)
    story.open(2, 3, 10, "/export")
    story.spell("slice", 10, 70, unit=3, job=2)
    story.spell("wait", 70, 71, unit=3, job=2, kind=GIL)
    return story


def test_a_slice_that_never_ended_is_what_was_running() -> None:
    story = _loop()
    story.at("running", 300, unit=3, job=2, from_ns=_ns(71))
    story.at("stack", 290, unit=3, job=2, stack=STACK)
    story.at("process", 310)
    recording = story.end()
    assert recording.jobs == []
    export, ping = recording.unfinished
    assert (export.job, export.route, export.host, export.held) == (2, "/export", "gunicorn.gevent", True)
    # The wait for the GIL cut the slice and is no pause.
    assert export.running_ns == 290 * MS
    assert (export.last_ns, export.cpu_ns, export.wait_ns) == (_ns(300), 289 * MS, {"gil": MS})
    assert export.stack == STACK
    assert (ping.arrival_ns, ping.handler_ns, ping.last_ns) == (_ns(4), _ns(5), _ns(8))
    assert (ping.running_ns, ping.held, ping.stack, ping.cpu_ns) == (0, False, "", 3 * MS)
    assert ping.wait_ns == {"accept": MS}
    (ending,) = endings_of(recording.processes, recording.unfinished, recording.marks)
    assert (ending.how, ending.at_ns) == ("cut", _ns(310))
    assert ending_sentence(ending) == (
        "The recording of process 100 breaks off: it was killed, or still runs: /export had been running for 290 ms "
        "at views.py:7 and kept its loop, the heartbeat with it; 1 other job in progress."
    )
    assert [note.name for note in study_of(recording).notes] == ["end"]
    assert [job.route for job in of_route(recording, "/ping").unfinished] == ["/ping"]


def test_a_slice_seen_long_before_the_end_was_not_running_then() -> None:
    story = _loop()
    story.at("running", 300, unit=3, job=2, from_ns=_ns(71))
    story.at("process", 1_400)
    assert [job.running_ns for job in story.end().unfinished] == [0, 0]


def test_at_an_abort_the_end_is_the_abort() -> None:
    story = _loop()
    story.spell("slice", 71, 500, unit=3, job=2)
    story.at("mark", 490, what="abort")
    story.at("job_close", 499, job=2, status=500)
    story.open(3, 2, 495, "/late")
    story.at("job_close", 520, job=1, status=200)
    story.at("mark", 900, what="end")
    recording = story.end()
    assert sorted(job.route for job in recording.jobs) == ["/export", "/ping"]
    assert [(job.route, job.running_ns) for job in recording.unfinished] == [("/export", 480 * MS), ("/ping", 0)]
    (ending,) = endings_of(recording.processes, recording.unfinished, recording.marks)
    assert (ending.how, ending.at_ns, ending.starved) == ("aborted", _ns(490), True)


def test_a_call_that_an_abort_interrupts_kept_the_loop() -> None:
    story = _loop()
    story.spell("block", 71, 489, unit=3, job=2, kind=Kind.SOCKET, flags=HELD, call="recv")
    story.at("mark", 490, what="abort")
    export, _ = story.end().unfinished
    assert (export.route, export.running_ns, export.held) == ("/export", 479 * MS, True)


def test_what_ends_in_order_or_was_switched_off_is_no_finding() -> None:
    for what, how in (("end", "ended"), ("off", "off")):
        story = _loop()
        story.at("mark", 310, what=what)
        recording = story.end()
        (ending,) = endings_of(recording.processes, recording.unfinished, recording.marks)
        assert ending.how == how
        assert ending_sentence(ending).endswith("the oldest, /ping, had arrived 306 ms before.")
        assert study_of(recording).notes == []


def test_jobs_that_may_have_ended_unseen_are_not_said_to_run() -> None:
    story = _loop()
    story.at("mark", 100, what="off")
    story.at("mark", 200, what="on")
    story.open(3, 2, 210, "/new")
    assert [job.route for job in story.end().unfinished] == ["/new"]


def test_a_worker_of_one_thread_starves_its_heartbeat_as_well() -> None:
    story = Story()
    story.at("unit", 0, unit=1, kind=THREAD, thread=7)
    story.at("job_open", 1, job=1, unit=1, host="gunicorn.sync")
    story.at("running", 300, unit=1, job=1, from_ns=_ns(1))
    recording = story.end()
    (ending,) = endings_of(recording.processes, recording.unfinished, recording.marks)
    assert (ending.jobs[0].held, ending.starved) == (False, True)


def test_the_cost_is_what_each_process_said_last() -> None:
    chunks = []
    for process in (1, 2):
        writer = RecordingWriter(process, 100 + process)
        for second in range(3):
            at_ns, events = _ns(1_000 * second), 10_000 * second
            writer.event("process", at_ns=at_ns, cpu_ns=400 * MS * second)
            writer.event("cost", at_ns=at_ns, events=events, thousand_ns=80_000, writer_ns=MS * second, sampler_ns=MS)
        chunks.append(writer.chunk(lost=3))
    recording = Recording(b"".join(chunks))
    assert [(cost.process, cost.events, cost.hooks_ns) for cost in recording.costs] == [
        (0, 20_000, 1_600_000),
        (1, 20_000, 1_600_000),
    ]
    found = overhead_of(recording.costs, recording.processes, recording.samples)
    assert found is not None and found.frac == (3_200_000 + 4 * MS + 2 * MS) / (1_600 * MS)
    assert overhead_sentence(found) == (
        "Recording cost about 0.6 % of the processes' CPU: 40,000 events at 80 ns, writer 4 ms, sampler 2 ms; "
        "6 events lost."
    )
    assert overhead_of([], recording.processes, recording.samples) is None
