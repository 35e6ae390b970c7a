"""The recording: what happened in a service, and who made whom wait.

- `Job`, `Blame`, `Call`, `Held`, `Stack`, `Sample`, `Process`, `Segment` — the rows that accounting gives
"""

from greenlane.record.rows import Blame, Call, Held, Job, Process, Sample, Segment, Stack

__all__ = ["Blame", "Call", "Held", "Job", "Process", "Sample", "Segment", "Stack"]
