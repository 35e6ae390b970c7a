"""What makes a result less than it looks is said, with a remedy; a clean result says nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from tests.lab.made import PRICING, run, sample, scenario

from greenlane.errors import HostError
from greenlane_tools.lab.run.judged import remarks
from greenlane_tools.lab.run.performed import Run
from greenlane_tools.lab.run.rows import pooled
from greenlane_tools.lab.samples import FAILED, UNANSWERED
from greenlane_tools.lab.scenario.parts import Phase
from greenlane_tools.lab.scenario.request_class import RequestClass
from greenlane_tools.lab.scenario.scenario import Scenario

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
