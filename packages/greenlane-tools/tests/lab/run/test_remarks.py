"""What makes a result less than it looks is said, with a remedy; a clean result says nothing."""

from __future__ import annotations

import dataclasses

import pytest
from tests.lab.made import PRICING, run, sample

from greenlane.errors import HostError
from greenlane_tools.lab.run.judged import remarks
from greenlane_tools.lab.run.performed import Run
from greenlane_tools.lab.run.rows import pooled
from greenlane_tools.lab.samples import FAILED, UNANSWERED

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


def test_a_missed_utilisation_is_that_of_who_was_calibrated() -> None:
    requests = [sample(300.0)] * 600
    assert "gthread-64 used another share of a core than was asked for (0.50 for 0.9)" in said(
        run(requests, "gthread-64")
    )
    assert said(run(requests, "gevent")) == ""


def test_who_did_not_come_up_is_named_with_the_reason() -> None:
    error = HostError("start contender x", name="service", value="server", rule="a server")
    assert "x did not take part: start contender x" in remarks(PRICING, [CLEAN], [], {"x": error})[0]
