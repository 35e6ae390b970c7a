"""Greenlane keeps Python services fast when they mix CPU work and I/O in one process.

Marks for views (`heavy`, `light`), `run` and `placed` for CPU work beside a loop, deadlines and checkpoints for long
computations, and what Greenlane raises. Hosts are imported by name: `greenlane.hosts.wsgi.Greenlane` (middleware),
`greenlane.hosts.gunicorn.Worker`.
"""

from greenlane._native import __version__
from greenlane.bootstrap_placement import placed, run
from greenlane.deadline import checkpoint, within_ms
from greenlane.errors import Cancelled, DeadlineExceeded, GreenlaneError, Overloaded, PlacementError, PlacementWarning
from greenlane.job import heavy, light

__all__ = [
    # Marks
    "heavy",
    "light",
    # Placement
    "placed",
    "run",
    "Overloaded",
    "PlacementError",
    "PlacementWarning",
    # Deadlines
    "checkpoint",
    "within_ms",
    "Cancelled",
    "DeadlineExceeded",
    # Errors
    "GreenlaneError",
    # Which one this is
    "__version__",
]
