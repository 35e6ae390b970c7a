"""Every comparison of the sides, and how many there were: each is judged in the light of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from greenlane.errors import SettingsError
from greenlane.settings.refusal import nearest
from greenlane_tools.lab.compare.cautions import cautions
from greenlane_tools.lab.compare.repetitions import Place, Repetitions, all_of, repetitions_of
from greenlane_tools.lab.compare.sources import ATTEMPT
from greenlane_tools.lab.compare.subject import Cell, Run, Subject, said
from greenlane_tools.lab.compare.verdicts import (
    CPU,
    FAILED,
    PERCENTILES,
    SMALLEST_FRAC,
    THROUGHPUT,
    WITHIN_DEADLINE,
    Quantity,
    Verdict,
    Word,
    verdict_of,
)
from greenlane_tools.lab.differences import Difference, Side, adjusted, difference
from greenlane_tools.lab.resampling import drawn_weights
from greenlane_tools.lab.statistics import RESAMPLES, Interval, interval

__all__ = ["Comparison", "Study", "study_of"]

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
