"""Sleep: `time.sleep` ends a phase, and so does `sleep(0)`.

`sleep(0)` does not block, but it is how code says "somebody else's turn" while it spins for a result: kept out, a
spinning permit holder would keep the permit from the very job that it waits for. The price is one phase a spin, and the
number of phases is capped.

A module that did `from time import sleep` before the probes were installed keeps the original, as with every function
here; the permits' stand-still fallback covers it (a holder whose CPU clock stands still lends its permit).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane import phase
from greenlane.phase import Kind
from greenlane.probes.patching import Patches

__all__ = ["place"]

_SLEEP: Final = int(Kind.SLEEP)


def place(patches: Patches, module: ModuleType) -> None:
    """Place the probe in `time`."""
    patches.replace(module, "sleep", _sleep)


def _sleep(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def sleep(seconds: Any, /) -> Any:
        if silent:
            return original(seconds)
        try:
            phase.leave(_SLEEP)
            return original(seconds)
        finally:
            phase.enter()

    return sleep
