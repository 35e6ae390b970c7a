"""Open-loop load on one subject."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from feed.service.application import DEADLINE_HEADER
from feed.user import unknown
from feed.world.people import FIRST_USER, People
from greenlane_tools.lab.interruption import checkpoint
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Plan, Recorded, Stream

from .subject import PATIENT_MS, Subject, between

Json = dict[str, Any]
Told = Callable[[str], None]
DEADLINE_MS: Final = 500.0


def loaded(subject: Subject, users: Sequence[int], per_s: float, seconds: float, seed: str, told: Told) -> Json:
    """A cell, or one repetition of it.

    Returns:
        What `sent` does, and per_s, seconds.
    """
    label = f"{subject.variant} at {per_s:.3g}/s"
    found = sent(subject, plan(subject.address, users, per_s, seconds, seed), told, label)
    return {**found, "per_s": per_s, "planned_s": seconds}


def sent(subject: Subject, plan: Plan, told: Told, label: str) -> Json:
    """Sends a plan and waits for its answers.

    Returns:
        latency_ms from the due instant, by request; errors; done_s: from the run's start to the last answer; `usage`
        (subject.Usage) over all the run; pss_mb at its end; warning of the generator.
    """

    def progress(sent: int, over: int) -> None:
        checkpoint()
        told(f"{label}: {sent} sent, {over} answered")

    before = subject.look()
    generated = generate(plan, progress=progress)
    after = subject.look()
    samples = generated.samples
    good = (samples.status >= 200) & (samples.status < 300)
    return {
        "latency_ms": [round(one, 3) for one in samples.latency_ms()[good].tolist()],
        "scheduled_ms": [round(one / 1e6, 3) for one in samples.scheduled_ns[good].tolist()],
        "errors": int((~good).sum()),
        "done_s": float(samples.done_ns.max()) / 1e9,
        "usage": between(before, after).plain(),
        "pss_mb": subject.pss_mb(),
        "processes": len(subject.pids()),
        "warning": generated.warning(),
    }


# --- Who asks, and when: the same for every variant.

# One of this many is a very active user with up to 11,000 candidates. In the world it is 1 in 20, which is just where
# a 95th percentile of few requests would tell either of the two kinds, by chance.
_ACTIVE_ONE_IN = 25
# An answer that has not come by then is lost.
_TIMEOUT_S = 30.0


def asking(people: People, many: int, of: int) -> list[int]:
    """Users who have a history, the very active ones spread among them.

    Args:
        many: this many.
        of: users 1 to this number are in the history store.
    """
    wanted = [place % _ACTIVE_ONE_IN == _ACTIVE_ONE_IN // 2 for place in range(many)]
    waiting: dict[bool, list[int]] = {True: [], False: []}
    for number in range(FIRST_USER, of + 1):
        if all(len(waiting[active]) >= wanted.count(active) for active in waiting):
            break
        user = people.user(number)
        if user != unknown(number):
            waiting[user.active].append(number)
    # Where there are too few of one kind, the other kind stands in.
    spare = sorted(waiting[True][wanted.count(True) :] + waiting[False][wanted.count(False) :])
    found = [(waiting[active] or spare or [0]).pop(0) for active in wanted]
    return [number for number in found if number]


def in_turn(users: Sequence[int], source: random.Random) -> Iterator[int]:
    """The users, shuffled, again and again: a caller that asks n times gets each n / len(users) times."""
    while True:
        yield from source.sample(users, len(users))


def plan(address: str, users: Sequence[int], per_s: float, seconds: float, seed: str) -> Plan:
    """Independent arrivals (Poisson, given their number), users in turn."""
    source = random.Random(f"{seed}/{per_s:.6g}/{seconds:.6g}")
    count = max(1, round(per_s * seconds))
    times = sorted(round(source.random() * seconds * 1e9) for _ in range(count))
    return Plan(seed, seconds, _streams(address, users, times, source))


def rush(address: str, users: Sequence[int], count: int, at_once: int, seed: str) -> Plan:
    """This many requests as fast as `at_once` connections carry them: what a service can do at most."""
    source = random.Random(seed)
    return Plan(seed, 1.0, _streams(address, users, [0] * count, source, at_once))


def _streams(
    address: str, users: Sequence[int], times: Sequence[int], source: random.Random, most: int = 0
) -> tuple[Stream, ...]:
    by_user: dict[int, list[int]] = {}
    for at_ns, user in zip(times, in_turn(users, source), strict=False):
        by_user.setdefault(user, []).append(at_ns)
    return tuple(
        Stream(
            f"user {user}", address, Recorded(tuple(at_ns)), path=f"/feed?user={user}",
            headers={DEADLINE_HEADER: f"{PATIENT_MS:g}"}, connections="keep-alive", most_connections=most,
            timeout_s=_TIMEOUT_S,
        )
        for user, at_ns in sorted(by_user.items())
    )  # fmt: skip
