"""One slow job, call by call: the upstream's own clock beside the wire's and the application's, the culprit named."""

from __future__ import annotations

import io
import json

import pytest
from tests.report.rows_of_a_bad_day import a_day

from greenlane_tools.reader import Call, Job, Recording
from greenlane_tools.report import json_rows, text
from greenlane_tools.report.clocks import upstreams
from greenlane_tools.report.culprits import StackFrame, places
from greenlane_tools.report.page import page
from greenlane_tools.report.story import CallStory, Story, stories_of, story_sentence
from greenlane_tools.report.study import study_of
from tests.recordings import MS, slow_offer


def call(from_ns: int = 0, wire: int = 110, late: int = 0, own: int = 0, waited: int = 0) -> CallStory:
    ready_ns = from_ns + (wire + waited) * MS
    row = Call(0, 1, "/a", "eta:1", "GET /eta", from_ns, ready_ns, ready_ns + late * MS, 0, "ok", waited * MS, own * MS)
    return CallStory(row, [])


def job(route: str) -> Job:
    return Job(0, 1, route, "", 200, "kernel", 0, 0, 0, 5_300 * MS, 0, 0, {}, {}, 0, 0, [])


def test_the_factor_is_the_applications_clock_by_the_upstreams() -> None:
    story = call(late=5190, own=110)
    assert (story.seen_ns, story.told_ns) == (5300 * MS, 110 * MS)
    assert round(story.factor, 1) == 48.2


def test_without_its_own_clock_the_wires_stands_for_it_and_without_both_nothing_does() -> None:
    assert call(wire=100, late=100).factor == 2
    unknown = CallStory(call().call._replace(ready_ns=0), [])
    assert (unknown.told_ns, unknown.factor, unknown.own_span_ns) == (0, 0, None)


def test_the_upstreams_clock_is_drawn_in_the_middle_of_the_wire() -> None:
    assert call(wire=112, own=110).own_span_ns == (1 * MS, 111 * MS)
    # A clock that runs fast says more than the wire: centred all the same.
    assert call(wire=100, own=110).own_span_ns == (-5 * MS, 105 * MS)


@pytest.fixture(scope="module")
def slow() -> Recording:
    return Recording(slow_offer())


def test_a_recording_tells_the_slow_offer_whole(slow: Recording) -> None:
    study = study_of(slow)
    story = study.stories[0]
    assert story.job.route == "GET /v1/bikes/price"
    assert story.trace == "4bf92f3577b34da6a3ce929d0e0e4736"
    worst = story.worst
    assert worst is not None
    assert (worst.call.own_ns, worst.call.wire_ns, worst.seen_ns) == (110 * MS, 111 * MS, 5300 * MS)
    assert dict(worst.culprits) == {"GET /v1/receipts/month": 5189 * MS}
    assert story_sentence(story, places(slow.stacks)) == (
        "GET /v1/bikes/price, 5.3 s: routing:80 GET /routing says 110 ms, the wire 111 ms, the application "
        "5.3 s (48×); "
        "> 99.9 % of the difference is GET /v1/receipts/month, work.py:99."
    )


def test_an_upstream_that_tells_its_clock_is_quoted_where_the_wire_is_unknown() -> None:
    one = CallStory(call(late=5190, own=110).call._replace(ready_ns=0), [])
    said = story_sentence(Story(job("/a"), [], [one]), {})
    assert said == "/a, 5.3 s: eta:1 GET /eta says 110 ms, the application 5.3 s (48×)."


def test_beside_the_machine_the_first_with_a_line_of_code_is_named() -> None:
    one = call(late=5190, own=110)
    story = Story(
        job("/a"), [], [CallStory(one.call, [("os", 3_000 * MS), ("gc", 600 * MS), ("GET /report", 1_557 * MS)])]
    )
    said = story_sentence(story, {"GET /report": StackFrame("report", "pricing.py", 88)})
    assert said.endswith(
        "; 58 % of the difference is the operating system, which ran others on this machine, "
        "30 % GET /report, pricing.py:88."
    )


