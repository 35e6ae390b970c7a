"""What a recording says of pools and others whose places are waited for."""

from __future__ import annotations

from typing import Any

from greenlane.phase import Kind
from greenlane_testing import RecordingWriter
from greenlane_tools.reader import Recording

CONNECTIONS = 0
GAVE_UP, HOLDS_STILL = 1, 1
POOL = 5
POOL_NAME = "QueuePool to db:5432"
MS = 1_000_000


def recording(*events: tuple[str, dict[str, Any]]) -> Recording:
    """Three threads: two hold a connection each while job 3 waits for one. Times are ms here."""
    writer = RecordingWriter(1, 7)

    def event(what: str, /, **fields: Any) -> None:
        writer.event(what, **{key: value * MS if key.endswith("_ns") else value for key, value in fields.items()})

    for unit in (1, 2, 3):
        event("unit", at_ns=0, unit=unit, kind=0, thread=unit, name=f"worker-{unit}")
        event("job_open", at_ns=10, job=unit, unit=unit, arrival_ns=10)
        event("job_name", at_ns=11, job=unit, route=["", "/report", "/export", "/page"][unit])
    for name, fields in events:
        event(name, **fields)
    for unit in (1, 2, 3):
        event("job_close", at_ns=1000, job=unit, status=200)
    return Recording(writer.chunk())


def wait(from_ns: int, to_ns: int, **more: Any) -> list[tuple[str, dict[str, Any]]]:
    of = {"from_ns": from_ns, "to_ns": to_ns, "unit": 3, "job": 3}
    named = {"resource": 4, "kind": CONNECTIONS, "capacity": 2, "name": POOL_NAME, "line": "page (app.py:3)", **more}
    return [("wait", {**of, "kind": POOL}), ("contention", {**of, **named})]


def hold(unit: int, from_ns: int, to_ns: int, line: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "hold", {"from_ns": from_ns, "to_ns": to_ns, "unit": unit, "job": unit, "resource": 4, "line": line, **more}


def test_each_moment_of_a_wait_is_shared_among_those_who_held_a_place_then() -> None:
    read = recording(
        *wait(100, 300),
        hold(1, 50, 300, "report (app.py:7)"),
        hold(2, 200, 400, "export (app.py:9)"),
        hold(2, 500, 600, "export (app.py:9)"),  # nobody waits
    )
    (resource,) = read.resources
    assert resource[:7] == ("connections", POOL_NAME, 2, 1, 200 * MS, 200 * MS, 0)
    assert resource.victims == [("/page", "page (app.py:3)", 1, 200 * MS, 200 * MS, 0)]
    report, export = resource.holders
    assert (report.route, report.line, report.holds, report.held_ns) == ("/report", "report (app.py:7)", 1, 250 * MS)
    assert (export.route, export.holds, export.longest_ns) == ("/export", 1, 200 * MS)
    # From 200 to 300 both did.
    assert (report.ns, export.ns) == (150 * MS, 50 * MS)
    blamed = {row.culprit: row.ns for row in read.blame if row.kind == "pool"}
    assert blamed == {"/report": report.ns, "/export": export.ns}


def test_what_a_holder_did_meanwhile_is_named_by_its_calls() -> None:
    job = {"unit": 1, "job": 1}
    call = {"from_ns": 90, "to_ns": 280, "upstream": "pay:80", "operation": "GET /pay", **job}
    blocked = {"from_ns": 100, "known_ns": 250, "ready_ns": 250, "to_ns": 250, "kind": int(Kind.SOCKET), **job}
    (resource,) = recording(
        *wait(100, 300),
        hold(1, 50, 300, "report (app.py:7)"),
        ("slice", {"from_ns": 50, "to_ns": 100, "phase": 0, **job}),
        ("block", blocked),
        ("call", call),
    ).resources
    (holder,) = resource.holders
    assert holder.meanwhile == [("io", "GET /pay pay:80", 150 * MS), ("cpu", "", 50 * MS)]


def test_a_hold_told_again_counts_once_as_long_as_it_was_last() -> None:
    read = recording(
        *wait(100, 200, flags=GAVE_UP),
        hold(1, 50, 150, "report (app.py:7)", flags=HOLDS_STILL),
        hold(1, 50, 200, "report (app.py:7)", flags=HOLDS_STILL),
    )
    (resource,) = read.resources
    assert (resource.gave_up, resource.victims[0].gave_up) == (1, 1)
    (holder,) = resource.holders
    assert (holder.holds, holder.held_ns, holder.ns) == (1, 150 * MS, 100 * MS)


def test_a_call_of_c_that_kept_the_gil_is_counted_with_its_line() -> None:
    at = {"unit": 1, "job": 1, "stack": "handle (app.py:1);parse (app.py:4)"}
    (stack,) = recording(
        ("stack", {"at_ns": 500, "weight_ns": 400, "kept_ns": 400, **at}),
        ("stack", {"at_ns": 700, "weight_ns": 30, **at}),
    ).stacks
    assert (stack.culprit, stack.ns, stack.looks, stack.calls, stack.longest_call_ns) == (
        "/report",
        430 * MS,
        2,
        1,
        400 * MS,
    )
