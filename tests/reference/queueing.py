"""What theory says of a closed loop of N requests that take turns on one CPU and wait for a network beside it.

    most_per_s, least_latency_ms, knee                   asymptotic bounds
    fifo_loop                                            every burst and wait exact, the CPU in order of readiness
    oldest_first_loop                                    the same, the CPU to the request that arrived first
    gevent_loop                                          the same, the CPU in the order in which gevent's loop gives it

All are pure. N = requests in progress, C = CPU per request, S = network per request; CPU bursts and waits alternate,
beginning and ending with a burst. Times are ms. None of them knows switching costs, other processes, or late timers.
"""

from __future__ import annotations

import enum
import heapq
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

# --- What theory says of one CPU in a closed loop, slow and obvious: the twin of `crates/policy/src/closed_loop.rs`.


def one_cpu(cpu: float, delay: float, number: int) -> tuple[float, float, float]:
    """(rate, latency, utilisation): mean value analysis as its paper has it."""
    queue, response, per = 0.0, float(cpu), 0.0
    for here in range(1, number + 1):
        response = cpu * (1 + queue)
        per = here / (response + delay)
        queue = per * response
    return per, response + delay, per * cpu


#: gevent looks at the clock only after this many callbacks of its list (CALLBACK_CHECK_COUNT of its loop) …
CALLBACKS: Final = 50
#: … and then leaves the rest for after a poll if this time has passed since the first (its loop's switch interval).
SWITCH_INTERVAL_MS: Final = 5.0


class Ties(enum.Enum):
    """Who goes first of two that become ready at the same instant.

    In a loop without any variance ties happen all the time, and which of several periodic orders it settles in depends
    on them: at five calls of 11 ms and N = 12 the latency is 63.0 or 64.7 ms.
    """

    NEW = "new"  # a new request before one whose network is ready
    RESUMED = "resumed"  # the other way round


@dataclass(frozen=True)
class Modelled:
    """A modelled run: latencies of its requests by the three clocks, in the order in which they ended."""

    done_per_s: float
    handler_ms: tuple[float, ...]
    spawn_ms: tuple[float, ...]
    arrival_ms: tuple[float, ...]


def most_per_s(cpu_ms: float, network_ms: float, places: int) -> float:
    """The throughput that nothing can exceed: min(N / (C+S), 1/C); `places` is N >= 1; inf without any work."""
    alone, full = cpu_ms + network_ms, cpu_ms
    return 1000 * min(places / alone if alone else math.inf, 1 / full if full else math.inf)


def least_latency_ms(cpu_ms: float, network_ms: float, places: int) -> float:
    """The mean latency that nothing can go below: max(C+S, N·C)."""
    return max(cpu_ms + network_ms, places * cpu_ms)


def knee(cpu_ms: float, network_ms: float) -> float:
    """This many requests fill the CPU if none ever waits: (C+S)/C; more only wait. inf without CPU work."""
    return (cpu_ms + network_ms) / cpu_ms if cpu_ms else math.inf


def fifo_loop(
    bursts_ms: Sequence[float], waits_ms: Sequence[float], places: int, requests: int = 500, ties: Ties = Ties.NEW
) -> Modelled:
    """A closed loop with a CPU in order of readiness: a request that ends is followed by one that queues behind all.

    All places begin at once, as a program that is started does. Exact: times are whole numbers of a common unit.

    Args:
        bursts_ms: CPU bursts of a request, one more than `waits_ms`.
        waits_ms: network waits between them.
        places: N >= 1.
        requests: this many are run in all.
        ties: see `Ties`.
    """
    bursts, waits, per_ms = _whole(bursts_ms, waits_ms)
    ready: list[tuple[int, bool, int, _Request]] = []
    run = _Run(per_ms)
    order = _numbers()

    def queue(at: int, request: _Request) -> None:
        resumed = request.stage > 0
        heapq.heappush(ready, (at, resumed if ties is Ties.NEW else not resumed, next(order), request))

    for _ in range(min(places, requests)):
        queue(0, run.request(0, 0))
    now = 0
    while ready:
        at, _, _, request = heapq.heappop(ready)
        begin = max(now, at)
        now = begin + bursts[request.stage]
        if run.burst_ends(request, begin, now, len(waits)):
            if run.started < requests:
                queue(now, run.request(now, now))
        else:
            queue(now + waits[request.stage - 1], request)
    return run.modelled(now)


def oldest_first_loop(
    bursts_ms: Sequence[float], waits_ms: Sequence[float], places: int, requests: int = 500
) -> Modelled:
    """The CPU to the ready request that arrived first, however late it became ready: the permits' order.

    A request that has begun hardly waits again, at the price of those that have not: while the old ones finish, the
    network has nothing to do. In a closed loop of constant work that costs throughput near the knee (5 and 55 ms, N =
    12: 136 a second in place of 188 to 194), and nothing beyond it.

    Arguments as `fifo_loop`.
    """
    bursts, waits, per_ms = _whole(bursts_ms, waits_ms)
    run, order = _Run(per_ms), _numbers()
    ready = [(0, next(order), run.request(0, 0)) for _ in range(min(places, requests))]
    waiting: list[tuple[int, int, _Request]] = []
    now = 0
    while ready or waiting:
        if not ready:
            now = max(now, waiting[0][0])
        while waiting and waiting[0][0] <= now:
            _, number, request = heapq.heappop(waiting)
            heapq.heappush(ready, (request.arrival, number, request))
        _, _, request = heapq.heappop(ready)
        begin, now = now, now + bursts[request.stage]
        if not run.burst_ends(request, begin, now, len(waits)):
            heapq.heappush(waiting, (now + waits[request.stage - 1], next(order), request))
        elif run.started < requests:
            heapq.heappush(ready, (now, next(order), run.request(now, now)))
    return run.modelled(now)


