"""What an exception says of the upstream, and of whether anything reached it."""

from __future__ import annotations

import socket
import time
from email.utils import formatdate

import pytest
import requests
from celery.exceptions import Retry, SoftTimeLimitExceeded
from kombu.exceptions import OperationalError

from greenlane_work import NotSent
from greenlane_work.limits import CallOutcome
from greenlane_work.worker.outcomes import nothing_sent, outcome_of, upstream_retry_after_s


def answered(status: int, again: str = "") -> Exception:
    response = requests.Response()
    response.status_code = status
    if again:
        response.headers["retry-after"] = again
    return requests.HTTPError(response=response)


def unreachable() -> Exception:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    try:
        requests.get(f"http://127.0.0.1:{port}/", timeout=5)
    except requests.ConnectionError as error:
        return error
    raise AssertionError("somebody listens there")


def bug_after(met: Exception) -> Exception:
    try:
        try:
            raise met
        except Exception:
            int("no number")
    except ValueError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (answered(500), CallOutcome.FAILED),
        (answered(503), CallOutcome.REFUSED),
        (answered(429), CallOutcome.REFUSED),
        (answered(404), CallOutcome.OK),
        (TimeoutError(), CallOutcome.TIMED_OUT),
        (requests.ReadTimeout(), CallOutcome.TIMED_OUT),
        (requests.ConnectTimeout(), CallOutcome.FAILED),
        (SoftTimeLimitExceeded(), CallOutcome.TIMED_OUT),
        (Retry(exc=answered(503)), CallOutcome.REFUSED),
        (ConnectionResetError(), CallOutcome.FAILED),
        (ValueError("of the task's own"), CallOutcome.CANCELLED),
        (bug_after(KeyError("menu")), CallOutcome.CANCELLED),
        (bug_after(ConnectionResetError()), CallOutcome.FAILED),
        (RuntimeError("the merchant says no"), CallOutcome.FAILED),
        (OperationalError("Celery's broker is away"), CallOutcome.CANCELLED),
        (NotSent("no room"), CallOutcome.CANCELLED),
        (None, CallOutcome.FAILED),
    ],
)
def test_an_error_is_read_for_what_it_says_of_the_upstream(error: Exception | None, outcome: CallOutcome) -> None:
    assert outcome_of(error) is outcome


def test_only_what_certainly_reached_nobody_counts_as_not_sent() -> None:
    assert nothing_sent(unreachable())
    assert nothing_sent(NotSent())
    assert nothing_sent(requests.ConnectTimeout())
    assert nothing_sent(Retry(exc=ConnectionRefusedError()))
    assert not nothing_sent(ConnectionResetError())
    assert not nothing_sent(requests.ReadTimeout())
    assert not nothing_sent(answered(500))


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (answered(429, "7"), 7),
        (Retry(exc=answered(503, "7")), 7),
        (answered(429, "9999999"), 3600),
        (answered(429, formatdate(time.time() - 600, usegmt=True)), None),
        (answered(429, "0"), None),
        (answered(429, "soon"), None),
        (answered(429), None),
        (answered(500, "7"), None),
        (KeyError("menu"), None),
        (None, None),
    ],
)
def test_when_to_come_again_is_what_a_refusal_says(error: Exception | None, seconds: float | None) -> None:
    assert upstream_retry_after_s(error) == seconds


def test_when_to_come_again_may_be_a_date() -> None:
    said = upstream_retry_after_s(answered(429, formatdate(time.time() + 600, usegmt=True)))
    assert said == pytest.approx(600, abs=60)
