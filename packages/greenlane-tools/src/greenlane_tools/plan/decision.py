"""Stay, pool, shared memory, native code, or a service of its own: for work that computes beside an event loop.

An article that many have read (Avito, "How and why we switched from Python to Go", 2022) answers by a rule: rewrite
when there is much CPU, much I/O and much that must be sent. Here the question is answered with the asker's own numbers,
each way with what it costs, by formulas; the rule's answer stands beside it, and where the numbers say otherwise.

    case = Case(rate_per_s=20, cpu_ms=60, heavy_ms=50, io_ms=120, io_groups=3, moved_mb=4)
    decided(case).said()

Means only: percentiles are a simulation's. What the defaults rest on stands in `greenlane_tools.plan.costs`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from greenlane_tools.plan.amount import spelt
from greenlane_tools.plan.costs import POOL
from greenlane_tools.plan.decision_ways import LINK_FRAC, Case, Way, gbit_per_s, ways
from greenlane_tools.plan.profile import Profile, Route
from greenlane_tools.plan.route import Sequence

__all__ = ["Condition", "Decision", "case_of", "decided"]

#: A way is as good as the best one if its mean latency is within this of it. Arbitrary: less is not felt.
_AS_GOOD: Final = 1.10
#: The article gives no numbers for its three conditions; these are ours. A loop that is held so long, or is busy so
#: much of the time; I/O by CPU; and what moving the work's input costs by the work.
_MUCH_CPU_MS: Final = 20.0
_MUCH_BUSY_FRAC: Final = 0.5
_MUCH_IO_FRAC: Final = 1 / 3
_MUCH_MOVED_FRAC: Final = 0.1


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the article's three."""

    name: str
    holds: bool
    said: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and why.

    Args:
        options: all ways, the least change first.
        best: name of one of them; "" = none can be done.
        why: in a sentence.
        conditions: of the article's rule.
        rule: what the article would say.
        wrong: where it is wrong here, each a sentence.
    """

    options: tuple[Way, ...]
    best: str
    why: str
    conditions: tuple[Condition, ...]
    rule: str
    wrong: tuple[str, ...]

    def option(self, name: str) -> Way:
        """One of its options."""
        return next(each for each in self.options if each.name == name)

    def said(self) -> str:
        """All of it, a line each."""
        lines = [self.why, "", *(each.said() for each in self.options), ""]
        lines += [f"{each.name}: {'yes' if each.holds else 'no'}; {each.said}." for each in self.conditions]
        return "\n".join((*lines, f"By these three the article's rule says: {self.rule}.", *self.wrong))

    def rows(self) -> list[dict[str, object]]:
        """For `--json`: a row for each way, one for the rule."""
        ways: list[dict[str, object]] = [
            {
                "way": each.name,
                "best": each.name == self.best,
                "mean_ms": each.latency_ms if not each.why_not else None,
                "cpu_ms_per_job": each.cpu_ms,
                "moving_ms": each.moving_ms,
                "gbit_per_s": each.gbit_per_s,
                "loop_utilisation_frac": each.loop_busy_frac,
                "cores": each.cores,
                "why_not": each.why_not or None,
                "rests_on": each.rests_on,
            }
            for each in self.options
        ]
        conditions = {each.name: each.holds for each in self.conditions}
        rule: dict[str, object] = {
            "rule": self.rule,
            "conditions": conditions,
            "wrong": list(self.wrong),
            "why": self.why,
        }
        return [*ways, rule]


def decided(case: Case) -> Decision:
    """The least change whose mean latency keeps the cap, or is as good as the best. Cost: about 1 ms."""
    found = ways(case)
    can = [each for each in found if not each.why_not]
    conditions = _conditions(case, found[0])
    rule = _rule(conditions)
    best = _best(case, can)
    wrong = tuple(_wrong(found, best, conditions, case))
    return Decision(found, best.name if best else "", _why(case, best, can), conditions, rule, wrong)


def _best(case: Case, can: list[Way]) -> Way | None:
    """The least change that is good enough: options come in that order."""
    if not can:
        return None
    least_ms = min(each.latency_ms for each in can)
    enough_ms = least_ms * _AS_GOOD
    if case.cap_ms is not None and least_ms <= case.cap_ms:
        enough_ms = case.cap_ms
    return next(each for each in can if each.latency_ms <= enough_ms)


def _why(case: Case, best: Way | None, can: list[Way]) -> str:
    if best is None:
        return "None of the ways carries that load on these machines: more of them first."
    mean = spelt(best.latency_ms, "ms")
    if case.cap_ms is not None:
        kept = best.latency_ms <= case.cap_ms
        goal = f"the least change that keeps {spelt(case.cap_ms, 'ms')}" if kept else "the best there is, over the cap"
        return f"{best.name}: {best.words}. {mean} in the mean, {goal}."
    least = min(can, key=lambda each: each.latency_ms)
    beside = "" if least is best else f"; {least.name} would bring {spelt(least.latency_ms, 'ms')}, hardly more"
    return f"{best.name}: {best.words}. {mean} in the mean{beside}."


def _conditions(case: Case, stay: Way) -> tuple[Condition, ...]:
    pickle_ms = POOL.there_ms(case.moved_mb, case.result_mb) + sum(POOL.here_ms(case.moved_mb, case.result_mb))
    gbit = gbit_per_s(case.rate_per_s, case.moved_mb + case.result_mb)
    much_moved = pickle_ms >= _MUCH_MOVED_FRAC * max(case.heavy_ms, 1e-9) and pickle_ms > 0
    return (
        Condition(
            "much CPU",
            case.heavy_ms >= _MUCH_CPU_MS or stay.loop_busy_frac >= _MUCH_BUSY_FRAC,
            f"{spelt(case.heavy_ms, 'ms')} at a time, and a loop works {stay.loop_busy_frac:.0%} of the time",
        ),
        Condition(
            "much I/O",
            case.io_groups >= 1 and case.io_ms >= _MUCH_IO_FRAC * case.cpu_ms,
            f"{spelt(case.io_ms, 'ms')} in {case.io_groups} waits beside {spelt(case.cpu_ms, 'ms')} of CPU",
        ),
        Condition(
            "much to send",
            much_moved or gbit > case.link_gbit_per_s * case.machines * LINK_FRAC,
            f"{case.moved_mb + case.result_mb:.3g} MB a request, {spelt(gbit, 'gbit_per_s')}, "
            f"{spelt(pickle_ms, 'ms')} to pickle and unpickle as objects",
        ),
    )


def _rule(conditions: tuple[Condition, ...]) -> str:
    cpu, io, sends = (each.holds for each in conditions)
    if cpu and io and sends:
        return "rewrite it in Go"
    return "a process pool, and later two services" if cpu and io else "stay"


def _wrong(found: tuple[Way, ...], best: Way | None, conditions: tuple[Condition, ...], case: Case) -> Iterator[str]:
    """Where the rule, or a figure that is told with it, does not hold for this case."""
    stay, pool, shared, native, split = found
    if all(each.holds for each in conditions) and best is not None and best.name in ("stay", "shared memory", "native"):
        yield (
            f"All three conditions hold, and still nothing needs to be rewritten: {best.name} has "
            f"{spelt(best.latency_ms, 'ms')}. What was won by the rewrite is compiled code for the heavy part and "
            "data that never become Python objects; both can be had from Python."
        )
    if case.objects and pool.moving_ms > 0 and shared.moving_ms < pool.moving_ms / 5:
        yield (
            f"Much to send is not by itself a reason: as objects it costs {spelt(pool.moving_ms, 'ms')} a request to "
            f"move, as bytes in shared memory {spelt(shared.moving_ms, 'ms')}. It is the objects, not the bytes."
        )
    if conditions[0].holds and conditions[1].holds and not conditions[2].holds and pool.why_not:
        yield f"The rule says a pool, but {pool.why_not}."
    if not pool.why_not and not stay.why_not and pool.latency_ms > stay.latency_ms:
        yield "A pool would be slower than staying: what it takes off the loop it gives back by pickling there."
    if split.gbit_per_s >= 1:
        fits = "they do not fit" if split.why_not else "they fit"
        yield (
            f"Two services would send {spelt(split.gbit_per_s, 'gbit_per_s')} between them, {fits}, and need "
            f"{spelt(split.moving_ms, 'ms')} of CPU a request for {case.encoding.name}: count that before splitting."
        )
    if not native.why_not and best is not None and best.name != "native" and native.cpu_ms < best.cpu_ms / 2:
        times = best.cpu_ms / native.cpu_ms
        yield f"Native code would need {times:.1f} times less CPU than {best.name}: fewer machines."


def case_of(profile: Profile, route: str | None = None) -> Case:
    """All requests as they are mixed, or one route's; the heavy part is a request's longest stretch of CPU.

    What a profile does not know is what a request's body has: how much the heavy part needs. It is taken to be what
    comes in with the request, if that is known, and nothing else. CPU without the GIL counts as I/O.

    Raises: PlanError for a route that it has not.
    """
    chosen = profile.routes if route is None else (profile.route(route),)
    rate_per_s = math.fsum(each.rate_per_s for each in chosen)
    sampled = [part for each in chosen for part in _parts(each)]
    weight = math.fsum(share for share, _ in sampled)

    def over(of: Callable[[Route], float]) -> float:
        return math.fsum(each.rate_per_s * of(each) for each in chosen) / (rate_per_s or 1.0)

    def mean(of: Callable[[Sequence], float]) -> float:
        return math.fsum(share * of(each) for share, each in sampled) / weight

    known = [each for each in chosen if each.bytes_in is not None]
    rates = math.fsum(each.rate_per_s for each in known)
    moved = math.fsum(each.rate_per_s * (each.bytes_in or 0.0) for each in known) / rates if rates else 0.0
    burst_ms = mean(lambda each: each.ms("cpu"))
    spread = mean(lambda each: (each.ms("cpu") - burst_ms) ** 2)
    cpu_ms = over(lambda each: each.demand.cpu_ms) + profile.overhead_ms
    return Case(
        rate_per_s=rate_per_s,
        cpu_ms=cpu_ms,
        heavy_ms=min(mean(lambda each: each.longest_ms()), cpu_ms),
        io_ms=over(lambda each: each.demand.io_ms + each.demand.free_ms + each.demand.held_ms),
        io_groups=round(mean(lambda each: sum(step.kind in ("io", "held") for step in each.steps))),
        moved_mb=moved / 1e6,
        processes=profile.processes,
        cores=profile.cores,
        cv2=spread / burst_ms**2 if burst_ms else 0.0,
    )


def _parts(route: Route) -> Iterator[tuple[float, Sequence]]:
    """Its sequences, each with its part of all requests."""
    total = math.fsum(each.weight for each in route.sequences)
    for each in route.sequences:
        yield (route.rate_per_s or 1e-9) * each.weight / total, each
