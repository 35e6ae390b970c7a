"""Waits in an open queue: requests come as they like and wait, first come first served, for one of some like servers.

    Waiting.exponential, Waiting.constant, Waiting.like, Waiting.of     by what their work is like
    shared_ms                                                           one server that all share evenly

Core counts (`theory.waiting`, `theory.fifo`); here it gets its formula. Times are ms, rates a second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools._native import OpenQueue, shared_latency
from greenlane_tools.plan import formulas
from greenlane_tools.plan.answer import Answer, Formula, Given

__all__ = ["Waiting", "lognormal_ms", "shared_ms"]

#: Work times that stand for a distribution. Twice as many change p99 by less than 1 %.
SAMPLES: Final = 2_000
#: From this dispersion of arrivals on an answer says that it does not know bursts. Poisson's own is 1, give or take.
_BURSTY: Final = 1.5
#: Above this cv² two moments do not say how several servers are waited for.
_WILD: Final = 4.5


class Waiting:
    """One queue. Every method gives an Answer; from a utilisation of 1 on waits are inf.

    Cost: with one server and sampled work up to 0.2 s, once.
    """

    def __init__(self, rate_per_s: float, servers: int, queue: OpenQueue, mean_ms: float, law: str) -> None:
        self._rate_per_s = rate_per_s
        self._servers = servers
        self._queue = queue
        self._mean_ms = mean_ms
        self._law = law

    @classmethod
    def exponential(cls, rate_per_s: float, mean_ms: float, servers: int = 1) -> Waiting:
        """M/M/k: work that varies as much as its mean."""
        rate, mean = _rate(rate_per_s), _mean(mean_ms)
        queue = OpenQueue(rate=rate / 1000, servers=_servers(servers), mean=mean)
        return cls(rate, servers, queue, mean, "exponential")

    @classmethod
    def constant(cls, rate_per_s: float, work_ms: float, servers: int = 1) -> Waiting:
        """M/D/k: all work is the same."""
        return cls.of(rate_per_s, [_mean(work_ms)], servers)

    @classmethod
    def like(cls, rate_per_s: float, mean_ms: float, cv2: float, servers: int = 1) -> Waiting:
        """M/G/k of which mean and cv² are known: lognormal work.

        Args:
            cv2: variance over the mean's square; 0 = constant.
        """
        return cls.of(rate_per_s, lognormal_ms(mean_ms, cv2), servers)

    @classmethod
    def of(cls, rate_per_s: float, times_ms: Sequence[float], servers: int = 1) -> Waiting:
        """M/G/k of sampled work, each time as likely as any other."""
        if not times_ms:
            raise _wrong("times_ms", 0, "one time at least")
        for each in times_ms:
            if not (each >= 0 and math.isfinite(each)):
                raise _wrong("times_ms", each, "finite numbers of at least 0")
        rate, mean = _rate(rate_per_s), _mean(math.fsum(times_ms) / len(times_ms))
        queue = OpenQueue(rate=rate / 1000, servers=_servers(servers), times=times_ms)
        return cls(rate, servers, queue, mean, "constant" if queue.cv2() < 1e-9 else "sampled")

    @property
    def cv2(self) -> float:
        """Variance of the work over its mean's square."""
        return self._queue.cv2()

    def busy(self) -> Answer:
        """Share of the time in which a server works; 1 and more: queues grow without end."""
        return self._answer(self._queue.utilisation(), "frac", formulas.LITTLE)

    def waits_frac(self) -> Answer:
        """Share of requests that wait at all."""
        return self._answer(min(1.0, self._queue.waits_frac()), "frac", formulas.ERLANG)

    def wait_ms(self) -> Answer:
        """Mean wait."""
        return self._answer(self._queue.wait(), "ms", self._formula())

    def latency_ms(self) -> Answer:
        """Mean wait and work."""
        return self._answer(self._queue.wait() + self._mean_ms, "ms", self._formula())

    def wait_quantile_ms(self, share: float) -> Answer:
        """The wait that a share of 1 - `share` exceeds."""
        return self._answer(self._queue.wait_quantile(_share(share)), "ms", self._tail_formula(), share)

    def quantile_ms(self, share: float) -> Answer:
        """The latency (wait and work) that a share of 1 - `share` exceeds: 0.99 is p99."""
        return self._answer(self._queue.latency_quantile(_share(share)), "ms", self._tail_formula(), share)

    def late_frac(self, limit_ms: float) -> Answer:
        """Share of latencies beyond a limit."""
        if not limit_ms >= 0:
            raise _wrong("limit_ms", limit_ms, "a number of at least 0")
        return self._answer(self._queue.latency_beyond(limit_ms), "frac", self._tail_formula())

    def _formula(self) -> Formula:
        if self._law == "exponential":
            return formulas.ERLANG
        if self._servers > 1:
            return formulas.MGK
        return formulas.MD1 if self._law == "constant" else formulas.PK

    def _tail_formula(self) -> Formula:
        if self._law == "exponential":
            return formulas.ERLANG
        return formulas.PK_TAIL if self._servers == 1 else formulas.MGK_TAIL

    def _answer(self, value: float, unit: str, formula: Formula, share: float | None = None) -> Answer:
        rho = self._queue.utilisation()
        given = [
            Given("λ", self._rate_per_s, "per_s"),
            Given("S", self._mean_ms, "ms"),
            Given("cv²", self.cv2),
            Given("k", self._servers),
            Given("ρ", rho, "frac"),
        ]
        if share is not None:
            given.append(Given("percentile", share, "frac"))
        notes = []
        if rho >= 1:
            notes.append("More comes than can be served: the queue grows as long as that lasts.")
        elif formula is formulas.MGK_TAIL and self.cv2 > _WILD:
            notes.append("Work varies more than two moments can tell: simulate it.")
        return Answer(value, unit, formula, tuple(given), tuple(notes))