def gevent_loop(bursts_ms: Sequence[float], waits_ms: Sequence[float], places: int, requests: int = 500) -> Modelled:
    """`Pool(N)` on gevent's loop: all queued callbacks, then a poll, then everything whose timer has expired, in order.

    New greenlets, and the news that one has ended, are callbacks: they go before requests whose network is ready,
    however long those have been ready. Only after 50 callbacks, if 5 ms have passed, the rest waits for a poll. This is
    what lets 50 requests of 5 and 55 ms read 180 ms in their handlers while they take 250.

    Arguments as `fifo_loop`. Source: gevent's `_run_callbacks` (src/gevent/libev/corecext.pyx), `Pool` and `Semaphore`.
    """
    bursts, waits, per_ms = _whole(bursts_ms, waits_ms)
    return _GeventLoop(bursts, waits, per_ms, places, requests).run()


class _Request:
    """One request of a model; times in its unit."""

    __slots__ = ("arrival", "handler", "spawn", "stage")

    def __init__(self, arrival: int, spawn: int) -> None:
        self.arrival = arrival
        self.spawn = spawn
        self.handler = 0
        self.stage = 0


class _Run:
    """What the models share: the requests so far."""

    def __init__(self, per_ms: int) -> None:
        self.started = 0
        self._per_ms = per_ms
        self._ended: list[tuple[int, int, int]] = []

    def request(self, arrival: int, spawn: int) -> _Request:
        self.started += 1
        return _Request(arrival, spawn)

    def burst_ends(self, request: _Request, begin: int, end: int, waits: int) -> bool:
        """Notes a burst; True: it was the last one of its request."""
        if request.stage == 0:
            request.handler = begin
        request.stage += 1
        if request.stage <= waits:
            return False
        self._ended.append((end - request.handler, end - request.spawn, end - request.arrival))
        return True

    @property
    def ended(self) -> int:
        return len(self._ended)

    def modelled(self, now: int) -> Modelled:
        handler, spawn, arrival = (
            tuple(value / self._per_ms for value in column) for column in zip(*self._ended, strict=True)
        )
        per_s = 1000 * self.ended * self._per_ms / now if now else math.inf
        return Modelled(per_s, handler, spawn, arrival)


class _GeventLoop:
    """State of `gevent_loop`: timers, callbacks, the pool's semaphore and the greenlet that spawns."""

    def __init__(self, bursts: list[int], waits: list[int], per_ms: int, places: int, requests: int) -> None:
        self._bursts = bursts
        self._waits = waits
        self._run = _Run(per_ms)
        self._requests = requests
        self._interval = round(SWITCH_INTERVAL_MS * per_ms)
        self._now = 0
        self._timers: list[tuple[int, int, _Request]] = []
        self._order = _numbers()
        # ("start", request): a new greenlet; ("ended", request): its links; ("room", …): the spawner may go on.
        self._callbacks: deque[tuple[Literal["start", "ended", "room"], _Request | None]] = deque()
        self._room = places
        self._room_told = False
        # When each free place became free.
        self._free = deque([0] * places)

    def run(self) -> Modelled:
        self._spawn()
        while self._run.ended < self._requests:
            self._run_callbacks()
            self._poll()
        return self._run.modelled(self._now)

    def _spawn(self) -> None:
        while self._run.started < self._requests and self._room:
            self._room -= 1
            self._callbacks.append(("start", self._run.request(self._free.popleft(), self._now)))

    def _run_callbacks(self) -> None:
        left, began = CALLBACKS, self._now
        while self._callbacks:
            kind, request = self._callbacks.popleft()
            if kind == "start":
                assert request is not None
                self._burst(request)
            elif kind == "ended":
                self._room += 1
                if self._run.started < self._requests and not self._room_told:
                    self._room_told = True
                    self._callbacks.append(("room", None))
            else:
                self._room_told = False
                self._spawn()
            left -= 1
            if not left:
                if self._now - began >= self._interval:
                    return
                left = CALLBACKS

    def _poll(self) -> None:
        if self._timers and not self._callbacks:
            self._now = max(self._now, self._timers[0][0])
        polled = self._now  # the loop's time stands still while the batch runs
        while self._timers and self._timers[0][0] <= polled:
            self._burst(heapq.heappop(self._timers)[2])

    def _burst(self, request: _Request) -> None:
        begin = self._now
        self._now += self._bursts[request.stage]
        if self._run.burst_ends(request, begin, self._now, len(self._waits)):
            self._free.append(self._now)
            self._callbacks.append(("ended", request))
        else:
            due = self._now + self._waits[request.stage - 1]
            heapq.heappush(self._timers, (due, next(self._order), request))


def _whole(bursts_ms: Sequence[float], waits_ms: Sequence[float]) -> tuple[list[int], list[int], int]:
    """Both as whole numbers of a common unit, and how many of it make 1 ms: sums and ties are then exact."""
    exact = [Fraction(value).limit_denominator(1_000_000) for value in (*bursts_ms, *waits_ms)]
    per_ms = math.lcm(*(value.denominator for value in exact))
    whole = [int(value * per_ms) for value in exact]
    return whole[: len(bursts_ms)], whole[len(bursts_ms) :], per_ms


def _numbers() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1
