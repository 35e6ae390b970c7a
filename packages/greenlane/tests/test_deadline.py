"""Deadlines from headers."""

from __future__ import annotations

import pytest

from greenlane.deadline import due_ns, environ_names

NAMES = environ_names(["x-envoy-expected-rq-timeout-ms", "grpc-timeout"])


@pytest.mark.parametrize(
    ("environ", "span_ms"),
    [
        ({"HTTP_X_ENVOY_EXPECTED_RQ_TIMEOUT_MS": "250"}, 250),
        ({"HTTP_X_ENVOY_EXPECTED_RQ_TIMEOUT_MS": " 1.5 "}, 1.5),
        ({"HTTP_GRPC_TIMEOUT": "100m"}, 100),
        ({"HTTP_GRPC_TIMEOUT": "2S"}, 2000),
        ({"HTTP_GRPC_TIMEOUT": "1M"}, 60_000),
        ({"HTTP_GRPC_TIMEOUT": "1H"}, 3_600_000),
        ({"HTTP_GRPC_TIMEOUT": "5000u"}, 5),
        ({"HTTP_GRPC_TIMEOUT": "1000000n"}, 1),
        ({"HTTP_X_ENVOY_EXPECTED_RQ_TIMEOUT_MS": "9", "HTTP_GRPC_TIMEOUT": "1S"}, 9),
    ],
)
def test_the_first_header_present_counts_from_arrival(environ: dict[str, object], span_ms: float) -> None:
    assert due_ns(environ, NAMES, 1_000) == 1_000 + span_ms * 1_000_000


@pytest.mark.parametrize("value", ["", "soon", "-5", "0", "1e9", "9" * 40, "100x", "５0"])
def test_a_header_that_makes_no_sense_is_no_deadline(value: str) -> None:
    assert due_ns({"HTTP_X_ENVOY_EXPECTED_RQ_TIMEOUT_MS": value}, NAMES, 1) == 0
    assert due_ns({"HTTP_GRPC_TIMEOUT": value}, NAMES, 1) == 0


def test_a_deadline_in_a_thousand_years_fits_the_native_clock() -> None:
    assert due_ns({"HTTP_GRPC_TIMEOUT": "99999999H"}, NAMES, 1) < 2**63


def test_no_header_is_no_deadline() -> None:
    assert due_ns({}, NAMES, 1) == 0
