"""The runtimes that can run the benchmark, and what this machine lacks for one."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["RUNTIMES", "Runtime", "missing"]

_PROGRAMS: Final = "greenlane_tools.lab.part3.programs"
#: libev's own epoll waits whole milliseconds, rounded up: 11 ms become 11.9. Its select waits microseconds.
_GEVENT: Final = {"GEVENT_LOOP": "libev-cext", "GEVENT_BACKEND": "select"}


@dataclass(frozen=True)
class Runtime:
    """How one runtime's program is started."""

    name: str
    # One line for people.
    said: str
    # Its module in `programs`; "" = node's script.
    module: str
    # Arguments behind the job.
    arguments: tuple[str, ...] = ()
    # Added to the environment.
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    # A module that it imports, or a program that it is; "" = nothing but CPython.
    needs: str = ""

    def command(self, job: str) -> Sequence[str]:
        """The argument vector for a job (JSON)."""
        if not self.module:
            return [self.needs, str(Path(__file__).with_name("programs") / "node.js"), job]
        return [sys.executable, "-m", f"{_PROGRAMS}.{self.module}", job, *self.arguments]


_ALL: Final = (
    Runtime("gevent", "Pool(N), a greenlet a request, as in the article", "gevent_pool", (), _GEVENT, "gevent"),
    Runtime("asyncio", "a semaphore of N, a task a request", "tasks", ("asyncio",)),
    Runtime("uvloop", "the same on uvloop", "tasks", ("uvloop",), needs="uvloop"),
    Runtime("threads", "N threads", "threads", ("threads",)),
    Runtime("threads-0.5ms", "N threads, switch interval 0.5 ms", "threads", ("0.5",)),
    Runtime("greenlane", "N threads that take turns for the CPU: permits", "threads", ("greenlane",)),
    Runtime("node", "an async function a request", "", needs="node"),
)
#: By name, in the order in which they are shown.
RUNTIMES: Final[Mapping[str, Runtime]] = {runtime.name: runtime for runtime in _ALL}


def missing(runtime: Runtime) -> str:
    """What this machine lacks for it, and how to get it; "" = nothing."""
    if not runtime.needs:
        return ""
    if not runtime.module:
        return "" if shutil.which(runtime.needs) else f"there is no `{runtime.needs}` in PATH"
    if importlib.util.find_spec(runtime.needs) is None:
        return f"there is no module {runtime.needs}: pip install 'greenlane[lab]'"
    return ""
