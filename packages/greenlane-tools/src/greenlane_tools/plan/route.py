"""What one request does: stretches of CPU and of I/O, in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from greenlane_tools.plan.fields import Fields

#: cpu: it computes and needs the GIL or the loop. free: it computes without the GIL. io: it is blocked until what it
#: waits for is there. held: I/O that blocks its whole loop (a driver that gevent does not patch); on threads like io.
Kind = Literal["cpu", "io", "free", "held"]
KINDS: Final[tuple[Kind, ...]] = ("cpu", "io", "free", "held")
#: An I/O step that is no upstream's: a sleep, a file, a yield.
NOBODY: Final = -1
#: A shorter stretch of CPU has the GIL all along: calls that release it for long are in the long ones.
_LONG_MS: Final = 0.25
#: Where all sequences are known their mean is the mean; else it may be this many times the exact one, or the other way
#: round. And this much is rounding.
_WHOLE_TIMES: Final = 1.02
_SAMPLE_TIMES: Final = 4.0
_NOISE_MS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch. An I/O step of 0 ms is a yield: others on the loop go first."""

    kind: Kind
    #: >= 0.
    ms: float
    #: Of I/O: index into the route's `upstreams`, or `NOBODY`.
    upstream: int = NOBODY


@dataclass(frozen=True, slots=True)
class Sequence:
    """One sampled request, and for how many it stands."""

    #: Requests, > 0; not a whole number where the sample is smaller than what it stands for.
    weight: float
    #: In the order of time; never empty.
    steps: tuple[Step, ...]

    def ms(self, *kinds: Kind) -> float:
        """Its time in steps of these kinds."""
        return sum(step.ms for step in self.steps if step.kind in kinds)

    def longest_ms(self) -> float:
        """Its longest stretch on the CPU that needs the GIL."""
        return max((step.ms for step in self.steps if step.kind == "cpu"), default=0.0)


