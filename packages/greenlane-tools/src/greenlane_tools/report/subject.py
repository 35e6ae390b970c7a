"""The recording as the analyses see it: rows in memory, whatever read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from greenlane_tools.reader.rows import (
    Blame,
    Call,
    Cost,
    Held,
    Job,
    Look,
    Own,
    Process,
    Resource,
    Sample,
    Segment,
    Stack,
    Turns,
    Unfinished,
)

__all__ = ["RoutePart", "RecordedRows", "of_route"]


class RecordedRows(Protocol):
    """What `greenlane_tools.reader.recording.Recording` gives, and what a test can make of rows alone."""

    @property
    def processes(self) -> Sequence[Process]:
        """Whose recording it is."""

    @property
    def jobs(self) -> Sequence[Job]:
        """Jobs that ended, in any order."""

    @property
    def unfinished(self) -> Sequence[Unfinished]:
        """Jobs in progress when their process ended."""

    @property
    def blame(self) -> Sequence[Blame]:
        """Who made whom wait."""

    @property
    def resources(self) -> Sequence[Resource]:
        """Things with places that jobs waited for: who waited, who had them."""

    @property
    def calls(self) -> Sequence[Call]:
        """Calls of upstreams."""

    @property
    def held(self) -> Sequence[Held]:
        """Calls that blocked a whole loop."""

    @property
    def blocked(self) -> Sequence[Held]:
        """Calls that kept a thread, where they were looked at."""

    @property
    def stacks(self) -> Sequence[Stack]:
        """Where culprits were."""

    @property
    def own(self) -> Sequence[Own]:
        """Where jobs were while they computed."""

    @property
    def looks(self) -> Sequence[Look]:
        """Jobs that were looked at while they computed."""

    @property
    def turns(self) -> Sequence[Turns]:
        """How heavy phases took turns."""

    @property
    def samples(self) -> Sequence[Sample]:
        """Processes by the second."""

    @property
    def costs(self) -> Sequence[Cost]:
        """What the recording cost."""

    @property
    def marks(self) -> Sequence[tuple[int, int, str]]:
        """(process, when, what) for "on", "off", "end" and the like."""

    @property
    def notes(self) -> Sequence[str]:
        """What a reader should know: losses, damage, switching on and off."""

    def segments(self, process: int, job: int) -> Sequence[Segment]:
        """The life of one job."""

    def culprits(self, process: int, job: int, from_ns: int, to_ns: int) -> Sequence[tuple[str, int]]:
        """Who made it wait between two moments: (culprit, ns), most first."""


@dataclass(frozen=True)
class RoutePart:
    """A part of a recording: the rows that were chosen."""

    whole: RecordedRows
    processes: Sequence[Process]
    jobs: Sequence[Job]
    unfinished: Sequence[Unfinished]
    blame: Sequence[Blame]
    resources: Sequence[Resource]
    calls: Sequence[Call]
    held: Sequence[Held]
    blocked: Sequence[Held]
    stacks: Sequence[Stack]
    own: Sequence[Own]
    looks: Sequence[Look]
    turns: Sequence[Turns]
    samples: Sequence[Sample]
    costs: Sequence[Cost]
    marks: Sequence[tuple[int, int, str]]
    notes: Sequence[str]

    def segments(self, process: int, job: int) -> Sequence[Segment]:
        """The life of one job."""
        return self.whole.segments(process, job)

    def culprits(self, process: int, job: int, from_ns: int, to_ns: int) -> Sequence[tuple[str, int]]:
        """Who made it wait between two moments."""
        return self.whole.culprits(process, job, from_ns, to_ns)


def of_route(recording: RecordedRows, route: str) -> RoutePart:
    """The part in which `route` is the victim; culprits' stacks, processes and samples stay whole."""
    return RoutePart(
        whole=recording,
        processes=recording.processes,
        jobs=[job for job in recording.jobs if job.route == route],
        unfinished=[job for job in recording.unfinished if job.route == route],
        blame=[row for row in recording.blame if row.victim == route],
        resources=[
            row._replace(victims=[victim for victim in row.victims if victim.route == route])
            for row in recording.resources
        ],
        calls=[call for call in recording.calls if call.route == route],
        held=recording.held,
        blocked=recording.blocked,
        stacks=recording.stacks,
        own=[row for row in recording.own if row.route == route],
        looks=recording.looks,
        turns=[row for row in recording.turns if row.route == route],
        samples=recording.samples,
        costs=recording.costs,
        marks=recording.marks,
        notes=recording.notes,
    )
