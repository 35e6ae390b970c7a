"""`docs/recording-format.md` is enough to write a reader: the one that stands there reads what the encoder writes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from greenlane.phase import Kind
from greenlane_testing import RecordingWriter
from greenlane_tools.reader import Recording
from greenlane_tools.report.ending import ending_sentence, endings_of
from greenlane_tools.report.overhead import overhead_of, overhead_sentence
from greenlane_tools.report.study import study_of
from greenlane_tools.report.subject import of_route
from tests.recordings import GIL, GREENLET, HELD, LOOP, MS, START_NS, THREAD, pricing
from tests.where import ROOT

PAGE = ROOT / "docs" / "recording-format.md"

Read = Callable[[bytes], Iterator[tuple[int, str, dict[str, object]]]]

# One of each event, with numbers and times of every size.
EVENTS: list[tuple[str, dict[str, int | str]]] = [
    ("cost", {"at_ns": START_NS + 2, "events": 2**33, "thousand_ns": 47_000, "writer_ns": 10**9, "sampler_ns": 0}),
    ("unit", {"at_ns": START_NS, "unit": 1, "kind": 1, "thread": 300, "parent": 7, "name": "Grünlet"}),
    (
        "job_open",
        {
            "at_ns": START_NS + 5,
            "job": 2**40,
            "unit": 1,
            "arrival_ns": START_NS - 10**9,
            "spawn_ns": START_NS - 3,
            "deadline_ns": START_NS + 10**9,
            "clock": 3,
            "host": "gunicorn.gevent",
            "parent_job": 9,
        },
    ),
    ("job_name", {"at_ns": START_NS + 6, "job": 2**40, "route": "GET /bikes"}),
    ("attach", {"at_ns": START_NS - 9, "unit": 1, "job": 2**40}),
    ("slice", {"from_ns": START_NS, "to_ns": START_NS + 900, "unit": 1, "job": 2, "phase": 3, "cpu_ns": 0}),
    ("wait", {"from_ns": START_NS, "to_ns": START_NS + 900, "unit": 1, "job": 2, "kind": 7}),
    (
        "block",
        {
            "from_ns": START_NS,
            "known_ns": START_NS + 1,
            "ready_ns": START_NS + 2,
            "to_ns": START_NS + 2**33,
            "unit": 1,
            "job": 2,
            "kind": 9,
            "flags": 3,
            "call": "recv",
            "peer": "db:1",
        },
    ),
    (
        "call",
        {
            "from_ns": START_NS,
            "ready_ns": START_NS - 1,
            "to_ns": START_NS,
            "deadline_ns": START_NS,
            "unit": 1,
            "job": 2,
            "upstream": "db:1",
            "operation": "SELECT",
            "outcome": 2,
            "own_ns": 110 * 10**6,
        },
    ),
    ("traced", {"at_ns": START_NS, "job": 2, "trace_high": 2**64 - 1, "trace_low": 2**63, "span": 2**64 - 1}),
    ("look", {"at_ns": START_NS + 1, "unit": 1, "job": 2**40, "weight_ns": 2 * 10**7, "free": 1}),
    ("gc", {"from_ns": START_NS, "to_ns": START_NS + 1, "unit": 1, "generation": 2}),
    (
        "stack",
        {
            "at_ns": START_NS,
            "unit": 1,
            "job": 2,
            "weight_ns": 10**7,
            "stack": "a (b.py:1);c (d.py:2)",
            "kept_ns": 2**40,
        },
    ),
    (
        "contention",
        {
            "from_ns": START_NS,
            "to_ns": START_NS + 2**33,
            "unit": 1,
            "job": 2**40,
            "resource": 3,
            "kind": 4,
            "flags": 1,
            "capacity": 2**31,
            "name": "QueuePool to db:1",
            "line": "page (app.py:3)",
        },
    ),
    (
        "hold",
        {
            "from_ns": START_NS,
            "to_ns": START_NS + 7,
            "unit": 1,
            "job": 2,
            "resource": 3,
            "flags": 1,
            "line": "report (app.py:7)",
        },
    ),
    (
        "process",
        {
            "at_ns": START_NS,
            "cpu_ns": 2**62,
            "os_wait_ns": 1,
            "rss_bytes": 2**33,
            "threads": 64,
            "jobs": 3,
            "lag_ns": 5,
            "loop_ns": 128,
            "waking_ns": 2**40,
            "hand_overs": 9,
        },
    ),
    ("about", {"at_ns": START_NS, "json": '{"pid": 1}'}),
    ("mark", {"at_ns": START_NS, "what": "off"}),
    ("running", {"at_ns": START_NS, "unit": 1, "job": 2, "from_ns": START_NS - 2**34}),
    ("turn", {"at_ns": START_NS, "unit": 1, "job": 2**40, "how": 31, "stops": 2**31}),
    ("job_close", {"at_ns": 1, "job": 2**40, "status": 65535}),
]


@pytest.fixture(scope="module")
def read() -> Read:
    program = re.search(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert program is not None
    names: dict[str, object] = {}
    exec(compile(program[1], str(PAGE), "exec"), names)
    found = names["recording"]
    assert callable(found)
    return found


def test_the_reader_of_the_page_reads_every_event_of_the_encoder(read: Read) -> None:
    writer = RecordingWriter(0xFEDCBA9876543210, 1)
    for name, fields in EVENTS:
        writer.event(name, **fields)
    found = list(read(writer.chunk()))
    plain = [(name, {re.sub("_(ns|bytes)$", "", key): value for key, value in of.items()}) for name, of in EVENTS]
    assert [(name, fields) for _, name, fields in found] == plain
    assert {process for process, _, _ in found} == {0xFEDCBA9876543210}


def test_times_that_are_none_are_none(read: Read) -> None:
    writer = RecordingWriter(1, 1)
    writer.event("job_open", at_ns=START_NS, job=1, unit=1)
    writer.event("slice", from_ns=START_NS, to_ns=START_NS + 1, unit=1)
    (_, _, opened), (_, _, ran) = read(writer.chunk())
    assert (opened["arrival"], opened["spawn"], opened["deadline"], ran["cpu"]) == (START_NS, None, None, None)


def test_the_reader_of_the_page_and_ours_agree_on_a_damaged_recording(read: Read) -> None:
    whole = pricing(processes=2, seconds=2)
    second = whole.index(b"\x89GLR", 1)
    damaged = b"mail header\n" + whole[: second - 5] + whole[second:]
    found = list(read(damaged))
    recording = Recording(damaged)
    processes = Counter(process for process, name, _ in found if name == "job_close")
    assert list(processes.values()) == [
        len([job for job in recording.jobs if job.process == number]) for number in (0, 1)
    ]
    assert sum(name == "call" for _, name, _ in found) == len(recording.calls)
    assert sum(name == "process" for _, name, _ in found) == len(recording.samples)
    routes = {fields["route"] for _, name, fields in found if name == "job_name"}
    assert routes == {job.route for job in recording.jobs}


def test_the_page_names_the_fields_of_about_and_every_kind() -> None:
    page = PAGE.read_text("utf-8")
    for name in ("schema", "argv", "machine", "boot", "cores", "interval_ms", "started_unix_ns"):
        assert re.search(rf"\b{name}\b", page)
    assert all(f"| {name} |" in page for name, _ in EVENTS)


# --- What was in progress when a process ended, and what recording cost: chosen events, known answers.


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
