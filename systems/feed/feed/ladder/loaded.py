"""Open-loop load on one subject."""

from __future__ import annotations

import hashlib
import json
import math
import random
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from feed.ladder.subject import PATIENT_MS, Subject, between
from feed.ladder.truth import Truth
from feed.service.application import DEADLINE_HEADER
from feed.site import Site
from feed.user import unknown
from feed.world.world import FIRST_USER, People
from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.environment import usable_cores
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Plan, Recorded, Stream
from greenlane_tools.lab.statistics import quantile

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


# --- The most that a variant does: answers a second when it is never idle, and while 95 of 100 come within 500 ms.


#: Requests in the service at a time when it shall never be idle: this many times what would just do if their CPU and
#: their waits took turns perfectly, between two bounds. More would only be memory.
_SPARE: Final = 3
_LEAST_AT_ONCE, _MOST_AT_ONCE = 8, 64
_RUSH_S, _MOST_REQUESTS = 3.0, 1_000
#: Halvings of [0, 1.1 of the capacity]: known to 3 % of it.
_PROBES: Final = 5
#: A percentile of fewer requests says nothing.
_LEAST_REQUESTS: Final = 40
#: So much of what there is counts as used up.
_USED_UP: Final = 0.85


def capacity(subject: Subject, users: Sequence[int], costs: Json, seed: str, told: Told) -> Json:
    """Answers a second when there are always some requests in the service.

    Args:
        costs: of a request alone, from `alone.costs`: say how many are enough.
    """
    wanted = math.ceil(_SPARE * costs["wall_ms"] / max(costs["cpu_ms"], 0.1))
    at_once = min(_MOST_AT_ONCE, max(_LEAST_AT_ONCE, wanted))
    count = round(min(_MOST_REQUESTS, max(2 * at_once, _RUSH_S * 1e3 / max(costs["cpu_ms"], 0.1))))
    plan = rush(subject.address, users, count, at_once, seed)
    found = sent(subject, plan, told, f"{subject.variant}, {count} requests in a rush")
    return {**found, "per_s": len(found["latency_ms"]) / found["done_s"]}


def most(
    subject: Subject, users: Sequence[int], rush: Json, seconds: tuple[float, float], seed: str, told: Told
) -> Json:
    """The highest rate, to 3 % of the capacity, at which p95 is within the deadline.

    Args:
        rush: what `capacity` gave.
        seconds: of one probe, at least and at most.

    Returns:
        max_per_s (0 = not even one request at a time is), bounded_by in words, and every probe.
    """
    low, high = 0.0, 1.1 * rush["per_s"]
    probes: list[Json] = []
    if not high:
        return {"max_per_s": 0.0, "bounded_by": "errors only", "probes": probes}
    for number in range(_PROBES):
        rate = (low + high) / 2
        lasting_s = min(seconds[1], max(seconds[0], _LEAST_REQUESTS / rate))
        probe = loaded(subject, users, rate, lasting_s, f"{seed}/{number}", told)
        p95_ms = _p95_ms(probe)
        fits = p95_ms <= DEADLINE_MS
        low, high = (rate, high) if fits else (low, rate)
        probes.append({"per_s": rate, "p95_ms": p95_ms, "fits": fits, "bound": bound(probe)})
    failed = [probe for probe in probes if not probe["fits"]]
    # At the lowest rate that no longer fits, something is used up.
    words = min(failed, key=lambda probe: float(probe["per_s"]))["bound"] if failed else bound(rush)
    return {"max_per_s": low, "bounded_by": words, "probes": probes}


def bound(run: Mapping[str, Any]) -> str:
    """What a run had used up, in words."""
    usage, cores = run["usage"], usable_cores()
    wall_ms = usage["seconds"] * 1e3
    loop, workers, machine = (usage[name] / wall_ms for name in ("main_ms", "workers_ms", "machine_ms"))
    there = run["processes"] - 1
    said = f"its loop {loop:.2f} of a core"
    if there and workers:
        said += f", {there} workers {workers:.2f}"
    said += f", all on the machine {machine:.2f} of {cores} cores"
    if loop >= _USED_UP:
        return f"its loop ({said})"
    if there and workers / min(there, cores) >= _USED_UP:
        return f"its workers ({said})"
    if machine / cores >= _USED_UP:
        return f"the machine's cores ({said})"
    return f"the length of single requests ({said})"


def _p95_ms(run: Json) -> float:
    """An error, or no answer, is later than anything."""
    latencies = sorted(run["latency_ms"]) + [float("inf")] * run["errors"]
    return quantile(latencies, 0.95) if latencies else float("inf")


# --- One request at a time: orders, and CPU that belongs to one request alone.


def orders(subject: Subject, users: Sequence[int], truth: Truth, told: Callable[[str], None]) -> Json:
    """Asks for each user's feed: every order is judged; its digest tells whether another variant's is
    the same."""
    judged = []
    digests: dict[str, str] = {}
    for place, user in enumerate(users):
        told(f"{subject.variant}: order of user {place + 1}/{len(users)}")
        answer = subject.feed(user, "/feed?user={}&stages=1")
        judged.append(truth.judged(user, answer["ranked"]))
        digests[str(user)] = hashlib.sha256(json.dumps(answer["ranked"]).encode()).hexdigest()[:16]
    return {
        "right": sum(one.right for one in judged),
        "of": len(judged),
        "exchanged": sum(one.exchanged for one in judged),
        "ndcg": sum(one.ndcg for one in judged) / len(judged),
        "orders": digests,
    }


