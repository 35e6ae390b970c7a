"""How much of the tail is due to when a balancer chooses: the table of docs/scaling.md, computed.

    python -m bench.queue_choice

Exponential arrivals and service times, 16 processes at 0.9 of their capacity, first come first served in each queue.
A simulation with a fixed seed: it prints the same on each machine. Some 20 s.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable

PROCESSES = 16
UTILISATION = 0.9
REQUESTS = 1_000_000
SEED = 7


def p99(choose: Callable[[list[int], random.Random, int], int], queues: int) -> float:
    """The p99 of the latency in mean service times. `choose`: the index of a queue, given the lengths of all."""
    draw = random.Random(SEED)
    slots = PROCESSES // queues
    waiting: list[deque[float]] = [deque() for _ in range(queues)]
    present = [0] * queues
    ends: list[tuple[float, int, float]] = []  # when a request ends, in which queue, and when it arrived
    latencies: list[float] = []
    now = 0.0

    def end() -> None:
        at, queue, arrived = heapq.heappop(ends)
        latencies.append(at - arrived)
        present[queue] -= 1
        if waiting[queue]:
            heapq.heappush(ends, (at + draw.expovariate(1), queue, waiting[queue].popleft()))

    for number in range(REQUESTS):
        now += draw.expovariate(PROCESSES * UTILISATION)
        while ends and ends[0][0] <= now:
            end()
        queue = choose(present, draw, number)
        present[queue] += 1
        if present[queue] <= slots:
            heapq.heappush(ends, (now + draw.expovariate(1), queue, now))
        else:
            waiting[queue].append(now)
    while ends:
        end()
    latencies.sort()
    return latencies[len(latencies) * 99 // 100]


def shortest(present: list[int], draw: random.Random, _: int) -> int:
    """Of several equally short ones, any."""
    least = min(present)
    return draw.choice([queue for queue, requests in enumerate(present) if requests == least])


def shorter_of_two(present: list[int], draw: random.Random, _: int) -> int:
    """Two at random, then the shorter one."""
    return min(draw.sample(range(len(present)), 2), key=present.__getitem__)


def main() -> None:
    """Prints one line a way to choose."""
    print(f"{p99(lambda present, draw, _: draw.randrange(len(present)), PROCESSES):6.1f}  at random")
    print(f"{p99(lambda present, _, number: number % len(present), PROCESSES):6.1f}  round robin")
    print(f"{p99(shorter_of_two, PROCESSES):6.1f}  the better of two at random")
    print(f"{p99(shortest, PROCESSES):6.1f}  least requests")
    print(f"{p99(lambda *_: 0, 1):6.1f}  one queue")


if __name__ == "__main__":
    main()
