"""The upstream's own clock, as the reply's headers say it: what counts, and what does not."""

from __future__ import annotations

import pytest

from greenlane.probes.calls.http import own_ns


class Reply:
    def __init__(self, **headers: str) -> None:
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("timing", "ms"),
    [
        ("total;dur=110.2", 110.2),
        ("db;dur=5, total;dur=7", 7),
        ('total;desc="all, of it; dur=1";dur=12.5', 12.5),
        ('db;desc=", total;dur=9", total;dur=2', 2),
        ('TOTAL ; dur="3"', 3),
        # Parts are not the whole, and nothing is no clock.
        ("subtotal;dur=4", 0),
        ("db;dur=5", 0),
        ("total", 0),
        ("total;dur=-4", 0),
        ("total;dur=0", 0),
        ("total;dur=99999999999", 0),
    ],
)
def test_the_metric_total_of_server_timing_counts(timing: str, ms: float) -> None:
    assert own_ns(Reply(server_timing=timing)) == round(ms * 1e6)


def test_envoys_header_counts_where_the_upstream_itself_says_nothing() -> None:
    assert own_ns(Reply(x_envoy_upstream_service_time="15")) == 15_000_000
    assert own_ns(Reply(x_envoy_upstream_service_time="15", server_timing="db;dur=3")) == 15_000_000
    assert own_ns(Reply(x_envoy_upstream_service_time="15", server_timing="total;dur=14.9")) == 14_900_000


@pytest.mark.parametrize("reply", [None, Reply(), Reply(x_envoy_upstream_service_time="soon"), object()])
def test_what_is_no_clock_is_none_and_no_error(reply: object) -> None:
    assert own_ns(reply) == 0
