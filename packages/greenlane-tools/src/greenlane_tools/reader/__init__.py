"""Reads recordings: a file or folder on disk.

- `open_recording`, `Recording` — a file or folder on disk, read and accounted for
- `Job`, `Unfinished`, `Blame`, `Call`, `Held`, `Stack`, `Resource`, `Sample`, `Cost`, `Process`, `Segment` — the rows
  that accounting gives
"""

from greenlane_tools.reader.recording import Recording, open_recording
from greenlane_tools.reader.rows import (
    Blame,
    Call,
    Cost,
    Held,
    Job,
    Process,
    Resource,
    Sample,
    Segment,
    Stack,
    Unfinished,
)

__all__ = [
    "Recording",
    "open_recording",
    "Blame",
    "Call",
    "Cost",
    "Held",
    "Job",
    "Process",
    "Resource",
    "Sample",
    "Segment",
    "Stack",
    "Unfinished",
]
