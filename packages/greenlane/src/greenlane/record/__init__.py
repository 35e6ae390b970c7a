"""Jobs of a recorded program that has no host: `job`, `current`. A recording is read by `greenlane_tools.reader`."""

from greenlane.record.jobs import current, job

__all__ = ["current", "job"]