def shared_ms(size_ms: float, utilisation: float) -> Answer:
    """Mean latency of a request of that size where all share one server evenly; inf from 1 on.

    Args:
        utilisation: of the server, by all requests, 0 and more.
    """
    if not (size_ms >= 0 and math.isfinite(size_ms)):
        raise _wrong("size_ms", size_ms, "a finite number of at least 0")
    if not (utilisation >= 0 and math.isfinite(utilisation)):
        raise _wrong("utilisation", utilisation, "a finite number of at least 0")
    given = (Given("x", size_ms, "ms"), Given("ρ", utilisation, "frac"))
    return Answer(shared_latency(size_ms, utilisation), "ms", formulas.SHARED, given)


def lognormal_ms(mean_ms: float, cv2: float, number: int = SAMPLES) -> list[float]:
    """Times that stand for a lognormal law: it is cut into parts of the same weight, and each gives its mean.

    Args:
        cv2: variance over the mean's square; 0 = constant. The sample's own is a little less.
    """
    if not (cv2 >= 0 and math.isfinite(cv2)):
        raise _wrong("cv2", cv2, "a finite number of at least 0")
    mean = _mean(mean_ms)
    if not cv2:
        return [mean]
    spread, normal = math.sqrt(math.log1p(cv2)), NormalDist()
    # Of all work, what is done by requests below each cut.
    below = [normal.cdf(normal.inv_cdf(place / number) - spread) for place in range(1, number)]
    return [mean * number * (upper - lower) for lower, upper in pairwise((0.0, *below, 1.0))]


def bursty(dispersion: float | None) -> str:
    """What to know where arrivals come in bursts; "" where they do not, or nothing is known.

    Args:
        dispersion: index of dispersion of the counts of a second.
    """
    if dispersion is None or dispersion < _BURSTY:
        return ""
    return (
        f"Arrivals come in bursts (their counts vary {dispersion:.2g} times as much as at random): waits in heavy load "
        f"are up to {dispersion:.2g} times as long."
    )


def _rate(value: float) -> float:
    if not (value >= 0 and math.isfinite(value)):
        raise _wrong("rate_per_s", value, "a finite number of at least 0")
    return float(value)


def _mean(value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise _wrong("mean_ms", value, "a finite number above 0")
    return float(value)


def _servers(value: int) -> int:
    if not 1 <= value <= 1_000_000:
        raise _wrong("servers", value, "a whole number from 1 to 1,000,000")
    return value


def _share(value: float) -> float:
    if not 0 <= value < 1:
        raise _wrong("share", value, "a number from 0 to 1, without 1")
    return value


def _wrong(name: str, value: object, rule: str) -> PlanError:
    return PlanError("compute a wait", name=name, value=value, rule=rule)