def joined(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The same with neighbours of one kind made one; I/O stays apart where its upstreams differ or one is a yield."""
    found: list[Step] = []
    for step in steps:
        last = found[-1] if found else None
        if last is not None and _alike(last, step):
            found[-1] = Step(step.kind, last.ms + step.ms, step.upstream)
        elif step.ms > 0 or step.kind == "io":
            found.append(step)
    return tuple(found)


def _alike(one: Step, other: Step) -> bool:
    same = (one.kind, one.upstream) == (other.kind, other.upstream)
    return same and (one.kind != "io" or (one.ms > 0 and other.ms > 0))


@dataclass(frozen=True, slots=True)
class Mean:
    """A request's time by kind, mean."""

    cpu_ms: float = 0.0
    free_ms: float = 0.0
    io_ms: float = 0.0
    held_ms: float = 0.0

    def of(self, kind: Kind) -> float:
        """By the step's kind."""
        return {"cpu": self.cpu_ms, "free": self.free_ms, "io": self.io_ms, "held": self.held_ms}[kind]


@dataclass(frozen=True, slots=True)
class Route:
    """One route or task."""

    route: str
    rate_per_s: float
    sequences: tuple[Sequence, ...]
    #: Upstreams that its steps name by index.
    upstreams: tuple[str, ...] = ()
    #: From arrival. None = none known.
    deadline_ms: float | None = None
    #: That the profile saw; 0 = none: written by hand.
    requests: int = 0
    #: Over all its requests. None = the sequences say it.
    mean: Mean | None = None
    #: Its sequences are a sample, drawn with this threshold (`greenlane_tools.plan.recorded`); 0 = they are all.
    threshold: float = 0.0
    #: Share of its CPU that ran without the GIL on a loop, where that makes no difference: its steps have it as CPU.
    #: None = not known, or its steps have it.
    unlocked_frac: float | None = None

    @property
    def demand(self) -> Mean:
        """Mean time by kind: over all requests where that is known, else over the sequences."""
        return self.mean or _mean_of(self.sequences)

    def slowed(self, times: float) -> Route:
        """The same on cores that are this many times slower. I/O takes what it took."""
        sequences = tuple(
            replace(each, steps=tuple(_slowed(step, times) for step in each.steps)) for each in self.sequences
        )
        mean = self.mean and replace(self.mean, cpu_ms=self.mean.cpu_ms * times, free_ms=self.mean.free_ms * times)
        return replace(self, sequences=sequences, mean=mean)


def _slowed(step: Step, times: float) -> Step:
    return replace(step, ms=step.ms * times) if step.kind in ("cpu", "free") else step


def _mean_of(sequences: Iterable[Sequence]) -> Mean:
    """Their mean by weight, in one pass: a plan asks for it for each of its cells."""
    weights, parts = [], {kind: [0.0] for kind in KINDS}
    for each in sequences:
        weights.append(each.weight)
        for step in each.steps:
            parts[step.kind].append(each.weight * step.ms)
    total = math.fsum(weights)
    means = {kind: math.fsum(parts[kind]) / total if total else 0.0 for kind in KINDS}
    return Mean(cpu_ms=means["cpu"], free_ms=means["free"], io_ms=means["io"], held_ms=means["held"])


def weighted(route: Route, of: Callable[[Sequence], float]) -> float:
    """The mean over a route's sequences by their weights."""
    total = math.fsum(each.weight for each in route.sequences)
    return math.fsum(each.weight * of(each) for each in route.sequences) / total if total else 0.0


def route_of(fields: Fields) -> Route:
    """A route from its table; PlanError for what is missing, out of range or contradictory."""
    name, upstreams = fields.text("route"), fields.texts("upstreams")
    sequences = tuple(_sequence(each, len(upstreams)) for each in fields.tables("sequences"))
    if not sequences:
        hint = 'sequences = [{ weight = 1, steps = [["cpu", 5], ["io", 55], ["cpu", 1]] }]'
        raise fields.error("sequences", None, "at least one", hint)
    mean = fields.table("mean") if fields.has("mean") else None
    found = Route(
        route=name,
        rate_per_s=fields.number("rate_per_s"),
        sequences=sequences,
        upstreams=upstreams,
        deadline_ms=fields.perhaps("deadline_ms", open_=True),
        requests=fields.whole("requests", 0),
        mean=_mean(mean) if mean else None,
        threshold=fields.number("threshold", 0.0),
        unlocked_frac=fields.perhaps("unlocked_frac", most=1.0),
    )
    fields.end()
    _check_mean(found, fields)
    return found


def _sequence(fields: Fields, upstreams: int) -> Sequence:
    steps = joined(_step(fields, each, upstreams) for each in fields.items("steps"))
    if not steps:
        raise fields.error("steps", None, "at least one step with time in it", 'steps = [["cpu", 5], ["io", 55]]')
    weight = fields.number("weight", 1.0, open_=True)
    fields.end()
    return Sequence(weight, steps)


def _step(fields: Fields, step: object, upstreams: int) -> Step:
    rule = '["cpu", ms], ["free", ms], ["io", ms] or ["io", ms, index of the route\'s upstreams]'
    if not isinstance(step, list) or not 2 <= len(step) <= 3 or step[0] not in KINDS:
        raise fields.error("steps", step, rule)
    kind, ms, *rest = step
    upstream = rest[0] if rest else NOBODY
    if isinstance(ms, bool) or not isinstance(ms, int | float) or not 0 <= ms < math.inf:
        raise fields.error("steps", step, f"{rule}, ms a number of at least 0")
    if isinstance(upstream, bool) or not isinstance(upstream, int) or not NOBODY <= upstream < upstreams:
        raise fields.error("steps", step, f"an index below {upstreams}: the route names {upstreams} upstreams")
    if kind not in ("io", "held") and upstream != NOBODY:
        raise fields.error("steps", step, "no upstream: only I/O has one")
    return Step(kind, float(ms), upstream)


def _mean(fields: Fields) -> Mean:
    found = Mean(**{f"{kind}_ms": fields.number(f"{kind}_ms", 0.0) for kind in KINDS})
    fields.end()
    return found


def simulated_route(
    route: Route, held: Kind, overhead_ms: float, free: Kind = "free", *, unlocked: bool = False
) -> Route:
    """With exact means, `held` and `free` as the kinds that they are where it is to run, overhead before all.

    Args:
        unlocked: what of its CPU a loop was seen to compute without the GIL is `free`.
    """
    exact = route.demand
    sampled = exact if route.mean is None else replace(route, mean=None).demand
    factors = {kind: exact.of(kind) / sampled.of(kind) if sampled.of(kind) > 0 else 1.0 for kind in KINDS}
    kinds: Mapping[Kind, Kind] = {"held": held, "free": free}
    unlocked_frac = (route.unlocked_frac or 0.0) if unlocked else 0.0
    sequences = tuple(_resolved(each, factors, kinds, overhead_ms, unlocked_frac) for each in route.sequences)
    return replace(route, sequences=sequences, mean=None, unlocked_frac=None)


def _resolved(
    sequence: Sequence, factors: Mapping[Kind, float], kinds: Mapping[Kind, Kind], overhead_ms: float, unlocked: float
) -> Sequence:
    steps = [Step("cpu", overhead_ms)] if overhead_ms else []
    for step in sequence.steps:
        kind = kinds.get(step.kind, step.kind)
        upstream = step.upstream if kind in ("io", "held") else NOBODY
        ms = step.ms * factors[step.kind]
        if step.kind == "cpu" and unlocked and ms >= _LONG_MS:
            # What it needs for its answer it computes afterwards, with the GIL again.
            around = Step("cpu", ms * (1 - unlocked) / 2)
            steps += [around, Step("free", ms * unlocked), around]
        else:
            steps.append(Step(kind, ms, upstream))
    return replace(sequence, steps=joined(steps))


def route_json(route: Route) -> dict[str, object]:
    """For the file."""
    table: dict[str, object] = {
        "route": route.route,
        "rate_per_s": route.rate_per_s,
        "requests": route.requests,
        "deadline_ms": route.deadline_ms,
        "upstreams": list(route.upstreams),
    }
    if route.mean is not None:
        table["mean"] = {f"{kind}_ms": route.mean.of(kind) for kind in KINDS}
    if route.unlocked_frac is not None:
        table["unlocked_frac"] = route.unlocked_frac
    if route.threshold:
        table["threshold"] = route.threshold
    table["sequences"] = [_sequence_json(each) for each in route.sequences]
    return table


def _sequence_json(sequence: Sequence) -> dict[str, object]:
    return {"weight": sequence.weight, "steps": [_step_json(step) for step in sequence.steps]}


def _step_json(step: Step) -> list[object]:
    pair: list[object] = [step.kind, rounded(step.ms)]
    return pair if step.upstream == NOBODY else [*pair, step.upstream]


def rounded(ms: float) -> float:
    """To 10 ns: what is below is noise, and would be half of the file."""
    return round(ms, 5)


def _check_mean(route: Route, fields: Fields) -> None:
    """All requests have the mean of the sequences when those are all of them; else they are a sample, near it."""
    if route.mean is None:
        return
    sampled = replace(route, mean=None).demand
    for kind in KINDS:
        exact, found = route.mean.of(kind), sampled.of(kind)
        times = _SAMPLE_TIMES if route.threshold else _WHOLE_TIMES
        if max(exact, found) > times * min(exact, found) + _NOISE_MS:
            rule = f"near what its sequences have in the mean, {found:.4g}"
            raise fields.error(f"mean.{kind}_ms", exact, rule, "make the profile again, or leave `mean` out")
