"""Process workers over shared memory."""

from greenlane.lanes.arena.answers import WorkerTraceback
from greenlane.lanes.arena.executor import ArenaExecutor
from greenlane.lanes.arena.options import ArenaOptions
from greenlane.lanes.arena.stats import ArenaStats

__all__ = ["ArenaExecutor", "ArenaOptions", "ArenaStats", "WorkerTraceback"]
