"""Placements and rivals: how each is started, and what this machine lacks for one."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOPS: Final = ("asyncio", "uvloop", "gevent")
_NATIVE_LOOPS: Final = ("asyncio", "uvloop")
_PROGRAMS: Final = "greenlane_tools.lab.placement.programs"
#: What installs a module that is missing.
_PACKAGES: Final[Mapping[str, str]] = {
    "catboost": "catboost>=1.2",
    "loky": "loky>=3.4",
    "ray": "ray>=2.10,<3",
    "gunicorn.dirty": "gunicorn>=25",
    "uvloop": "uvloop>=0.20",
    "gevent": "gevent>=24",
}


@dataclass(frozen=True)
class Contender:
    """One way to place calls."""

    name: str
    # One line for people.
    said: str
    loops: Sequence[str] = _NATIVE_LOOPS
    # A module that it imports; "" = nothing but CPython and Greenlane.
    needs: str = ""

    def command(self, job: str, loop: str, folder: Path) -> Sequence[str]:
        """The argument vector of its process for a job (JSON); `folder` is the run's own."""
        if self.name != "dirty":
            return [sys.executable, "-m", f"{_PROGRAMS}.cell", job]
        return [
            sys.executable, "-m", "gunicorn", "--worker-class", "asgi", "--workers", "1", "--asgi-loop", loop,
            "--asgi-lifespan", "on", "--bind", f"unix:{folder / 'http'}", "--no-control-socket",
            "--dirty-app", f"{_PROGRAMS}.dirty:Work", "--dirty-workers", "2", "--log-level", "warning",
            "--timeout", "0", f"{_PROGRAMS}.dirty:application",
        ]  # fmt: skip


_ALL: Final = (
    Contender("inline", "on the loop itself", LOOPS),
    Contender("to-thread", "asyncio.to_thread (gevent: the hub's thread pool), interval 5 ms", LOOPS),
    Contender("to-thread-0.5ms", "the same, interval 0.5 ms", LOOPS),
    Contender("process-pool", "ProcessPoolExecutor with its defaults"),
    Contender("process-pool-tuned", "ProcessPoolExecutor: forkserver, warm, both ways as pickle 5 in bytes"),
    Contender("loky", "loky's reusable executor", needs="loky"),
    Contender("dirty", "gunicorn's dirty arbiters, two workers, pickle 5 in bytes", needs="gunicorn.dirty"),
    Contender("ray", "a task of a local Ray", needs="ray"),
    Contender("thread", "ours, pinned: the native thread", LOOPS),
    Contender("process", "ours, pinned: worker processes", LOOPS),
    Contender("greenlane", "ours, chosen: @greenlane.placed", LOOPS),
)
#: By name, in the order in which they are shown.
CONTENDERS: Final[Mapping[str, Contender]] = {contender.name: contender for contender in _ALL}
#: The placements among which ours chooses on one machine.
FIXED: Final = ("inline", "thread", "process")
OURS: Final = "greenlane"
#: A heartbeat alone: what others add to it is counted from here.
IDLE: Final = Contender("idle", "nobody calls", LOOPS)


def lacking(contender: Contender, loop: str) -> str:
    """Why it cannot run on that loop here, with how to get it; "" = it can."""
    if loop not in contender.loops:
        return f"not measured on {loop}: use --loop {contender.loops[0]}"
    return needs_of(contender.needs)


def needs_of(module: str) -> str:
    """What to install for a module that is missing; "" = it is there, or none is needed."""
    if not module or _found(module):
        return ""
    return f"{module.replace('.', ' with ', 1)} is not installed: pip install '{_PACKAGES[module]}'"


def _found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # Its parent is missing.
        return False
