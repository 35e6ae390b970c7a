"""The page of a run is one file that needs nothing else, with every class, every contender, and marks of faults."""

from __future__ import annotations

import dataclasses
import re

from tests.lab.made import PRICING, run, sample

from greenlane_tools.lab.run.faults import Done
from greenlane_tools.lab.run.judged import conclusion, judged
from greenlane_tools.lab.run.page import document, page
from greenlane_tools.lab.run.performed import Closed, Run
from greenlane_tools.lab.run.rows import pooled
from greenlane_tools.lab.run.runner import Result
from greenlane_tools.lab.run.sections import numbers
from greenlane_tools.lab.run.tables import result_table, subjects, tool_table
from greenlane_tools.lab.scenario.parts import Phase
from tests.page_tags import tags, what_it_fetches

REQUESTS = [sample(300.0 + n, at_s=n / 2) for n in range(10)] + [
    sample(20.0 * (n + 1), "quote", at_s=n) for n in range(5)
]
STALL = Done("stall", "pricing", int(2e9), int(3e9), "SIGSTOP to 1")


def result(*runs: Run) -> Result:
    rows = pooled(PRICING, runs)
    names = tuple(dict.fromkeys(one.turn.contender for one in runs))
    judgements, said = judged(PRICING, rows), conclusion(PRICING, rows)
    return Result(PRICING, names, runs, rows, {}, 0, judgements, ["<b>look"], said, {"cores": 2}, 0)


MADE = result(
    dataclasses.replace(run(REQUESTS, "gevent"), faults=(STALL,)),
    dataclasses.replace(run(REQUESTS), contrast=(Closed("ab", 8.0, 9, 0, 1.0, 2.0, 3.0),)),
)


def test_the_page_asks_for_nothing_outside_itself_and_escapes_what_it_says() -> None:
    text = page(MADE)
    assert not what_it_fetches(text)
    assert "<b>look" not in text and "&lt;b&gt;look" in text
    assert sum(tag == "figure" for tag, _ in tags(text).seen) == 4  # two classes over time, two distributions


def test_the_page_names_the_fault_and_the_closed_loop_tool() -> None:
    text = page(MADE)
    assert "stall" in text and "closed-loop tool" in text


def test_what_is_known_of_whole_runs_alone_is_not_said_of_a_phase() -> None:
    surge = dataclasses.replace(PRICING, phases=(Phase("before", 3.0), Phase("after", 3.0)))
    text = numbers(surge, pooled(surge, [run(REQUESTS)]), ["greenlane"])
    whole, *phases = [re.findall(r"<td[^>]*>(.*?)</td>", line) for line in text.split("<tr")[2:5]]
    assert len(phases) == 2 and all(whole[-4:-1]) and [line[-4:-1] for line in phases] == [[""] * 3] * 2


def test_nothing_measured_is_still_a_page() -> None:
    assert tags(page(result())).seen
    assert conclusion(PRICING, []) == "Nothing was measured."


def test_the_document_has_rows_bounds_and_what_is_not_whole() -> None:
    whole = document(MADE)
    assert whole["schema"] == "greenlane.lab-run/1"
    assert isinstance(whole["rows"], list) and {"contender", "endpoint", "p99_ms", "phase"} <= whole["rows"][0].keys()
    assert isinstance(whole["bounds"], list) and whole["bounds"][0]["verdict"] == "holds"
    assert whole["faults"] == [{"run": "gevent-0.9-0", **dataclasses.asdict(STALL)}]
    # One of two repetitions at 0.9, none at 0.6 and 0.8.
    assert {"contender": "gevent", "level": "0.9", "runs_missing": 1, "runs_with_a_death": []} in whole["cells"]  # type: ignore[operator]


def test_tables_cross_what_is_not_whole_and_show_tools_beside_the_open_loop() -> None:
    text = result_table(PRICING, MADE.rows, subjects(PRICING), {("gevent", "0.9")})
    assert "gevent†" in text and "greenlane†" not in text
    lines = tool_table(MADE.rows).splitlines()
    assert ["open loop" in lines[1], " ab " in lines[2]] == [True, True]
