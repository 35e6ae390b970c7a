"""The folder of a result: finished runs come back, others are refused, a half-written one is made again."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lab.made import PRICING, run, sample, scenario

from greenlane.errors import GreenlaneError, HostError, SettingsError
from greenlane_tools.lab.run.faults import Done
from greenlane_tools.lab.run.judged import conclusion, judged, remarks
from greenlane_tools.lab.run.page import document, numbers, page
from greenlane_tools.lab.run.rows import Closed, Run, pooled
from greenlane_tools.lab.run.runner import Result, stored
from greenlane_tools.lab.run.store import Store
from greenlane_tools.lab.run.tables import result_table, subjects, tool_table
from greenlane_tools.lab.samples import FAILED, UNANSWERED
from greenlane_tools.lab.scenario.catalogue import adapted
from greenlane_tools.lab.scenario.parts import Phase, RequestClass
from greenlane_tools.lab.scenario.scenario import Scenario
from tests.page_tags import tags, what_it_fetches

MADE: Run = dataclasses.replace(
    run([sample(300.0), sample(5.0, "quote", status=503)]),
    faults=(Done("stall", "server", 5, 9, "SIGSTOP to 1"),), dead=("server",), said="last words",
    contrast=(Closed("ab", 8.0, 9, 0, 1.0, None, 3.0),), late="late", lag_p99_ms=9.0,
)  # fmt: skip


def opened(folder: Path, seed: int = 1, fresh: bool = False) -> tuple[Store, int]:
    store = Store(folder, {"seed": seed, "versions": {"numpy": "1"}}, {"scenario": "text"})
    return store, store.open(fresh)


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    store, kept = opened(tmp_path)
    assert kept == 0
    store.save(MADE)
    store.keep_note("costs_ms", {"bikes": 4.0})
    store, kept = opened(tmp_path)
    assert kept == 1 and store.note("costs_ms") == {"bikes": 4.0}
    again = store.load(MADE.turn)
    assert again is not None
    for field in dataclasses.fields(Run):
        if field.name != "samples":
            assert getattr(again, field.name) == getattr(MADE, field.name), field.name
    assert np.array_equal(again.samples.done_ns, MADE.samples.done_ns)
    assert again.samples.of("quote").status.tolist() == [503]


def test_runs_of_another_identity_are_refused_and_forgotten_when_asked(tmp_path: Path) -> None:
    opened(tmp_path)[0].save(MADE)
    with pytest.raises(SettingsError, match=r"seed differs.*\n.*--fresh"):
        opened(tmp_path, seed=2)
    store, kept = opened(tmp_path, seed=2, fresh=True)
    assert kept == 0 and store.load(MADE.turn) is None


def test_a_folder_without_room_is_named_and_keeps_what_is_there(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    (tmp_path / "samples").rmdir()
    with pytest.raises(GreenlaneError, match=r"--out='.*', expected a folder that can be written \(.*\n.*resumes"):
        store.save(MADE)


def test_a_run_whose_samples_are_gone_is_made_anew(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    store.save(MADE)
    (tmp_path / "samples" / f"{MADE.turn.label}.parquet").write_bytes(b"half")
    assert store.load(MADE.turn) is None


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    with pytest.raises(SettingsError, match=r"--out=.*expected a folder that can be written"):
        opened(taken)


def test_what_is_measured_decides_and_words_do_not(tmp_path: Path) -> None:
    def kept(changed: object) -> int:
        assert isinstance(changed, type(PRICING))
        return stored(changed, tmp_path).open(False)

    store = stored(PRICING, tmp_path)
    store.open(False)
    store.save(MADE)
    assert kept(PRICING) == 1
    assert kept(dataclasses.replace(PRICING, expected="something else", bounds=())) == 1
    # More repetitions of runs as long as before are further runs of the same result.
    assert kept(adapted(PRICING, seconds=22.0, repetitions=4)) == 1
    for other in (adapted(PRICING, seconds=22.0), adapted(PRICING, seed=2), scenario()):
        with pytest.raises(SettingsError, match="--fresh"):
            kept(other)


# --- What makes a result less than it looks is said, with a remedy; a clean result says nothing.


CLEAN = run([sample(300.0, at_s=n / 100) for n in range(600)])


def said(*runs: Run) -> str:
    return "\n".join(one for one in remarks(PRICING, runs, pooled(PRICING, runs)) if not one.startswith("One core"))


def test_a_clean_result_has_no_remark() -> None:
    assert said(CLEAN) == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"others_cores": 0.4}, "Other processes of this machine took 0.4 cores on average"),
        ({"late": "the load generator was late: ask for fewer"}, "the load generator was late: ask for fewer (1 of 1"),
        ({"clock_step_ms": -350.0}, "The wall clock was set by up to 350 ms"),
        ({"dead": ("server",), "said": "Killed"}, "server of greenlane exited during greenlane-0.9-0"),
    ],
)
def test_what_went_wrong_is_said(changes: dict[str, object], words: str) -> None:
    assert words in said(dataclasses.replace(CLEAN, **changes))  # type: ignore[arg-type]


def test_errors_are_counted_by_kind() -> None:
    wrong = [sample(1.0, status=status) for status in (503, 503, FAILED, UNANSWERED)]
    text = said(run([sample(300.0)] * 600 + wrong))
    assert "greenlane: 1 given up unanswered, 1 refused or reset, 2 answered 503." in text


def test_too_few_requests_for_a_p99_name_the_seconds_that_would_do() -> None:
    text = said(run([sample(300.0)] * 250))
    assert "bikes 250" in text and "--seconds 22 would do" in text  # 11 s a cell gave 250, 500 are wanted


def said_of(asked: Scenario, count: int, name: str = "probe") -> list[str]:
    runs = [run([sample(3.0, name, at_s=n / 1000) for n in range(count)])]
    return [one for one in remarks(asked, runs, pooled(asked, runs)) if not one.startswith("One core")]


def replay(folder: Path, count: int, every_s: float, **changes: Any) -> Scenario:
    """A replay of that many requests, one each `every_s` seconds, by runs of 10 s."""
    rows = "".join(f"{round(number * every_s * 1e9)}\n" for number in range(count))
    (folder / "access.csv").write_text(f"scheduled_ns\n{rows}")
    one = RequestClass("probe", arrivals="recorded", recorded="access.csv")
    return scenario(classes=(one,), folder=folder, **{"seconds": 10.0, "repetitions": 1} | changes)


def test_of_a_recording_one_request_in_the_window_is_no_percentile(tmp_path: Path) -> None:
    few, window = said_of(replay(tmp_path, 1068, 11.0), 1)
    assert few.startswith(
        "Rough p50 and p99, fewer than 5 requests lie beyond it (requests in the smallest cell: probe 1)"
    )
    # The 500th comes 499 x 11 s after the first.
    assert few.endswith("--seconds 5490 would do for probe.")
    assert window.startswith("probe: 1 of 1,068 arrivals in access.csv is within the 10 s of a run; ")


def test_a_short_recording_must_be_repeated(tmp_path: Path) -> None:
    (few,) = said_of(replay(tmp_path, 100, 0.05), 100)
    assert few.startswith("Rough p99, ") and few.endswith("--seconds 51 --repetitions 5 would do for probe.")


def test_a_recording_of_which_nothing_is_in_the_window_says_so(tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("endpoint,scheduled_ns\nearly,0\nlate,60000000000\n")
    one = RequestClass("probe", arrivals="recorded", recorded="two.csv", recorded_route="late")
    (window,) = said_of(scenario(classes=(one,), folder=tmp_path, seconds=10.0, repetitions=1), 0)
    assert window.startswith("probe: no arrival in two.csv is within the 10 s of a run; they lie from 60 to 60 s")


def test_enough_of_a_recording_says_nothing(tmp_path: Path) -> None:
    assert said_of(replay(tmp_path, 600, 0.01), 600) == []


def test_how_exact_a_log_s_times_are_is_said_once(tmp_path: Path) -> None:
    line = '127.0.0.1 - - [29/Nov/2026:10:00:00 +0000] "GET /{} HTTP/1.1" 200 2\n'
    (tmp_path / "access.log").write_text(line.format("a") * 40 + line.format("b") * 40)
    classes = tuple(
        RequestClass(name, arrivals="recorded", recorded="access.log", recorded_route=f"/{name}") for name in "ab"
    )
    found = said_of(scenario(classes=classes, folder=tmp_path, seconds=10.0, repetitions=1), 600, "a")
    assert [note.partition(":")[0] for note in found] == ["access.log"] and "whole seconds" in found[0]


@pytest.mark.parametrize(
    ("burst", "remedy"),
    [
        ({"burst_size": 12}, "--seconds 421 --repetitions 42"),
        ({"burst_size": 12, "burst_every_s": 2.0}, "--seconds 85"),
    ],
)
def test_bursts_are_no_exception(burst: dict[str, Any], remedy: str) -> None:
    one = RequestClass("probe", arrivals="burst", **burst)
    (few,) = said_of(scenario(classes=(one,), seconds=10.0, repetitions=1), 12)
    assert few.endswith(f"{remedy} would do for probe.")


def test_a_phase_with_few_requests_is_named() -> None:
    phases = (Phase("before", 5.0), Phase("surge", 1.0))
    asked = scenario(phases=phases, repetitions=1)
    runs = [run([sample(3.0, "probe", at_s=n / 100) for n in range(600)])]
    assert "probe in surge 100): --seconds 30 would do" in "\n".join(remarks(asked, runs, pooled(asked, runs)))


def test_a_missed_utilisation_is_that_of_who_was_calibrated() -> None:
    requests = [sample(300.0)] * 600
    assert "gthread-64 used another share of a core than was asked for (0.50 for 0.9)" in said(
        run(requests, "gthread-64")
    )
    assert said(run(requests, "gevent")) == ""


def test_who_did_not_come_up_is_named_with_the_reason() -> None:
    error = HostError("start contender x", name="service", value="server", rule="a server")
    assert "x did not take part: start contender x" in remarks(PRICING, [CLEAN], [], {"x": error})[0]


# --- The page of a run is one file that needs nothing else, with every class, every contender, and marks of faults.


REQUESTS = [sample(300.0 + n, at_s=n / 2) for n in range(10)] + [
    sample(20.0 * (n + 1), "quote", at_s=n) for n in range(5)
]
STALL = Done("stall", "pricing", int(2e9), int(3e9), "SIGSTOP to 1")


def result(*runs: Run) -> Result:
    rows = pooled(PRICING, runs)
    names = tuple(dict.fromkeys(one.turn.contender for one in runs))
    judgements, said = judged(PRICING, rows), conclusion(PRICING, rows)
    return Result(PRICING, names, runs, rows, {}, 0, judgements, ["<b>look"], said, {"cores": 2}, 0)


PAGE_MADE = result(
    dataclasses.replace(run(REQUESTS, "gevent"), faults=(STALL,)),
    dataclasses.replace(run(REQUESTS), contrast=(Closed("ab", 8.0, 9, 0, 1.0, 2.0, 3.0),)),
)


def test_the_page_asks_for_nothing_outside_itself_and_escapes_what_it_says() -> None:
    text = page(PAGE_MADE)
    assert not what_it_fetches(text)
    assert "<b>look" not in text and "&lt;b&gt;look" in text
    assert sum(tag == "figure" for tag, _ in tags(text).seen) == 4  # two classes over time, two distributions


def test_the_page_names_the_fault_and_the_closed_loop_tool() -> None:
    text = page(PAGE_MADE)
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
    whole = document(PAGE_MADE)
    assert whole["schema"] == "greenlane.lab-run/1"
    assert isinstance(whole["rows"], list) and {"contender", "endpoint", "p99_ms", "phase"} <= whole["rows"][0].keys()
    assert isinstance(whole["bounds"], list) and whole["bounds"][0]["verdict"] == "holds"
    assert whole["faults"] == [{"run": "gevent-0.9-0", **dataclasses.asdict(STALL)}]
    # One of two repetitions at 0.9, none at 0.6 and 0.8.
    assert {"contender": "gevent", "level": "0.9", "runs_missing": 1, "runs_with_a_death": []} in whole["cells"]  # type: ignore[operator]


def test_tables_cross_what_is_not_whole_and_show_tools_beside_the_open_loop() -> None:
    text = result_table(PRICING, PAGE_MADE.rows, subjects(PRICING), {("gevent", "0.9")})
    assert "gevent†" in text and "greenlane†" not in text
    lines = tool_table(PAGE_MADE.rows).splitlines()
    assert ["open loop" in lines[1], " ab " in lines[2]] == [True, True]
