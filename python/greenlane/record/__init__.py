"""The recording: what happened in a service, and who made whom wait.

- `job`, `current` — jobs of programs that have no host
- `open_recording`, `Recording` — a file or folder on disk, read and accounted for
- `Job`, `Unfinished`, `Blame`, `Call`, `Held`, `Stack`, `Sample`, `Cost`, `Process`, `Segment` — the rows that
  accounting gives
"""

from greenlane.record.jobs import current, job
from greenlane.record.recording import Recording, open_recording
from greenlane.record.rows import Blame, Call, Cost, Held, Job, Process, Sample, Segment, Stack, Unfinished

__all__ = [
    # while it is made
    "job",
    "current",
    # afterwards
    "Recording",
    "open_recording",
    "Blame",
    "Call",
    "Cost",
    "Held",
    "Job",
    "Process",
    "Sample",
    "Segment",
    "Stack",
    "Unfinished",
]
