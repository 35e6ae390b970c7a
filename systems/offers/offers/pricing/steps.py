"""One request's computing and asking, step by step as the table has it, with what it came to."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from offers.pricing.asking import Upstreams
from offers.pricing.request import Asked
from offers.table import Compute, Endpoint
from offers.work import MOST_MS, perform

__all__ = ["Done", "run"]


@dataclass
class Done:
    """What one request came to."""

    #: Iterations by kind of work.
    iterations: dict[str, int] = field(default_factory=dict)
    #: Upstream and how long the call took as seen here, ms, in the order asked.
    calls: list[tuple[str, float]] = field(default_factory=list)
    #: The last reply of each upstream.
    replies: dict[str, dict[str, Any]] = field(default_factory=dict)

    def headers(self) -> dict[str, str]:
        """It as response headers: counts to compare twins by, and the calls' times as this service saw them."""
        headers = {}
        if self.iterations:
            headers["x-work"] = ",".join(f"{work}={count}" for work, count in sorted(self.iterations.items()))
        if self.calls:
            headers["x-calls"] = ",".join(name for name, _ in self.calls)
            headers["server-timing"] = ", ".join(f"{name};dur={took_ms:.2f}" for name, took_ms in self.calls)
        return headers


def run(endpoint: Endpoint, asked: Asked, rates: Mapping[str, float], upstreams: Upstreams) -> Done:
    """Goes through an endpoint's steps; blocks as long as they take.

    Raises:
        UpstreamFailed: an upstream did not answer.
    """
    done = Done()
    w = asked.w * min(1.0, MOST_MS / max(endpoint.cpu_ms * asked.w, 1e-9))
    for step in endpoint.steps:
        if isinstance(step, Compute):
            count = max(1, int(step.cpu_ms * w * rates[step.work]))
            perform(step.work, count)
            done.iterations[step.work] = done.iterations.get(step.work, 0) + count
        else:
            call_id = f"{asked.id}-{len(done.calls) + 1}"
            began_ns = time.perf_counter_ns()
            done.replies[step.upstream] = upstreams.ask(step.upstream, call_id, asked.region, endpoint.name)
            done.calls.append((step.upstream, (time.perf_counter_ns() - began_ns) / 1e6))
    return done
