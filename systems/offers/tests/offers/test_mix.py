"""The regions' shape, simulated: what a change to the table must not lose. mix.md has the figures of real servers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from greenlane_tools.plan.simulation import SimulatedRoute, simulate
from offers import load, table

pytestmark = pytest.mark.slow

KNOWN = table.read(table.FOLDER)
DEADLINE_MS = 500.0
# CPU around the table's: reading a request, one upstream call, answering. What gunicorn, Flask and urllib3 take.
READ_MS, CALL_MS, ANSWER_MS = 0.5, 0.6, 0.6


def steps_of(endpoint: table.Endpoint) -> list[list[Any]]:
    """CPU and calls in turn; an upstream's time is lognormal."""
    first, *rest = endpoint.phases_ms()
    steps: list[list[Any]] = [["cpu", READ_MS + first + (CALL_MS if rest else 0.0)]]
    for name, cpu_ms in zip(endpoint.calls, rest, strict=True):
        upstream = KNOWN.upstreams[name]
        sigma = math.log(upstream.p99_ms / upstream.median_ms) / 2.326
        mean_ms, cv = upstream.median_ms * math.exp(sigma**2 / 2), math.sqrt(math.expm1(sigma**2))
        steps += [["io", mean_ms, -1, "lognormal", cv], ["cpu", cpu_ms + CALL_MS]]
    steps[-1][1] += ANSWER_MS - (CALL_MS if rest else 0.0)
    return steps


def profile_of(region: str, seconds: float) -> dict[str, Any]:
    """A region's requests at their instants, each with its own factor on the CPU."""
    asked = load.with_riders(KNOWN, KNOWN.regions[region], "127.0.0.1:0", seconds, "x")
    endpoints = [KNOWN.endpoints[stream.name] for stream in asked.plan.streams]
    names = list(dict.fromkeys(one.name for one in endpoints))
    by_w = [one.work is not None and one.work.parameter == "w" for one in asked.plan.streams]
    rows = zip(asked.schedule.at_ns, asked.schedule.stream, asked.schedule.work_ms, strict=True)
    recorded = []
    for at_ns, stream, amount in rows:
        around_ms = READ_MS + ANSWER_MS + CALL_MS * len(endpoints[stream].calls)
        cpu_ms = endpoints[stream].cpu_ms
        factor = (cpu_ms * float(amount) + around_ms) / (cpu_ms + around_ms) if by_w[stream] else 1.0
        recorded.append([float(at_ns) / 1e6, names.index(endpoints[stream].name), None, factor])
    routes = [
        {"route": name, "rate_per_s": 1.0, "sequences": [{"steps": steps_of(KNOWN.endpoints[name])}]} for name in names
    ]
    return {"arrivals": {"recorded": recorded}, "routes": routes}


def offers_of(region: str, seconds: float, host: str) -> list[SimulatedRoute]:
    """What riders wait for, under one server."""
    found = simulate(profile_of(region, seconds), {"host": host})
    return [found.route(name) for name in load.OFFERS]


def missed_frac(found: list[SimulatedRoute]) -> float:
    return 1 - sum(one.within_frac(DEADLINE_MS) * one.ended for one in found) / sum(one.ended for one in found)


def test_one_loop_loses_the_hills_offers_as_in_the_article_and_permits_keep_them() -> None:
    loop, permits = (offers_of("hills", 180, host) for host in ("gevent", "permits"))
    assert missed_frac(loop) > 0.005
    for one in loop:
        assert one.percentile_ms(0.95) < 450
        assert one.percentile_ms(0.99) >= 2 * one.percentile_ms(0.95)
    assert missed_frac(permits) <= 0.0005
    assert all(one.percentile_ms(0.99) <= 1.2 * one.percentile_ms(0.95) for one in permits)
    # Beside a phase that has used its share three more compute: one offer in a thousand meets all four.
    assert all(one.percentile_ms(0.999) <= 1.8 * one.percentile_ms(0.95) for one in permits)


@pytest.mark.parametrize("region", ["north", "harbour"])
@pytest.mark.parametrize("host", ["gevent", "permits"])
def test_the_other_regions_are_well_under_both(region: str, host: str) -> None:
    found = offers_of(region, 60, host)
    assert missed_frac(found) == 0
    assert all(one.percentile_ms(0.99) < 1.7 * one.percentile_ms(0.95) for one in found)
