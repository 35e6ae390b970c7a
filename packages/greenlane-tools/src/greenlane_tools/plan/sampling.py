"""A bounded sample of requests that merges exactly: of the union of all, the 256 of the highest priority.

A request that stands for `base` requests (1 when it was recorded) gets the priority `emphasis * base / u`, u uniform in
(0, 1) and fixed by its name. The highest are kept. With the largest priority that was ever dropped as `threshold`, a
kept one stands for `max(base, threshold / emphasis)` requests: in the mean exactly its share, whatever was sampled more
eagerly. Both the choice and the weights depend on the union alone, not on the order in which parts were merged.

Emphasis follows a request's CPU and I/O, so that the tail, which decides percentiles, is in the sample often, each
standing for few.

Source: N. Duffield, C. Lund, M. Thorup, Priority sampling for estimation of arbitrary subset sums, JACM 54 (2007).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from greenlane_tools.plan.steps import Sequence

__all__ = ["MOST", "chance", "emphasised", "kept", "priority", "ranked"]

#: Sequences of a route that are kept. With 256 the p99 of one phase still rests on several.
MOST: Final = 256
#: A request is sampled at most so much more, or less, eagerly than the mean one. Arbitrary.
_MOST_EMPHASIS: Final = 20.0
_LEAST_EMPHASIS: Final = 0.5


def chance(name: str) -> float:
    """A number in (0, 1], uniform over names and always the same for one."""
    number = int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest())
    return (number + 1) / 2**64


def emphasised(cpu_ms: float, io_ms: float, mean_cpu_ms: float, mean_io_ms: float) -> float:
    """How eagerly a request is sampled, beside the mean one of its route."""
    by_cpu = cpu_ms / mean_cpu_ms if mean_cpu_ms > 0 else 1.0
    by_io = io_ms / mean_io_ms if mean_io_ms > 0 else 1.0
    return round(min(_MOST_EMPHASIS, max(_LEAST_EMPHASIS, by_cpu, by_io)), 3)


def priority(emphasis: float, base: float, name: str) -> float:
    """The rank of a request that stands for `base` ones; to six digits, which tell all apart."""
    return float(f"{emphasis * base / chance(name):.6g}")


def ranked(sequence: Sequence, name: str) -> Sequence:
    """The sequence with the priority that its name gives it; its weight is its base."""
    return replace(sequence, priority=priority(sequence.emphasis, sequence.weight, name))


def kept(sequences: Iterable[Sequence], threshold: float, most: int = MOST) -> tuple[tuple[Sequence, ...], float]:
    """The sample and its threshold; those of the highest priority first.

    Args:
        threshold: the largest priority that was dropped before; 0 = none was.
    """
    ordered = sorted(sequences, key=_order)
    dropped = max(threshold, ordered[most].priority) if len(ordered) > most else threshold
    return tuple(_weighted(each, dropped) for each in ordered[:most]), dropped


def _order(sequence: Sequence) -> tuple[float, float, tuple[tuple[str, float], ...]]:
    return -sequence.priority, sequence.emphasis, tuple((step.kind, step.ms) for step in sequence.steps)


def _weighted(sequence: Sequence, threshold: float) -> Sequence:
    weight = max(sequence.weight, threshold / sequence.emphasis)
    return sequence if weight == sequence.weight else replace(sequence, weight=weight)