def test_who_is_to_blame_within_a_window_is_exact_and_adds_up(slow: Recording) -> None:
    [offer] = [job for job in slow.jobs if job.route == "GET /v1/bikes/price"]
    whole = slow.culprits(offer.process, offer.job, offer.arrival_ns, offer.end_ns)
    assert sum(ns for _, ns in whole) == sum(offer.wait_ns.values())
    assert slow.culprits(offer.process, offer.job, offer.arrival_ns, offer.arrival_ns + 100 * MS) == []
    middle_ns = offer.end_ns - 2_000 * MS
    parts = [slow.culprits(offer.process, offer.job, *span) for span in ((0, middle_ns), (middle_ns, offer.end_ns))]
    assert sum(ns for part in parts for _, ns in part) == sum(ns for _, ns in whole)
    assert slow.culprits(offer.process, 999, 0, 2**63) == []


def test_page_text_and_rows_have_the_three_clocks(slow: Recording) -> None:
    study = study_of(slow)
    drawn = page(study, "slow.glr", {})
    for said in ("the wire", "your clock", "4bf92f3577b34da6a3ce929d0e0e4736", "48×"):
        assert said in drawn
    assert 'class="k-own"' in drawn and 'class="k-seen"' in drawn
    [row] = [row for row in json_rows.rows_of(study) if row["view"] == "call" and row["route"] == "GET /v1/bikes/price"]
    assert (row["own_ms"], row["wire_ms"], row["seen_ms"], row["factor"]) == (110, 111, 5300, pytest.approx(48.1818))
    assert row["culprits"] == [{"culprit": "GET /v1/receipts/month", "wait_ms": 5189.0, "place": "work.py:99"}]
    json.dump(row, io.StringIO())
    headings = {heading: found for heading, found, _ in text.sections(study)}
    [heading] = [heading for heading in headings if heading.startswith("the slowest job")]
    assert "routing:80 GET /routing says 110 ms" in heading
    assert headings[heading][0]["times"] == "48×"


def test_calls_beside_each_other_are_drawn_in_rows_of_their_own() -> None:
    made = a_day(seconds=1)
    [slowest] = study_of(made, 1).slowest
    at_ns = slowest.arrival_ns
    made.calls = [
        call(at_ns + from_ms * MS).call._replace(process=slowest.process, job=slowest.job) for from_ms in (0, 50, 120)
    ]
    drawn = page(study_of(made, 1), "a.glr", {})
    # 0 to 110 ms and 120 to 230 ms follow each other; 50 to 160 ms is beside both.
    assert drawn.count(">your clock</text>") == drawn.count(">your clock 2</text>") == 1 and "your clock 3" not in drawn


def test_the_upstreams_clock_stands_in_the_table_of_all_calls(slow: Recording) -> None:
    study = study_of(slow)
    [row] = [row for row in json_rows.rows_of(study) if row["view"] == "upstream"]
    assert (row["own_p50_ms"], row["own_p99_ms"], row["wire_p99_ms"], row["seen_p99_ms"]) == (110, 110, 111, 5300)
    [line] = {heading: found for heading, found, _ in text.sections(study)}["upstream's clock beside yours"]
    assert line["its clock p99"] == "110 ms"
    silent = {heading: found for heading, found, _ in text.sections(study_of(a_day(seconds=2)))}
    assert all("its clock p99" not in line for line in silent["upstream's clock beside yours"])
    [none] = upstreams([call().call._replace(own_ns=0)])
    assert none.own is None


@pytest.mark.parametrize(("own", "wire", "told"), [(20, 120, True), (110, 112, False), (1, 5, False), (0, 120, False)])
def test_an_upstream_whose_clock_starts_late_is_told(own: int, wire: int, told: bool) -> None:
    made = a_day(seconds=1)
    made.calls = [call(wire=wire, own=own).call]
    said = [note.text for note in study_of(made).notes if note.name == "upstream-clock"]
    assert bool(said) is told
    if told:
        assert said[0].startswith(
            "eta:1 GET /eta reports a p99 of 20 ms by its own clock; its replies to /a took 120 ms"
        )


def test_jobs_without_calls_have_no_story_to_tell() -> None:
    made = a_day(seconds=2)
    made.calls = []
    [story] = stories_of(made, made.jobs[:1])
    assert (story.worst, story_sentence(story, {}), story.trace) == (None, "", "")
