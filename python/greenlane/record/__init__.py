"""The recording: what happened in a service, and who made whom wait.

- `open_recording`, `Recording` — a file or folder on disk, read and accounted for
- `Job`, `Blame`, `Call`, `Held`, `Stack`, `Sample`, `Process`, `Segment` — the rows that accounting gives
"""

from greenlane.record.recording import Recording, open_recording
from greenlane.record.rows import Blame, Call, Held, Job, Process, Sample, Segment, Stack

__all__ = [
    "Recording",
    "open_recording",
    "Blame",
    "Call",
    "Held",
    "Job",
    "Process",
    "Sample",
    "Segment",
    "Stack",
]
