"""Greenlane keeps Python services fast when they mix CPU work and I/O in one process.

Marks for views (`heavy`, `light`, `native`), `run` and `placed` for CPU work beside a loop, deadlines and checkpoints
for long computations, and what Greenlane raises. Hosts are imported by name: `greenlane.hosts.wsgi.Greenlane`
(middleware), `greenlane.hosts.gunicorn.Worker`.

Importing this does nothing: each name is loaded when it is first asked for.
"""

TYPE_CHECKING = False  # as `typing` has it, which is not loaded for it

if TYPE_CHECKING:
    from greenlane._native import __version__
    from greenlane.deadline import checkpoint, within_ms
    from greenlane.errors import (
        Cancelled,
        DeadlineExceeded,
        GreenlaneError,
        Overloaded,
        PlacementError,
        PlacementWarning,
    )
    from greenlane.job import heavy, light, native
    from greenlane.wiring.health import health
    from greenlane.wiring.placed_calls import placed, run

__all__ = [
    # Marks
    "heavy",
    "light",
    "native",
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
    # Health
    "health",
    # Which one this is
    "__version__",
]

if not TYPE_CHECKING:
    _HOMES = {
        "heavy": "job",
        "light": "job",
        "native": "job",
        "placed": "wiring.placed_calls",
        "run": "wiring.placed_calls",
        "health": "wiring.health",
        "checkpoint": "deadline",
        "within_ms": "deadline",
        "__version__": "_native",
    }

    def __getattr__(name):
        """Load a public name, once."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        found = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
