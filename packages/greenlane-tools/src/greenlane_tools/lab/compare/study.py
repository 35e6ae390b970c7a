"""Every comparison of the sides, and how many there were: each is judged in the light of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from greenlane.errors import SettingsError
from greenlane.settings.refusal import nearest
from greenlane_tools.lab.compare.sources import ATTEMPT, Cell, Run, Subject, said
from greenlane_tools.lab.compare.verdicts import (
    CPU,
    FAILED,
    PERCENTILES,
    SMALLEST_FRAC,
    THROUGHPUT,
    WITHIN_DEADLINE,
    Place,
    Quantity,
    Repetitions,
    Verdict,
    Word,
    all_of,
    repetitions_of,
    verdict_of,
)
from greenlane_tools.lab.differences import Difference, Side, adjusted, difference
from greenlane_tools.lab.statistics import RESAMPLES, Interval, drawn_weights, interval, quantile

# --- What makes a comparison less than it seems; each a sentence with what to do about it.


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


_QUANTITIES: Final = (*PERCENTILES, WITHIN_DEADLINE, FAILED, THROUGHPUT)
#: Of the draws: arbitrary, and fixed, so that a comparison made twice says the same.
_SEED: Final = 1


@dataclass(frozen=True)
class Comparison:
    """One quantity of one endpoint, B against A."""

    a: str
    b: str
    place: Place
    quantity: Quantity
    a_value: Interval
    b_value: Interval
    found: Difference
    repetitions: tuple[int, int]
    paired: bool
    single: bool
    # Corrected for all comparisons of the study.
    p_adjusted: float
    verdict: Verdict


@dataclass(frozen=True)
class Study:
    """The whole."""

    subjects: Sequence[Subject]
    places: Sequence[Place]
    comparisons: Sequence[Comparison]
    # What makes it less than it seems; each a sentence.
    cautions: Sequence[str]
    smallest_frac: float

    def counted(self, word: Word) -> list[Comparison]:
        """Those with that verdict."""
        return [each for each in self.comparisons if each.verdict.word is word]


def study_of(
    subjects: Sequence[Subject], *, deadlines_ms: Mapping[str, float] | None = None, deadline_ms: float | None = None,
    smallest_frac: float = SMALLEST_FRAC,
) -> Study:  # fmt: skip
    """Compares the others with the first.

    Args:
        deadlines_ms: by endpoint, over what the sources say.
        deadline_ms: of endpoints that have none otherwise.
        smallest_frac: effects below it are "same".

    Raises:
        SettingsError: they have no endpoint in common, or none of a deadline's name.
    """
    known = {name: ms for subject in reversed(subjects) for name, ms in subject.deadlines_ms.items()}
    known |= deadlines_ms or {}
    notes: list[str] = []
    places = list(_places(subjects, known, deadline_ms, notes))
    names = dict.fromkeys(place.endpoint for place in places if not place.mixture)
    for name, ms in (deadlines_ms or {}).items():
        if name not in names:
            hint = nearest(name, names) or "name one of them"
            raise SettingsError(
                "--deadline-ms", f"{name}={ms:g}", f"one of {', '.join(names)}", hint, attempted=ATTEMPT
            )
    found = [each for place in places for each in _compared(subjects, place)]
    if not found:
        rule = "an endpoint with at least 20 requests on both sides"
        raise SettingsError("results", _listed(subjects), rule, "let the runs last longer", attempted=ATTEMPT)
    corrected = adjusted([each.found.p_value for each in found])
    judged = [_judged(each, p, len(found), smallest_frac) for each, p in zip(found, corrected, strict=True)]
    return Study(subjects, places, judged, [*notes, *cautions(subjects, places)], smallest_frac)


def _places(
    subjects: Sequence[Subject], deadlines_ms: Mapping[str, float], deadline_ms: float | None, notes: list[str]
) -> Iterator[Place]:
    with_contender = any(len(subject.contenders()) > 1 for subject in subjects)
    cells = [subject.cells(with_contender=with_contender) for subject in subjects]
    common = [cell for cell in cells[0] if all(cell in others for others in cells[1:])]
    if not common and all(len(each) == 1 for each in cells):
        names = " and ".join(said(next(iter(each))) or "no cell" for each in cells)
        notes.append(f"The cells differ ({names}): what was varied between them shows as a difference of the sides.")
        common, cells = [next(iter(cells[0]))], [{next(iter(cells[0])): next(iter(each.values()))} for each in cells]
    if not common:
        hint = "FOLDER:CONTENDER names one contender, which may then be compared with another one"
        raise SettingsError("results", _listed(subjects), "a cell that all have", hint, attempted=ATTEMPT)
    left_out = sum(len(each) - len(common) for each in cells)
    if left_out:
        notes.append(f"{left_out} cells are not on all sides and are left out.")
    if not (yielded := list(_common(subjects, cells, common, deadlines_ms, deadline_ms, notes))):
        hint = "compare results of one scenario"
        raise SettingsError("results", _listed(subjects), "an endpoint that all have", hint, attempted=ATTEMPT)
    yield from yielded


def _common(
    subjects: Sequence[Subject], cells: Sequence[Mapping[Cell, Sequence[Run]]], common: Sequence[Cell],
    deadlines_ms: Mapping[str, float], deadline_ms: float | None, notes: list[str],
) -> Iterator[Place]:  # fmt: skip
    alone: dict[str, None] = {}
    for cell in common:
        endpoints = [list(dict.fromkeys(_endpoints(each[cell]))) for each in cells]
        alone |= dict.fromkeys(name for names in endpoints for name in names if not all(name in n for n in endpoints))
        for name in endpoints[0]:
            if all(name in names for names in endpoints):
                limit = deadlines_ms.get(name, deadline_ms)
                sides = [repetitions_of(each[cell], name, limit) for each in cells]
                yield Place(cell, name, {subject.name: side for subject, side in zip(subjects, sides, strict=True)})
        wholes = {subject.name: all_of(each[cell]) for subject, each in zip(subjects, cells, strict=True)}
        known = {name: whole for name, whole in wholes.items() if whole is not None}
        if len(known) == len(subjects):
            yield Place(cell, "all", known, mixture=True)
    if alone:
        notes.append(f"Not on all sides and left out: {', '.join(alone)}.")


def _endpoints(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        present = set(np.unique(run.samples.stream).tolist())
        yield from (name for number, name in enumerate(run.samples.streams) if number in present)


def _listed(subjects: Sequence[Subject]) -> str:
    """What the sides have, for a message."""
    told = []
    for subject in subjects:
        names = list(dict.fromkeys(name for run in subject.runs for name in _endpoints([run])))
        cells = [said(cell) for cell in subject.cells(with_contender=len(subject.contenders()) > 1)]
        told.append(f"{subject.name}: {', '.join(names[:5]) or 'nothing'} ({'; '.join(cells[:3]) or 'no cell'})")
    return " / ".join(told)


def _compared(subjects: Sequence[Subject], place: Place) -> Iterator[Comparison]:
    first, *others = subjects
    for other in others:
        a, b = place.sides[first.name], place.sides[other.name]
        shared = [number for number in a.numbers if number in b.numbers]
        # Runs of one origin took turns; each repetition of it met the same machine.
        alike = len(set(a.numbers)) == len(a.numbers) and len(set(b.numbers)) == len(b.numbers)
        paired = first.origin == other.origin and alike and len(shared) >= 2
        if paired:
            a, b = a.chosen(shared), b.chosen(shared)
        yield from (
            found
            for quantity in ((CPU,) if place.mixture else _QUANTITIES)
            if (found := _one(first.name, other.name, place, quantity, a, b, paired))
        )


def _one(
    a_name: str, b_name: str, place: Place, quantity: Quantity, a: Repetitions, b: Repetitions, paired: bool
) -> Comparison | None:
    if quantity is FAILED and not a.failed and not b.failed:
        return None
    a_side = a.side(quantity, drawn_weights(len(a.parts), RESAMPLES, _SEED))
    b_side = b.side(quantity, drawn_weights(len(b.parts), RESAMPLES, _SEED if paired else _SEED + 1))
    if a_side is None or b_side is None:
        return None
    found = difference(a_side, b_side, paired=paired, scale=quantity.scale, least_error=_least_error(a, b, quantity))
    return Comparison(
        a_name, b_name, place, quantity, _interval(a_side, quantity), _interval(b_side, quantity), found,
        (a_side.repetitions, b_side.repetitions), paired, a.single or b.single, 1.0, Verdict(Word.SAME),
    )  # fmt: skip


def _least_error(a: Repetitions, b: Repetitions, quantity: Quantity) -> float:
    """Of shares that were the same in each repetition: what independent requests would leave open."""
    if quantity not in (FAILED, WITHIN_DEADLINE):
        return 0.0
    # As if one more of each kind had been seen: all of 50 is no certainty.
    return float(sum(1 / (side.offered + 2) ** 2 for side in (a, b)) ** 0.5)


def _interval(side: Side, quantity: Quantity) -> Interval:
    found = interval(side.at, side.draws, side.repetitions)
    if quantity in (FAILED, WITHIN_DEADLINE):
        return Interval(max(0.0, found.low), found.at, min(1.0, found.high))
    return found


def _judged(each: Comparison, p_adjusted: float, tests: int, smallest_frac: float) -> Comparison:
    verdict = verdict_of(
        each.quantity, each.found, p_adjusted, tests, min(each.repetitions),
        paired=each.paired, single=each.single, smallest_frac=smallest_frac,
    )  # fmt: skip
    return replace(each, p_adjusted=p_adjusted, verdict=verdict)
