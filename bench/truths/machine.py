"""What the machine did while something was measured: others on its cores make a measurement worth little.

The steal is the hypervisor's (`/proc/stat`); the queue is how long somebody stood ready without a core, by their
own doing or not (`/proc/pressure/cpu`, 0 where the kernel does not say). Load: runnable processes, of one minute.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

#: More of a core than this used by others, or taken by the hypervisor, is a disturbance.
QUIET_CORES = 0.1


@dataclass(frozen=True)
class Machine:
    """From one look to the next."""

    load_1min: float
    steal_cores: float
    queue_frac: float
    others_cores: float

    @property
    def quiet(self) -> bool:
        """Nobody else to speak of had a core."""
        return max(self.steal_cores, self.others_cores) <= QUIET_CORES

    def line(self) -> str:
        """In words."""
        state = "quiet" if self.quiet else "DISTURBED"
        return (
            f"machine {state}: load {self.load_1min:.2f}, steal {self.steal_cores:.3f}, "
            f"others {self.others_cores:.3f} cores, somebody ready without a core {self.queue_frac:.3f} of the time"
        )


class Watch:
    """Begins now; `seen` tells what has been since, this process and its ended children left out of the others."""

    def __init__(self) -> None:
        self._from_s, self._own_s = time.monotonic(), _own_s()
        self._busy_s, self._steal_s, self._queue_s = _busy_s(), _steal_s(), _queue_s()

    def seen(self) -> Machine:
        """Cores used, on average."""
        took_s = max(1e-3, time.monotonic() - self._from_s)
        others_s = (_busy_s() - self._busy_s) - (_own_s() - self._own_s)
        return Machine(
            os.getloadavg()[0],
            (_steal_s() - self._steal_s) / took_s,
            (_queue_s() - self._queue_s) / took_s,
            max(0.0, others_s / took_s),
        )


def settled(tries: int = 12, look_s: float = 5.0) -> Machine:
    """Wait until nobody else uses the machine, at most `tries` looks; gives the last one."""
    for _ in range(tries):
        watch = Watch()
        time.sleep(look_s)
        seen = watch.seen()
        if seen.quiet:
            break
        print(f"  waiting for a quiet machine; {seen.line()}", flush=True)
    return seen


def _own_s() -> float:
    return sum(os.times()[:4])


def _cpu_ticks() -> list[int]:
    with Path("/proc/stat").open() as stat:
        return [int(word) for word in stat.readline().split()[1:]]


def _busy_s() -> float:
    user, nice, system, _, _, irq, softirq, *_ = _cpu_ticks()
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _steal_s() -> float:
    return _cpu_ticks()[7] / os.sysconf("SC_CLK_TCK")


def _queue_s() -> float:
    try:
        line = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return 0.0
    return int(line.rpartition("total=")[2]) / 1e6
