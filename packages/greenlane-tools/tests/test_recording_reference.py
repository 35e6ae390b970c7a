"""Native accounting and blame do what their plain Python twin does, nanosecond by nanosecond."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenlane.phase import Kind
from greenlane_testing import RecordingWriter
from greenlane_tools.reader import Recording
from tests.examples import examples
from tests.reference import recording as reference
from tests.reference.recording import GREEN, HELD, Event

BEGIN_NS, LENGTH_NS = 1_000, 60
ACCEPT, POOL = 3, 5
GREENLET = 1

# Unit: (kind, thread). A loop with two greenlets and a task, and two threads beside it.
UNITS = {1: (3, 10), 2: (1, 10), 3: (1, 10), 4: (2, 10), 5: (0, 20), 6: (0, 30)}
MOMENTS = st.integers(BEGIN_NS, BEGIN_NS + LENGTH_NS)


@st.composite
def recordings(draw: st.DrawFn) -> list[tuple[str, Event]]:
    """Any waits and blocks over slices that take turns: who runs is always one at a time, as under the GIL."""
    jobs = {unit: draw(st.sampled_from([0, 1, 2, 3])) for unit in UNITS}
    events: list[tuple[str, Event]] = [
        ("unit", {"at_ns": BEGIN_NS, "unit": unit, "kind": kind, "thread": thread, "name": f"u{'abcdef'[unit - 1]}"})
        for unit, (kind, thread) in UNITS.items()
    ]
    for job in (1, 2, 3):
        events += _job(draw, job, [unit for unit in UNITS if jobs[unit] == job])
    slices: list[tuple[int, int, int]] = []
    now_ns = BEGIN_NS
    for phase in range(draw(st.integers(0, 12))):
        from_ns = now_ns + draw(st.integers(0, 6))
        now_ns = from_ns + draw(st.integers(1, 12))
        unit = draw(st.sampled_from(list(UNITS)))
        slices.append((unit, from_ns, now_ns))
        events.append(("slice", {"from_ns": from_ns, "to_ns": now_ns, "unit": unit, "job": jobs[unit], "phase": phase}))
    for _ in range(draw(st.integers(0, 12))):
        unit = draw(st.sampled_from(list(UNITS)))
        of: Event = {"unit": unit, "job": jobs[unit]}
        moments = sorted(draw(st.lists(MOMENTS, min_size=4, max_size=4)))
        from_ns, known_ns, ready_ns, to_ns = moments
        if draw(st.booleans()):
            kinds = [kind for kind in range(len(reference.WAIT_KINDS)) if kind != ACCEPT or UNITS[unit][0] in GREEN]
            kinds = [kind for kind in kinds if kind != POOL or UNITS[unit][0] == GREENLET]
            of.update(from_ns=from_ns, to_ns=to_ns, kind=draw(st.sampled_from(kinds)))
            events.append(("wait", of))
        else:
            of.update(from_ns=from_ns, known_ns=known_ns, ready_ns=ready_ns, to_ns=to_ns)
            inside = any(unit == who and begin <= from_ns and to_ns <= end for who, begin, end in slices)
            of["flags"] = HELD if inside and draw(st.booleans()) else 0
            # Whose result a thread or task waits for decides what that is; the twin does not know it.
            blocks = [kind for kind in Kind if kind != Kind.FUTURE or UNITS[unit][0] == GREENLET]
            of["kind"] = int(draw(st.sampled_from(blocks)))
            events.append(("block", of))
    return events


def _job(draw: st.DrawFn, job: int, units: list[int]) -> list[tuple[str, Event]]:
    if not units:
        return []
    unit = draw(st.sampled_from(units))
    arrival_ns, spawn_ns, at_ns, end_ns = sorted(draw(st.lists(MOMENTS, min_size=4, max_size=4)))
    if UNITS[unit][0] not in GREEN:
        arrival_ns = at_ns  # An accept queue of threads is not the twin's.
    spawn_ns = spawn_ns if draw(st.booleans()) else 0
    opened: Event = {"at_ns": at_ns, "job": job, "unit": unit, "arrival_ns": arrival_ns, "spawn_ns": spawn_ns}
    events: list[tuple[str, Event]] = [("job_open", opened), ("job_close", {"at_ns": end_ns, "job": job})]
    if draw(st.booleans()):
        events.append(("job_name", {"at_ns": at_ns, "job": job, "route": f"r{job}"}))
    return events


def native(events: list[tuple[str, Event]]) -> Recording:
    writer = RecordingWriter(1, 1)
    for name, fields in events:
        writer.event(name, **fields)
    return Recording(writer.chunk())


@pytest.mark.slow
@given(events=recordings())
@examples(400)
def test_accounts_are_those_of_the_twin(events: list[tuple[str, Event]]) -> None:
    twin = reference.Recording(events).accounts()
    jobs = {job.job: job for job in native(events).jobs}
    assert jobs.keys() == twin.keys()
    for number, account in twin.items():
        job = jobs[number]
        assert (job.cpu_ns, job.residual_ns, job.uncertain_ns) == (
            account.cpu_ns,
            account.residual_ns,
            account.uncertain_ns,
        )
        assert (job.io_ns, job.wait_ns) == (dict(account.io_ns), dict(account.wait_ns))


@pytest.mark.slow
@given(events=recordings())
@examples(400)
def test_blame_is_that_of_the_twin_and_its_sum_that_of_the_waits(events: list[tuple[str, Event]]) -> None:
    plain = reference.Recording(events)
    expected: Counter[tuple[str, str, str]] = Counter()
    for number, account in plain.accounts().items():
        for (kind, culprit), ns in account.blame.items():
            if kind != "pool":  # Threads of a pool may share the blame.
                expected[plain.routes.get(number, "(no route)"), kind, culprit] += ns
    recording = native(events)
    found: Counter[tuple[str, str, str]] = Counter()
    for row in recording.blame:
        if row.kind != "pool":
            found[row.victim, row.kind, row.culprit] += row.ns
        assert sum(row.by_length_ns) in (0, row.ns)
    assert found == expected
    assert sum(row.ns for row in recording.blame) == sum(sum(job.wait_ns.values()) for job in recording.jobs)
    for job in recording.jobs:
        if len(job.culprits) < 8:
            assert sum(ns for _, ns in job.culprits) == sum(job.wait_ns.values())
