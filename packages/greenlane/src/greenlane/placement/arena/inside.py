"""Whether this process is a worker."""

from __future__ import annotations

__all__ = ["WORKER"]

# Set once, at a worker's start.
WORKER = False
