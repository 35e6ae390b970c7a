"""What makes a comparison less than it seems; each a sentence with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from greenlane_tools.lab.compare.repetitions import Place
from greenlane_tools.lab.compare.subject import Subject
from greenlane_tools.lab.statistics import quantile

__all__ = ["cautions"]

#: Requests that left later than this after they were due, in ms at p99: arbitrary, a tenth of a usual latency.
_LATE_MS: Final = 5.0
#: A machine with this many waiting threads for each core, before the run began, was not quiet.
_LOADED: Final = 0.5
#: Cores: below it what others took does not move percentiles visibly.
_OTHERS: Final = 0.15
#: Offered rates that differ by more are other loads.
_RATES: Final = 0.05
#: Environment that differs from run to run by nature.
_PASSING: Final = frozenset(
    {"load_average_1min", "worker", "pid", "title", "started", "time", "argv", "python_executable"}
)


def cautions(subjects: Sequence[Subject], places: Sequence[Place]) -> list[str]:
    """In order of weight."""
    return [
        *_environments(subjects),
        *_single(places),
        *_few(places),
        *_rates(places),
        *_together(_late(subjects)),
        *_together(_loaded(subjects)),
        *_failed(places),
        *_together((subject.name, note) for subject in _origins(subjects) for note in subject.notes),
    ]


def _origins(subjects: Sequence[Subject]) -> list[Subject]:
    return list({subject.origin: subject for subject in reversed(subjects)}.values())[::-1]


def _environments(subjects: Sequence[Subject]) -> Iterator[str]:
    first, *others = subjects
    for other in others:
        if first.origin == other.origin:
            continue
        if not first.environment or not other.environment:
            silent = " and ".join(each.name for each in (first, other) if not each.environment)
            yield f"Nothing says on what machine {silent} ran: it may be what differs."
            continue
        found = list(_differing(first.environment, other.environment))
        if found:
            yield f"{first.name} and {other.name} ran in different environments: {'; '.join(found)}."
        yield (
            f"{first.name} and {other.name} did not take turns: what the machine did meanwhile shows as a difference. "
            "One `greenlane lab run` with both as contenders interleaves them."
        )


def _differing(a: Mapping[str, object], b: Mapping[str, object], before: str = "") -> Iterator[str]:
    for name in dict.fromkeys([*a, *b]):
        one, other = a.get(name), b.get(name)
        if name in _PASSING or one == other:
            continue
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _differing(one, other, f"{before}{name} ")
        else:
            yield f"{before}{name} {_shown(one)} and {_shown(other)}"


def _shown(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _single(places: Sequence[Place]) -> Iterator[str]:
    names = list(dict.fromkeys(name for place in places for name, side in place.sides.items() if side.single))
    if names:
        yield (
            f"One run alone of {', '.join(names)}: intervals come from stretches of it and cannot say how runs differ "
            "from each other. Repeat it, 5 times or more."
        )


def _few(places: Sequence[Place]) -> Iterator[str]:
    fewest = min((len(side.parts) for place in places for side in place.sides.values() if not side.single), default=9)
    if 1 < fewest < 5:
        yield f"{fewest} repetitions: intervals are wide, because so few say little of how runs differ. Take 5 or more."


def _rates(places: Sequence[Place]) -> Iterator[str]:
    for place in places:
        if place.mixture:
            continue
        rates = {name: side.offered / sum(side.seconds) for name, side in place.sides.items() if side.parts}
        (first, rate), *others = rates.items()
        for name, other in others:
            if abs(other / rate - 1) > _RATES:
                yield (
                    f"{place.name}: {first} was offered {rate:.4g} requests per s, {name} {other:.4g}: "
                    "these are different loads."
                )
                return


def _late(subjects: Sequence[Subject]) -> Iterator[tuple[str, str]]:
    for subject in subjects:
        if told := next((run.late for run in subject.runs if run.late), ""):
            yield subject.name, told
            continue
        if any(run.seconds is not None for run in subject.runs):
            continue  # its generator watches itself, and tells a late one from a service that does not take connections
        lags = [(run.samples.sent_ns - run.samples.scheduled_ns)[run.samples.sent_ns > 0] / 1e6 for run in subject.runs]
        lag = np.sort(np.concatenate(lags)) if lags else np.empty(0)
        if len(lag) and quantile(lag, 0.99) > _LATE_MS:
            yield (
                subject.name,
                f"requests left {quantile(lag, 0.99):.0f} ms late at p99: the load generator was saturated, or no "
                "connection could be made. Lower the rate, or give the generator a core of its own.",
            )


def _loaded(subjects: Sequence[Subject]) -> Iterator[tuple[str, str]]:
    for subject in _origins(subjects):
        load, cores = subject.environment.get("load_average_1min"), subject.environment.get("cores")
        if isinstance(load, int | float) and isinstance(cores, int) and load > _LOADED * cores:
            yield (
                subject.name,
                f"the machine had a load of {load:.1f} on {cores} cores when it began: run it again on a quiet one.",
            )
    for subject in subjects:
        others = [run.others_cores for run in subject.runs]
        if others and sum(others) / len(others) > _OTHERS:
            yield subject.name, f"other processes took {sum(others) / len(others):.1f} cores while it ran."


def _together(found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Remarks that several sides share, once."""
    names: dict[str, list[str]] = {}
    for name, told in found:
        names.setdefault(told, []).append(name)
    for told, which in names.items():
        yield f"{' and '.join(which)}: {told}"


def _failed(places: Sequence[Place]) -> Iterator[str]:
    for place in places:
        failed = {name: side.failed / side.offered for name, side in place.sides.items() if side.offered}
        if failed and max(failed.values()) > 0.01:
            told = ", ".join(f"{frac * 100:.2g} % of {name}" for name, frac in failed.items())
            yield f"{place.name}: {told} had no good answer; percentiles are of the others and of those given up."
            return
