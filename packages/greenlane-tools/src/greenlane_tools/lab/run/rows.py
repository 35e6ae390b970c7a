"""One row per cell: contender × class × level, pooled over its repetitions; by phase too when there are several.

The names are those of every table, plot and `--json` of Greenlane. Unless said otherwise None = does not apply.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from greenlane_tools.lab.run.faults import Done
from greenlane_tools.lab.samples import UNANSWERED, Samples
from greenlane_tools.lab.scenario.scenario import Level, Scenario
from greenlane_tools.lab.statistics import quantile, wilson

# --- A run that was made: its requests and what was measured around them.


@dataclass(frozen=True)
class Closed:
    """What a closed-loop tool said of a contender; None = it does not say that."""

    tool: str
    seconds: float
    requests: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class Run:
    """What one contender did in one repetition at one level."""

    turn: Turn
    # Duration of the load, without the drain.
    seconds: float
    samples: Samples
    # User + system time of the contender's processes, load and drain.
    cpu_ms: float
    # Time in which it was spent: the load and the drain.
    wall_s: float
    # Of the same processes, at the end of the run.
    pss_mb: float
    # Cores that processes which are no part of the comparison took meanwhile.
    others_cores: float = 0.0
    # By how much the generator itself came late, p99 over requests whose connection was there.
    lag_p99_ms: float = 0.0
    # What the generator says of a schedule that it did not keep; "" = it kept it.
    late: str = ""
    # When its load began, by the monotonic clock; 0 = not known.
    began_ns: int = 0
    # What a loop of fixed work took meanwhile, mean: how fast the cores were; 0 = not known.
    loop_ns: float = 0.0
    # By how much the wall clock was set meanwhile.
    clock_step_ms: float = 0.0
    faults: tuple[Done, ...] = ()
    # Services whose process had exited at the end, and their last words.
    dead: tuple[str, ...] = ()
    said: str = ""
    contrast: tuple[Closed, ...] = field(default=())


# --- Runs to make: contender × level × repetition, in the order that lets a drift of the machine meet all alike.


@dataclass(frozen=True)
class Turn:
    """One run to make, or made."""

    contender: str
    level: Level
    repetition: int

    @property
    def label(self) -> str:
        """Its file's name, and its name in messages."""
        return f"{self.contender}-{self.level.label}-{self.repetition}"

    def key(self) -> dict[str, str | int | float]:
        """Columns in front of its samples. Without a utilisation that column is 0."""
        return {
            "contender": self.contender,
            "cell": f"{self.contender}-{self.level.label}",
            "utilisation_frac": self.level.utilisation_frac or 0.0,
            "rate_factor": self.level.rate_factor,
            "repetition": self.repetition,
        }


def turns(scenario: Scenario, contenders: Sequence[str]) -> Iterator[Turn]:
    """Every run in order: contenders change fastest; their order changes with the repetition."""
    for repetition in range(scenario.repetitions):
        for level in scenario.levels():
            for contender in rotate(contenders, repetition):
                yield Turn(contender, level, repetition)


# --- Who goes first: contenders take turns over repetitions, so that none has the machine's better hour.

T = TypeVar("T")


def rotate(contenders: Sequence[T], repetition: int) -> list[T]:
    """Their order in one repetition: everybody is first once in as many as there are."""
    at = repetition % len(contenders)
    return [*contenders[at:], *contenders[:at]]


# A percentile further out than its samples carry is not printed.
_SAMPLES_FOR_P999: Final = 10_000
#: An answer up to this long after the load's end still counts as done at its rate: a request of 300 ms that was sent
#: just before the end is no backlog.
GRACE_S: Final = 1.0
ALL: Final = "all"
CLIENT: Final = "client"


