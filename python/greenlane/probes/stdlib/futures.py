"""Futures: waiting for a result that is not there yet ends a phase.

`concurrent.futures.wait` and `as_completed` wait on a `threading.Event` without holding a lock, so `locks` sees them;
`executor.map` and `asyncio.run_coroutine_threadsafe(...).result()` come through `result`.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from greenlane.phase import Kind
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import when

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["place"]


def place(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `concurrent.futures._base`."""
    for name in ("result", "exception"):
        patches.replace(module.Future, name, when(Kind.FUTURE, _waits))


def _waits(self: Future[Any], timeout: float | None = None) -> bool:
    return (timeout is None or timeout > 0) and not self.done()
