"""Greenlane keeps Python services fast when they mix CPU work and I/O in one process.

Marks for views (`heavy`, `light`), a checkpoint for long computations, and what Greenlane raises. Hosts are imported
by name: `greenlane.hosts.wsgi.Greenlane` (middleware), `greenlane.hosts.gunicorn.Worker`.
"""

from greenlane._native import __version__
from greenlane.deadline import checkpoint
from greenlane.errors import DeadlineExceeded, GreenlaneError
from greenlane.job import heavy, light

__all__ = [
    # Marks
    "heavy",
    "light",
    # Deadlines
    "checkpoint",
    "DeadlineExceeded",
    # Errors
    "GreenlaneError",
    # Which one this is
    "__version__",
]
