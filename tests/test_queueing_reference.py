"""The models say what theory and the article's mechanism demand: exact values, no timing."""

from __future__ import annotations

import statistics

import pytest

from tests.reference.queueing import (
    Ties,
    fifo_loop,
    gevent_loop,
    knee,
    least_latency_ms,
    most_per_s,
    oldest_first_loop,
)


def _pieces(cpu_ms: float, network_ms: float, calls: int) -> tuple[list[float], list[float]]:
    return [cpu_ms / (calls + 1)] * (calls + 1), [network_ms / calls] * calls


def test_bounds_meet_at_the_knee() -> None:
    assert knee(5, 55) == 12
    assert knee(50, 150) == 4
    assert most_per_s(5, 55, 12) == pytest.approx(200)
    assert [most_per_s(5, 55, n) for n in (1, 5, 50)] == pytest.approx([16.667, 83.333, 200], abs=1e-3)
    assert [least_latency_ms(5, 55, n) for n in (1, 12, 13, 20, 50)] == [60, 60, 65, 100, 250]


def test_work_without_cpu_or_without_network_has_bounds_too() -> None:
    assert knee(0, 55) == float("inf")
    assert most_per_s(0, 50, 4) == pytest.approx(80)
    assert most_per_s(5, 0, 50) == pytest.approx(200)
    assert most_per_s(0, 0, 1) == float("inf")


@pytest.mark.parametrize("places", [1, 2, 5, 9, 11, 12, 13, 20, 50])
def test_one_call_in_order_of_readiness_takes_what_the_bound_says(places: int) -> None:
    model = fifo_loop(*_pieces(5, 55, 1), places)
    assert statistics.median(model.arrival_ms) == pytest.approx(least_latency_ms(5, 55, places), abs=1e-9)
    assert model.done_per_s <= most_per_s(5, 55, places) + 1e-9


@pytest.mark.parametrize(("places", "expected_ms"), [(9, 61.5), (11, 63.0), (12, 64.7), (13, 66.2), (15, 75.0)])
def test_five_calls_cost_latency_before_the_knee(places: int, expected_ms: float) -> None:
    # Which periodic order a loop without variance settles in depends on ties; the expected value lies between.
    found = [statistics.median(fifo_loop(*_pieces(5, 55, 5), places, ties=ties).arrival_ms) for ties in Ties]
    assert min(found) - 0.1 <= expected_ms <= max(found) + 0.1
    assert found == pytest.approx([expected_ms] * 2, rel=0.03)


def test_gevents_loop_shows_the_published_latency_to_a_clock_that_starts_in_the_handler() -> None:
    model = gevent_loop(*_pieces(5, 55, 1), 50)
    medians = [statistics.median(values) for values in (model.handler_ms, model.spawn_ms, model.arrival_ms)]
    assert medians == [180.0, 207.5, 247.5]  # published: 182.12
    assert model.done_per_s == pytest.approx(200)
    slow = gevent_loop(*_pieces(50, 150, 1), 5)
    assert statistics.median(slow.handler_ms) == 225.0  # published: 230.27
    assert statistics.median(slow.arrival_ms) == 250.0


@pytest.mark.parametrize(("places", "handler_ms"), [(9, 61.5), (11, 63.2), (12, 64.8), (13, 66.5)])
def test_gevents_loop_with_five_calls(places: int, handler_ms: float) -> None:
    model = gevent_loop(*_pieces(5, 55, 5), places)
    assert statistics.median(model.handler_ms) == pytest.approx(handler_ms, abs=0.05)


@pytest.mark.parametrize(("places", "per_s", "arrival_ms"), [(12, 136.4, 87.5), (16, 162, 97.5), (50, 198, 240)])
def test_oldest_first_pays_with_throughput_at_the_knee(places: int, per_s: float, arrival_ms: float) -> None:
    model = oldest_first_loop(*_pieces(5, 55, 1), places)
    assert model.done_per_s == pytest.approx(per_s, rel=0.005)
    assert statistics.median(model.arrival_ms) == pytest.approx(arrival_ms)
    assert statistics.median(model.handler_ms) <= 62.5  # who has begun hardly waits again
    assert model.done_per_s < fifo_loop(*_pieces(5, 55, 1), places).done_per_s * 1.02


@pytest.mark.parametrize("model", [fifo_loop, oldest_first_loop, gevent_loop])
@pytest.mark.parametrize(("places", "requests"), [(1, 1), (3, 2), (7, 40)])
def test_every_request_ends_once_and_no_clock_starts_before_the_one_before(model, places: int, requests: int) -> None:
    run = model(*_pieces(3, 10, 2), places, requests)
    assert len(run.arrival_ms) == requests
    for handler, spawn, arrival in zip(run.handler_ms, run.spawn_ms, run.arrival_ms, strict=True):
        assert 13 - 1e-9 <= handler <= spawn <= arrival


def test_a_request_without_network_is_one_burst() -> None:
    run = fifo_loop([5.0], [], 4, 8)
    assert run.done_per_s == pytest.approx(200)
    assert gevent_loop([5.0], [], 4, 8).done_per_s == pytest.approx(200)
