"""One job's calls by three clocks: the upstream's own, the wire's, the application's, and who ran in between.

The upstream's own clock says how long, not since when: it is put into the middle of the time on the wire, as tracing
tools do with clocks that they cannot compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.page.quantities import duration, factor, share
from greenlane_tools.reader.rows import Call, Job, Segment
from greenlane_tools.report.culprits import StackFrame, called
from greenlane_tools.report.subject import RecordedRows

__all__ = ["CallStory", "Story", "stories_of", "story_sentence"]

#: Below that nobody is named.
_WORTH_NS: Final = 1_000
#: Of the difference: below that a second one is not worth a name.
_WORTH_FRAC: Final = 0.1


@dataclass(frozen=True)
class CallStory:
    """One call of one job."""

    call: Call
    #: (culprit, ns) of what the job waited between the call's begin and its end, most first.
    culprits: Sequence[tuple[str, int]]

    @property
    def seen_ns(self) -> int:
        """By the application's clock: what its span, its log and its dashboard say."""
        return self.call.to_ns - self.call.from_ns

    @property
    def told_ns(self) -> int:
        """By the upstream's own clock; by the wire's where it does not say; 0 = neither is known."""
        return self.call.own_ns or (self.call.wire_ns if self.call.ready_ns else 0)

    @property
    def factor(self) -> float:
        """The application's clock by the upstream's; 0 = unknown."""
        return self.seen_ns / self.told_ns if self.told_ns else 0.0

    @property
    def own_span_ns(self) -> tuple[int, int] | None:
        """Begin and end of what the upstream's own clock measured, in the middle of the wire; None = unknown."""
        call = self.call
        if not (call.own_ns and call.ready_ns):
            return None
        # What the process was late before the reply was there lies somewhere in between: the end is what is known.
        spare_ns = (call.wire_ns - call.own_ns) // 2
        return call.ready_ns - spare_ns - call.own_ns, call.ready_ns - spare_ns


@dataclass(frozen=True)
class Story:
    """One job with its calls, by begin."""

    job: Job
    segments: Sequence[Segment]
    calls: Sequence[CallStory]

    @property
    def trace(self) -> str:
        """The trace's number as tracing tools write it; "" = it had none."""
        return f"{self.job.trace_id:032x}" if self.job.trace_id else ""

    @property
    def worst(self) -> CallStory | None:
        """The call in which most was lost: the application's clock less the upstream's."""
        known = [each for each in self.calls if each.told_ns]
        return max(known, key=lambda each: each.seen_ns - each.told_ns, default=None)


def stories_of(recording: RecordedRows, jobs: Iterable[Job]) -> list[Story]:
    """The stories of these jobs, in their order."""
    wanted = {(job.process, job.job): job for job in jobs}
    calls: dict[tuple[int, int], list[Call]] = {key: [] for key in wanted}
    for call in recording.calls:
        if (call.process, call.job) in calls:
            calls[call.process, call.job].append(call)
    return [_story(recording, job, calls[key]) for key, job in wanted.items()]


def story_sentence(story: Story, places: Mapping[str, StackFrame]) -> str:
    """What was lost where, and for whom; "" = nothing is known of its calls."""
    worst = story.worst
    if worst is None:
        return ""
    who = f"{worst.call.upstream} {worst.call.operation}".strip() or "the dependency"
    said = (
        f"{story.job.route or 'a job'}, {duration(story.job.latency_ns)}: {who} {_told(worst.call)}, the application "
        f"{duration(worst.seen_ns)} ({factor(worst.factor)})"
    )
    lost_ns = max(1, worst.seen_ns - worst.told_ns)
    named = _named(worst.culprits, places, lost_ns)
    if not named:
        return f"{said}."
    (first, ns), *more = named
    shares = [f"{share(min(1.0, ns / lost_ns))} of the difference is {called(first)}{_place(first, places)}"]
    shares += [f"{share(ns / lost_ns)} {name}{_place(name, places)}" for name, ns in more]
    return f"{said}; {', '.join(shares)}."


def _told(call: Call) -> str:
    wire = f"the wire {duration(call.wire_ns)}" if call.ready_ns else ""
    if not call.own_ns:
        return f"took {duration(call.wire_ns)} on the wire"
    return f"says {duration(call.own_ns)}{', ' if wire else ''}{wire}"


def _named(
    culprits: Sequence[tuple[str, int]], places: Mapping[str, StackFrame], lost_ns: int
) -> Sequence[tuple[str, int]]:
    """The first; where that is nobody's line of code, also the first that is somebody's."""
    first, others = culprits[:1], culprits[1:]
    if not first or first[0][0] in places:
        return first
    return [*first, *[one for one in others if one[0] in places and one[1] >= _WORTH_FRAC * lost_ns][:1]]


def _place(culprit: str, places: Mapping[str, StackFrame]) -> str:
    return f", {places[culprit].place}" if culprit in places else ""


def _story(recording: RecordedRows, job: Job, calls: Sequence[Call]) -> Story:
    told = []
    for call in sorted(calls, key=lambda call: call.from_ns):
        found = recording.culprits(job.process, job.job, call.from_ns, call.to_ns)
        told.append(CallStory(call, [(culprit, ns) for culprit, ns in found if ns >= _WORTH_NS]))
    return Story(job, recording.segments(job.process, job.job), told)
