"""The runtimes that can run the benchmark, and what this machine lacks for one."""

from __future__ import annotations

import importlib.util
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from greenlane.cli.extra import install

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
        return f"there is no module {runtime.needs}: {install('lab')}"
    return ""


# --- What a request of the benchmark does: CPU bursts with network waits between them.


@dataclass(frozen=True)
class Shape:
    """One kind of request: C ms of CPU cut into `calls` + 1 equal bursts, with `calls` waits of S/`calls` ms between.

    With one call this is half the CPU, the network, the other half; with none the CPU in one piece.
    """

    # CPU of a request, all its bursts together, ms; 0 = none.
    cpu_ms: float
    # Network of a request, all its calls together, ms; 0 = each call only yields.
    network_ms: float
    # Network calls; 0 = the network is left out.
    calls: int = 1
    # All calls at once, then all the CPU in one burst, instead of one after the other.
    together: bool = False

    def bursts_ms(self) -> list[float]:
        """CPU bursts in order, one more than `waits_ms`."""
        if self.together:
            return [0.0, self.cpu_ms]
        return [self.cpu_ms / (self.calls + 1)] * (self.calls + 1)

    def waits_ms(self) -> list[float]:
        """What the handler waits between its bursts; calls at once count as one wait."""
        if self.together:
            return [self.network_ms / max(self.calls, 1)]
        return [self.network_ms / self.calls] * self.calls if self.calls else []

    def waited_ms(self) -> float:
        """Network that a request waits for, ms: `network_ms`, unless its calls are made at once."""
        return sum(self.waits_ms())

    def knee(self) -> float:
        """(C+S)/C: the number of requests in progress that fill the CPU if none ever waits; inf without CPU work.

        It is also the speed-up that nothing exceeds: 1/(1-p) with p = S/(C+S), Amdahl's law.
        """
        return (self.cpu_ms + self.waited_ms()) / self.cpu_ms if self.cpu_ms else math.inf

    def most_per_s(self, places: int) -> float:
        """The throughput that nothing exceeds: min(N / (C+S), 1/C); `places` is N >= 1; inf without any work."""
        alone = self.cpu_ms + self.waited_ms()
        return 1000 * min(places / alone if alone else math.inf, 1 / self.cpu_ms if self.cpu_ms else math.inf)

    def least_ms(self, places: int) -> float:
        """The mean latency that nothing goes below: max(C+S, N·C)."""
        return max(self.cpu_ms + self.waited_ms(), places * self.cpu_ms)

    def means(self, places: int) -> tuple[float, float]:
        """Mean throughput (per s) and latency (ms) with exponential CPU bursts: exact mean value analysis."""
        at_cpu, response_ms, per_ms = 0.0, self.cpu_ms, 0.0
        for here in range(1, places + 1):
            response_ms = self.cpu_ms * (1 + at_cpu)
            # Nothing to do at all takes no time, which no rate can say.
            per_ms = here / max(response_ms + self.waited_ms(), 1e-9)
            at_cpu = per_ms * response_ms
        return 1000 * per_ms, response_ms + self.waited_ms()

    def said(self) -> str:
        """As the article heads its runs: "5ms CPU/55ms Network"."""
        calls = f" in {self.calls} calls" if self.calls != 1 else ""
        once = " at once" if self.together else ""
        return f"{self.cpu_ms:g}ms CPU/{self.network_ms:g}ms Network{calls}{once}"
