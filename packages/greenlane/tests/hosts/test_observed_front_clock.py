"""What fronts write into X-Request-Start and X-Queue-Start, as moments of our clock."""

from __future__ import annotations

import time

import pytest

from greenlane.hosts.observed import front_clock

AT_NS = 1_700_000_000_123_456_789


@pytest.mark.parametrize(
    ("text", "exact_to_ns"),
    [
        ("t=1700000000.123456789", 1),
        ("t=1700000000.123", 10**6),
        ("1700000000.123456", 10**3),
        ("t=1700000000", 10**9),
        ("1700000000123", 10**6),
        ("t=1700000000123", 10**6),
        ("t=1700000000123.456789", 1),
        ("t=1700000000123456", 10**3),
        ("1700000000123456789", 1),
        ("  t=1700000000123456  ", 10**3),
    ],
)
def test_every_fronts_form_is_read_in_its_unit(text: str, exact_to_ns: int) -> None:
    assert front_clock.parsed_unix_ns(text) == (AT_NS // exact_to_ns * exact_to_ns, exact_to_ns)


def test_a_clock_of_whole_seconds_says_too_little() -> None:
    now_s = time.time()
    assert front_clock.arrival_ns(f"t={now_s - 2:.3f}") and front_clock.arrival_ns(f"t={now_s - 2:.6f}")
    assert front_clock.arrival_ns(f"t={now_s - 2:.0f}") == front_clock.arrival_ns(f"t={now_s - 2:.1f}") == 0


@pytest.mark.parametrize(
    "text", ["", "t=", "soon", "t=-1", "1e9", "t=1,2", "t=" + "9" * 25, "0x10", "1700000000.", "١٢"]
)
def test_any_other_form_is_none(text: str) -> None:
    assert front_clock.arrival_ns(text) == 0


def test_a_moment_of_the_past_is_that_long_ago_on_our_clock() -> None:
    told = time.time_ns() - 250_000_000
    ago_ns = time.monotonic_ns() - front_clock.arrival_ns(str(told))
    assert 250_000_000 <= ago_ns < 350_000_000


def test_a_front_whose_clock_is_a_little_ahead_means_now() -> None:
    before_ns = time.monotonic_ns()
    assert before_ns <= front_clock.arrival_ns(str(time.time_ns() + 500_000_000)) <= time.monotonic_ns()


@pytest.mark.parametrize("off_s", [-86_400, 3600])
def test_a_wrong_clock_is_not_believed(off_s: int) -> None:
    assert front_clock.arrival_ns(str(time.time_ns() + off_s * 10**9)) == 0


def test_the_first_header_that_is_there_counts() -> None:
    now_s = time.time()
    environ = {"HTTP_X_QUEUE_START": f"t={now_s - 1}", "HTTP_X_REQUEST_START": f"t={now_s - 200}"}
    assert 200 <= (time.monotonic_ns() - front_clock.environ_arrival_ns(environ)) / 1e9 < 300
    assert front_clock.environ_arrival_ns({}) == 0


@pytest.mark.parametrize(
    ("address", "believed"),
    [
        ("127.0.0.1", True), ("10.3.2.1", True), ("::1", True), ("fd00::7", True), ("", True), (None, True),
        ("::ffff:10.0.0.1", True), ("fe80::1%eth0", True),
        ("203.0.114.9", False), ("2606:4700::1", False), ("::ffff:8.8.8.8", False),
    ],
)  # fmt: skip
def test_a_clients_own_header_is_not_believed(address: str | None, believed: bool) -> None:
    told = {"HTTP_X_REQUEST_START": str(time.time_ns() - 10**9)}
    assert (front_clock.environ_arrival_ns({**told, "REMOTE_ADDR": address}) != 0) is believed
    _, clock, _ = front_clock.arrival_and_due(told, (7, "kernel"), address)
    assert clock == ("header" if believed else "kernel")