def costs(subjects: Sequence[Subject], users: Sequence[int], told: Callable[[str], None]) -> dict[str, Json]:
    """Each user's feed, asked of each subject in turn: what one request costs by itself.

    Returns:
        By variant: cpu_ms, path_cpu_ms (ranking path, workers included) and wall_ms of a request; `usage` of all.
    """
    usages = {subject.variant: [0.0, 0.0, 0.0] for subject in subjects}
    for subject in subjects:
        subject.feed(users[0])
    for place, user in enumerate(users):
        told(f"one at a time: {' and '.join(usages)}: {place + 1}/{len(users)}")
        # Who is first changes: the second finds the shards' memory warm.
        for subject in subjects if place % 2 else reversed(subjects):
            before, began_s = subject.look(), time.monotonic()
            subject.feed(user)
            wall_ms = (time.monotonic() - began_s) * 1e3
            usage = between(before, subject.look())
            for part, value in enumerate((usage.main_ms + usage.workers_ms, usage.path_ms, wall_ms)):
                usages[subject.variant][part] += value / len(users)
    looking = {subject.variant: _looking_ms(subject) for subject in subjects}
    return {
        name: {"cpu_ms": max(0.0, cpu_ms - looking[name]), "path_cpu_ms": path_ms, "wall_ms": wall_ms}
        for name, (cpu_ms, path_ms, wall_ms) in usages.items()
    }


def _looking_ms(subject: Subject) -> float:
    """What a look itself costs the service between the reading of its clock and the next look's: subtracted."""
    many = 20
    looks = [subject.look() for _ in range(many + 1)]
    return (looks[-1].main_ns - looks[0].main_ns) / 1e6 / many


# --- A shard of the item store is killed under load, and comes back: does anybody wait beyond the deadline?


_SHARD: Final = 1
# Shares of the run: whole, without the shard, whole again.
_KILLED_AT, _BACK_AT = 1 / 3, 2 / 3


def outage(
    subject: Subject, site: Site, users: Sequence[int], per_s: float, seconds: float, told: Told
) -> dict[str, Any]:
    """Asks at even intervals with the service's deadline, each question in a thread of its own.

    Returns:
        asked, late (answers after the deadline), latest_ms, errors; degraded: how many answers lacked something, of
        `before`, `without` and `after` the shard; recovered_ms: from its start to the first whole answer.
    """
    shard = site.items.shards[_SHARD]
    began_s = time.monotonic()
    answers: list[tuple[float, float, bool, bool]] = []
    ended = threading.Event()

    def ask(number: int) -> None:
        due_s = began_s + number / per_s
        if ended.wait(max(0.0, due_s - time.monotonic())):
            return
        request = urllib.request.Request(
            f"http://{subject.address}/feed?user={users[number % len(users)]}&size=50",
            headers={DEADLINE_HEADER: f"{DEADLINE_MS:g}"},
        )
        whole, ok = False, True
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                whole = not json.load(response)["degraded"]
        except OSError:
            ok = False
        answers.append((due_s - began_s, (time.monotonic() - due_s) * 1e3, whole, ok))

    count = round(per_s * seconds)
    with ThreadPoolExecutor(64) as threads:
        try:
            for number in range(count):
                threads.submit(ask, number)
            _until(began_s + _KILLED_AT * seconds, told, "a shard is about to be killed")
            killed_s = time.monotonic() - began_s
            shard.kill()
            _until(began_s + _BACK_AT * seconds, told, "a shard is dead")
            shard.start()
            back_s = time.monotonic() - began_s
            _until(began_s + seconds, told, "the shard is back")
        except BaseException:
            ended.set()
            threads.shutdown(cancel_futures=True)
            raise
    return _told(answers, killed_s, back_s)


def _until(at_s: float, told: Told, doing: str) -> None:
    while (left_s := at_s - time.monotonic()) > 0:
        checkpoint()
        told(doing)
        time.sleep(min(0.2, left_s))


def _told(answers: list[tuple[float, float, bool, bool]], killed_s: float, back_s: float) -> dict[str, Any]:
    answers = sorted(answers)

    def time_of(due_s: float, ms: float) -> str:
        # Who had asked but was not answered when it died belongs to the time without it.
        return "before" if due_s + ms / 1e3 < killed_s else "without" if due_s < back_s else "after"

    lacking = Counter(time_of(due_s, ms) for due_s, ms, whole, _ in answers if not whole)
    latencies = [ms for _, ms, _, _ in answers]
    whole_again = [due_s + ms / 1e3 for due_s, ms, whole, _ in answers if whole and due_s >= back_s]
    return {
        "asked": len(answers),
        "errors": sum(not ok for *_, ok in answers),
        "late": sum(ms > DEADLINE_MS for ms in latencies),
        "latest_ms": max(latencies, default=0.0),
        "degraded": {name: lacking[name] for name in ("before", "without", "after")},
        "recovered_ms": (min(whole_again) - back_s) * 1e3 if whole_again else None,
    }
