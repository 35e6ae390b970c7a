"""What theory says of queues, in units of the mean service: the expected values of the simulator's self-test."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["md1_mean", "md1_quantile", "mm1_mean", "mm1_quantile", "mmk_mean", "mmk_quantile", "ps_mean"]


def mm1_mean(load: float) -> float:
    """Mean time in M/M/1: 1 / (1 - load)."""
    return 1 / (1 - load)


def mm1_quantile(load: float, frac: float) -> float:
    """Time in M/M/1 is exponential, too."""
    return -math.log(1 - frac) / (1 - load)


def md1_mean(load: float) -> float:
    """Mean time in M/D/1: Pollaczek and Khinchine."""
    return 1 + load / (2 * (1 - load))


def md1_quantile(load: float, frac: float) -> float:
    """A high quantile of the time in M/D/1, by the exponential tail of the wait; within 1e-4 from 0.9 on.

    P(wait > t) = C e^(-xt) with load (e^x - 1) = x and C = (1 - load) / (load e^x - 1): W. Feller, An Introduction to
    Probability Theory and Its Applications II (1971), XI.6 and XII.5.
    """
    decay = _root(lambda x: load * math.expm1(x) - x, 1e-9 + (1 - load) / 2, 50.0)
    constant = (1 - load) / (load * math.exp(decay) - 1)
    return 1 + math.log(constant / (1 - frac)) / decay


def mmk_mean(servers: int, load: float) -> float:
    """Mean time in M/M/k, by Erlang's C."""
    return 1 + _waits(servers, load) / (servers * (1 - load))


def mmk_quantile(servers: int, load: float, frac: float) -> float:
    """A quantile of the time in M/M/k: a wait (exponential with probability C, else none) and a service."""
    waits, rate = _waits(servers, load), servers * (1 - load)

    def beyond(t: float) -> float:
        service = math.exp(-t)
        both = (rate * service - math.exp(-rate * t)) / (rate - 1) if rate != 1 else (1 + t) * service
        return (1 - waits) * service + waits * both

    return _root(lambda t: (1 - frac) - beyond(t), 0.0, 1e4)


def ps_mean(load: float) -> float:
    """Mean time in M/G/1 with processor sharing: that of M/M/1, whatever the law."""
    return 1 / (1 - load)


def _waits(servers: int, load: float) -> float:
    """Erlang's C: the part of customers that wait."""
    blocked, offered = 1.0, servers * load
    for server in range(1, servers + 1):
        blocked = offered * blocked / (server + offered * blocked)
    return blocked / (1 - load * (1 - blocked))


def _root(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that is below 0 first and above it then crosses."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle) < 0 else (low, middle)
    return high
