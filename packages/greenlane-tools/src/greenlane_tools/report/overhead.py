"""What the recording itself cost: measured for its own threads, estimated where it runs in the program's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.page.quantities import amount, count, duration, share
from greenlane_tools.reader.rows import Cost, Process, Sample

__all__ = ["LEFT_OUT", "Overhead", "overhead_of", "overhead_sentence"]

#: What the estimate does not know.
LEFT_OUT: Final = (
    "An estimate: the events' price was measured in a loop when each process started. It leaves out caches that are "
    "cold between two events, the Python code of the probes, and what the program waits for the sampler's looks; "
    "`bench.record_cost` measures all of it, with and without recording."
)


@dataclass(frozen=True)
class Overhead:
    """Of all processes that said so."""

    processes: int
    events: int
    #: Mean of one event's price, ns.
    event_ns: float
    hooks_ns: int
    writer_ns: int
    sampler_ns: int
    lost_events: int
    #: CPU of those processes while they were recorded; 0 = not sampled for long enough.
    cpu_ns: int

    @property
    def frac(self) -> float | None:
        """Of the processes' CPU; None = that is unknown."""
        return (self.hooks_ns + self.writer_ns + self.sampler_ns) / self.cpu_ns if self.cpu_ns else None


def overhead_of(costs: Sequence[Cost], processes: Iterable[Process], samples: Iterable[Sample]) -> Overhead | None:
    """The sum over processes; None if none says what it cost."""
    if not costs:
        return None
    used: dict[int, list[int]] = {each.process: [] for each in costs}
    for sample in samples:
        if sample.process in used:
            used[sample.process].append(sample.cpu_ns)
    events, hooks_ns = sum(each.events for each in costs), sum(each.hooks_ns for each in costs)
    return Overhead(
        processes=len(costs),
        events=events,
        event_ns=hooks_ns / events if events else 0.0,
        hooks_ns=hooks_ns,
        writer_ns=sum(each.writer_ns for each in costs),
        sampler_ns=sum(each.sampler_ns for each in costs),
        lost_events=sum(process.lost_events for process in processes),
        cpu_ns=sum(max(of) - min(of) for of in used.values() if of),
    )


def overhead_sentence(found: Overhead) -> str:
    """In words."""
    of = "" if found.frac is None else f" about {share(found.frac)} of the processes' CPU"
    return (
        f"Recording cost{of}: {count(found.events)} events at {amount(found.event_ns)} ns, writer "
        f"{duration(found.writer_ns)}, sampler {duration(found.sampler_ns)}; {count(found.lost_events)} events lost."
    )
