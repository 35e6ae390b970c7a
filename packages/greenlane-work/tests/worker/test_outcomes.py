"""What an exception says of the upstream, and of whether anything reached it."""

from __future__ import annotations

import socket

import pytest
import requests

from celery.exceptions import Retry, SoftTimeLimitExceeded
from greenlane_work.limits import Outcome
from greenlane_work.worker.outcomes import nothing_sent, outcome_of
from greenlane_work import NotSent


def answered(status: int) -> Exception:
    response = requests.Response()
    response.status_code = status
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


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (answered(500), Outcome.FAILED),
        (answered(503), Outcome.REFUSED),
        (answered(429), Outcome.REFUSED),
        (answered(404), Outcome.OK),
        (TimeoutError(), Outcome.TIMED_OUT),
        (requests.ReadTimeout(), Outcome.TIMED_OUT),
        (requests.ConnectTimeout(), Outcome.FAILED),
        (SoftTimeLimitExceeded(), Outcome.TIMED_OUT),
        (Retry(exc=answered(503)), Outcome.REFUSED),
        (ConnectionResetError(), Outcome.FAILED),
        (ValueError("of the task's own"), Outcome.FAILED),
        (NotSent("no room"), Outcome.CANCELLED),
        (None, Outcome.FAILED),
    ],
)
def test_an_error_is_read_for_what_it_says_of_the_upstream(error: Exception | None, outcome: Outcome) -> None:
    assert outcome_of(error) is outcome


def test_only_what_certainly_reached_nobody_counts_as_not_sent() -> None:
    assert nothing_sent(unreachable())
    assert nothing_sent(NotSent())
    assert nothing_sent(requests.ConnectTimeout())
    assert nothing_sent(Retry(exc=ConnectionRefusedError()))
    assert not nothing_sent(ConnectionResetError())
    assert not nothing_sent(requests.ReadTimeout())
    assert not nothing_sent(answered(500))
