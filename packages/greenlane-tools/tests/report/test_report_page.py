"""The report's page and its other outputs: well-formed, bounded, nothing of a stranger's becomes markup."""

from __future__ import annotations

import html
import io
import json
from collections import defaultdict

import pytest
from tests.report.rows_of_a_bad_day import BAD_DAY, Endpoint, Made, a_day

from greenlane_tools.reader.rows import Process
from greenlane_tools.report import json_rows, text, trace
from greenlane_tools.report.page import page
from greenlane_tools.report.study import study_of
from tests.page_tags import tags, what_it_fetches

HOSTILE = "<script>alert('x')</script>\x1b[2J\"&"
BAD = a_day(seconds=20)


def drawn(made: Made) -> str:
    return page(study_of(made), "a day.glr", {"cpus": 2})


def test_the_page_needs_nothing_else_and_has_every_section() -> None:
    text = drawn(BAD)
    assert not what_it_fetches(text)
    names = {attributes.get("id") for tag, attributes in tags(text).seen if tag == "section"}
    assert names >= {"latency", "tail", "blame", "upstreams", "slowest", "culprits", "workers", "clocks"}
    links = {str(attributes["href"])[1:] for tag, attributes in tags(text).seen if tag == "a"}
    assert links <= names


def test_the_sentence_is_the_heading_and_the_remedy_stands_below_it() -> None:
    verdict = study_of(BAD).verdict
    assert f"{verdict.sentence}</h1>" in drawn(BAD)
    assert f"Do: {verdict.remedy.text}." in html.unescape(drawn(BAD))


@pytest.mark.parametrize("part", ["jobs", "blame", "calls", "stacks", "samples", "processes", "lives"])
def test_a_recording_without_one_kind_of_row_is_still_a_page(part: str) -> None:
    made = a_day(seconds=5)
    setattr(made, part, type(getattr(made, part))())
    assert tags(drawn(made)).seen
    assert json_rows.rows_of(study_of(made))


def test_nothing_and_one_job_are_pages() -> None:
    assert "No job ended" in drawn(Made())
    one = a_day(seconds=1)
    one.jobs = one.jobs[:1]
    assert tags(drawn(one)).seen


def test_hostile_names_stay_text() -> None:
    made = a_day({**BAD_DAY, HOSTILE: Endpoint(5, 60, 10, 5, HOSTILE)}, 10)
    made.notes = [HOSTILE]
    made.processes = [Process(n, 7, {"argv": [HOSTILE]}, 0, 10**9, 1, 1) for n in range(2)]
    text = drawn(made)
    assert "<script>alert" not in text and "\x1b" not in text
    assert not what_it_fetches(text)


@pytest.mark.slow
def test_three_hundred_routes_and_many_jobs_stay_under_three_megabytes() -> None:
    routes = {f"GET /a/very/long/route/of/a/big/service/<int:number>/{n}": Endpoint(1, 2, 20, 2) for n in range(300)}
    made = a_day({**routes, **BAD_DAY}, 20, (0.1,) * 10)
    assert len(drawn(made)) < 3_000_000


def test_losses_are_said_above_everything() -> None:
    made = a_day(seconds=2)
    made.processes = [made.processes[0]._replace(lost_events=5, torn_bytes=100), made.processes[1]]
    text = drawn(made)
    assert "5 events were lost" in text and "100 bytes at the end" in text


# --- rows


def test_rows_have_a_view_each_and_units_in_their_names() -> None:
    found = json.loads(json.dumps(json_rows.rows_of(study_of(BAD))))
    assert {row["view"] for row in found} <= set(json_rows.VIEWS)
    (bikes,) = [row for row in found if row["view"] == "route" and row["route"] == "GET /bikes"]
    assert bikes["p999_ms"] is None and bikes["p50_ms"] < bikes["p99_ms"]
    parts = (
        "cpu_ms",
        "io_ms",
        "loop_ms",
        "gil_ms",
        "permit_ms",
        "accept_ms",
        "pool_ms",
        "lock_ms",
        "os_ms",
        "residual_ms",
    )
    assert sum(bikes[name] for name in parts) == pytest.approx(bikes["mean_ms"], abs=0.01)


def test_shares_of_a_victims_blame_add_up_to_one() -> None:
    found = [row for row in json_rows.rows_of(study_of(BAD)) if row["view"] == "blame"]
    sums: dict[str, float] = defaultdict(float)
    for row in found:
        sums[str(row["victim"])] += float(str(row["wait_frac"]))
    assert all(total == pytest.approx(1, abs=0.01) for total in sums.values())


# --- trace


def test_every_track_of_the_trace_nests_and_every_job_has_one() -> None:
    made = a_day(seconds=5)
    out = io.StringIO()
    trace.write_trace(made, out)
    events = json.loads(out.getvalue())["traceEvents"]
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] in "be":
            tracks[event["id"]].append(event)
    assert len(tracks) == len(made.jobs)
    for track in tracks.values():
        open_names: list[str] = []
        for event in sorted(track, key=lambda each: each["ts"]):  # stable: order of the file decides at one moment
            if event["ph"] == "b":
                open_names.append(event["name"])
            else:
                assert open_names.pop() == event["name"]
        assert not open_names


def test_children_that_run_beside_each_other_get_tracks_of_their_own() -> None:
    made = a_day(seconds=1)
    job = made.jobs[0]
    life = made.lives[job.process, job.job]
    made.jobs, made.lives = [job], {(job.process, job.job): life + life}
    out = io.StringIO()
    trace.write_trace(made, out)
    assert len({event["id"] for event in json.loads(out.getvalue())["traceEvents"] if event["ph"] == "b"}) == 2


def test_what_ran_is_on_its_loop_and_a_flow_leads_to_who_waited_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TOGETHER", 100)  # several times
    made = a_day(seconds=10)
    out = io.StringIO()
    trace.write_trace(made, out)
    events = json.loads(out.getvalue())["traceEvents"]
    lanes = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    ran = [event for event in events if event["ph"] == "X"]
    assert lanes and {(event["pid"], event["tid"]) for event in ran} == set(lanes)
    cpu = [each for life in made.lives.values() for each in life if each.state == "cpu"]
    assert len(ran) == len(cpu)
    assert sum(event["dur"] for event in ran) == pytest.approx(sum(each.to_ns - each.from_ns for each in cpu) / 1000)
    flows = defaultdict(dict)
    for event in events:
        if event["ph"] in "sf":
            flows[event["id"]][event["ph"]] = event
    assert flows and all(flow.keys() == {"s", "f"} and flow["s"]["ts"] <= flow["f"]["ts"] for flow in flows.values())
    for flow in list(flows.values())[:50]:
        begins = flow["s"]
        at = [event for event in ran if (event["pid"], event["tid"]) == (begins["pid"], begins["tid"])]
        assert any(event["ts"] - 1 <= begins["ts"] <= event["ts"] + event["dur"] + 1 for event in at)


# --- text


def test_the_terminal_gets_tables_with_the_same_numbers() -> None:
    found = {heading: lines for heading, lines, _ in text.sections(study_of(BAD))}
    assert len(found) == 6
    assert found["who made whom wait"][0]["for"] == "GET /report"
    assert found["who made whom wait"][0]["at"] == "pricing.py:88"