@dataclass(frozen=True)
class Row:
    """One cell."""

    contender: str
    # "all" = every class; its percentiles are None, since a mixture's mean nothing.
    endpoint: str
    # "client" = from the scheduled send to the end of the answer; else the closed-loop tool whose figures these are.
    stage: str
    # The class's word, or "all".
    lane: str
    # "all" = the counted phases together.
    phase: str
    utilisation_frac: float | None
    rate_factor: float
    offered_per_s: float
    # Answered with 2xx until at most a second after the phase's end.
    done_per_s: float
    # Of all requests offered, failed ones included; with its 95 % Wilson interval.
    within_deadline_frac: float | None
    within_deadline_low_frac: float | None
    within_deadline_high_frac: float | None
    # Of requests answered with 2xx, and unanswered ones at the time they were given up.
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    # None below 10,000 samples.
    p999_ms: float | None
    # Latencies that the percentiles stand on.
    samples: int
    # All jobs of the contender at this level, all its processes, all phases; the same in each row of a cell.
    cpu_ms_per_job: float | None
    # Of one core, measured, load and drain; processes add up.
    cpu_utilisation_frac: float | None
    pss_mb: float | None
    # Answers other than 2xx, and connections that failed.
    errors: int
    # Requests without a complete answer when they were given up.
    lost: int
    # Of task systems; always None here.
    effects_doubled: None = None
    calls_repeated: None = None
    # Of the requests that the percentiles stand on; None of all classes together, and of closed-loop tools.
    mean_ms: float | None = None

    @property
    def level(self) -> Level:
        """How much load."""
        return Level(self.utilisation_frac, self.rate_factor)


def pooled(scenario: Scenario, runs: Iterable[Run]) -> list[Row]:
    """Rows of all runs: by level, contender in order of appearance, phase, class; closed-loop tools last."""
    found: list[Row] = []
    phases = [ALL, *(one.name for one in scenario.phases)] if len(scenario.phases) > 1 else [ALL]
    for _, cell in sorted(cells(runs).items(), key=lambda item: _order(item[0][0])):
        parts = {phase: [counted(scenario, run.samples, phase) for run in cell] for phase in phases}
        for phase in phases:
            names = [one.name for one in scenario.classes if any(len(part.of(one.name)) for part in parts[phase])]
            found += [_row(scenario, cell, phase, parts[phase], name) for name in [*names, ALL]]
        found += _contrasted(scenario, cell)
    return found


def cells(runs: Iterable[Run]) -> dict[tuple[Level, str], list[Run]]:
    """Runs by level and contender."""
    found: dict[tuple[Level, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run.turn.level, run.turn.contender), []).append(run)
    return found


def find(
    rows: Iterable[Row], contender: str, endpoint: str, level: Level, phase: str = ALL, stage: str = CLIENT
) -> Row | None:
    """The row of one cell."""
    wanted = (contender, endpoint, level, phase, stage)
    return next((one for one in rows if (one.contender, one.endpoint, one.level, one.phase, one.stage) == wanted), None)


def counted(scenario: Scenario, samples: Samples, phase: str = ALL) -> Samples:
    """The requests that were due in a phase; "all" = in the phases that count."""
    if len(scenario.phases) < 2:
        return samples
    mask: NDArray[np.bool_] = np.zeros(len(samples), np.bool_)
    for begin_s, end_s in _spans(scenario, phase, math.inf):
        mask |= (samples.scheduled_ns >= begin_s * 1e9) & (samples.scheduled_ns < end_s * 1e9)
    return samples.chosen(mask)


def answered_well(samples: Samples) -> NDArray[np.bool_]:
    """Status 2xx."""
    return (samples.status >= 200) & (samples.status < 300)


def in_time(samples: Samples, deadline_ms: float) -> int:
    """How many were answered well in time."""
    return int((answered_well(samples) & (samples.latency_ms() <= deadline_ms)).sum())


def _order(level: Level) -> tuple[float, float]:
    return (level.utilisation_frac or 0.0, level.rate_factor)


def _spans(scenario: Scenario, phase: str, seconds: float) -> Iterator[tuple[float, float]]:
    """Stretches (begin, end) in s of a phase in a run of that length; "all" = those that count."""
    if len(scenario.phases) < 2:
        yield 0.0, seconds
        return
    begin_s = 0.0
    for one in scenario.phases:
        if phase == one.name or (phase == ALL and one.counted):
            yield begin_s, begin_s + one.seconds
        begin_s += one.seconds


