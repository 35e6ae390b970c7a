"""The recording: what happened in a service, and who made whom wait.

- `job`, `current` — jobs of programs that have no host
- `Job`, `Blame`, `Call`, `Held`, `Stack`, `Sample`, `Process`, `Segment` — the rows that accounting gives
"""

from greenlane.record.jobs import current, job
from greenlane.record.rows import Blame, Call, Held, Job, Process, Sample, Segment, Stack

__all__ = ["Blame", "Call", "Held", "Job", "Process", "Sample", "Segment", "Stack", "current", "job"]
