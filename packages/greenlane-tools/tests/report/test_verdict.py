"""One verdict: victim, resource, holder, line and remedy on rows small enough to know the truth."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.report.rows_of_a_bad_day import CROWD, MS, Made, S, a_day

from greenlane_tools.reader.rows import (
    Blame,
    Call,
    Held,
    Job,
    Look,
    Own,
    Process,
    Resource,
    ResourceHolder,
    ResourceVictim,
    Sample,
    Segment,
    Stack,
)
from greenlane_tools.report.brief import brief_lines
from greenlane_tools.report.remedies import REMEDIES, remedy_for
from greenlane_tools.report.study import study_of
from greenlane_tools.report.verdict import Verdict

#: Words that a reader would have to look up.
JARGON = ("hog", "accepted", "place in a pool", "unseen", "overcommit")


def jobs(route: str, count: int, wait_ns: Mapping[str, int] | None = None, first: int = 0, **fields: Any) -> list[Job]:
    """This many of a route; 10 ms of CPU unless said otherwise."""
    found = []
    waits = dict(wait_ns or {})
    cpu_ns, io_ns = fields.pop("cpu_ns", 10 * MS), fields.pop("io_ns", {})
    latency_ns = cpu_ns + sum(io_ns.values()) + sum(waits.values()) + fields.get("residual_ns", 0)
    for number in range(first, first + count):
        arrival_ns = fields.get("arrival_ns", number * S)
        common = {"process": 0, "host": "gunicorn.gthread", "status": 200, "clock": "kernel", "spawn_ns": 0}
        common |= {"deadline_ns": 0, "residual_ns": 0, "uncertain_ns": 0, "culprits": []}
        times = {"arrival_ns": arrival_ns, "handler_ns": arrival_ns, "end_ns": arrival_ns + latency_ns}
        parts = {"cpu_ns": cpu_ns, "io_ns": io_ns, "wait_ns": waits}
        found.append(Job(**{**common, **times, **parts, "route": route, "job": number + 1, **fields}))
    return found


def blame(victim: str, kind: str, culprit: str, ns: int, slice_ns: int = 0, waits: int = 20) -> Blame:
    """Waiting of `victim`, by slices of that length; 0 = nobody's slices."""
    by_length = [0] * 32
    if slice_ns:
        by_length[(slice_ns // 1000).bit_length() - 1] = ns
    return Blame(victim, kind, culprit, 0, ns, waits, ns // slice_ns if slice_ns else 0, slice_ns, by_length)


def waiting(kind: str, culprit: str, slice_ns: int, host: str = "gunicorn.gthread") -> Made:
    """20 jobs of /quick wait 100 ms each for what /slow does, whose 20 jobs take 200 ms of CPU."""
    made = Made(jobs=[*jobs("/quick", 20, {kind: 100 * MS}, host=host), *jobs("/slow", 20, first=20, cpu_ns=200 * MS)])
    made.jobs = [job._replace(host=host) for job in made.jobs]
    made.blame = [blame("/quick", kind, culprit, 2 * S, slice_ns)]
    return made


def told(made: Made) -> Verdict:
    """Its verdict, whose parts do not disagree."""
    study = study_of(made)
    verdict, found = study.verdict, study.verdict.to_json()
    lines = list(brief_lines(study, "day.glr"))
    assert verdict.sentence == lines[0] == found["sentence"]
    assert not any(word in "\n".join(lines).lower() for word in JARGON)
    assert "{" not in verdict.remedy.text + verdict.remedy.check
    json.dumps(found)
    return verdict


# --- running code


def test_python_code_that_has_the_gil_is_named_with_its_line_and_threads_take_turns() -> None:
    made = waiting("gil", "/slow", 200 * MS)
    made.stacks = [Stack("/slow", "view (shop/app.py:12);dumps (python3.11/json/__init__.py:238)", 2 * S)]
    verdict = told(made)
    assert (verdict.kind, verdict.remedy.key, verdict.line) == ("gil", "take_turns", "app.py:12 view")
    assert verdict.sentence == (
        "/quick waits 100 ms (91 % of its p99) for the GIL, with which /slow computes for up to 200 ms at a time, "
        "because of app.py:12 view, in dumps."
    )


def test_one_c_call_is_no_case_for_turns() -> None:
    made = waiting("gil", "/slow", 200 * MS)
    for job in made.jobs[:20]:
        made.lives[0, job.job] = [Segment("wait", "gil", job.arrival_ns, job.arrival_ns + 100 * MS, "t1", "/slow")]
    made.jobs[20:] = [
        job._replace(arrival_ns=at.arrival_ns, end_ns=at.arrival_ns + 200 * MS)
        for at, job in zip(made.jobs[:20], made.jobs[20:], strict=True)
    ]
    for job in made.jobs[20:]:
        made.lives[0, job.job] = [Segment("cpu", "", job.arrival_ns, job.end_ns, "t2", "")]
    verdict = told(made)
    assert (verdict.kind, verdict.remedy.key) == ("c_call", "own_process")
    assert "one C call of /slow" in verdict.sentence


def test_a_c_call_has_the_line_that_made_it() -> None:
    made = waiting("accept", "/slow", 200 * MS)
    made.stacks = [
        Stack("/slow", "view (shop/app.py:12)", 2 * S, 4, 4, 700 * MS),
        Stack("/slow", "view (shop/app.py:14)", S),
    ]
    verdict = told(made)
    assert (verdict.kind, verdict.line, verdict.remedy.key) == ("c_call", "app.py:12 view", "own_process")
    assert "one C call of /slow keeps for up to 700 ms" in verdict.sentence
    # Three looks of seventy: the machine was busy, and the thread without a core.
    made.stacks = [Stack("/slow", "view (shop/app.py:12)", 2 * S, 70, 3, 40 * MS)]
    assert told(made).kind == "gil"


def test_many_short_slices_need_processes_and_no_line() -> None:
    verdict = told(a_day(CROWD, 10, (1.0,)))
    assert (verdict.kind, verdict.remedy.key) == ("loop", "more_processes")


def test_turns_are_not_advised_where_jobs_take_turns_or_are_greenlets() -> None:
    made = waiting("gil", "/slow", 200 * MS)
    made.jobs[0] = made.jobs[0]._replace(wait_ns={"gil": 99 * MS, "permit": MS})
    assert told(made).remedy.key == "own_process"
    verdict = told(waiting("loop", "/slow", 200 * MS, host="gunicorn.gevent"))
    assert (verdict.kind, verdict.remedy.key) == ("loop", "off_loop")


def test_a_call_that_blocks_the_loop_is_moved_to_a_thread_and_computing_is_not() -> None:
    made = waiting("accept", "/slow", 200 * MS, host="uvicorn")
    stack = "async view (shop/app.py:7);get (site-packages/requests/api.py:60)"
    made.stacks = [Stack("/slow", stack, 2 * S)]
    verdict = told(made)
    assert (verdict.kind, verdict.remedy.key) == ("loop", "off_loop")
    assert "`await greenlane.run(get, …)`" in verdict.remedy.text
    made.held = [Held("/slow", "socket", stack, 20, 5 * S, 300 * MS)]
    verdict = told(made)
    assert (verdict.kind, verdict.remedy.key) == ("loop", "to_thread")
    assert "`await asyncio.to_thread(get, …)`" in verdict.remedy.text and "computes" not in verdict.sentence


def test_a_method_is_no_argument_that_one_can_type() -> None:
    made = waiting("accept", "/slow", 200 * MS, host="uvicorn")
    made.stacks = [Stack("/slow", "async view (shop/app.py:7);Api.get.<locals>.ask (site-packages/boto/api.py:60)", S)]
    assert "greenlane.run(f, …)" in told(made).remedy.text
    made.stacks = [Stack("/slow", "async view (shop/app.py:7);Client.__init__ (site-packages/httpx/client.py:60)", S)]
    assert "greenlane.run(Client, …)" in told(made).remedy.text


def test_encoding_after_the_handler_is_a_cause_of_its_own() -> None:
    made = waiting("accept", "/slow", 200 * MS, host="uvicorn")
    encoding = (
        "async app (site-packages/fastapi/routing.py:300);serialize_response (site-packages/fastapi/routing.py:180)"
    )
    leaves = [f"{encoding};_asdict_inner (python3.11/dataclasses.py:{line})" for line in range(1260, 1270)]
    made.stacks = [
        Stack("/slow", "async app (site-packages/fastapi/routing.py:300);async view (shop/app.py:7)", 400 * MS),
        *[Stack("/slow", leaf, 160 * MS) for leaf in leaves],
    ]
    made.own = [Own(0, 21, "/slow", leaf, 40 * MS, 1) for leaf in leaves]
    verdict = told(made)
    assert (verdict.kind, verdict.remedy.key) == ("loop", "encode_off_loop")
    assert verdict.line == "app.py:7 view" and "app.py:7 view, in serialize_response" in verdict.sentence
    assert any("is after its handler has returned" in note for note in verdict.notes)


def test_the_collector_is_on_the_account_of_who_allocates() -> None:
    made = waiting("gil", "gc", 20 * MS)
    made.blame += [blame("/quick", "gil", "/slow", S, 200 * MS)]
    verdict = told(made)
    assert verdict.kind == "gil" and verdict.holder is not None and verdict.holder.who == "/slow"
    assert "the collector that its objects start (67 % of it)" in verdict.holder.meanwhile
    assert told(waiting("gil", "gc", 20 * MS)).remedy.key == "freeze"


# --- what has places


def resource(
    kind: str, name: str, capacity: int, holder: str, meanwhile: Sequence[tuple[str, str, int]], line: str = ""
) -> Resource:
    victims = [ResourceVictim("/quick", "", 20, 2 * S, 120 * MS, 0)]
    holders = [ResourceHolder(holder, line, 9, 2 * S, 3 * S, 800 * MS, list(meanwhile))]
    return Resource(kind, name, capacity, 20, 2 * S, 120 * MS, 0, victims, holders)


@pytest.mark.parametrize(
    ("meanwhile", "key"),
    [
        (("io", "socket recv 127.0.0.1:5432", 3 * S), "larger_pool"),
        (("io", "socket", 3 * S), "larger_pool"),
        (("io", "GET 127.0.0.1:9000 /rate", 3 * S), "release_connection"),
        (("cpu", "", 3 * S), "release_connection"),
    ],
)
def test_a_connection_is_given_back_before_other_work_else_the_pool_grows(
    meanwhile: tuple[str, str, int], key: str
) -> None:
    made = waiting("pool", "/slow", 800 * MS)
    name = "psycopg_pool ConnectionPool to 127.0.0.1:5432"
    made.resources = [resource("connections", name, 2, "/slow", [meanwhile], "stats (shop/app.py:15)")]
    verdict = told(made)
    assert (verdict.kind, verdict.capacity, verdict.remedy.key) == ("connection_pool", 2, key)
    assert verdict.line == "app.py:15 stats"
    assert f"a connection of {name}, of which both are held by /slow for up to 800 ms" in verdict.sentence
    assert "threads" not in verdict.remedy.text


def test_threads_that_wait_may_be_more_and_threads_that_compute_may_not() -> None:
    made = waiting("pool", "/slow", 800 * MS)
    made.resources = [resource("threads", "pdf", 2, "/slow", [("io", "socket recv 127.0.0.1:9000", 3 * S)])]
    assert told(made).remedy.key == "more_threads"
    made.resources = [resource("threads", "pdf", 2, "/slow", [("cpu", "", 3 * S)])]
    assert told(made).remedy.key == "more_processes"
    made.jobs = [job._replace(host="uvicorn") for job in made.jobs]
    name = "asyncio's default executor"
    made.resources = [resource("threads", name, 6, "/slow", [("io", "sleep", 3 * S)], "read (shop/app.py:9)")]
    verdict = told(made)
    assert (
        verdict.remedy.key == "own_executor"
        and "run_in_executor(ThreadPoolExecutor(8), read, …)" in verdict.remedy.text
    )


@pytest.mark.parametrize(
    ("kind", "of", "key"), [("lock", "lock", "shorten_hold"), ("semaphore", "lock", "shorten_hold"),
                            ("processes", "pool", "more_workers")]
)  # fmt: skip
def test_locks_limits_and_processes_have_remedies_of_their_own(kind: str, of: str, key: str) -> None:
    made = waiting(of, "unknown", 0)
    made.resources = [resource(kind, "rates", 1, "/slow", [("io", "socket recv 127.0.0.1:9000", 3 * S)])]
    assert told(made).remedy.key == key


def test_more_waiting_for_a_pool_without_its_name_is_for_the_one_with_a_name() -> None:
    made = waiting("pool", "unknown", 0)
    full = resource("connections", "httpcore ConnectionPool", 2, "/slow", [("io", "GET / 127.0.0.1:80", 3 * S)])
    made.resources = [full._replace(victims=[full.victims[0]._replace(ns=S // 2)])]
    verdict = told(made)
    assert (verdict.kind, verdict.remedy.key, round(verdict.share, 2)) == ("connection_pool", "larger_pool", 0.91)
    made.resources = [full._replace(victims=[full.victims[0]._replace(ns=S // 20)])]
    assert told(made).kind == "executor"


def test_a_wait_for_threads_may_be_recorded_as_one_for_a_lock() -> None:
    made = waiting("lock", "/slow", 0)
    limiter = "anyio's threads, CapacityLimiter"
    made.resources = [resource("threads", limiter, 40, "/slow", [("io", "GET / 127.0.0.1:80", 3 * S)])]
    assert (told(made).kind, told(made).remedy.key) == ("executor", "more_threads")


def test_a_pool_without_a_name_says_how_to_find_it() -> None:
    verdict = told(waiting("pool", "/slow", 800 * MS))
    assert verdict.remedy.key == "look_closer" and "py-spy dump" in verdict.remedy.text


def test_workers_that_are_blocked_are_told_with_their_number_and_what_they_do() -> None:
    made = Made(jobs=jobs("/slow", 40, {"accept": 500 * MS}, io_ns={"socket": 500 * MS}))
    made.calls = [Call(0, job.job, "/slow", "partner:80", "GET", 0, 500 * MS, 500 * MS, 0, "ok") for job in made.jobs]
    made.blame = [blame("/slow", "accept", "/slow", 10 * MS, 10 * MS)._replace(ns=20 * S)]
    made.processes = [Process(0, 7, {"argv": ["gunicorn", "--threads", "4", "app"]}, 0, 99 * S, 0, 0)]
    verdict = told(made)
    assert (verdict.kind, verdict.capacity, verdict.remedy.key) == ("executor", 4, "more_threads")
    assert "all 4 are taken by /slow for up to 510 ms, in calls of partner:80" in verdict.sentence
    made.blocked = [Held("/slow", "recv", "slow (shop/app.py:9);get (site-packages/httpx/_api.py:195)", 3, S, S)]
    assert told(made).line == "app.py:9 slow"
    made.jobs = [job._replace(host="celery") for job in made.jobs]
    assert "greenlane celery APP --key KEY" in told(made).remedy.text


def test_a_task_that_its_worker_took_behind_a_long_one_waits_for_the_prefetch() -> None:
    made = Made(jobs=[*jobs("mail", 20, {"accept": S}), *jobs("export", 5, first=20, io_ns={"sleep": 5 * S})])
    made.jobs = [job._replace(host="celery", clock="accept") for job in made.jobs]
    made.blame = [blame("mail", "accept", "export", 20 * S)]
    verdict = told(made)
    assert (verdict.kind, verdict.remedy.key) == ("prefetch", "lower_prefetch")
    made.jobs = [job._replace(clock="enqueue") for job in made.jobs]
    assert told(made).kind == "executor"


# --- what is a note


def test_the_machine_is_a_note_unless_it_is_far_more_than_all_else() -> None:
    made = waiting("gil", "/slow", 200 * MS)
    made.blame += [blame("/quick", "os", "os", 4 * S)]
    made.jobs[:20] = jobs("/quick", 20, {"gil": 100 * MS, "os": 200 * MS})
    verdict = told(made)
    assert verdict.kind == "gil" and any("waiting for a core" in note for note in verdict.notes)
    made.jobs[:20] = jobs("/quick", 20, {"gil": 100 * MS, "os": 2 * S})
    made.blame[1] = blame("/quick", "os", "os", 40 * S)
    assert (told(made).kind, told(made).remedy.key) == ("machine", "more_cores")


def test_a_gil_that_is_nobodys_while_a_thread_wakes_is_a_note_with_the_length_of_a_hand_over() -> None:
    made = waiting("gil", "/slow", 200 * MS)
    made.processes = [Process(0, 7, {}, 0, 20 * S, 0, 0)]

    def notes_of_waking(waking_ms: int) -> list[str]:
        made.samples = [Sample(0, n * S, 0, 0, 0, 1, 1, 0, 0, n * waking_ms * MS, n * 1000) for n in range(10)]
        return [note for note in told(made).notes if "hand-overs" in note]

    (note,) = notes_of_waking(100)
    assert "10 % of the time of worker 7" in note and "9,000 hand-overs of 100 us each" in note
    assert notes_of_waking(15) == []


def test_a_process_that_uses_more_than_a_core_competes_with_its_own_native_threads() -> None:
    made = Made(jobs=jobs("/rank", 20, {"os": 200 * MS, "blocked": 100 * MS}, cpu_ns=300 * MS))
    made.blame = [blame("/rank", "os", "os", 4 * S), blame("/rank", "blocked", "blocked", 2 * S)]
    made.own = [Own(0, 1, "/rank", "rank (shop/app.py:14)", S, 5)]
    made.processes = [Process(0, 7, {}, 0, 20 * S, 0, 0)]
    made.samples = [Sample(0, n * S, n * S * 9 // 5, 0, 10**8, 20, 1, 0, 0) for n in range(10)]
    verdict = told(made)
    assert (verdict.kind, verdict.line, verdict.remedy.key) == ("machine", "app.py:14 rank", "one_native_thread")
    assert verdict.sentence.startswith(
        "/rank waits 300 ms (50 % of its p99) for a core, which /rank uses with its native"
    )


def test_on_a_busy_machine_native_threads_are_what_computes_beside_jobs_without_the_gil() -> None:
    made = Made(jobs=jobs("/rank", 20, {"os": 500 * MS}, cpu_ns=300 * MS))
    made.blame = [blame("/rank", "os", "os", 10 * S)]
    made.own = [Own(0, 1, "/rank", "rank (shop/app.py:14)", S, 5)]
    made.processes = [Process(0, 7, {}, 0, 20 * S, 0, 0)]
    made.samples = [Sample(0, n * S, n * 450 * MS, 0, 10**8, 20, 1, 0, 0) for n in range(20)]
    assert told(made).remedy.key == "more_cores"
    made.looks = [Look(0, job.job, 5, 100 * MS, 100 * MS) for job in made.jobs]
    verdict = told(made)
    assert (verdict.name, verdict.remedy.key, verdict.line) == (
        "native threads (BLAS, OpenMP)", "one_native_thread", "app.py:14 rank",
    )  # fmt: skip
    made.samples = [each._replace(cpu_ns=each.cpu_ns * 2 // 3) for each in made.samples]
    assert told(made).remedy.key == "more_cores"


def test_seconds_without_quota_are_no_neighbours() -> None:
    made = Made(jobs=jobs("/page", 20, {"os": 500 * MS, "accept": 300 * MS}, cpu_ns=20 * MS))
    made.blame = [blame("/page", "os", "os", 10 * S), blame("/page", "accept", "os", 6 * S)]
    made.marks = [(0, n * S, "throttled") for n in range(5)]
    assert told(made).kind == "machine"
    made.marks = [(0, n * S, "throttled") for n in range(12)]
    verdict = told(made)
    assert (verdict.kind, verdict.remedy.key) == ("quota", "more_quota")
    assert verdict.sentence == "/page waits 800 ms (98 % of its p99) for its CPU quota."


def test_the_collector_is_told_with_the_line_that_starts_it() -> None:
    made = waiting("accept", "gc", MS)
    made.blame += [blame("/quick", "accept", "/slow", 200 * MS, 20 * MS), blame("/quick", "accept", "thread", 300 * MS)]
    made.own = [Own(0, 21, "/slow", "load (shop/app.py:13)", S, 5)]
    verdict = told(made)
    assert (verdict.kind, verdict.remedy.key, verdict.line) == ("collector", "freeze", "app.py:13 load")


def test_who_was_seen_in_a_frameworks_code_alone_has_the_line_of_its_function() -> None:
    made = waiting("loop", "/slow", 200 * MS, host="uvicorn")
    made.stacks = [Stack("/slow", "async serialize_response (site-packages/fastapi/routing.py:345)", S)]
    assert told(made).line == "routing.py:345 serialize_response"
    made.marks = [(0, 0, "on"), (0, 0, "handler /slow\nasync every (shop/app.py:18)")]
    verdict = told(made)
    assert (verdict.line, verdict.remedy.key) == ("app.py:18 every", "encode_off_loop")
    made.stacks = []
    assert told(made).line == "app.py:18 every"


def test_what_has_no_name_is_no_verdict_below_what_is_felt() -> None:
    made = Made(jobs=jobs("/quick", 20, {"accept": 8 * MS}, cpu_ns=MS))
    made.blame = [blame("/quick", "accept", "unknown", 160 * MS)]
    assert told(made).kind == "none"
    made.blame = [blame("/quick", "accept", "thread server", 160 * MS)]
    assert told(made).kind == "none"


def test_jobs_that_waited_for_the_boot_are_not_in_the_share_of_p99() -> None:
    made = Made(jobs=jobs("/quick", 20, {"accept": 4 * MS}, cpu_ns=MS, io_ns={"sleep": 30 * MS}, first=1))
    (early,) = jobs("/quick", 1, {"accept": 3 * S}, cpu_ns=MS, culprits=[("thread", 3 * S)])
    made.jobs = [early._replace(arrival_ns=-4 * S, handler_ns=-S, end_ns=-S + MS), *made.jobs]
    made.blame = [blame("/quick", "accept", "unknown", 3080 * MS)]
    assert told(made).kind == "none"


def test_what_the_boots_jobs_waited_for_is_not_what_others_wait_for() -> None:
    made = Made(jobs=[*jobs("/quick", 35, cpu_ns=MS, first=1), *jobs("/quick", 5, {"accept": 30 * MS}, 40, cpu_ns=MS)])
    (early,) = jobs("/quick", 1, {"accept": 3 * S}, cpu_ns=MS, culprits=[("unknown", 3 * S)])
    made.jobs = [early._replace(arrival_ns=-4 * S, handler_ns=-S, end_ns=-S + MS), *made.jobs]
    made.blame = [blame("/quick", "accept", "unknown", 3 * S), blame("/quick", "accept", "/quick", 150 * MS, 30 * MS)]
    assert (told(made).kind, round(told(made).wait_ns / MS)) == ("gil", 30)


def test_one_job_never_decides_and_a_probe_of_the_boot_is_a_note() -> None:
    made = waiting("gil", "/slow", 200 * MS)
    made.jobs += jobs("/once", 1, {"lock": 60 * S}, first=40)
    made.blame += [blame("/once", "lock", "unknown", 60 * S, waits=1)]
    assert told(made).kind == "gil"
    made = Made(jobs=jobs("/item", 30, io_ns={"sleep": 20 * MS}, first=1))
    (probe,) = jobs("/ready", 1, {"accept": 3 * S}, culprits=[("thread", 3 * S)])
    made.jobs = [probe._replace(handler_ns=probe.end_ns - 10 * MS), *[
        job._replace(arrival_ns=job.arrival_ns + 9 * S, handler_ns=job.handler_ns + 9 * S, end_ns=job.end_ns + 9 * S)
        for job in made.jobs
    ]]  # fmt: skip
    made.blame = [blame("/ready", "accept", "thread", 3 * S, S)]
    verdict = told(made)
    assert verdict.kind == "none" and verdict.cost_ns == 0
    assert any("1 of 31 jobs came while their process was still starting" in note for note in verdict.notes)


def test_answers_of_5xx_are_told_first_and_are_the_verdict_where_all_fail() -> None:
    made = waiting("gil", "/slow", 200 * MS)
    made.jobs[:3] = [job._replace(status=500) for job in made.jobs[:3]]
    verdict = told(made)
    assert verdict.kind == "gil" and verdict.sentence.startswith("3 of 40 answers of /quick failed (5xx). /quick waits")
    made = Made(jobs=jobs("/cart", 20, status=500))
    verdict = told(made)
    assert (verdict.kind, verdict.remedy.key) == ("errors", "read_error")
    assert verdict.sentence == "20 of 20 answers of /cart failed (5xx)."
    # Errors that are the end of a long wait are its effect.
    made = waiting("pool", "/slow", 800 * MS)
    made.jobs[:20] = [job._replace(status=500) for job in made.jobs[:20]]
    made.jobs = made.jobs[:20]
    assert told(made).kind == "executor"


def test_what_is_lost_to_a_second_cause_stands_beside_the_first() -> None:
    made = waiting("gil", "/slow", 200 * MS)
    made.jobs += jobs("/other", 20, {"lock": 80 * MS}, first=40)
    made.blame += [blame("/other", "lock", "/holder", 1_600 * MS, 0)]
    verdict = told(made)
    assert verdict.kind == "gil"
    assert any(note.startswith("Also: /other waits 80 ms (89 % of its p99) for a lock") for note in verdict.notes)


# --- nobody waits


def test_an_upstreams_time_and_own_computing_are_told_only_where_hardly_anybody_waits() -> None:
    made = Made(jobs=jobs("/page", 20, io_ns={"socket": 500 * MS}))
    made.calls = [Call(0, job.job, "/page", "db:5432", "q", 0, 500 * MS, 500 * MS, 0, "ok") for job in made.jobs]
    verdict = told(made)
    assert (verdict.kind, verdict.name, verdict.remedy.key) == ("upstream", "db:5432", "upstream")
    made.own = [Own(0, 1, "/export", "view (shop/app.py:9)", S, 5)]
    made.jobs += jobs("/export", 20, first=20, cpu_ns=900 * MS)
    verdict = told(made)
    assert (verdict.kind, verdict.remedy.key, verdict.line) == ("none", "shorten_line", "app.py:9 view")


def test_nothing_and_hardly_anything_have_a_sentence_too() -> None:
    assert told(Made()).sentence == "No job ended while this was recorded."
    assert told(Made(jobs=jobs("/a", 3, cpu_ns=MS // 2))).sentence.startswith("Requests hardly wait")


def test_time_that_nothing_explains_is_not_called_hardly_any_waiting() -> None:
    made = Made(jobs=jobs("/a", 20, residual_ns=S))
    verdict = told(made)
    assert verdict.remedy.key == "look_closer" and verdict.to_json()["resource"] == {
        "kind": "none", "name": "residual", "capacity": None,
    }  # fmt: skip


# --- the table


def test_every_row_of_the_table_can_be_reached_and_says_when_it_is_wrong() -> None:
    words = dict.fromkeys(("victim", "holder", "line", "at", "call", "resource", "more", "meanwhile"), "x")
    for row in REMEDIES:
        assert row.wrong_when or row.key == "look_closer"
        for served in row.families or ("threads",):
            found = remedy_for(row.kind, row.cause, served, words)
            assert found.key == row.key and found.text == row.text.format(**words)
    assert remedy_for("unheard of", "", "threads", words).key == "look_closer"