def _row(scenario: Scenario, cell: Sequence[Run], phase: str, parts: Sequence[Samples], name: str) -> Row:
    chosen = list(parts) if name == ALL else [part.of(name) for part in parts]
    samples = Samples.joined(chosen)
    spans = [list(_spans(scenario, phase, run.seconds)) for run in cell]
    seconds = sum(end - begin for found in spans for begin, end in found)
    deadline_ms = 0.0 if name == ALL else scenario.request_class(name).deadline_ms
    share = low = high = None
    if deadline_ms and len(samples):
        hits = in_time(samples, deadline_ms)
        share, (low, high) = hits / len(samples), wilson(hits, len(samples))
    latencies = samples.answered()
    percentiles = [None if name == ALL or not len(latencies) else quantile(latencies, at) for at in (0.5, 0.95, 0.99)]
    answered = sum(int(answered_well(run.samples).sum()) for run in cell)
    cpu_ms = sum(run.cpu_ms for run in cell)
    return Row(
        contender=cell[0].turn.contender,
        endpoint=name,
        stage=CLIENT,
        lane=ALL if name == ALL else scenario.request_class(name).lane,
        phase=phase,
        utilisation_frac=cell[0].turn.level.utilisation_frac,
        rate_factor=cell[0].turn.level.rate_factor,
        offered_per_s=len(samples) / seconds,
        done_per_s=sum(_done(part, found[-1][1]) for part, found in zip(chosen, spans, strict=True)) / seconds,
        within_deadline_frac=share,
        within_deadline_low_frac=low,
        within_deadline_high_frac=high,
        p50_ms=percentiles[0],
        p95_ms=percentiles[1],
        p99_ms=percentiles[2],
        p999_ms=quantile(latencies, 0.999) if name != ALL and len(latencies) >= _SAMPLES_FOR_P999 else None,
        samples=len(latencies),
        cpu_ms_per_job=cpu_ms / answered if answered else 0.0,
        cpu_utilisation_frac=cpu_ms / 1000 / sum(run.wall_s for run in cell),
        pss_mb=max(run.pss_mb for run in cell),
        errors=int(((~answered_well(samples)) & (samples.status != UNANSWERED)).sum()),
        lost=int((samples.status == UNANSWERED).sum()),
        mean_ms=None if name == ALL or not len(latencies) else float(latencies.mean()),
    )


def _done(part: Samples, end_s: float) -> int:
    return int((answered_well(part) & (part.done_ns <= (end_s + GRACE_S) * 1e9)).sum())


def _contrasted(scenario: Scenario, cell: Sequence[Run]) -> list[Row]:
    by_tool: dict[str, list[Closed]] = {}
    for one in (one for run in cell for one in run.contrast):
        by_tool.setdefault(one.tool, []).append(one)
    name = scenario.contrast.endpoint or scenario.classes[0].name
    return [_closed_row(cell[0], name, scenario.request_class(name).lane, found) for found in by_tool.values()]


def _closed_row(run: Run, name: str, lane: str, found: Sequence[Closed]) -> Row:
    """What a tool printed; of several repetitions the median of each figure, since its samples are not known."""
    seconds, requests = sum(one.seconds for one in found), sum(one.requests for one in found)
    return Row(
        contender=run.turn.contender, endpoint=name, stage=found[0].tool, lane=lane, phase=ALL,
        utilisation_frac=run.turn.level.utilisation_frac, rate_factor=run.turn.level.rate_factor,
        offered_per_s=requests / seconds, done_per_s=requests / seconds, within_deadline_frac=None,
        within_deadline_low_frac=None, within_deadline_high_frac=None,
        p50_ms=_median(found, "p50_ms"),
        p95_ms=_median(found, "p95_ms"),
        p99_ms=_median(found, "p99_ms"), p999_ms=None, samples=requests, cpu_ms_per_job=None, cpu_utilisation_frac=None,
        pss_mb=None, errors=sum(one.errors for one in found), lost=0,
    )  # fmt: skip


def _median(found: Sequence[Closed], name: str) -> float | None:
    values = [getattr(one, name) for one in found]
    return None if None in values else statistics.median(values)
