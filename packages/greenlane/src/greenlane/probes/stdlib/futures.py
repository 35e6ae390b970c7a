"""Futures: waiting for a result that is not there yet ends a phase.

`concurrent.futures.wait` and `as_completed` wait on a `threading.Event` without holding a lock, so `locks` sees them;
`executor.map` and `asyncio.run_coroutine_threadsafe(...).result()` come through `result`.
"""

from __future__ import annotations

from operator import methodcaller
from types import ModuleType

from greenlane.phase import Kind
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import timed

__all__ = ["place"]


def place(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `concurrent.futures._base`."""
    for name in ("result", "exception"):
        patches.replace(module.Future, name, timed(Kind.FUTURE, done=methodcaller("done")))
