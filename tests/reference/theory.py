"""What theory says, slow and obvious: the twin of `crates/simulate/src/theory`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction


def one_cpu(cpu: float, delay: float, number: int) -> tuple[float, float, float]:
    """(rate, latency, utilisation): mean value analysis as its paper has it."""
    queue, response, per = 0.0, float(cpu), 0.0
    for here in range(1, number + 1):
        response = cpu * (1 + queue)
        per = here / (response + delay)
        queue = per * response
    return per, response + delay, per * cpu


def network(stations: Sequence[tuple[int, int]], number: int) -> tuple[Fraction, list[Fraction]]:
    """(rate, at each station), from the probability of every state: exact fractions."""

    def weight(demand: int, servers: int, here: int) -> Fraction:
        found = Fraction(1)
        for place in range(1, here + 1):
            found *= Fraction(demand, min(place, servers) if servers else place)
        return found

    def total(among: int) -> tuple[Fraction, list[Fraction]]:
        whole, at = Fraction(0), [Fraction(0)] * len(stations)
        for state in itertools.product(range(among + 1), repeat=len(stations)):
            if sum(state) == among:
                part = math.prod(
                    (weight(*station, here) for station, here in zip(stations, state, strict=True)), start=Fraction(1)
                )
                whole += part
                at = [each + part * here for each, here in zip(at, state, strict=True)]
        return whole, [each / whole for each in at]

    (fewer, _), (whole, at) = total(number - 1), total(number)
    return fewer / whole, at


def classes(kinds: Sequence[tuple[int, int, int]]) -> list[Fraction]:
    """Rates of (number, delay, demand) that share one CPU, from the probability of every state."""

    def weights(numbers: Sequence[int]) -> Fraction:
        whole = Fraction(0)
        for here in itertools.product(*(range(number + 1) for number in numbers)):
            part = Fraction(math.factorial(sum(here)))
            for number, at_cpu, (_, delay, demand) in zip(numbers, here, kinds, strict=True):
                thinking = number - at_cpu
                part *= Fraction(demand) ** at_cpu / math.factorial(at_cpu)
                part *= Fraction(delay) ** thinking / math.factorial(thinking)
            whole += part
        return whole

    numbers = [number for number, _, _ in kinds]
    whole = weights(numbers)
    return [
        weights([each - (place == index) for place, each in enumerate(numbers)]) / whole
        if numbers[index]
        else Fraction(0)
        for index in range(len(kinds))
    ]


def erlang_c(offered: Fraction, servers: int) -> Fraction:
    """As Erlang wrote it."""
    waiting = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return waiting / (sum(offered**here / math.factorial(here) for here in range(servers)) + waiting)


def constant_wait_below(utilisation: Fraction, time: Fraction) -> float:
    """P(W <= time) in M/D/1 with work of 1 (Erlang 1909; Crommelin 1932): an alternating sum, in exact fractions."""
    total = Fraction(0)
    for whole in range(math.floor(time) + 1):
        rest = utilisation * (time - whole)
        total += (-rest) ** whole / math.factorial(whole) * _exp(rest)
    return float((1 - utilisation) * total)


def _exp(value: Fraction) -> Fraction:
    """e to it, to 60 digits."""
    total, term, place = Fraction(0), Fraction(1), 0
    while term > Fraction(1, 10**60):
        total += term
        place += 1
        term = term * value / place
        term = Fraction(round(term * 10**70), 10**70)
    return total
