"""`docs/recording-format.md` is enough to write a reader: the one that stands there reads what the encoder writes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from greenlane_testing import RecordingWriter
from greenlane_tools.reader import Recording
from tests.recordings import START_NS, pricing
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
